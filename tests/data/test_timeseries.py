import gzip

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.formats.timeseries import Series, ordered_labels, read_ts, share_labels
from damage import message
from upstream import real, ts_arrays, ts_text, write_ts

PLAIN = "@problemName p\n@timeStamps false\n@univariate true\n@classLabel true b a\n@data\n"
REGRESSION = "@univariate true\n@equalLength false\n@targetlabel true\n@data\n"


def read_pair(train, test):
    return share_labels(read_ts(train), read_ts(test), f"{train} and {test}")


def from_text(folder, text: str, name: str = "p_TRAIN.ts") -> Series:
    (folder / name).write_text(text)
    return read_ts(folder / name)


def complaint(folder, text: str, name: str = "p_TRAIN.ts") -> str:
    return message(from_text, folder, text, name).removeprefix(f"{folder / name}")


def steps(series: Series, n: int) -> list:
    return series.inputs[n].tolist()


def test_upstream_s_layout(tmp_path):
    folder = write_ts(tmp_path, "Small")
    train, test = read_pair(folder / "Small_TRAIN.ts", folder / "Small_TEST.ts")
    for part, found in (("TRAIN", train), ("TEST", test)):
        series, labels = ts_arrays(part)
        assert found.labels == ("slow", "fast", "idle")
        assert [found.labels[t] for t in found.targets] == labels
        assert found.inputs.lengths.tolist() == list(range(7, 19))
        for n, one in enumerate(series):
            np.testing.assert_allclose(found.inputs[n], one, rtol=1e-6)
        assert (found.inputs.values.dtype, found.targets.dtype) == (np.float32, np.int64)


def test_compressed(tmp_path):
    path = tmp_path / "Small_TRAIN.ts.gz"
    path.write_bytes(gzip.compress(ts_text(*ts_arrays("TRAIN")).encode()))
    assert len(read_ts(path)) == 12
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"Small_TRAIN.ts.gz is damaged at byte 200"):
        read_ts(path)


def test_header_in_any_case_with_comments_blank_lines_and_windows_endings(tmp_path):
    text = "# c\n\n@PROBLEMNAME p\n@Univariate TRUE\n@classlabel True b a\n@DATA\n\n1,2:a\n# c\n3,4:b\n"
    found = from_text(tmp_path, text.replace("\n", "\r\n"))
    assert found.labels == ("b", "a")
    assert found.targets.tolist() == [1, 0]
    assert steps(found, 1) == [[3], [4]]


def test_channels_are_columns(tmp_path):
    header = "@univariate false\n@dimension 2\n@classLabel true a\n@data\n"
    assert steps(from_text(tmp_path, header + "1,2,3:4,5,6:a\n"), 0) == [[1, 4], [2, 5], [3, 6]]


def test_classes_without_names_in_the_header_are_sorted(tmp_path):
    text = "@univariate true\n@classLabel true\n@data\n1:10\n1:9\n1:10\n"
    found = from_text(tmp_path, text)
    assert found.labels == ("9", "10")
    assert found.targets.tolist() == [1, 0, 1]


def test_regression(tmp_path):
    found = from_text(tmp_path, REGRESSION + "1,2:0.5\n3:-2\n")
    assert found.labels == ()
    assert found.targets.dtype == np.float32
    assert found.targets.tolist() == [[0.5], [-2]]


@pytest.mark.parametrize(
    ("values", "filled"),
    [
        ("1,?,3", [1, 2, 3]),
        ("1,NaN,?,7,8", [1, 3, 5, 7, 8]),
        ("?,?,4,nan", [4, 4, 4, 4]),
    ],
)
def test_missing_values_lie_between_their_neighbours(tmp_path, values, filled):
    found = from_text(tmp_path, f"{PLAIN}{values}:a\n")
    np.testing.assert_allclose(found.inputs[0][:, 0], filled, rtol=1e-6)


def test_tsv_has_its_label_first_and_is_padded_with_nan(tmp_path):
    found = from_text(tmp_path, "10\t1.5\t2\tNaN\tNaN\n-1\t1\tNaN\t3\t4\n", "p_TRAIN.tsv")
    assert found.labels == ("-1", "10")
    assert found.targets.tolist() == [1, 0]
    assert found.inputs.lengths.tolist() == [2, 4]
    assert steps(found, 0) == [[1.5], [2]]
    assert steps(found, 1) == [[1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "line 1", "it has no line '@data'"),
        ("@univariate true\n@classLabel true a\n", "line 2", "it has no line '@data'"),
        ("@univariate true\n1,2:a\n@data\n", "line 2", "a header line must start with '@'"),
        ("@univariate maybe\n@classLabel true a\n@data\n1:a\n", "line 1", "@univariate is neither true nor false"),
        ("@dimensions two\n@classLabel true a\n@data\n1:a\n", "line 1", "@dimensions is not a positive integer"),
        ("@classLabel true a b a\n@data\n1:a\n", "line 1", "names a class twice"),
        (PLAIN, "its end", "it has no series"),
        (PLAIN + "1,2:a\n1,x,3:b\n", "line 7", "'x' is not a number"),
        (PLAIN + "1,2:a\n1,,3:b\n", "line 7", "'' is not a number"),
        (PLAIN + "1,2:a\n1,inf:b\n", "line 7", "'inf' is not a finite number"),
        (PLAIN + "1,2:a\n1,1e39:b\n", "line 7", "'1e39' is not a finite number"),
        (PLAIN + "1,2:c\n", "line 6", "the label 'c' is not one of the classes: b, a"),
        (PLAIN + "1,2:\n", "line 6", "the label '' is not one of the classes: b, a"),
        (PLAIN + "1,2:a\n1,2", "line 7", "it has 0 channels and a label instead of 1"),
        (PLAIN + "?,?:a\n", "line 6", "a channel has no values"),
        ("@dimensions 2\n@classLabel true a\n@data\n1:2:a\n1:a\n", "line 5", "1 channels and a label instead of 2"),
        ("@classLabel true a\n@data\n1,2:3:a\n", "line 3", "channel 2 has 1 steps and channel 1 has 2"),
        ("@equalLength true\n@seriesLength 3\n@classLabel true a\n@data\n1,2:a\n", "line 5", "2 steps instead of 3"),
        ("@equalLength true\n@classLabel true a\n@data\n1,2:a\n1:a\n", "line 5", "1 steps instead of 2"),
        (REGRESSION + "1:0.5\n1:high\n", "line 6", "the target 'high' is not a finite number"),
        (REGRESSION + "1:nan\n", "line 5", "the target 'nan' is not a finite number"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path, text, place, reason):
    found = complaint(tmp_path, text)
    assert found.startswith(f" is damaged at {place}: ")
    assert reason in found


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "its end", "it has no series"),
        ("1\t2\n1\n", "line 2", "must have a label and values, separated by tabs"),
        ("1\t2\n1\tx\n", "line 2", "'x' is not a number"),
        ("1\tNaN\n", "line 1", "a channel has no values"),
    ],
)
def test_tsv_damage(tmp_path, text, place, reason):
    found = complaint(tmp_path, text, "p_TRAIN.tsv")
    assert found.startswith(f" is damaged at {place}: ")
    assert reason in found


