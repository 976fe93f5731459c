import gzip
import io

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.formats.sequences import FileLayout
from autapse.data.formats.table import read_csv, read_npz, read_series
from damage import message
from upstream import ts_arrays, ts_text

CSV = """sequence,step,x,y,target
run 1,0,1,10,walk
run 1,1,2,20,walk
run 2,0,3,30,sit
"""
INPUTS = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
CLASSES = np.array([7, 5, 7, 10])


def csv_file(folder, text: str, name: str = "own.csv"):
    (folder / name).write_text(text)
    return folder / name


def npz_file(folder, **arrays: np.ndarray):
    np.savez(folder / "own.npz", **arrays)
    return folder / "own.npz"


def complaint(reader, path) -> str:
    return message(reader, path).removeprefix(str(path))


# .csv


def test_csv(tmp_path):
    found = read_csv(csv_file(tmp_path, CSV))
    assert found.inputs.values.dtype == np.float32
    assert found.inputs[0].tolist() == [[1, 10], [2, 20]]
    assert found.inputs[1].tolist() == [[3, 30]]
    assert found.labels == ("sit", "walk")
    assert found.targets.dtype == np.int64
    assert found.targets.tolist() == [1, 0]


def test_rows_of_a_sequence_may_lie_apart_and_are_ordered_by_time(tmp_path):
    text = "time,target,x,sequence\n2.5,0,3,a\n0,1,9,b\n-1,0,1,a\n\n0,0,2,a\n"
    found = read_csv(csv_file(tmp_path, text), FileLayout(times="ignore"))
    assert found.inputs[0].tolist() == [[1], [2], [3]]
    assert found.inputs[1].tolist() == [[9]]


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_column_without_a_name_that_counts_the_rows_is_not_a_channel(tmp_path, name, first):
    """As pandas writes a table with its index."""
    header, *rows = CSV.splitlines()
    text = "\n".join([f"{name},{header}", *(f"{first + n},{row}" for n, row in enumerate(rows))])
    found = read_csv(csv_file(tmp_path, text + "\n"))
    assert found.channels == ("x", "y")
    assert found.inputs[0].tolist() == [[1, 10], [2, 20]]
    other = read_csv(csv_file(tmp_path, text.replace(f"\n{first},", f"\n{first + 7},") + "\n"))  # it does not count
    assert other.channels == (name, "x", "y")


def test_a_wide_table_may_count_its_rows(tmp_path):
    found = read_csv(csv_file(tmp_path, ",t1,t2,t3,target\n0,5,6,7,a\n1,8,9,10,b\n"))
    assert [one.tolist() for one in (found.inputs[0], found.inputs[1])] == [[[5], [6], [7]], [[8], [9], [10]]]


def test_without_a_time_column_rows_stay_as_they_are(tmp_path):
    found = read_csv(csv_file(tmp_path, "sequence,x,target\n1,3,0\n1,1,0\n1,2,0\n"))
    assert found.inputs[0].tolist() == [[3], [1], [2]]


def test_quotes_blanks_windows_endings_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes(b'\xef\xbb\xbfsequence, x ,target\r\n1, 2.5 ,"sit, down"\r\n')
    found = read_csv(path)
    assert found.inputs[0].tolist() == [[2.5]]
    assert found.labels == ("sit, down",)


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ('1,"1,234.5",a\n2,"1,234",b', [1234.5, 1234]),
        ('1,"1,234,567",a\n2,-0.5,b', [1234567, -0.5]),
        ("1;1.234,5;a\n2;1.234;b", [1234.5, 1234]),
        ("1;1,234.5;a\n2;1,234;b", [1234.5, 1234]),
        ("1;1'234;a\n2;1 234 567,25;b\n3;0,5;b", [1234, 1234567.25, 0.5]),
    ],
)
def test_marks_between_thousands(tmp_path, rows, values):
    header = "sequence;x;target" if ";" in rows else "sequence,x,target"
    found = read_csv(csv_file(tmp_path, f"{header}\n{rows}\n"))
    assert found.inputs.values[:, 0].tolist() == values


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ('1,"1,234",a', "'1,234' may be 1234 or 1.234. Write thousands without a mark between them."),
        ("1;0,5;a\n2;12.345;b", "'12.345' may be 12345 or 12.345. Write thousands without a mark between them."),
        ("1;0,5;a\n2;12.5;b", "'12.5' is not a finite number. Other numbers in the file have a decimal comma."),
    ],
)
def test_a_mark_that_may_be_a_decimal_point_is_an_error(tmp_path, rows, reason):
    header = "sequence;x;target" if ";" in rows else "sequence,x,target"
    text = complaint(read_csv, csv_file(tmp_path, f"{header}\n{rows}\n"))
    assert text == f", line {1 + len(rows.splitlines())}, column 'x': {reason}"


