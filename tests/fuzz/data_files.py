"""Damaged and hostile data files: every reader returns, or raises one InputError of one line. It never does more.

    .venv/bin/python tests/fuzz/data_files.py --cases 100000 --first 1000000 --keep /tmp/found

Each case takes a small valid file, changes it, and reads it. A case that fails is printed with its number;
--keep also writes its file.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import shutil
import sys
import tarfile
import tempfile
import warnings
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path

import cases
import numpy as np

from autapse.checks import InputError
from autapse.data.archives import open_tree
from autapse.data.formats import table
from autapse.data.formats.babi import read_babi
from autapse.data.formats.cifar import RECORD, read_cifar10
from autapse.data.formats.conllu import read_conllu, read_tagged_lines, read_words
from autapse.data.formats.dsa import read_dsa
from autapse.data.formats.idx import read_idx
from autapse.data.formats.ptb import read_ptb
from autapse.data.formats.recordings import numbers
from autapse.data.formats.reviews import iterate_imdb, iterate_yelp
from autapse.data.formats.sequences import FileLayout
from autapse.data.formats.wav import read_wav

MEMORY = 3 << 30  # bytes of address space beyond what the imports take

Reader = Callable[[Path], object]

# What breaks parsers: limits of integers and floats, other digits, controls, quotes, nesting.
TOKENS = """
9999999999999999999999 -1 0 1e999 nan -inf 1e-400 0x10 ٣ ² 1_0 ? "" " ' , ; : :: @data @dimensions @classLabel
@seriesLength <eos> ( [ { } ] ) # % \\ / ../../x 1-2 1.1 2-1 _ true
""".split()
TOKENS += [
    "9" * 5000,
    "[" * 3000,
    '{"a":' * 3000,
    "\x00",
    "\x1b[31m",
    "\u202e",
    "\ud7ff",
    "\ufeff",
    "\t",
    "\n",
    "\r",
    " " * 99,
]


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The content after a few changes."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        if not changed:
            break
        at, length = draw.randrange(len(changed)), draw.choice((1, 1, 2, 4, 8, 64, 512))
        match draw.randrange(7):
            case 0:
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                changed[at : at + length] = draw.randbytes(len(changed[at : at + length]))
            case 2:
                del changed[at : at + length]
            case 3:
                del changed[at:]
            case 4:
                changed[at:at] = changed[at : at + length] * draw.choice((1, 2, 100))
            case 5:
                changed[at:at] = draw.choice(TOKENS).encode()
            case 6:  # a word of it becomes another
                token = draw.choice(TOKENS).encode()
                changed[at : at + length] = token
    return bytes(changed)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def forged_npy(draw: random.Random) -> bytes:
    """A .npy whose header declares what its few bytes do not hold."""
    sizes = (0, 1, 2, 3, 5, 10**6, 10**12, 2**31, 2**62, 2**63, 10**30, -1)
    shape = tuple(draw.choice(sizes) for _ in range(draw.randint(0, 4)))
    kind = draw.choice(
        ("<f8", "<f4", "|u1", "<U0", "<U9", "|S0", "<U500000000", "|V0", "|O", "<c16", "<M8[s]", ">i4", "?")
    )
    header = repr({"descr": kind, "fortran_order": draw.random() < 0.5, "shape": shape}).encode() + b"\n"
    version = draw.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + length + header + bytes(draw.choice((0, 8, 80)))


def forged_npz(draw: random.Random) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("inputs", "targets", *(["lengths"] if draw.random() < 0.3 else [])):
            whole = draw.random() < 0.5 and name != "lengths"
            kept = npy(np.ones((4, 3, 2)) if name == "inputs" else np.array(list("abab"), draw.choice(("U1", "S2"))))
            archive.writestr(f"{name}.npy", kept if whole else forged_npy(draw))
    return buffer.getvalue()


def wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(range(200)))
    return buffer.getvalue()


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def read_all(path: Path) -> None:
    with open_tree(path) as tree:
        for name in tree.names():
            tree.read(name)


LAYOUTS = (
    FileLayout(),
    FileLayout(missing=True, times="resample"),
    FileLayout(form="wide", missing=True),
    FileLayout(per="step", times="input"),
    FileLayout(channels=("speed",), single=True, targets=None),
)


def series_and_sequences(path: Path) -> None:
    for layout in LAYOUTS:
        for read in (table.read_series, table.read_sequences):
            try:
                read(path, layout)
            except InputError as error:
                one_line(error)


def sounds(path: Path) -> None:
    table.read_sequences(path)


def columns(path: Path) -> None:
    for read in (read_words, read_tagged_lines):
        try:
            read(path, 2)
        except InputError as error:
            one_line(error)


TS = b"@problemName x\n@univariate false\n@dimensions 2\n@equalLength false\n@classLabel true a b\n@data\n"
TS += b"1,2,3:4,5,6:a\n1,?:7,8:b\n"
REGRESSION = b"@targetLabel true\n@seriesLength 2\n@equalLength true\n@data\n1,2:0.5\n3,4:1.5\n"
TSV = b"1\t0.5\t0.25\n2\t1\tNaN\n"
CSV = "sequence,time,speed,heart ♥,target\n" + "".join(
    f"s{n},{t},{n + t},{n * t},c{n % 2}\n" for n in range(4) for t in (2, 1)
)
PLAIN = b"1,2\n3,4\n"
SEMICOLONS = CSV.replace(",", ";").replace("♥;", "♥;").replace(";1;", ";1,5;").encode()
DATES = b'sequence,time,x,target\na,2024-01-01 10:00,1,"u"\na,2024-01-01 11:30,,"u"\nb,2024-02-01 00:00,1e3,"v"\n'
WIDE = b"id,x1,x2,x3,target\na,1,2,3,0.5\nb,4,5,,1.5\nc,7,8,9,2.5\n"
CONLLU = (
    "# x\n" + "".join(f"{n}\tw{n}\tw\tNOUN\tNN\t_\t_\t_\t_\t_\n" for n in (1, 2)) + "3-4\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
)
BABI = b"1 Mary went.\n2 John left.\n3 Where is Mary?\tthere\t1 2\n"
YELP = b'{"stars": 4.0, "text": "good"}\n{"stars": 1, "text": "b\\u00e4d"}\n'
YELP_CSV = b'"4","good, ""very"" good"\n"1","bad"\n'
PTB = {f"data/ptb.{part}.txt": b" the cat <unk> \n N sat \n" for part in ("train", "valid", "test")}
IMDB = {
    f"aclImdb/{part}/{kind}/0_{n}.txt": b"So <br />good."
    for part in ("train", "test")
    for kind, n in (("neg", 1), ("pos", 9))
}
CIFAR = {f"x/{name}.bin": bytes(2 * RECORD) for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]}
IDX = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 3, 3)) + bytes(range(18))
DSA = npz(
    hi=np.zeros((3, 2, 125), np.uint8),
    lo=np.ones((3, 2, 125), np.uint8),
    step=np.ones(3, np.float32),
    activity=np.ones(2, np.uint8),
    subject=np.ones(2, np.uint8),
)
STEPS = npz(inputs=np.ones((3, 4, 2)), targets=np.ones((3, 4, 1)), channels=np.array(["speed", "b"]))
NPZ = npz(inputs=np.ones((4, 3, 2)), targets=np.array(list("abab")), lengths=np.array([1, 2, 3, 3]))

# Name, a valid content or a function that draws one, and who reads it.
CORPUS: list[tuple[str, bytes | Callable[[random.Random], bytes], Reader]] = [
    ("x.ts", TS, series_and_sequences),
    ("y.ts", REGRESSION, series_and_sequences),
    ("x.tsv", TSV, series_and_sequences),
    ("x.csv", CSV.encode(), series_and_sequences),
    ("y.csv", PLAIN, series_and_sequences),
    ("semicolons.csv", SEMICOLONS, series_and_sequences),
    ("dates.csv", DATES, series_and_sequences),
    ("wide.csv", WIDE, series_and_sequences),
    ("table.tsv", CSV.replace(",", "\t").encode(), series_and_sequences),
    ("steps.npz", STEPS, series_and_sequences),
    ("sound.wav", wav(), sounds),
    ("x.conll", b"-DOCSTART- -X- O\n\nthe DT B-NP\ncat NN I-NP\n\nsat VB B-VP\n", columns),
    ("x.npz", NPZ, series_and_sequences),
    ("y.npz", forged_npz, series_and_sequences),
    ("x.npy", npy(np.ones((4, 3, 2))), series_and_sequences),
    ("y.npy", forged_npy, series_and_sequences),
    ("x.npz", DSA, read_dsa),
    ("x-idx3-ubyte", IDX, read_idx),
    ("x.conllu", CONLLU.encode(), read_conllu),
    ("x.txt", b"the\tDT\ncat\tNN\n\nsat\tVB\n", read_words),
    ("y.txt", b"the DT\ncat NN\n", read_tagged_lines),
    ("x.wav", wav(), lambda path: read_wav(path.read_bytes(), path)),
    ("table.txt", b"1 2.5 -3\n4e3 5 6\n", lambda path: numbers(path.read_bytes(), str(path), 3)),
    ("yelp.json", YELP, lambda path: list(iterate_yelp(path))),
    ("yelp.csv", YELP_CSV, lambda path: list(iterate_yelp(path))),
    ("yelp.tgz", tar({"yelp/train.csv": YELP_CSV, "yelp/test.csv": YELP_CSV}), lambda path: list(iterate_yelp(path))),
    ("yelp.zip", zipped({"train.csv": YELP_CSV}), lambda path: list(iterate_yelp(path))),
    ("imdb.tar", tar(IMDB), lambda path: list(iterate_imdb(path))),
    ("ptb.tar", tar(PTB), read_ptb),
    ("cifar.tar", tar(CIFAR), read_cifar10),
    ("babi.zip", zipped({"en/qa1_x_train.txt": BABI}), lambda path: read_babi(path, 1, "train")),
    ("any.zip", zipped({"a/b.txt": TS, "c.gz": gzip.compress(TSV)}), read_all),
    ("any.tar", tar({"a/b.txt": TS, "c.xz": lzma.compress(TSV)}), read_all),
]
PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lambda content: lzma.compress(content, preset=0)}


def one_line(error: Exception) -> None:
    if "\n" in str(error):
        raise AssertionError(f"more than one line: {error}") from error


def make(draw: random.Random) -> tuple[str, bytes, Reader]:
    """A file's name, its content, and its reader."""
    name, content, read = draw.choice(CORPUS)
    chosen = mutated(content, draw) if isinstance(content, bytes) else content(draw)
    takes_packed = name.endswith((".ts", ".tsv", ".csv", ".conllu", "ubyte", ".tar")) and not name.startswith("yelp")
    if takes_packed and draw.random() < 0.2:
        ending = draw.choice(list(PACKED))
        name, chosen = name + ending, PACKED[ending](chosen)
        if draw.random() < 0.5:
            chosen = mutated(chosen, draw)
    return name, chosen, read


def fault(path: Path, read: Reader) -> str:
    """What a reader does beyond returning or raising one InputError of one line; nothing if it behaves."""
    try:
        read(path)
    except InputError as error:
        one_line(error)
    return ""


def main() -> int:
    parser = cases.options(__doc__ or "", 2000)
    parser.add_argument("--keep", type=Path, help="folder for the files of failed cases")
    args = parser.parse_args()
    cases.limit_memory(MEMORY)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:

        def wrong(case: int) -> str:
            name, content, read = make(random.Random(case))
            path = Path(folder, name)
            path.write_bytes(content)
            found = cases.guarded(lambda: fault(path, read))
            if found and args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, args.keep / f"{case}-{name}")
            path.unlink()
            return found and f"{name}: {found}"

        return cases.run(args, wrong)


if __name__ == "__main__":
    sys.exit(main())
