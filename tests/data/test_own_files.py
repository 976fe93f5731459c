"""Tables as people have them: separators, decimals, dates, names of columns, gaps, wide form, targets per step."""

import csv
import gzip
import io
import os
import sys

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data import kept
from autapse.data.formats import decimals, delimited
from autapse.data.formats.delimited import Delimited
from autapse.data.formats.sequences import SINCE, FileLayout
from autapse.data.formats.table import read_csv, read_npz, read_sequences, read_series
from autapse.data.formats.times import dates
from autapse.data.ragged import Ragged
from damage import message

LONG = "sequence,time,x,y,target\na,0,1.5,10,up\na,1,2.5,20,up\nb,0,3.5,30,down\nb,1,4.5,40,down\n"


def write(path, text):
    path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
    return path


def table(tmp_path, text, name="own.csv"):
    return write(tmp_path / name, text)


# Numbers

ODD = ["1e5", "1E+05", "-.5", "5.", "+3", "-0", "0.1", "1e-7", "123456789012345678", "9007199254740993", "0.1e1"]
ODD += ["3.4028235e38", "1e-45", "0.000000000000000000001234", "12345678.12345678", "1e22", "1e23", "00012.50"]
GAPS = ["", "nan", "NaN", "NA", "n/a", "?", "null", "None", "#N/A"]
WRONG = ["-", "+", ".", "e5", "1e", "1e+", "1.2.3", "--1", "0x10", "abc", "1 2", "1e5.5", "٣x", "12a", "a12", "1,5"]


def cells(texts):
    """The places of cells, as the parser of tables finds them."""
    path = "|".join(texts) + "|"
    text = decimals.buffer(path.encode())
    ends = np.flatnonzero(text == ord("|"))
    starts = np.concatenate([[decimals.PAD], ends[:-1] + 1])

    def first(marks):
        inside = [np.flatnonzero(np.isin(text[s:e], marks)) for s, e in zip(starts, ends, strict=True)]
        return np.array([s + found[0] if len(found) else e for s, e, found in zip(starts, ends, inside, strict=True)])

    return text, starts, first([ord(".")]), first([ord("e"), ord("E")]), ends


def parsed(texts, single=False):
    return decimals.parse(*cells(texts), single)


def test_numbers_are_those_of_python():
    random = np.random.default_rng(0)
    texts = ODD + [
        form % value
        for form in ("%.4f", "%.17g", "%.6g", "%.18e", "%d", "%.12f", "%.3E")
        for value in (random.normal(size=300) * 10.0 ** random.integers(-12, 12, 300)).tolist()
    ]
    values, wrong = parsed(texts)
    assert not len(wrong)
    assert values.tolist() == [float(text) for text in texts]
    single = parsed(texts, single=True).values.astype(np.float32)
    assert single.tolist() == [float(np.float32(float(text))) for text in texts]


def test_gaps_and_texts_that_are_not_numbers():
    values, wrong = parsed(GAPS)
    assert np.isnan(values).all()
    assert not len(wrong)
    assert parsed([*WRONG, "1"]).wrong.tolist() == list(range(len(WRONG)))


# Columns of text