def test_time_stamps_are_refused(tmp_path):
    declared = complaint(tmp_path, "@univariate true\n@timeStamps true\n@classLabel true a\n@data\n(0,1),(1,2):a\n")
    assert declared.startswith(", line 2: series with time stamps are not supported.")
    undeclared = complaint(tmp_path, PLAIN + "(0,1),(1,2):a\n")
    assert undeclared == ", line 6: values with time stamps, (time, value), are not supported."


def test_files_without_labels_are_refused(tmp_path):
    assert complaint(tmp_path, "@classLabel false\n@data\n1,2\n").startswith(" has no labels: ")


def pair(folder, train: str, test: str, suffix: str) -> tuple[Series, Series]:
    paths = folder / f"p_TRAIN{suffix}", folder / f"p_TEST{suffix}"
    for path, text in zip(paths, (train, test), strict=True):
        path.write_text(text)
    return read_pair(*paths)


@pytest.mark.parametrize(
    ("train", "test", "labels"),
    [
        ("2\t0\n10\t0\n", "10\t0\n2\t0\n", ("2", "10")),
        ("2\t0\n10\t0\n", "10\t0\n", ("2", "10")),
        ("10\t0\n", "2\t0\n10\t0\n", ("2", "10")),
    ],
)
def test_a_pair_shares_its_classes(tmp_path, train, test, labels):
    for found, text in zip(pair(tmp_path, train, test, ".tsv"), (train, test), strict=True):
        assert found.labels == labels
        assert [found.labels[t] for t in found.targets] == [line.split("\t")[0] for line in text.splitlines()]


def test_the_training_file_s_header_orders_the_classes(tmp_path):
    other = PLAIN.replace("b a", "a b")
    train, test = pair(tmp_path, PLAIN + "1:a\n2:b\n", other + "1:a\n2:b\n", ".ts")
    assert train.labels == test.labels == ("b", "a")
    assert train.targets.tolist() == test.targets.tolist() == [1, 0]


def test_a_pair_that_does_not_belong_together(tmp_path):
    with pytest.raises(InputError, match="the targets of one are classes, those of the other are values"):
        pair(tmp_path, PLAIN + "1:a\n", REGRESSION + "1:2\n", ".ts")
    two = "@dimensions 2\n@classLabel true a b\n@data\n1:2:a\n"
    with pytest.raises(InputError, match="differ in their number of channels: 1 and 2"):
        pair(tmp_path, PLAIN + "1:a\n", two, ".ts")


def test_labels_in_order():
    assert ordered_labels(["10", "9", "-1.5"]) == ("-1.5", "9", "10")
    assert ordered_labels(["walk", "10", "9"]) == ("10", "9", "walk")
    assert ordered_labels(["nan", "2", "10"]) == ("10", "2", "nan")


@pytest.mark.parametrize(
    ("name", "suffix", "counts", "channels", "lengths", "classes"),
    [
        ("JapaneseVowels", "ts", (270, 370), 12, (7, 29), 9),
        ("BasicMotions", "ts", (40, 40), 6, (100, 100), 4),
        ("PenDigits", "ts", (7494, 3498), 2, (8, 8), 10),
        ("ECG5000", "tsv", (500, 4500), 1, (140, 140), 5),
        ("GunPoint", "ts", (50, 150), 1, (150, 150), 2),
        ("ItalyPowerDemand", "ts", (67, 1029), 1, (24, 24), 2),
        ("ACSF1", "ts", (100, 100), 1, (1460, 1460), 10),
    ],
)
def test_real_archive(name, suffix, counts, channels, lengths, classes):
    paths = [real("uea-ucr", name, f"{name}_{part}.{suffix}") for part in ("TRAIN", "TEST")]
    train, test = read_pair(*paths)
    assert (len(train), len(test)) == counts
    found = np.concatenate([train.inputs.lengths, test.inputs.lengths])
    assert (found.min(), found.max()) == lengths
    assert train.inputs.values.shape[1] == test.inputs.values.shape[1] == channels
    assert train.labels == test.labels
    assert set(train.targets) == set(range(classes))
    assert np.isfinite(train.inputs.values).all()
