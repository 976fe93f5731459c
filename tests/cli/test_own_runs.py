"""From people's own files to a model and its predictions, by the command line."""

import json
import re
import wave

import numpy as np
import pytest

from autapse.tasks import OwnSeries
from autapse.training import RunConfig
from command_line import mistake, said

TINY = "--cell gru --hidden-size 6 --steps 40 --eval-every 20 --batch-size 16 --learning-rate 0.03".split()
SHORT = "--cell gru --hidden-size 4 --steps 2 --eval-every 1 --batch-size 8".split()


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTAPSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, columns, first, count, change=None):
    """Series whose class is the sign of channel a; channel b is large noise."""
    random = np.random.default_rng(first)
    rows = []
    for n in range(first, first + count):
        for step in range(8):
            row = {"sequence": f"s{n}", "time": step, "a": random.normal(2.0 * (n % 2) - 1.0, 0.5)}
            row |= {"b": random.normal(0, 1000), "target": ("down", "up")[n % 2], "extra": 7, "level": 3 * row["a"] + 1}
            rows.append(",".join(str(row[name]) for name in columns))
    text = "\n".join([",".join(columns), *rows]) + "\n"
    path.write_text(change(text) if change else text)


def test_channels_have_names_from_training_to_prediction(place, capsys):
    write(place / "d_TRAIN.csv", ["sequence", "time", "a", "b", "target"], 0, 60)
    write(place / "d_TEST.csv", ["b", "extra", "target", "a", "time", "sequence"], 60, 40)
    said(capsys, "run", "d_TRAIN.csv", *TINY, "--out", "run")
    summary = json.loads((place / "run" / "summary.json").read_text())
    assert summary["test"] < 0.15  # swapped, the noise would be read as the signal
    write(place / "asked.csv", ["extra", "b", "a", "sequence"], 200, 6)
    lines = [line.split("\t") for line in said(capsys, "predict", "run", "asked.csv").splitlines()]
    assert [line[0] for line in lines if line[0].startswith("s2")] == [f"s{n}" for n in range(200, 206)]
    classes = [line[1] for line in lines if line[0].startswith("s2")]
    assert sum(one == ("down", "up")[n % 2] for n, one in enumerate(classes)) >= 5
    write(place / "lacking.csv", ["b", "extra", "sequence"], 200, 2)
    text = mistake(capsys, "predict", "run", "lacking.csv")
    assert "lacking.csv has no column 'a'; its columns are b, extra, sequence." in text
    write(place / "d_TEST.csv", ["b", "target", "sequence", "time"], 60, 4)
    assert "d_TEST.csv has no column 'a'" in mistake(capsys, "run", "d_TRAIN.csv", *TINY)


def test_values_per_step_are_learned(place, capsys):
    write(place / "d.csv", ["sequence", "a", "level"], 0, 40)
    said(capsys, "run", "d.csv", "--target-column", "level", *TINY, "--steps", "150", "--out", "run")
    summary = json.loads((place / "run" / "summary.json").read_text())
    assert summary["metric"] == "mean squared error"
    assert summary["test"] < 0.2 * summary["baseline"]


def test_targets_of_different_units_are_learned_and_named(place, capsys):
    """In the unit of `far`, the errors of `near` are too small to matter."""
    draw = np.random.default_rng(0)
    rows = [f"{n},{x},{0.001 * x},{1e4 * draw.normal()}" for n in range(40) for x in [draw.normal()]]
    (place / "d.csv").write_text("sequence,x,near,far\n" + "\n".join(rows) + "\n")
    said(capsys, "run", "d.csv", "--target-column", "near", "far", *TINY, "--steps", "150", "--out", "run")
    near, far = json.loads((place / "run" / "summary.json").read_text())["targets"]
    assert (near["target"], far["target"]) == ("near", "far")
    assert near["r2"] > 0.8
    assert said(capsys, "predict", "run", "d.csv").splitlines()[0].split() == ["sequence", "near", "far"]


def test_classes_per_step(place, capsys):
    rows = [f"{n},{(-1) ** t * (t + 1)},{'odd' if t % 2 else 'even'}" for n in range(12) for t in range(3 + n % 3)]
    (place / "d.csv").write_text("sequence,x,target\n" + "\n".join(rows) + "\n")
    said(capsys, "run", "d.csv", *SHORT, "--out", "run")
    (place / "asked.csv").write_text("sequence,x\nq,1\nq,-2\n")
    lines = said(capsys, "predict", "run", "asked.csv")
    assert len(re.findall("odd|even", lines)) == 2


def test_missing_values_by_option(place, capsys):
    write(place / "d.csv", ["sequence", "a", "target"], 0, 12, lambda text: re.sub(r"s3,[^,]*", "s3,", text, count=1))
    text = mistake(capsys, "run", "d.csv", *SHORT)
    assert re.search(
        r"d\.csv, line \d+, column 'a': the cell is empty\. To allow missing values, choose missing=", text
    )
    assert 'choose missing="mask" (--missing mask)' in text
    said(capsys, "run", "d.csv", "--missing", "mask", *SHORT, "--out", "run")
    (place / "asked.csv").write_text("sequence,a\nq,\nq,2\n")
    said(capsys, "predict", "run", "asked.csv")
    write(place / "whole.csv", ["sequence", "a", "target"], 0, 12)
    said(capsys, "run", "whole.csv", *SHORT, "--out", "other")
    assert "the cell is empty" in mistake(capsys, "predict", "other", "asked.csv")


