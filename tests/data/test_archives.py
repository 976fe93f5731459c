"""Sequences of unequal length against a list of them, and files in folders and archives against what was written."""

import bz2
import gzip
import lzma
import re
import tarfile
import zipfile

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.archives import open_tree
from autapse.data.ragged import Ragged
from autapse.data.reading import decompress, read_bytes, text_lines
from damage import AGAIN
from upstream import write_files, write_tar, write_zip

LENGTHS = [3, 0, 5, 1, 0]


def sequences() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 99, (length, 2)).astype(np.int32) for length in LENGTHS]


def test_ragged_is_the_list_it_was_made_of():
    plain = sequences()
    ragged = Ragged.of(plain)
    assert len(ragged) == len(plain)
    assert ragged.lengths.dtype == np.int64
    assert ragged.values.dtype == np.int32
    np.testing.assert_array_equal(ragged.lengths, LENGTHS)
    np.testing.assert_array_equal(ragged.starts, [0, 3, 3, 8, 9, 9])
    for got, expected in zip(ragged, plain, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("index", [[2, 0], [4, 1, 3, 3, 2], [0, 1, 2, 3, 4], [1], [], [-1, -3]])
def test_take_is_that_of_a_list(index):
    plain, taken = sequences(), Ragged.of(sequences()).take(index)
    assert len(taken) == len(index)
    assert len(taken.values) == sum(LENGTHS[n] for n in index)
    assert taken.values.shape[1:] == (2,)
    for got, n in zip(taken, index, strict=True):
        np.testing.assert_array_equal(got, plain[n])


def test_take_of_a_take():
    plain, ragged = sequences(), Ragged.of(sequences())
    np.testing.assert_array_equal(ragged.take([3, 2, 0]).take([1])[0], plain[2])


def test_places_from_the_end_and_beyond_it():
    plain, ragged = sequences(), Ragged.of(sequences())
    np.testing.assert_array_equal(ragged[-3], plain[-3])
    with pytest.raises(IndexError):
        ragged[5]
    with pytest.raises(IndexError):
        ragged.take([5])


TEXT = b"one two three\n" * 50
FILES = {
    "top/plain.txt": TEXT,
    "top/a.txt.gz": gzip.compress(TEXT + b"gz"),
    "top/b.txt.bz2": bz2.compress(TEXT + b"bz2"),
    "top/deep/c.txt.xz": lzma.compress(TEXT + b"xz"),
    "top/deep/empty": b"",
}
MODES = {"tar": "w:", "tar.gz": "w:gz", "tgz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}


def packed(folder, kind):
    if kind == "folder":
        return write_files(folder / "tree", FILES)
    if kind == "zip":
        return write_zip(folder / "tree.zip", FILES)
    if kind != "tar":
        return write_tar(folder / f"tree.{kind}", FILES, MODES[kind])
    with tarfile.open(folder / "tree.tar", "w:") as archive:
        for name in FILES:
            archive.add(write_files(folder / "unpacked", FILES) / name, "./" + name)  # as `tar c .` names them
    return folder / "tree.tar"


@pytest.mark.parametrize("kind", ["folder", "zip", *MODES])
def test_every_kind_of_tree_reads_the_same(tmp_path, kind):
    path = packed(tmp_path, kind)
    with open_tree(path) as tree:
        assert tree.names() == sorted(FILES)
        assert tree.read("top/plain.txt") == TEXT
        assert tree.read("top/a.txt") == tree.read("top/a.txt.gz") == TEXT + b"gz"
        assert tree.read("top/b.txt") == TEXT + b"bz2"
        assert tree.read("top/deep/c.txt") == TEXT + b"xz"
        assert tree.read("top/deep/empty") == b""
        assert tree.raw("top/a.txt.gz") == FILES["top/a.txt.gz"]
        with pytest.raises(InputError, match=rf"^{re.escape(str(path))}/top/d\.txt is missing\.$"):
            tree.read("top/d.txt")


def test_a_file_itself_goes_before_its_compressed_twin(tmp_path):
    with open_tree(write_files(tmp_path, {"a": b"plain", "a.gz": gzip.compress(b"packed")})) as tree:
        assert tree.read("a") == b"plain"


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.gz", gzip.compress(TEXT)), ("a.bz2", bz2.compress(TEXT)), ("a.xz", lzma.compress(TEXT))],
    ids=["gz", "bz2", "xz"],
)
def test_cut_and_foreign_compressed_files_are_named(tmp_path, name, content):
    assert decompress(content, name) == TEXT
    for broken in (content[: len(content) // 2], content[:-1], b"not compressed at all"):
        (tmp_path / name).write_bytes(broken)
        with pytest.raises(InputError, match=rf"{name} is damaged at byte {len(broken)}: it cannot be decompressed"):
            read_bytes(tmp_path / name)
        with open_tree(tmp_path) as tree, pytest.raises(InputError, match=f"{name} is damaged at byte"):
            tree.read("a")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt is missing\.$"):
        read_bytes(tmp_path / "none.txt")
    with pytest.raises(InputError, match=r"none\.zip is missing\.$"), open_tree(tmp_path / "none.zip"):
        pass


@pytest.mark.parametrize("kind", ["zip", *MODES])
def test_cut_archives_are_named(tmp_path, kind):
    path = packed(tmp_path, kind)
    content = path.read_bytes()
    # A plain tar ends in more than a kilobyte of zeros, so it is cut within its files.
    path.write_bytes(content[: len(content) // (4 if kind == "tar" else 2)])
    with pytest.raises(InputError, match=rf"^{re.escape(str(path))} is damaged at "), open_tree(path) as tree:
        [tree.read(name) for name in FILES]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.bin"])
def test_files_that_are_no_archives_are_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"<html>404</html>" * 100)
    with pytest.raises(InputError, match=rf"{name} is damaged at "), open_tree(tmp_path / name):
        pass


def test_a_flipped_bit_in_a_zip_is_noticed_wherever_it_is(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:  # stored, so that only the checksum can tell
        archive.writestr("a.txt", TEXT)
    whole = path.read_bytes()
    for place in (whole.index(TEXT) + 100, whole.index(b"PK\x01\x02")):  # in the file, in the list of files
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"a\.zip is damaged at "), open_tree(path) as tree:
            tree.read("a.txt")


def test_lines_end_at_line_breaks_only():
    assert text_lines("a\u2028b\r\nc\x0bd\n\n".encode(), "f") == ["a\u2028b", "c\x0bd", ""]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"", "line 1: the file is empty"),
        (b"one\ntw", "line 2: the file ends within a line"),
        (b"one\nt\xffo\n", "line 2: byte 5 of the file is not UTF-8 text"),
    ],
)
def test_damaged_text_says_where(content, where):
    with pytest.raises(InputError) as error:
        text_lines(content, "some.txt")
    assert str(error.value) == f"some.txt is damaged at {where}. {AGAIN}"
