"""Runs on sets of the time series archive and on files of one's own, by the command line."""

import json

import numpy as np
import pytest

from autapse.cli.main import main
from autapse.tasks import series
from autapse.tasks.series import Archive
from command_line import mistake, said
from upstream import ts_arrays, ts_text, write_files, write_ts, write_zip

TINY = "--hidden-size 4 --steps 4 --eval-every 2 --batch-size 4".split()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty data root and a folder to work in."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("AUTAPSE_DATA", str(folder))
    monkeypatch.setenv("AUTAPSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AUTAPSE_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    return folder


def zipped(data, name, prefix=""):
    files = {f"{prefix}{name}_{part}.ts": ts_text(*ts_arrays(part), name).encode() for part in ("TRAIN", "TEST")}
    return write_zip(data / "uea-ucr" / name / f"{name}.zip", files)


def test_a_listed_set_by_its_name_alone(capsys, data):
    write_ts(data, "GunPoint")
    text = said(capsys, "run", "GunPoint", *TINY, "--out", "run")
    assert "test error rate" in text
    config = json.loads((data.parent / "run" / "config.json").read_text())
    assert config["task"]["name"] == "uea"
    assert config["task"]["dataset"] == "GunPoint"


@pytest.mark.parametrize("prefix", ["", "Small/", "UEA/Small/"])
def test_any_set_from_the_zip_of_the_archive(capsys, data, prefix):
    zipped(data, "Small", prefix)
    series, labels = ts_arrays("TEST")
    _, test = Archive(dataset="Small").both()
    assert [test.labels[place] for place in test.targets] == labels
    assert all(np.allclose(test.inputs[n], one, atol=1e-6) for n, one in enumerate(series))
    assert "test error rate" in said(capsys, "run", "uea", "--dataset", "Small", *TINY)


def test_a_zip_is_read_once(data):
    zipped(data, "Small")
    task = Archive(dataset="Small")
    assert task.both() is task.both()


@pytest.mark.parametrize("keep", [0, 60, -40])
def test_a_cut_zip(capsys, data, keep):
    path = zipped(data, "Small")
    path.write_bytes(path.read_bytes()[:keep])
    text = mistake(capsys, "run", "uea", "--dataset", "Small", *TINY)
    assert f"{path} is damaged" in text


def test_a_zip_without_the_files(capsys, data):
    write_zip(data / "uea-ucr" / "Small" / "Small.zip", {"readme.txt": b"nothing"})
    assert "Small_TRAIN.ts is missing" in mistake(capsys, "run", "uea", "--dataset", "Small", *TINY)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run JapaneseVowel", "Did you mean 'JapaneseVowels'?"),
        ("run gunpoint", "The data set is called GunPoint."),
        ("run uea --dataset GunPiont", "Did you mean 'uea-ucr/GunPoint'?"),
        ("run addign", "Did you mean 'adding'?"),
        (
            "run SpokenArabicDigits",
            "For a data set of the UEA and UCR archive: autapse run uea --dataset SpokenArabicDigits",
        ),
        (
            "compare SpokenArabicDigits",
            "For a data set of the UEA and UCR archive: autapse compare uea --dataset SpokenArabicDigits",
        ),
        ("run my.xlsx", "The name of your own file must end in .ts, .tsv, .csv, .npz, .parquet or .txt."),
        ("run uea --dataset SpokenArabicDigits", "Put SpokenArabicDigits.zip into"),
        ("run uea --dataset ../mnist", "data set must be one of"),
        ("run missing.csv", "missing.csv is missing."),
        ("run mnist", "The data set mnist is not here."),
        ("run mnist", "AUTAPSE_OFFLINE is set, so nothing is downloaded."),
    ],
)
def test_mistakes(capsys, data, words, expected):
    assert expected in mistake(capsys, *words.split())


def test_similar_names_of_the_archive_are_no_typos(capsys, data):
    for name in ("GunPointAgeSpan", "ECG200", "PenDigitsLarge"):
        assert f"The data set uea-ucr/{name} is not here" in mistake(capsys, "run", "uea", "--dataset", name)


def test_the_listing_says_what_is_here(capsys, data, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    write_ts(data, "GunPoint")
    write_files(data / "hapt", {"HAPT Data Set.zip": b"not even opened"})
    lines = said(capsys, "tasks").splitlines()
    made, stored = lines.index("Generated:"), lines.index("From data sets:")
    place = {line.split()[0]: n for n, line in enumerate(lines) if line and not line.startswith(" ")}
    assert made < place["adding"] < place["walk-variance"] < stored < place["mnist"] < place["file"]
    assert lines[place["mnist"] + 1].endswith("data: mnist, not here")
    assert lines[place["har"] + 1].endswith("data: har or hapt, here")
    assert lines[place["uea"] + 1].endswith("data: uea-ucr/NAME, GunPoint here")
    assert lines[place["file"] + 1].endswith("data: your file")


@pytest.mark.parametrize("task", ["mnist", "har", "speech", "yelp", "ptb", "pos", "babi", "uea", "file"])
def test_help_needs_no_data(capsys, data, task):
    assert main(("run", task, "--help")) == 0
    assert "--validation" in capsys.readouterr().out


def series_file(path, targets):
    rows = ["sequence,x,target"]
    rows += [f"{n},{step + n % 3},{target}" for n, target in enumerate(targets) for step in range(4)]
    path.write_text("\n".join(rows) + "\n")


def test_whole_numbers_are_classes_unless_one_says_otherwise(capsys, data, tmp_path):
    series_file(tmp_path / "counts.csv", [5000 + 40 * (n % 3) for n in range(30)])
    assert "error rate" in said(capsys, "run", "counts.csv", *TINY, "--out", "classes")
    assert "mean squared error" in said(capsys, "run", "counts.csv", "--targets", "numbers", *TINY, "--out", "numbers")
    summary = json.loads((tmp_path / "numbers" / "summary.json").read_text())
    assert summary["test"] < 4 * summary["baseline"]  # though the targets are thousands, and four steps teach little
    series_file(tmp_path / "words.csv", ["a", "b"] * 10)
    assert "be classes for" in mistake(capsys, "run", "words.csv", "--targets", "numbers", *TINY)
    series_file(tmp_path / "halves.csv", [n / 2 for n in range(20)])
    assert "be numbers for" in mistake(capsys, "run", "halves.csv", "--targets", "classes", *TINY)


def test_a_run_is_scored_from_any_folder_but_not_on_other_data(capsys, data, tmp_path, monkeypatch):
    series_file(tmp_path / "mine.csv", ["up", "down"] * 15)
    said(capsys, "run", "mine.csv", *TINY, "--out", "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert "error rate" in said(capsys, "eval", "../run")
    series_file(tmp_path / "mine.csv", ["up", "above"] * 15)
    series._divided.cache_clear()  # as in a new process
    assert "The data of ../run changed since it was trained: classes differ" in mistake(capsys, "eval", "../run")


def test_a_run_without_validation_data_has_no_validation_score(capsys, data, tmp_path):
    series_file(tmp_path / "mine.csv", ["up", "down"] * 15)
    said(capsys, "run", "mine.csv", "--validation", "0", *TINY, "--out", "run")
    assert "was trained without a validation set" in mistake(capsys, "eval", "run", "--split", "validation")
