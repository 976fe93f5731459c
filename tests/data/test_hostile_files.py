"""Files that declare more than they hold, hold more than they show, or are not files: one clear line, at once."""

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data import decompress as compressed
from autapse.data.archives import open_tree
from autapse.data.formats.cifar import read_cifar10
from autapse.data.formats.conllu import read_conllu
from autapse.data.formats.dsa import read_dsa
from autapse.data.formats.idx import read_idx
from autapse.data.formats.reviews import LONGEST, iterate_imdb, iterate_yelp
from autapse.data.formats.speech_commands import read_speech_commands
from autapse.data.formats.table import read_sequences, read_series
from autapse.data.reading import decompress, read_bytes
from damage import message

ROOM = 100_000


@pytest.fixture
def small(monkeypatch):
    """Limits that a test reaches at once."""
    monkeypatch.setattr(compressed, "ROOM", ROOM)
    monkeypatch.setattr(compressed, "GROWTH", 2)


def read_all(path):
    with open_tree(path) as tree:
        return {name: tree.read(name) for name in tree.names()}


def read_yelp(path):
    return list(iterate_yelp(path))


def npy(shape, kind="<f8", rest=8):
    """A .npy whose header declares `shape`, and `rest` bytes of data."""
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(rest)


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("shape", [(10**12, 5, 2), (10**30, 5, 2), (2, 2, 2), (2**62, 2**62, 0, 5)])
def test_a_header_that_declares_more_than_the_file_holds(tmp_path, shape):
    (tmp_path / "x.npy").write_bytes(npy(shape))
    text = message(read_sequences, tmp_path / "x.npy")
    assert text.startswith(f"{tmp_path}/x.npy is not a complete .npy file of a plain array (")
    assert (
        0 in shape or f"declares float64 of shape {shape}, {8 * np.prod(shape, dtype=object)} bytes, but only 8" in text
    )
    good = io.BytesIO()
    np.save(good, np.zeros(3))
    path = npz(tmp_path / "x.npz", inputs=npy(shape), targets=good.getvalue())
    assert message(read_series, path).startswith(f"{path} is not a complete .npz file of plain arrays (")


