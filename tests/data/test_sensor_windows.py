import io
import lzma

import numpy as np
import pytest
from scipy import ndimage, signal

from autapse.checks import InputError
from autapse.data.formats.dsa import read_dsa
from autapse.data.formats.hapt import channels, read_hapt
from autapse.data.formats.har import read_uci_har
from upstream import (
    DSA_SEGMENTS,
    dsa_files,
    dsa_segment,
    hapt_files,
    hapt_recording,
    hapt_rows,
    har_arrays,
    har_files,
    real,
    write_dsa,
    write_files,
    write_hapt,
    write_har,
    write_tar,
    write_zip,
)

Y_TRAIN = "UCI HAR Dataset/train/y_train.txt"
SUBJECT_TEST = "UCI HAR Dataset/test/subject_test.txt"
GYRO_TEST = "UCI HAR Dataset/test/Inertial Signals/body_gyro_y_test.txt"
RAW = "HAPT Data Set/RawData"
SEGMENT = "data/a07/p3/s02.txt"


def damage(reader, folder, files: dict[str, bytes], name: str, change) -> str:
    """What a reader says of a folder in which one file was changed, without the folder's name."""
    with pytest.raises(InputError) as error:
        reader(write_files(folder, {**files, name: change(files[name])}))
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{folder}/")


