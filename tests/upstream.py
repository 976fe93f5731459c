"""Small data sets in the layout upstream ships, under the folders where a user keeps them: $AUTAPSE_DATA/mnist/...

Every `write_` function takes the folder above them and returns the path that a reader takes. What it wrote is known:
the arrays come from the function of the same data set, and depend on the class, so that there is something to learn.
"""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

HAR_SIGNALS = [f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]
HAR_SUBJECTS = {"train": (1, 3, 5, 6), "test": (2, 4)}
HAPT_USERS = (1, 2, 3, 4, 5, 6)
DSA_SEGMENTS = 2

Files = dict[str, bytes]


def real(*parts: str) -> Path:
    """A file of the real data, or a skipped test."""
    root = os.environ.get("AUTAPSE_DATA")
    if not root:
        pytest.skip("AUTAPSE_DATA is not set: no real data here")
    path = Path(root, *parts)
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def write_files(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def write_zip(path: Path, files: Files) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, files: Files, mode: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"preset": 0} if mode == "w:xz" else {"compresslevel": 1}
    with tarfile.open(path, mode, **options) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def text_table(rows: np.ndarray, separator: str = " ", number: str = "%.4f") -> bytes:
    rows = np.atleast_2d(rows)
    line = separator.join([number] * rows.shape[1])
    return "".join(line % tuple(row) + "\n" for row in rows.tolist()).encode()


def idx_bytes(array: np.ndarray) -> bytes:
    kinds = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
    magic = struct.pack(">HBB", 0, kinds[array.dtype.str[1:]], array.ndim)
    return magic + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(array.dtype.newbyteorder(">")).tobytes()