@pytest.mark.parametrize(
    ("targets", "labels", "values"),
    [
        (["10", "9", "10"], ("9", "10"), [1, 0, 1]),
        (["a", "1.5", "2"], ("1.5", "2", "a"), [2, 0, 1]),
        (["1.0", "2", "3"], (), [1, 2, 3]),
        (["-1.5", "2e3", "0"], (), [-1.5, 2000, 0]),
    ],
)
def test_integers_and_text_are_classes_and_other_numbers_are_not(tmp_path, targets, labels, values):
    rows = "".join(f"{n},0,{target}\n" for n, target in enumerate(targets))
    found = read_csv(csv_file(tmp_path, "sequence,x,target\n" + rows))
    assert found.labels == labels
    assert found.targets.reshape(-1).tolist() == values
    assert found.targets.dtype == (np.int64 if labels else np.float32)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("sequence,", "sequences,", " has no column 'sequence'; its columns are sequences, step, x, y, target. "),
        ("target", "label", " has no column 'target'; its columns are sequence, step, x, y, label."),
        ("x,y", "x,x", ", line 1: column 'x' occurs 2 times."),
        ("x,y", "x,time", " has columns 'time' and 'step'; keep the one that orders the rows."),
        ("2,20", "2,2O", ", line 3, column 'y': '2O' is not a finite number."),
        ("2,20", "2,", ", line 3, column 'y': the cell is empty."),
        ("2,20", "2,nan", ", line 3, column 'y': 'nan' is not a finite number."),
        ("2,20", "2,1e39", ", line 3, column 'y': '1e39' is too large: numbers must be below 3.4e38."),
        ("2,20", "2,-inf", ", line 3, column 'y': '-inf' is not a finite number.\n"),
        ("2,20", "2", ", line 3: it has 4 cells, but the header has 5."),
        ("1,2,20", "late,2,20", ", line 3, column 'step': 'late' is not a finite number."),
        ("1,2,20", "0,2,20", ", line 3, column 'step': 0 is there twice in a sequence."),
        ("20,walk", "20,run", ", line 3, column 'target': 'run' differs from 'walk' on line 2, in the same sequence"),
        ("30,sit", "30,", ", line 4, column 'target': the cell is empty."),
        ("30,sit", "30,NaN", ", line 4, column 'target': 'NaN' is not a finite number."),
        ("30,sit", '30,"sit', ", line 4: unexpected end of data."),
    ],
)
def test_csv_errors_name_line_and_column(tmp_path, old, new, reason):
    assert old in CSV
    assert (complaint(read_csv, csv_file(tmp_path, CSV.replace(old, new, 1))) + "\n").startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", " has no rows below a header."),
        ("sequence,x,target\n", " has no rows below a header."),
        ("sequence,target\n1,2\n", " has no channels: its only columns are sequence, target."),
    ],
)
def test_csv_without_content(tmp_path, text, reason):
    assert complaint(read_csv, csv_file(tmp_path, text)) == reason


def test_csv_that_is_not_text(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes(b"sequence,\xff")
    assert complaint(read_csv, path) == ", byte 9: it is not UTF-8 text. Save it as UTF-8 (in Excel: CSV UTF-8)."


# .npz


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16, np.uint8])
def test_npz(tmp_path, kind):
    found = read_npz(npz_file(tmp_path, inputs=INPUTS.astype(kind), targets=CLASSES))
    assert found.inputs.values.dtype == np.float32
    for n in range(4):
        np.testing.assert_array_equal(found.inputs[n], INPUTS[n])
    assert found.labels == ("5", "7", "10")
    assert found.targets.tolist() == [1, 0, 1, 2]


def test_npz_with_one_channel_and_lengths(tmp_path):
    inputs = INPUTS[..., 0].copy()
    inputs[1, 2] = inputs[3, 1] = inputs[3, 2] = np.nan  # padding may be anything
    found = read_npz(npz_file(tmp_path, inputs=inputs, targets=CLASSES, lengths=np.array([3, 2, 3, 1])))
    assert found.inputs.lengths.tolist() == [3, 2, 3, 1]
    assert found.inputs[1].tolist() == [[6], [8]]
    assert found.inputs[3].tolist() == [[18]]


@pytest.mark.parametrize(
    ("targets", "labels"),
    [
        (np.array(["b", "a", "b", "c"]), ("a", "b", "c")),
        (np.array([b"b", b"a", b"b", b"c"]), ("a", "b", "c")),
        (np.array([True, False, True, True]), ("False", "True")),
    ],
)
def test_npz_with_named_classes(tmp_path, targets, labels):
    found = read_npz(npz_file(tmp_path, inputs=INPUTS, targets=targets))
    assert found.labels == labels
    assert found.targets[:3].tolist() == [1, 0, 1]


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 2)])
def test_npz_with_numbers_to_predict(tmp_path, shape):
    targets = np.random.default_rng(0).standard_normal(shape)
    found = read_npz(npz_file(tmp_path, inputs=INPUTS, targets=targets))
    assert found.labels == ()
    assert found.targets.dtype == np.float32
    np.testing.assert_allclose(found.targets, targets.reshape(4, -1), rtol=1e-6)