def reference(text, delimiter):
    return [
        [cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row
    ]


@pytest.mark.parametrize("seed", range(6))
def test_cells_are_those_of_pythons_csv(tmp_path, monkeypatch, seed):
    """Random tables with quotes, blanks, empty lines and line breaks in cells, in pieces of a few rows."""
    monkeypatch.setattr(delimited, "PIECE", 200)
    random = np.random.default_rng(seed)
    words = [
        "a",
        "bc",
        "with, comma",
        'quote " inside',
        "two\nlines",
        "größer",
        "x" * 70,
        "12",
        "semi;colon",
        "tab\tin",
    ]
    rows = [[str(random.choice(words)) for _ in range(3)] + [f"{random.normal():.3f}"] for _ in range(200)]
    delimiter = ",;\t"[seed % 3]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n" if seed % 2 else "\n")
    writer.writerow(["p", "q", "r", "value"])
    for row in rows:
        writer.writerow(row)
        if random.random() < 0.1:
            buffer.write("\r\n" if seed % 2 else "\n")
    path = table(tmp_path, buffer.getvalue().encode())
    opened = Delimited.open(path)
    columns, values = opened.read({"p": "texts", "q": "texts", "r": "texts"}, ["value"])
    for n, name in enumerate("pqr"):
        assert [columns[name].names[code] for code in columns[name].codes] == [row[n] for row in rows]
    np.testing.assert_array_equal(values[:, 0], np.array([float(row[3]) for row in rows], dtype=np.float32))
    number = next(n for n, row in enumerate(rows) if n > 50)
    before = reference(buffer.getvalue(), delimiter)[: number + 1]
    assert before[number][3] == rows[number - 1][3]
    assert opened.line(number) > number  # lines are counted with the header, and with line breaks in cells


@pytest.mark.parametrize(
    "text",
    [
        LONG.replace(",", ";"),
        LONG.replace(",", "\t"),
        LONG.replace(",", ";").replace(".", ","),
        LONG.replace(",", "\t").replace(".", ","),
        LONG.replace("\n", "\r\n"),
        LONG.replace("\n", "\r"),
        "\n\n" + LONG.replace("\n", "\n\n"),
        LONG.rstrip("\n"),
        LONG.replace("a,", '"a",').replace("1.5", '"1.5"').replace("up", ' "up" '),
        LONG.replace(",", " , "),
        "\ufeff" + LONG,
        LONG.replace("time", "step"),
        LONG.replace("\na,0,", "\na,2024-05-01,")
        .replace("\na,1,", "\na,2024-05-02,")
        .replace("\nb,0,", "\nb,2024-05-07,")
        .replace("\nb,1,", "\nb,2024-05-08,"),
    ],
)
def test_the_same_table_in_other_dress(tmp_path, text):
    found, plain = read_csv(table(tmp_path, text)), read_csv(table(tmp_path, LONG, "plain.csv"))
    np.testing.assert_array_equal(found.inputs.values, plain.inputs.values)
    assert found.inputs.lengths.tolist() == [2, 2]
    assert (found.channels, found.labels, found.targets.tolist()) == (("x", "y"), ("down", "up"), [1, 0])


def test_a_number_has_one_decimal_comma(tmp_path):
    cell = "1,2,3"
    path = table(tmp_path, f"sequence;x;target\na;1,5;v1.5\na;{cell};v1.5\n")
    assert message(read_csv, path) == f"{path}, line 3, column 'x': {cell!r} is not a finite number."
    path.write_text(path.read_text().replace(cell, "2e-1"))
    found = read_csv(path)
    assert (found.inputs.values[:, 0].tolist(), found.labels) == ([1.5, np.float32(0.2)], ("v1.5",))


def test_a_tab_separated_table_with_a_header_is_not_taken_for_a_file_of_the_archive(tmp_path):
    found = read_series(table(tmp_path, LONG.replace(",", "\t"), "own.tsv"))
    assert found.channels == ("x", "y")
    assert read_sequences(table(tmp_path, LONG.replace(",", "\t"), "own.tsv")).channels == ("x", "y")


def test_other_columns_by_name(tmp_path):
    text = "device;when;u;v;note;a;b\n1;0;1;2;hi;0.5;7\n1;1;3;4;ho;0.5;7\n2;0;5;6;hi;1.5;8\n2;1;7;8;ho;1.5;8\n"
    layout = FileLayout(sequence="device", time="when", targets=("b", "a"), channels=("v", "u"))
    found = read_csv(table(tmp_path, text), layout)
    assert found.inputs[0].tolist() == [[2, 1], [4, 3]]
    assert found.channels == ("v", "u")
    assert found.targets.tolist() == [[7, 0.5], [8, 1.5]]


def test_channels_are_matched_by_name(tmp_path):
    known = read_csv(table(tmp_path, LONG))
    layout = FileLayout().fitted(known.channels, known.time_step)
    swapped = "y,extra,sequence,x\n10,9,a,1.5\n20,9,a,2.5\n30,9,b,3.5\n40,9,b,4.5\n"
    found = read_sequences(table(tmp_path, swapped, "swapped.csv"), layout)
    np.testing.assert_array_equal(found.inputs.values, known.inputs.values)
    assert found.names == ("a", "b")
    lacking = table(tmp_path, swapped.replace("x", "z"), "lacking.csv")
    assert message(read_sequences, lacking, layout).startswith(f"{lacking} has no column 'x'; its columns are y, ")
    alone = read_sequences(table(tmp_path, "y,x\n10,1.5\n20,2.5\n", "alone.csv"), layout)
    np.testing.assert_array_equal(alone.inputs[0], known.inputs[0])
    bare = read_sequences(table(tmp_path, "1.5,10\n2.5,20\n", "bare.csv"), layout)
    np.testing.assert_array_equal(bare.inputs[0], known.inputs[0])


def test_arrays_may_have_names_of_channels(tmp_path):
    inputs = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "a.npz", inputs=inputs, targets=np.arange(4), channels=np.array(["u", "v"]))
    assert read_npz(tmp_path / "a.npz").channels == ("u", "v")
    found = read_npz(tmp_path / "a.npz", FileLayout(channels=("v", "u")))
    np.testing.assert_array_equal(found.inputs.values, inputs.reshape(-1, 2)[:, ::-1])
    said = message(read_npz, tmp_path / "a.npz", FileLayout(channels=("v", "w")))
    assert said == f"{tmp_path / 'a.npz'} has no channel 'w'; its channels are u, v."