@pytest.mark.parametrize(
    "content", [npy((2,), "<U500000000"), npy((2,), "|S0", 0), npy((3,), "|V0", 0), npy((-1, 2, 2))]
)
def test_headers_with_odd_kinds(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    assert str(tmp_path / "x.npy") in message(read_sequences, tmp_path / "x.npy")


def test_text_that_is_none_in_an_npz(tmp_path):
    inputs = npy((2, 3, 1), rest=48)
    path = npz(tmp_path / "x.npz", inputs=inputs, targets=npy((2,), "|S2", 0) + b"ok\xff\xfe")
    assert "targets must be UTF-8 text" in message(read_series, path)
    path = npz(tmp_path / "x.npz", inputs=inputs, targets=npy((2,), "<U1", 0) + b"\xff\xff\xff\x7f" * 2)
    assert "targets must be UTF-8 text" in message(read_series, path)


@pytest.mark.parametrize(
    ("ending", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
@pytest.mark.usefixtures("small")
def test_compressed_bombs(tmp_path, ending, compress):
    path = tmp_path / f"x{ending}"
    for size in (ROOM, ROOM + 1):
        path.write_bytes(compress(bytes(size)))
        if size == ROOM:
            assert read_bytes(path) == decompress(path.read_bytes(), path) == bytes(size)
        else:
            rule = f"{path} must contain at most {ROOM} bytes after decompression. If you trust the file,"
            assert message(read_bytes, path).startswith(rule)
    random = os.urandom(3 * ROOM)  # large, but it grows to no more than its size
    path.write_bytes(compress(random))
    assert read_bytes(path) == random


def test_the_limit_is_there_without_a_test_that_sets_it(tmp_path):
    """300 MB in 300 kB: the reader stops at 256 MiB."""
    path = tmp_path / "x-idx1-ubyte.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(bytes(1_000_000))
    assert f"must contain at most {256 << 20} bytes" in message(read_idx, path)


def tar_of(path, mode, *members, **options):
    with tarfile.open(path, mode, **options) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return path


def member(name, size, **attributes):
    made = tarfile.TarInfo(name)
    made.size = size
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
@pytest.mark.usefixtures("small")
def test_tar_bombs(tmp_path, kind):
    one = (member("a.txt", ROOM), bytes(ROOM))
    path = tar_of(tmp_path / f"x.tar.{kind}", f"w:{kind}", one)
    for read in (read_all, read_cifar10, lambda path: list(iterate_imdb(path)), read_yelp):
        assert f"{path} must contain at most {ROOM} bytes" in message(read, path)


@pytest.mark.usefixtures("small")
def test_a_tar_with_a_long_name_that_is_a_bomb(tmp_path):
    """tarfile reads a pax header as a whole, before the file that it belongs to."""
    pax = (member("a", 0, pax_headers={"comment": "x" * ROOM}), b"")
    path = tar_of(tmp_path / "x.tar.gz", "w:gz", pax, format=tarfile.PAX_FORMAT)
    assert f"must contain at most {ROOM} bytes" in message(read_all, path)


def test_a_sparse_file_in_a_tar(tmp_path):
    """Its header declares a terabyte of zeros that the archive does not hold: it is left out."""
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(10**12)}
    block = b"0\n".ljust(512, b"\0")
    sparse = (member("s.txt", len(block), pax_headers=headers | {"GNU.sparse.name": "s.txt"}), block)
    plain = (member("p.txt", 2), b"ok")
    path = tar_of(tmp_path / "x.tar", "w", sparse, plain, format=tarfile.PAX_FORMAT)
    assert read_all(path) == {"p.txt": b"ok"}


@pytest.mark.usefixtures("small")
def test_zip_bombs(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.csv", bytes(ROOM + 1))
    assert f"{path}/train.csv must contain at most {ROOM} bytes" in message(read_all, path)
    assert f"{path}/train.csv must contain at most {ROOM} bytes" in message(read_yelp, path)
    path = npz(tmp_path / "x.npz", inputs=bytes(ROOM + 1), targets=b"")
    assert f"{path}/inputs.npy must contain at most {ROOM} bytes" in message(read_series, path)
    arrays = {name: bytes(ROOM + 1) for name in ("hi", "lo", "step", "activity", "subject")}
    assert f"must contain at most {ROOM} bytes" in message(read_dsa, npz(tmp_path / "x.npz", **arrays))


@pytest.mark.usefixtures("small")
def test_a_zip_that_lies_about_its_sizes(tmp_path):
    """Both its sizes say less than what it holds, or far more than the archive has."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", bytes(10 * ROOM))
    content = path.read_bytes()
    declared, at = struct.pack("<I", 10 * ROOM), content.rindex(struct.pack("<I", 10 * ROOM))
    for size in (100, 0xFFFFFFF0):
        lie = content[:at] + struct.pack("<I", size) + content[at + len(declared) :]
        path.write_bytes(lie)
        assert "damaged" in (text := message(read_all, path)) or "must contain at most" in text
    compressed = struct.pack("<I", 0x7FFFFFFF) + struct.pack("<I", 0x7FFFFFFF)
    path.write_bytes(content[: at - 4] + compressed + content[at + 4 :])
    assert f"must contain at most {ROOM} bytes" in message(read_all, path)


def test_an_encrypted_zip(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    content = bytearray(path.read_bytes())
    for at in (6, content.rindex(b"PK\x01\x02") + 8):  # the flags, in both places
        content[at] |= 1
    path.write_bytes(content)
    assert "encrypted" in message(read_all, path)


def test_a_line_without_end(tmp_path):
    path = tmp_path / "x.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b" " * (LONGEST + 1))
    assert f"is damaged at line 1: it has more than {LONGEST} bytes" in message(read_yelp, path)


@pytest.mark.parametrize(
    "line", ["[" * 5000, '{"stars": ' + "9" * 5000 + ', "text": ""}', '{"stars": 1e999, "text": ""}']
)
def test_json_that_python_does_not_read(tmp_path, line):
    (tmp_path / "x.json").write_text(line + "\n")
    assert "is damaged at line 1" in message(read_yelp, tmp_path / "x.json")


LONG = "9" * 5000


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("x.ts", f"@classLabel true a\n@dimensions {LONG}\n@data\n1:a\n", read_series),
        ("x.conllu", f"{LONG}\tw\tw\tNOUN\tNN\t_\t_\t_\t_\t_\n\n", read_conllu),
        ("x.conllu", f"{LONG}-{LONG}\tw\tw\tNOUN\tNN\t_\t_\t_\t_\t_\n\n", read_conllu),
    ],
)
def test_numbers_of_thousands_of_digits(tmp_path, name, text, read):
    (tmp_path / name).write_text(text)
    assert "is damaged at line" in message(read, tmp_path / name)


def test_an_idx_file_of_200_dimensions(tmp_path):
    (tmp_path / "x").write_bytes(b"\0\0\x08\xc8" + bytes(4 * 200))
    assert "is damaged at byte 3: its array has 200 dimensions" in message(read_idx, tmp_path / "x")


READERS = [
    ("x.csv", read_series),
    ("x.npz", read_series),
    ("x.ts.gz", read_series),
    ("x.npy", read_sequences),
    ("x-idx1-ubyte.gz", read_idx),
    ("x.conllu", read_conllu),
    ("x.zip", read_all),
    ("x.tar.gz", read_all),
    ("x.json", read_yelp),
    ("x.zip", read_yelp),
    ("x.npz.xz", read_dsa),
    ("x.tar.gz", lambda path: read_speech_commands(path, 30)),
]


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_pipe_or_a_device_is_not_read(tmp_path, name, read):
    os.mkfifo(tmp_path / name)
    assert message(read, tmp_path / name) == f"{tmp_path / name} is a pipe, not a regular file."
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert message(read, tmp_path / name) == f"{tmp_path / name} is a device, not a regular file."


@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_loop_of_links(tmp_path, name, read):
    (tmp_path / name).symlink_to(tmp_path / name)
    with pytest.raises((InputError, OSError), match=r"missing|symbolic link"):
        read(tmp_path / name)