def with_nan(array: np.ndarray, *place: int) -> np.ndarray:
    array = array.astype(np.float64)
    array[place] = np.nan
    return array


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"inputs": None}, " has no array 'inputs'; its arrays are targets. It must have inputs and targets."),
        ({"targets": None, "target": CLASSES}, " has no array 'targets'; its arrays are inputs, target. Did you mean"),
        (
            {"inputs": INPUTS[0, 0]},
            ": inputs must be numbers of shape [N, T, channels] or [N, T]; got float32 of shape",
        ),
        ({"inputs": INPUTS.astype(str)}, ": inputs must be numbers"),
        ({"inputs": INPUTS[:, :0]}, ": inputs must be numbers"),
        ({"inputs": with_nan(INPUTS, 2, 1, 0)}, ", inputs[2, 1]: [nan, 15.0] has a value that is not finite."),
        ({"inputs": INPUTS.astype(float) * 1e38}, ", inputs[0, 2]: "),
        ({"targets": CLASSES[:3]}, ": targets must be integers or text of shape [N] = (4,), or floats"),
        ({"targets": CLASSES[:, None]}, ": targets must be integers or text of shape [N] = (4,), or floats"),
        ({"targets": np.zeros(3)}, ": targets must be integers or text of shape [N] = (4,), or floats"),
        ({"targets": with_nan(np.zeros((4, 2)), 3, 1)}, ", targets[3, 1]: nan is not a finite number."),
        ({"targets": np.array([None] * 4)}, " is not a complete .npz file of plain arrays ("),
        ({"lengths": np.array([3, 2, 4, 1])}, ", lengths[2]: 4 is not one of 1 to 3."),
        ({"lengths": np.array([3, 2, 0, 1])}, ", lengths[2]: 0 is not one of 1 to 3."),
        ({"lengths": np.array([3.0, 2, 1, 1])}, ": lengths must be integers of shape [N] = (4,); got float64 of shape"),
    ],
)
def test_npz_errors_name_array_and_place(tmp_path, changes, reason):
    arrays = {"inputs": INPUTS, "targets": CLASSES} | changes
    path = npz_file(tmp_path, **{name: array for name, array in arrays.items() if array is not None})
    assert complaint(read_npz, path).startswith(reason)


def test_an_array_with_another_name_is_an_error(tmp_path):
    path = npz_file(tmp_path, inputs=INPUTS, targets=CLASSES, length=np.array([3, 2, 3, 1]))
    names = "inputs, targets, lengths, channels"
    rule = f"An array's name in {path} must be one of {names}; got 'length'. Did you mean 'lengths'?"
    assert complaint(read_npz, path) == rule


def npz_bytes() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, inputs=INPUTS, targets=CLASSES)
    return file.getvalue()


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_truncated_npz(tmp_path, share):
    path = tmp_path / "own.npz"
    path.write_bytes(npz_bytes()[: int(share * len(npz_bytes()))])
    assert complaint(read_npz, path).startswith(" is not a complete .npz file of plain arrays (")


def test_bytes_changed_at_random_never_escape_as_another_error(tmp_path):
    random, path = np.random.default_rng(0), tmp_path / "own.npz"
    outcomes = set()
    for _ in range(300):
        content = bytearray(npz_bytes())
        content[random.integers(len(content))] ^= int(random.integers(1, 256))
        path.write_bytes(content)
        try:
            outcomes.add(len(read_npz(path)))
        except InputError:
            outcomes.add("error")
    assert outcomes == {4, "error"}  # some bytes, such as the times of the files, do not matter


def test_one_array_alone_is_not_an_npz(tmp_path):
    with (tmp_path / "own.npz").open("wb") as file:
        np.save(file, INPUTS)
    assert complaint(read_npz, tmp_path / "own.npz").startswith(" is not a complete .npz file of plain arrays (")


# Any of them


def test_the_suffix_chooses_the_reader(tmp_path):
    ts, tsv = ts_text(*ts_arrays("TRAIN")), "1\t2\t3\n"
    for name, text, count in (("a.ts", ts, 12), ("a.tsv", tsv, 1), ("a.csv", CSV, 2), ("A.CSV", CSV, 2)):
        assert len(read_series(csv_file(tmp_path, text, name))) == count
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        assert len(read_series(tmp_path / f"{name}.gz")) == count
    assert len(read_series(npz_file(tmp_path, inputs=INPUTS, targets=CLASSES))) == 4


@pytest.mark.parametrize("name", ["own.xlsx", "own", "own.npz.gz", "own.gz"])
def test_another_suffix_is_an_error_that_lists_the_accepted_ones(tmp_path, name):
    with pytest.raises(InputError) as error:
        read_series(tmp_path / name)
    accepted = "end in .ts, .tsv or .csv, optionally followed by .gz, .bz2 or .xz; or in .npz or .parquet"
    assert str(error.value) == f"The file's name must {accepted}; got {str(tmp_path / name)!r}."


@pytest.mark.parametrize("name", ["own.ts", "own.tsv", "own.csv", "own.npz", "own.csv.gz"])
def test_a_missing_file(tmp_path, name):
    assert complaint(read_series, tmp_path / name) == " is missing."