# Gaps


@pytest.mark.parametrize("gap", GAPS)
def test_missing_values_are_kept_if_they_are_allowed(tmp_path, gap):
    path = table(tmp_path, LONG.replace("2.5", gap))
    found = read_csv(path, FileLayout(missing=True))
    assert np.argwhere(np.isnan(found.inputs.values)).tolist() == [[1, 0]]
    said = message(read_csv, path)
    assert said.startswith(f"{path}, line 3, column 'x': ")
    assert said.endswith('To allow missing values, choose missing="mask" (--missing mask), forward or mean.')


@pytest.mark.parametrize("value", ["inf", "-inf", "high"])
def test_a_value_that_is_not_a_number_is_never_a_gap(tmp_path, value):
    path = table(tmp_path, LONG.replace("2.5", value))
    reason = message(read_csv, path, FileLayout(missing=True))
    assert reason.startswith(f"{path}, line 3, column 'x': {value!r} is not a finite number.")


@pytest.mark.parametrize("value", ["1e39", "-2.5E+298", "9" * 40])
def test_a_value_that_is_too_large_is_never_a_gap(tmp_path, value):
    path = table(tmp_path, LONG.replace("2.5", value))
    reason = message(read_csv, path, FileLayout(missing=True))
    assert reason == f"{path}, line 3, column 'x': {value!r} is too large: numbers must be below 3.4e38."


def test_missing_values_of_arrays(tmp_path):
    inputs = np.ones((3, 4, 2))
    inputs[1, 2, 0] = np.nan
    np.savez(tmp_path / "a.npz", inputs=inputs, targets=np.arange(3))
    np.testing.assert_array_equal(read_npz(tmp_path / "a.npz", FileLayout(missing=True)).inputs[1], inputs[1])
    assert "--missing mask" in message(read_npz, tmp_path / "a.npz")


# Times


def test_dates_are_seconds():
    truth = [np.datetime64(text).astype("datetime64[s]").astype(float) for text in ("2024-03-09T08:05", "2024-12-31")]
    for texts in (
        ["2024-03-09T08:05", "2024-12-31T00:00"],
        ["2024-03-09 08:05:00.000", "2024-12-31 00:00:00.000"],
        ["2024-3-9 8:05", "2024-12-31"],
        ["09.03.2024 08:05", "31.12.2024"],
        ["9/3/2024 08:05", "31/12/2024 0:00"],
        ["3/9/2024 8:05 AM", "12/31/2024 12:00 AM"],
        ["2024-03-09T09:05:00+01:00", "2024-12-31T00:00:00Z"],
    ):
        assert dates(texts).tolist() == truth, texts
    assert dates(["00:00:30", "1:02:03.5"]).tolist() == [30, 3723.5]