def line(number: int, new: bytes):
    """Put `new` in place of a line, counted from 1."""

    def change(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        return b"".join([*lines[: number - 1], new + b"\n", *lines[number:]])

    return change


def without(count: int):
    return lambda content: b"".join(content.splitlines(keepends=True)[:-count])


# HAR


def check_har(path) -> None:
    found = read_uci_har(path)
    parts = [har_arrays(part) for part in ("train", "test")]
    windows, activities, subjects = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    np.testing.assert_allclose(found.windows, windows, atol=1e-6)
    np.testing.assert_array_equal(found.labels, activities - 1)
    np.testing.assert_array_equal(found.subjects, subjects)
    np.testing.assert_array_equal(found.is_test, np.isin(subjects, (2, 4)))
    assert (found.windows.dtype, found.labels.dtype, found.is_test.dtype) == (np.float32, np.int64, np.bool_)
    assert set(found.labels) == set(range(6))
    assert len(found) == 36


def test_har_zip(tmp_path):
    check_har(write_har(tmp_path))


def test_har_folder_and_the_folder_above_it(tmp_path):
    write_files(tmp_path, har_files())
    check_har(tmp_path)
    check_har(tmp_path / "UCI HAR Dataset")


@pytest.mark.parametrize(
    ("name", "change", "place", "reason"),
    [
        (Y_TRAIN, line(5, b"7"), "line 5", "the activity is 7, not an integer from 1 to 6"),
        (Y_TRAIN, line(5, b"1.5"), "line 5", "the activity is 1.5, not an integer from 1 to 6"),
        (Y_TRAIN, lambda content: b"\n", "line 1", "it is empty"),
        (SUBJECT_TEST, line(2, b"31"), "line 2", "the subject is 31, not an integer from 1 to 30"),
        (SUBJECT_TEST, line(2, b"two"), "line 2", "'two' is not a finite number"),
        (SUBJECT_TEST, without(2), "line 10", "it has 10 rows, but there are 12 labels"),
        (GYRO_TEST, line(3, b"1 2 3"), "line 3", "it has 3 values instead of 128"),
        (GYRO_TEST, line(4, b"0 " * 127 + b"nan"), "line 4", "'nan' is not a finite number"),
        (GYRO_TEST, lambda content: content[: len(content) * 3 // 5], "line 8", "values instead of 128"),
        (GYRO_TEST, lambda content: content.replace(b".", b"\xff", 1), "line 1", "is not a finite number"),
    ],
)
def test_har_damage(tmp_path, name, change, place, reason):
    found = damage(read_uci_har, tmp_path, har_files(), name, change)
    assert found.startswith(f"{name} is damaged at {place}: ")
    assert reason in found


def test_har_with_a_file_missing_or_all_of_them(tmp_path):
    files = har_files()
    del files[GYRO_TEST]
    with pytest.raises(InputError, match=r"body_gyro_y_test.txt is missing."):
        read_uci_har(write_zip(tmp_path / "some.zip", files))
    with pytest.raises(InputError, match=r"none.zip has no file train/y_train.txt."):
        read_uci_har(write_zip(tmp_path / "none.zip", {"README.txt": b"HAR"}))


def test_truncated_zip(tmp_path):
    path = write_har(tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match="neither a folder nor a complete zip or tar archive"):
        read_uci_har(path)


def test_real_har():
    found = read_uci_har(real("har", "UCI HAR Dataset.zip"))
    assert (int((~found.is_test).sum()), int(found.is_test.sum())) == (7352, 2947)
    assert found.windows.shape == (10299, 128, 9)


# HAPT


def scipy_channels(raw: np.ndarray) -> np.ndarray:  # [T, 6] -> [T, 9]
    """The same filters by SciPy, with its odd padding as long as ours."""
    median = ndimage.median_filter(raw, size=(3, 1), mode="nearest")
    noise, gravity = (signal.butter(3, cutoff, fs=50, output="sos") for cutoff in (20, 0.3))
    clean = signal.sosfiltfilt(noise, median, axis=0, padlen=8)
    slow = signal.sosfiltfilt(gravity, clean[:, :3], axis=0, padlen=500)
    return np.hstack([clean[:, :3] - slow, clean[:, 3:], clean[:, :3]])


def check_hapt(path) -> None:
    found = read_hapt(path)
    windows, activities, subjects = [], [], []
    for experiment, user, activity, first, last in hapt_rows().tolist():
        filtered = scipy_channels(hapt_recording(experiment))
        for start in range(first - 1, last - 127, 64) if activity <= 6 else ():
            windows.append(filtered[start : start + 128])
            activities.append(activity)
            subjects.append(user)
    np.testing.assert_allclose(found.windows, windows, atol=1e-6)
    np.testing.assert_array_equal(found.labels, np.array(activities) - 1)
    np.testing.assert_array_equal(found.subjects, subjects)
    np.testing.assert_array_equal(found.is_test, np.isin(subjects, (2, 4)))
    assert found.windows.dtype == np.float32
    assert len(found) == 6 * 13


def test_hapt_tar(tmp_path):
    check_hapt(write_hapt(tmp_path))


def test_hapt_zip_and_folders(tmp_path):
    check_hapt(write_zip(tmp_path / "HAPT Data Set.zip", hapt_files()))
    folder = write_files(tmp_path / "unpacked", hapt_files())
    check_hapt(folder)
    check_hapt(folder / RAW)


def test_hapt_separates_gravity_from_motion():
    t = np.arange(3_000)[:, None] / 50
    raw = np.hstack([np.full_like(t, 0.8), np.sin(2 * np.pi * 2 * t), 0 * t, 0 * t, 0 * t, 0 * t])
    body, total = channels(raw)[600:-600, :3], channels(raw)[600:-600, 6:]
    np.testing.assert_allclose(total[:, 0], 0.8, atol=1e-6)
    np.testing.assert_allclose(body[:, 0], 0, atol=1e-6)
    np.testing.assert_allclose(body[:, 1], total[:, 1], atol=1e-3)


@pytest.mark.parametrize(
    ("name", "change", "place", "reason"),
    [
        ("labels.txt", line(4, b"1 1 13 680 830"), "line 4", "the activity is 13, not one of 1 to 12"),
        ("labels.txt", line(4, b"1 1 4 0 830"), "line 4", "not positive integers"),
        ("labels.txt", line(4, b"1 1 4 680 99999"), "line 4", "samples 680 to 99999 are not in a recording of 1396"),
        ("labels.txt", line(4, b"1 1 4 680 600"), "line 4", "samples 680 to 600 are not in a recording"),
        ("labels.txt", line(4, b"1 1 4 680"), "line 4", "it has 4 values instead of 5"),
        ("acc_exp02_user02.txt", line(9, b"0.1 0.2 O.3"), "line 9", "'O.3' is not a finite number"),
        ("gyro_exp02_user02.txt", without(10), "line 1386", "it has 1386 rows and the acceleration 1396"),
    ],
)
def test_hapt_damage(tmp_path, name, change, place, reason):
    found = damage(read_hapt, tmp_path, hapt_files(), f"{RAW}/{name}", change)
    assert found.startswith(f"{RAW}/{name} is damaged at {place}: ")
    assert reason in found


def test_hapt_with_a_recording_missing_or_nothing_to_cut(tmp_path):
    with pytest.raises(InputError, match=r"acc_exp09_user01.txt is missing"):
        read_hapt(write_files(tmp_path, {**hapt_files(), f"{RAW}/labels.txt": b"9 1 1 1 500\n"}))
    with pytest.raises(InputError, match=r"labels.txt marks no activity of at least 128 steps"):
        read_hapt(write_files(tmp_path, {**hapt_files(), f"{RAW}/labels.txt": b"1 1 1 1 127\n1 1 7 1 500\n"}))


def test_truncated_tar(tmp_path):
    path = write_hapt(tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"HAPT-RawData.tar.xz is damaged at .*: it is not a complete tar archive"):
        read_hapt(path)


def test_real_hapt():
    found = read_hapt(real("hapt", "HAPT-RawData.tar.xz"))
    assert (int((~found.is_test).sum()), int(found.is_test.sum())) == (7415, 2996)
    assert found.windows.shape == (10411, 128, 9)
    assert set(found.subjects) == set(range(1, 31))
    assert set(found.subjects[found.is_test]) == {2, 4, 9, 10, 12, 13, 18, 20, 24}
    gravity = np.linalg.norm(found.windows[..., 6:].mean(axis=1), axis=1)
    assert np.median(gravity) == pytest.approx(1, abs=0.05)  # in g, whatever way the phone hangs


# DSA


def check_dsa(path) -> None:
    found = read_dsa(path)
    grid = [(a, p, s) for a in range(1, 20) for p in range(1, 9) for s in range(1, DSA_SEGMENTS + 1)]
    np.testing.assert_allclose(found.windows, [dsa_segment(*place) for place in grid], atol=1e-6)
    assert found.labels.tolist() == [a - 1 for a, _, _ in grid]
    assert found.subjects.tolist() == [p for _, p, _ in grid]
    assert found.is_test.tolist() == [p >= 5 for _, p, _ in grid]
    assert found.windows.dtype == np.float32


def test_dsa_zip(tmp_path):
    check_dsa(write_dsa(tmp_path))


def test_dsa_folder_and_the_folder_above_it(tmp_path):
    write_files(tmp_path, dsa_files())
    check_dsa(tmp_path)
    check_dsa(tmp_path / "data")


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        (line(20, b",".join([b"1"] * 44)), "line 20", "it has 44 values instead of 45"),
        (line(20, b",".join([b"1"] * 44 + [b"x"])), "line 20", "'x' is not a finite number"),
        (without(5), "line 120", "it has 120 rows instead of 125"),
        (lambda content: content[:5000], "line ", "instead of"),
        (lambda content: b"", "line 1", "it is empty"),
    ],
)
def test_dsa_damage(tmp_path, change, place, reason):
    found = damage(read_dsa, tmp_path, dsa_files(), SEGMENT, change)
    assert found.startswith(f"{SEGMENT} is damaged at {place}")
    assert reason in found


def test_dsa_with_a_segment_missing_or_too_many_subjects(tmp_path):
    files = dsa_files()
    with pytest.raises(InputError, match=r"data.zip is damaged at folder p9: 9 is not one of 1 to 8"):
        read_dsa(write_zip(tmp_path / "data.zip", {**files, "data/a01/p9/s01.txt": b""}))
    del files[SEGMENT]
    with pytest.raises(InputError, match=r"a07/p3/s02.txt is missing"):
        read_dsa(write_tar(tmp_path / "data.tar.gz", files, "w:gz"))


def quantised(**changes: np.ndarray) -> bytes:
    """The layout of dsa19-q128: int16 differences over time in two planes of bytes."""
    levels = np.random.default_rng(0).integers(-2000, 2000, (45, 16, 125)).astype(np.int16)
    differences = np.diff(levels, axis=2, prepend=np.int16(0)).view(np.uint16)
    arrays = {
        "hi": (differences >> 8).astype(np.uint8),
        "lo": (differences & 255).astype(np.uint8),
        "step": np.linspace(0.01, 1, 45, dtype=np.float32),
        "activity": np.arange(1, 17, dtype=np.uint8),
        "subject": np.tile(np.arange(1, 9, dtype=np.uint8), 2),
        "segment": np.ones(16, np.uint8),
    }
    file = io.BytesIO()
    np.savez_compressed(file, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return file.getvalue()


@pytest.mark.parametrize(("name", "compress"), [("q.npz", bytes), ("q.npz.xz", lzma.compress)])
def test_quantised_dsa(tmp_path, name, compress):
    (tmp_path / name).write_bytes(compress(quantised()))
    found = read_dsa(tmp_path / name)
    levels = np.random.default_rng(0).integers(-2000, 2000, (45, 16, 125))
    truth = levels.transpose(1, 2, 0) * np.linspace(0.01, 1, 45, dtype=np.float32)
    np.testing.assert_allclose(found.windows, truth, rtol=1e-6)
    assert found.labels.tolist() == list(range(16))
    assert found.is_test.tolist() == ([False] * 4 + [True] * 4) * 2


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"lo": np.zeros((45, 16, 124), np.uint8)}, "array lo", "instead of uint8 (45, 16, 125)"),
        ({"activity": np.full(16, 20, np.uint8)}, "array activity, place 0", "20 is not one of 1 to 19"),
        ({"subject": np.zeros(16, np.uint8)}, "array subject, place 0", "0 is not one of 1 to 8"),
        ({"subject": np.ones(15, np.uint8)}, "array subject", "its shape is (15,) instead of (16,)"),
    ],
)
def test_quantised_dsa_damage(tmp_path, changes, place, reason):
    path = tmp_path / "q.npz"
    path.write_bytes(quantised(**changes))
    with pytest.raises(InputError) as error:
        read_dsa(path)
    assert str(error.value).startswith(f"{path} is damaged at {place}: ")
    assert reason in str(error.value)


def test_quantised_dsa_without_an_array(tmp_path):
    (tmp_path / "q.npz").write_bytes(quantised(hi=None))
    with pytest.raises(InputError, match=r"q\.npz has no array 'hi'; its arrays are lo, step, activity, subject"):
        read_dsa(tmp_path / "q.npz")


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.9, 0.9999])
@pytest.mark.parametrize(("name", "compress"), [("q.npz", bytes), ("q.npz.xz", lzma.compress)])
def test_truncated_quantised_dsa(tmp_path, name, compress, share):
    content = compress(quantised())
    (tmp_path / name).write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=rf"{name} is (damaged at byte \d+: it|not a complete .npz file) "):
        read_dsa(tmp_path / name)


def test_real_quantised_dsa():
    found = read_dsa(real("dsa-19", "dsa19-q128.npz.xz"))
    assert found.windows.shape == (9120, 125, 45)
    assert np.bincount(found.labels).tolist() == [480] * 19
    assert np.bincount(found.subjects).tolist() == [0] + [1140] * 8
    assert found.is_test.sum() == 4560