def test_irregular_times_are_said_and_used(place, capsys):
    rows = [f"{n},{t * t},{t},{'ab'[n % 2]}" for n in range(12) for t in range(4)]
    (place / "d.csv").write_text("sequence,time,x,target\n" + "\n".join(rows) + "\n")
    with pytest.warns(UserWarning, match="has irregular times. A further input is the time since the step before"):
        said(capsys, "run", "d.csv", *SHORT, "--out", "run")
    (place / "asked.csv").write_text("sequence,x,time\nq,1,5\nq,2,6\n")
    said(capsys, "predict", "run", "asked.csv")
    (place / "timeless.csv").write_text("sequence,x\nq,1\nq,2\n")
    assert "Name the column with --time-column" in mistake(capsys, "predict", "run", "timeless.csv")
    said(capsys, "run", "d.csv", "--times", "resample", *SHORT, "--out", "resampled")
    said(capsys, "predict", "resampled", "asked.csv")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--targets step series", "targets must not have both series and step"),
        ("--targets classes numbers", "targets must not have both classes and numbers"),
        ("--sequence-column device", "has no column 'device'; its columns are sequence, a, target."),
        ("--target-column label", "has no column 'label'"),
        ("--channels a z", "has no column 'z'"),
        ("--times input", "times must be auto or ignore for a file without a column of times; got 'input'."),
        ("--times often", "invalid choice"),
        ("--form tall", "invalid choice"),
    ],
)
def test_options_that_do_not_fit(place, capsys, options, expected):
    write(place / "d.csv", ["sequence", "a", "target"], 0, 6)
    assert expected in mistake(capsys, "run", "d.csv", *SHORT, *options.split())


def test_too_few_series_for_the_splits(place, capsys):
    write(place / "d.csv", ["sequence", "a", "target"], 0, 2)
    path = place / "d.csv"
    rule = "have at least three series, for training, validation and test"
    assert f"{path} must {rule}; got 2." in mistake(capsys, "run", "d.csv", *SHORT)
    assert "have at least two" not in mistake(capsys, "run", "d.csv", *SHORT)
    task = OwnSeries(path=str(path), test_share=0, validation=0)
    assert [len(task.split(split, 0)) for split in ("train", "validation", "test")] == [2, 0, 0]


def test_a_final_model_learns_from_all_series(place, capsys):
    write(place / "d.csv", ["sequence", "a", "target"], 0, 12)
    said(capsys, "run", "d.csv", "--test-share", "0", "--validation", "0", *SHORT, "--out", "run")
    assert "was trained without a test set: its task has test_share = 0." in mistake(capsys, "eval", "run")
    said(capsys, "predict", "run", "d.csv")


def test_options_of_older_runs():
    """Runs of older versions had one word for the targets, and did not use irregular times."""
    content = RunConfig(task=OwnSeries(path="d.csv", targets="numbers")).to_json()
    content["task"]["targets"] = "numbers"
    for name in ("times", "form", "channels", "sequence_column", "time_column", "target_column"):
        del content["task"][name]
    task = RunConfig.from_json(content).task
    assert (task.targets, task.times, task.channels) == (("numbers",), "ignore", ())


# Sounds


def sound(path, frequency, rate=8000, channels=1):
    """A tone of a fifth of a second, with a little noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    time = np.arange(rate // 5) / rate
    noise = np.random.default_rng(int(frequency)).normal(0, 0.01, len(time))
    samples = (20_000 * (np.sin(2 * np.pi * frequency * time) + noise)).clip(-32768, 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat(samples, channels).tobytes())


def tones(folder, names=True):
    for n in range(16):
        kind = ("low", "high")[n % 2]
        sound(folder / (kind if names else "") / f"{n}.wav", (300, 2000)[n % 2] + 10 * n, (8000, 16000)[n % 3 == 0])


def test_a_folder_of_sounds(place, capsys):
    tones(place / "sounds")
    said(capsys, "run", "sounds", *TINY, "--out", "run")
    summary = json.loads((place / "run" / "summary.json").read_text())
    assert summary["test"] == 0
    sound(place / "asked" / "q.wav", 2100, 44_100, channels=2)
    assert "q.wav\thigh" in said(capsys, "predict", "run", "asked")
    assert "q.wav\thigh" in said(capsys, "predict", "run", "asked/q.wav")


def test_a_table_of_sounds(place, capsys):
    tones(place, names=False)
    rows = [f"{n}.wav,{'low' if n % 2 == 0 else 'high'}" for n in range(16)]
    (place / "list.csv").write_text("file,label\n" + "\n".join(rows) + "\n")
    said(capsys, "run", "list.csv", *SHORT, "--out", "run")
    (place / "list.csv").write_text("file,label\nmissing.wav,low\n")
    assert f"list.csv, line 2, column 'file': '{place}/missing.wav' is missing." in mistake(
        capsys, "run", "list.csv", *SHORT
    )


def test_refusals_of_sounds(place, capsys):
    (place / "sounds" / "a").mkdir(parents=True)
    assert "must have a folder for each class, with .wav files" in mistake(capsys, "run", "sounds", *SHORT)
    (place / "sounds" / "a" / "x.wav").write_bytes(b"RIFF nonsense")
    assert "x.wav is damaged at byte 0" in mistake(capsys, "run", "sounds", *SHORT)
    (place / "list.csv").write_text("file\nx.wav\n")
    assert "has no column 'target' and no column 'label'" in mistake(capsys, "run", "list.csv", *SHORT)