@pytest.mark.parametrize("time", ["yesterday", "2024-13-01", "2024-02-30 10:00", "1.2.3", "4/5/2024"])
def test_texts_that_are_not_times(tmp_path, time):
    rows = "".join(f"a,{text},1,0\n" for text in ("2024-05-04" if "/" not in time else "5/5/2024", time))
    path = table(tmp_path, "sequence,time,x,target\n" + rows)
    said = message(read_csv, path)
    assert said.startswith(f"{path}, line ")
    assert "column 'time': " in said


UNEVEN = "sequence,time,x,target\n" + "".join(
    f"{name},{time},{10 * time},{name}\n" for name, times in (("a", (0, 1, 3, 4)), ("b", (5, 6))) for time in times
)


def test_irregular_times_become_an_input(tmp_path):
    found = read_csv(table(tmp_path, UNEVEN))
    assert found.channels == ("x", SINCE)
    assert found.inputs[0].tolist() == [[0, 0], [10, 1], [30, 2], [40, 1]]
    assert found.inputs[1].tolist() == [[50, 0], [60, 1]]
    even = table(tmp_path, "sequence,time,x\nc,0,1\nc,1,2\n", "even.csv")
    other = read_sequences(even, FileLayout().fitted(found.channels, 0))
    assert other.inputs[0].tolist() == [[1, 0], [2, 1]]  # as in training, though these times are regular


@pytest.mark.parametrize(
    "dates",
    [
        [f"2024-{month:02}-01" for month in range(1, 13)],
        ["2023-12-31", "2024-03-31", "2024-06-30", "2024-09-30"],
        ["2022-01-01", "2023-01-01", "2024-01-01", "2025-01-01"],
    ],
    ids=["months", "quarters", "years"],
)
def test_months_quarters_and_years_are_regular(tmp_path, dates):
    rows = "".join(f"{name},{date},{n},{name}\n" for name in "ab" for n, date in enumerate(dates))
    assert read_csv(table(tmp_path, "sequence,time,x,target\n" + rows)).channels == ("x",)
    assert read_csv(table(tmp_path, "sequence,time,x,target\n" + rows + "a,2031-05-05,9,a\n")).channels == ("x", SINCE)


def test_times_resampled_or_ignored(tmp_path):
    path = table(tmp_path, UNEVEN)
    resampled = read_csv(path, FileLayout(times="resample"))
    assert resampled.time_step == 1
    assert resampled.inputs[0].tolist() == [[0], [10], [20], [30], [40]]
    ignored = read_csv(path, FileLayout(times="ignore"))
    assert (ignored.channels, ignored.inputs[0].tolist()) == (("x",), [[0], [10], [30], [40]])
    coarse = read_sequences(path, FileLayout().fitted(("x",), 2.0))
    assert coarse.inputs[0].tolist() == [[0], [20], [40]]


def test_resampled_targets_per_step(tmp_path):
    rows = "".join(f"{name},{t},{t},{'up' if t > 2 else 'down'}\n" for name in "ab" for t in (0, 1, 3, 4))
    found = read_csv(table(tmp_path, "sequence,time,x,target\n" + rows), FileLayout(times="resample"))
    assert [found.labels[n] for n in found.targets[0]] == ["down", "down", "up", "up", "up"]


def test_refusals_of_times(tmp_path):
    plain = table(tmp_path, "sequence,x,target\n1,1,0\n")
    said = message(read_csv, plain, FileLayout(times="resample"))
    rule = "times must be auto or ignore for a file without a column of times"
    assert said == f"{rule}; got 'resample'. Name the column with --time-column."
    wide = table(tmp_path, "sequence,time,x,target\n" + "".join(f"1,{t},1,0\n" for t in (0, 1, 2, 1e9)), "far.csv")
    assert "at most 20 times as many steps" in message(read_csv, wide, FileLayout(times="resample"))
    twice = table(tmp_path, "sequence,time,x,target\n1,2024-01-01,1,0\n1,2024-01-01,1,0\n", "twice.csv")
    assert message(read_csv, twice) == f"{twice}, line 3, column 'time': the time is there twice."