def mnist_arrays(part: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(["train", "t10k"].index(part))
    labels = (np.arange(n) % 10).astype(np.uint8)
    images = random.integers(0, 56, (n, 28, 28), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 4] += 200  # the class is a bright bar
    return images, labels


def write_mnist(folder: Path, n: int = 40) -> Path:
    """`n` training and `n` test images."""
    files = {}
    for part in ("train", "t10k"):
        images, labels = mnist_arrays(part, n)
        files[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(idx_bytes(images))
        files[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx_bytes(labels))
    return write_files(folder / "mnist", files)


def write_fashion_mnist(folder: Path, n: int = 20) -> Path:
    """The same pictures in negative."""
    images, labels = mnist_arrays("train", n)
    files = {
        f"{part}-{name}": gzip.compress(idx_bytes(array))
        for part in ("train", "t10k")
        for name, array in (("images-idx3-ubyte.gz", 255 - images), ("labels-idx1-ubyte.gz", labels))
    }
    return write_files(folder / "fashion-mnist", files)


def cifar_arrays(batch: int, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 32, 32, 3] and labels of one of six batches, the last one being the test batch."""
    random = np.random.default_rng(batch)
    labels = random.permutation(np.arange(n) % 10).astype(np.uint8)
    images = random.integers(0, 56, (n, 32, 32, 3), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[3 * label : 3 * label + 4, :, label % 3] += 200
    return images, labels


def cifar_files() -> Files:
    files = {}
    for batch, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        images, labels = cifar_arrays(batch)
        planes = images.transpose(0, 3, 1, 2).reshape(len(labels), -1)
        files[f"cifar-10-batches-bin/{name}.bin"] = np.column_stack([labels, planes]).tobytes()
    return files


def write_cifar(folder: Path) -> Path:
    return write_tar(folder / "cifar-10" / "cifar-10-binary.tar.gz", cifar_files(), "w:gz")


def waves(activity: int, steps: int, channels: int, seed: int) -> np.ndarray:  # [steps, channels]
    """A motion at 50 Hz whose speed and strength tell the activity, to four decimals."""
    random = np.random.default_rng(seed)
    phase = 2 * np.pi * ((activity + 1) * np.arange(steps)[:, None] / 50 + random.random(channels))
    return np.round((1 + activity / 4) * np.sin(phase) + 0.1 * random.standard_normal((steps, channels)), 4)


def har_arrays(part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows [N, 128, 9], activities from 1, subjects: each subject does everything once."""
    subjects, activities = np.array([(s, a) for s in HAR_SUBJECTS[part] for a in range(1, 7)]).T
    windows = [waves(a - 1, 128, 9, seed=100 * s + a) for s, a in zip(subjects, activities, strict=True)]
    return np.array(windows), activities, subjects


def har_files() -> Files:
    files = {}
    for part in HAR_SUBJECTS:
        windows, activities, subjects = har_arrays(part)
        folder = f"UCI HAR Dataset/{part}"
        files[f"{folder}/y_{part}.txt"] = text_table(activities[:, None], number="%d")
        files[f"{folder}/subject_{part}.txt"] = text_table(subjects[:, None], number="%d")
        for channel, signal in enumerate(HAR_SIGNALS):
            table = text_table(windows[:, :, channel], number=" %.7e")  # upstream's two blanks between numbers
            files[f"{folder}/Inertial Signals/{signal}_{part}.txt"] = table
    return files


def write_har(folder: Path) -> Path:
    return write_zip(folder / "har" / "UCI HAR Dataset.zip", har_files())


def hapt_rows() -> np.ndarray:
    """labels.txt: experiment, user, activity, first, last. Six activities of 200 steps, then a transition of 50.

    With ten unlabelled steps before each; the last activity is longer and gives three windows, the others two each.
    """
    lengths = [200, 200, 200, 200, 200, 256, 50]
    rows = []
    for experiment, user in enumerate(HAPT_USERS, start=1):
        first = 11
        for activity, length in enumerate(lengths, start=1):
            rows.append((experiment, user, activity, first, first + length - 1))
            first += length + 10
    return np.array(rows)


def hapt_recording(experiment: int) -> np.ndarray:  # [T, 6]
    rows = hapt_rows()[hapt_rows()[:, 0] == experiment]
    recording = np.round(0.1 * np.random.default_rng(experiment).standard_normal((rows[-1, 4] + 20, 6)), 4)
    for _, _, activity, first, last in rows:
        recording[first - 1 : last] = waves(activity - 1, last - first + 1, 6, seed=100 * experiment + activity)
    recording[:, 0] += 1  # gravity
    return recording


def hapt_files() -> Files:
    files = {"HAPT Data Set/RawData/labels.txt": text_table(hapt_rows(), number="%d")}
    for experiment, user in enumerate(HAPT_USERS, start=1):
        recording = hapt_recording(experiment)
        for kind, columns in (("acc", recording[:, :3]), ("gyro", recording[:, 3:])):
            name = f"HAPT Data Set/RawData/{kind}_exp{experiment:02d}_user{user:02d}.txt"
            files[name] = text_table(columns)
    files["HAPT Data Set/activity_labels.txt"] = b" 1 WALKING\n"  # a name that ends like labels.txt
    return files


def write_hapt(folder: Path) -> Path:
    return write_tar(folder / "hapt" / "HAPT-RawData.tar.xz", hapt_files(), "w:xz")


def dsa_segment(activity: int, subject: int, segment: int) -> np.ndarray:  # [125, 45]; all count from 1
    """One motion per activity, begun elsewhere by every subject in every segment."""
    return np.roll(waves(activity - 1, 125, 45, seed=activity), 7 * subject + segment, axis=0)


def dsa_files() -> Files:
    files = {}
    for activity in range(1, 20):
        lines = text_table(dsa_segment(activity, 0, 0), ",").splitlines(keepends=True)
        for subject in range(1, 9):
            for segment in range(1, DSA_SEGMENTS + 1):
                shift = 7 * subject + segment
                content = b"".join(lines[-shift:] + lines[:-shift])  # np.roll
                files[f"data/a{activity:02d}/p{subject}/s{segment:02d}.txt"] = content
    return files


def write_dsa(folder: Path) -> Path:
    return write_zip(folder / "dsa-19" / "data.zip", dsa_files())


def ts_arrays(part: str) -> tuple[list[np.ndarray], list[str]]:
    """Twelve series of 2 channels and 7 to 18 steps, and their labels."""
    labels = [("slow", "fast", "idle")[n % 3] for n in range(12)]
    speeds = {"idle": 0, "slow": 2, "fast": 5}
    seed = 50 * ["TRAIN", "TEST"].index(part)
    return [waves(speeds[label], 7 + n, 2, seed + n) for n, label in enumerate(labels)], labels


def ts_text(series: list[np.ndarray], labels: list[str], name: str = "Small") -> str:
    header = f"""# A comment
@problemName {name}
@timeStamps false
@missing false
@univariate false
@dimensions {series[0].shape[1]}
@equalLength false
@classLabel true {" ".join(dict.fromkeys(labels))}
@data
"""
    rows = [
        ":".join(",".join(str(value) for value in channel) for channel in one.T.tolist()) + f":{label}\n"
        for one, label in zip(series, labels, strict=True)
    ]
    return header + "".join(rows)


def write_ts(folder: Path, name: str) -> Path:
    """Both files of one data set, in a folder of its own, which is returned."""
    files = {f"{name}_{part}.ts": ts_text(*ts_arrays(part), name).encode() for part in ("TRAIN", "TEST")}
    return write_files(folder / "uea-ucr" / name, files)