# Wide form


@pytest.mark.parametrize(
    ("header", "channels"),
    [
        ("name,t0,t1,t2,target", ("t",)),
        ("name,0,1,2,target", ()),
        ("name,x_1,x_2,x_3,target", ("x",)),
    ],
)
def test_one_series_per_row(tmp_path, header, channels):
    path = table(tmp_path, f"{header}\nr1,1,2,3,a\nr2,4,5,,b\nr3,6,,,a\n")
    found = read_series(path, FileLayout(sequence="name"))
    assert [found.inputs[n].tolist() for n in range(3)] == [[[1], [2], [3]], [[4], [5]], [[6]]]
    assert (found.labels, found.targets.tolist(), found.channels) == (("a", "b"), [0, 1, 0], channels)
    asked = read_sequences(path, FileLayout(sequence="name"))
    assert asked.names == ("r1", "r2", "r3")
    assert asked.targets == ["a", "b", "a"]


def test_several_channels_per_row(tmp_path):
    path = table(tmp_path, "x1,x2,y1,y2,target\n1,2,3,4,0.5\n5,6,7,8,1.5\n")
    found = read_series(path)
    assert found.channels == ("x", "y")
    assert found.inputs[0].tolist() == [[1, 3], [2, 4]]
    assert found.targets.tolist() == [[0.5], [1.5]]


def test_numbered_channels_of_the_long_form_stay_channels(tmp_path):
    rows = "".join(f"{n // 3},{n},{n},{n},c{n // 3}\n" for n in range(12))
    found = read_series(table(tmp_path, "sequence,x1,x2,x3,target\n" + rows))
    assert found.channels == ("x1", "x2", "x3")
    assert found.inputs.lengths.tolist() == [3] * 4


def test_the_wide_form_of_other_names_by_option(tmp_path):
    path = table(tmp_path, "monday,tuesday,target\n1,2,a\n3,4,b\n")
    assert read_series(path, FileLayout(form="wide")).inputs[1].tolist() == [[3], [4]]
    said = message(read_series, path)
    there = "its columns are monday, tuesday, target"
    remedy = "Name it with --sequence-column, or add --form wide if each row is a series."
    assert said == f"{path} has no column 'sequence'; {there}. {remedy}"
    path.write_text("when,x\n1,2\n")
    assert "To forecast a series, add --forecast STEPS." in message(read_series, path)


def test_refusals_of_the_wide_form(tmp_path):
    gap = table(tmp_path, "t0,t1,t2,target\n1,,3,a\n4,5,6,b\n")
    reason = 'the value is missing. To allow missing values, choose missing="mask" (--missing mask), forward or mean.'
    assert message(read_series, gap) == f"{gap}, line 2, column 't1': {reason}"
    assert np.isnan(read_series(gap, FileLayout(missing=True)).inputs[0][1, 0])
    empty = table(tmp_path, "t0,t1,t2,target\n1,2,3,a\n,,,b\n", "empty.csv")
    assert message(read_series, empty) == f"{empty}, line 3, column 't0': the row has no values."


# Targets per step


def test_a_class_per_step(tmp_path):
    rows = "".join(f"{name},{t},{'up' if t % 2 else 'down'}\n" for name in "ab" for t in range(3))
    found = read_csv(table(tmp_path, "sequence,x,target\n" + rows))
    assert isinstance(found.targets, Ragged)
    assert [found.labels[n] for n in found.targets[1]] == ["down", "up", "down"]


def test_values_per_step(tmp_path):
    rows = "".join(f"{name},{t},{t + 0.5},{-t}\n" for name in "ab" for t in range(3))
    path = table(tmp_path, "sequence,x,p,q\n" + rows)
    found = read_csv(path, FileLayout(targets=("p", "q")))
    assert found.targets[0].tolist() == [[0.5, 0], [1.5, -1], [2.5, -2]]
    assert found.targets[0].dtype == np.float32


def test_a_target_that_changes_in_some_series_is_an_error_that_names_the_option(tmp_path):
    text = "sequence,x,target\na,1,u\na,2,v\nb,1,u\nb,2,u\n"
    path = table(tmp_path, text)
    reason = "'v' differs from 'u' on line 2, in the same sequence 'a'. If every step has a target, add --targets step."
    assert message(read_csv, path) == f"{path}, line 3, column 'target': {reason}"
    found = read_csv(path, FileLayout(per="step"))
    assert [found.labels[n] for n in found.targets.values] == ["u", "v", "u", "u"]


INPUTS = np.arange(24.0).reshape(4, 3, 2)


@pytest.mark.parametrize(
    ("targets", "per", "shape"),
    [
        (np.arange(12).reshape(4, 3) % 2, "auto", (12,)),
        (np.array([list("aba")] * 4), "auto", (12,)),
        (np.ones((4, 3, 2)), "auto", (12, 2)),
        (np.ones((4, 3)), "step", (12, 1)),
        (np.ones((4, 3)), "series", (4, 3)),
        (np.ones((4, 2)), "auto", (4, 2)),
    ],
)
def test_targets_per_step_of_arrays(tmp_path, targets, per, shape):
    np.savez(tmp_path / "a.npz", inputs=INPUTS, targets=targets)
    found = read_npz(tmp_path / "a.npz", FileLayout(per=per)).targets
    assert isinstance(found, Ragged) == (shape[0] == 12)
    assert (found.values if isinstance(found, Ragged) else found).shape == shape


def test_steps_after_the_length_have_no_targets(tmp_path):
    targets = np.where(np.arange(3) < 2, 1.0, np.nan) * np.ones((4, 3))
    np.savez(tmp_path / "a.npz", inputs=INPUTS, targets=targets, lengths=np.array([2, 1, 2, 2]))
    assert read_npz(tmp_path / "a.npz", FileLayout(per="step")).targets.lengths.tolist() == [2, 1, 2, 2]


def test_values_whose_shape_does_not_tell_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=INPUTS, targets=np.ones((4, 3)))
    meant = "one value for each of the 3 steps, or 3 values for each series"
    remedy = "Choose --targets step or --targets series."
    assert message(read_npz, path) == f"{path}: targets of shape (4, 3) may be {meant}. {remedy}"
    np.savez(path, inputs=INPUTS, targets=np.ones((4, 2)))
    assert "have shape [N, T] = (4, 3), for --targets step" in message(read_npz, path, FileLayout(per="step"))


# Refusals


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (FileLayout(sequence="device"), "{path} has no column 'device'; its columns are sequence, time, x, y, target."),
        (FileLayout(time="tim"), "{path} has no column 'tim'; its columns are {all}. Did you mean 'time'?"),
        (FileLayout(targets=("y", "label")), "{path} has no column 'label'; its columns are {all}."),
        (FileLayout(channels=("x", "z")), "{path} has no column 'z'; its columns are {all}."),
        (FileLayout(channels=("x", "time"), time="time"), "channels must not have the column of sequences, times or"),
        (FileLayout(targets=("target", "y")), "{path}, line 2, column 'target': 'up' is not a finite number."),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path, layout, said):
    path = table(tmp_path, LONG)
    assert message(read_csv, path, layout).startswith(said.format(path=path, all="sequence, time, x, y, target"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            'sequence,x,target\n1,2,a"b"\n',
            ", line 2, column 'target': a cell with a quote must begin and end with a quote",
        ),
        ('sequence,x,target\n1,2,"a"b\n', ", line 2, column 'target': a cell with a quote must begin and end with"),
        ("sequence,x,target\n1,2,a\0b\n", ", line 2: it is not text: it has a zero byte."),
        ("sequence,x,target\n\r\n\x0b\r\n", " has no rows below a header."),
        ("sequence,x,target\n1,2,a\n1,2\n", ", line 3: it has 2 cells, but the header has 3."),
        ('sequence,x,target\n1,2,"a\n1,2,b\n', ", line 2: unexpected end of data."),
        ("sequence;x;target\n1;1,5;a\n1;x;a\n", ", line 3, column 'x': 'x' is not a finite number. To use only some"),
    ],
)
def test_damaged_tables(tmp_path, text, reason):
    path = table(tmp_path, text)
    assert message(read_csv, path).removeprefix(str(path)).startswith(reason)


# The cache


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Every file is cached; the list counts how often one is parsed."""
    monkeypatch.setenv("AUTAPSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "SMALLEST", 0)
    calls = []
    monkeypatch.setattr(kept, "read_series", lambda *given: calls.append(given) or read_series(*given))
    return calls


def same(one, other):
    assert (one.labels, one.channels, one.time_step) == (other.labels, other.channels, other.time_step)
    np.testing.assert_array_equal(one.inputs.values, other.inputs.values)
    np.testing.assert_array_equal(one.inputs.lengths, other.inputs.lengths)
    assert type(one.targets) is type(other.targets)


def test_a_file_is_parsed_once_and_again_after_any_change(tmp_path, counted):
    data = tmp_path / "data"
    data.mkdir()
    path, layout = table(data, LONG), FileLayout()
    first = kept.read_kept(path, layout)
    same(first, kept.read_kept(path, layout))
    assert len(counted) == 1
    times = path.stat()
    table(data, LONG.replace("1.5", "1.6"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the same size and the same time
    assert kept.read_kept(path, layout).inputs.values[0, 0] == np.float32(1.6)
    kept.read_kept(path, FileLayout(channels=("y",)))
    assert len(counted) == 3
    assert sorted(data.iterdir()) == [path]  # nothing is written beside the file


def test_targets_per_step_and_odd_names_survive_the_cache(tmp_path, counted):
    rows = "".join(f'{name},{t},"u\\n{t}\n"\n' for name in "ab" for t in range(3))
    path = table(tmp_path, 'sequence,"größe \t","tar\nget"\n' + rows)
    layout = FileLayout(targets=("tar\nget",))
    first, second = kept.read_kept(path, layout), kept.read_kept(path, layout)
    same(first, second)
    assert len(counted) == 1
    np.testing.assert_array_equal(first.targets.values, second.targets.values)


def test_only_the_last_files_are_kept(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 2)
    for n in range(4):
        kept.read_kept(table(tmp_path, LONG, f"f{n}.csv"), FileLayout())
    assert len(list((tmp_path / "cache" / "own").iterdir())) == 2


# .parquet


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path / "own.parquet", b"PAR1")
    with pytest.raises(InputError, match=r"needs pyarrow: pip install pyarrow, or write the table as \.csv"):
        read_series(path)


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "sequence": ["a", "a", "b", "b"],
        "time": np.array(["2024-01-01", "2024-01-02", "2024-01-01", "2024-01-02"], dtype="datetime64[s]"),
        "x": [1.5, None, 3.5, 4.5],
        "y": [10, 20, 30, 40],
        "target": ["up", "up", "down", "down"],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "own.parquet")
    found = read_series(tmp_path / "own.parquet", FileLayout(missing=True))
    expected = read_csv(table(tmp_path, LONG.replace("2.5", "")), FileLayout(missing=True))
    same(found, expected)
    assert found.targets.tolist() == expected.targets.tolist()
    said = message(read_series, tmp_path / "own.parquet")
    assert said.startswith(f"{tmp_path / 'own.parquet'}, row 2, column 'x': the value is missing.")
    content = (tmp_path / "own.parquet").read_bytes()
    cut = write(tmp_path / "cut.parquet", content[: len(content) // 2])
    assert "is not a complete .parquet file" in message(read_series, cut)


def test_a_piece_of_empty_lines_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "PIECE", 20)
    found = read_csv(table(tmp_path, LONG.replace("b,0", "\n" * 50 + "b,0")))
    assert found.inputs.lengths.tolist() == [2, 2]


def test_a_compressed_table(tmp_path):
    path = write(tmp_path / "own.csv.gz", gzip.compress(LONG.encode()))
    assert read_series(path).channels == ("x", "y")
