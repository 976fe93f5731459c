"""Sequences from the command line: your own text and series, samples, pictures."""

import csv
import json

import numpy as np
import pytest

from autapse.cli.main import main
from command_line import mistake

TINY = "--hidden-size 6 --steps 4 --eval-every 2 --batch-size 4".split()
SMALL = "--train-size 12 --validation-size 4 --test-size 4".split()
NAMES = ["anna", "bert", "carla", "dora", "emil", "fred", "gina", "hans", "ida", "jan", "karl", "lena"]


def write_series(path, columns, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return str(path)


def series(count=12, steps=5):
    rng = np.random.default_rng(0)
    for n in range(count):
        for t in range(steps + n % 2):
            yield n, t, f"{rng.normal():.3f}", int(rng.random() < 0.5), ("calm", "storm")[n % 2], f"{rng.normal():.3f}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Runs on text by characters, on values given a class, on values given a sequence, and on strokes."""
    here = tmp_path_factory.mktemp("generate")
    (here / "names.txt").write_text("\n".join([*NAMES, ""]))
    waves = write_series(here / "waves.csv", ("sequence", "time", "height", "spark", "target", "wind"), series())
    both = ("--channels", "height", "spark")
    for name, words in {
        "names": (str(here / "names.txt"),),
        "waves": (waves, "--generate", *both),
        "winds": (waves, "--task", "generate", "--given", "wind", *both),
        "strokes": ("strokes", *SMALL, "--letters", "3"),
    }.items():
        assert main(["run", *words, *TINY, "--out", str(here / name)]) == 0
    return here


def sampled(capsys, run, *options):
    assert main(("sample", str(run), *options)) == 0
    return capsys.readouterr().out


def test_a_resumed_run_shows_how_to_sample_from_it(place, capsys):
    assert main(["resume", str(place / "waves"), "--steps", "5"]) == 0
    assert f"more: autapse sample {place / 'waves'} --given calm --picture samples.svg" in capsys.readouterr().out


def test_another_schedule_can_be_chosen(place, capsys):
    options = ["--schedule", "cosine", *TINY, "--out", str(place / "cosine")]
    assert main(["run", str(place / "names.txt"), *options]) == 0


def test_a_run_on_text_says_what_it_reads_and_shows_samples(capsys, tmp_path):
    (tmp_path / "words.txt").write_text("the cat sat\nthe dog sat\na cat ran\na dog sat\n" * 3)
    options = ["--units", "words", "--preset", "none", *TINY, "--out", str(tmp_path / "run")]
    assert main(["run", str(tmp_path / "words.txt"), *options]) == 0
    printed = capsys.readouterr().out
    assert "11 training and 1 test sequences of 3 words" in printed
    assert "symbols: 7 words" in printed  # the six words, and <unk>
    assert "nats per sequence" in printed
    assert "more: autapse sample" in printed
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["metric"] == "nats per step"
    assert summary["nats_per_sequence"] == pytest.approx(3 * summary["test"])
    words = sampled(capsys, tmp_path / "run", "--count", "3").split()
    assert set(words) <= {"the", "cat", "sat", "dog", "a", "ran", "<unk>"}


def test_lines_of_characters(capsys, place):
    lines = sampled(capsys, place / "names", "--count", "7", "--length", "4").splitlines()
    assert [len(line) for line in lines] == [4] * 7
    assert set("".join(lines)) <= set("".join(NAMES))
    assert lines == sampled(capsys, place / "names", "--count", "7", "--length", "4", "--seed", "0").splitlines()
    assert lines != sampled(capsys, place / "names", "--count", "7", "--length", "4", "--seed", "1").splitlines()
    assert all(line.startswith("be") for line in sampled(capsys, place / "names", "--start", "be").splitlines())
    cold = sampled(capsys, place / "names", "--top-k", "1", "--length", "3").splitlines()
    assert len(cold) == 10
    assert len(set(cold)) == 1
    out = place / "names-out.txt"
    assert f"7 sequences: {out}" in sampled(capsys, place / "names", "--count", "7", "--length", "4", "--out", str(out))
    assert out.read_text().splitlines() == lines


def test_values_as_a_table_and_as_arrays(capsys, place):
    options = ("--given", "calm,storm", "--count", "2", "--length", "3")
    rows = list(csv.reader(sampled(capsys, place / "waves", *options).splitlines()))
    assert rows[0] == ["sequence", "step", "height", "spark"]
    assert len(rows) == 1 + 4 * 3
    assert {row[3] for row in rows[1:]} <= {"0.0", "1.0"}
    for ending in (".npz", ".npy", ".csv"):
        sampled(capsys, place / "waves", *options, "--out", str(place / f"drawn{ending}"))
    arrays = np.load(place / "drawn.npz")
    assert arrays["inputs"].shape == (4, 3, 2)
    assert arrays["lengths"].tolist() == [3] * 4
    assert arrays["channels"].tolist() == ["height", "spark"]
    np.testing.assert_array_equal(np.load(place / "drawn.npy"), arrays["inputs"])
    assert list(csv.reader((place / "drawn.csv").read_text().splitlines())) == rows


def test_values_begin_with_a_file_and_depend_on_one(capsys, place):
    start = write_series(place / "start.csv", ("height", "spark"), [(0.5, 1), (0.25, 0)])
    rows = list(
        csv.reader(
            sampled(
                capsys, place / "waves", "--given", "calm", "--count", "2", "--start", start, "--length", "4"
            ).splitlines()
        )
    )
    assert [[float(v) for v in row[2:]] for row in rows[1:3]] == [[0.5, 1], [0.25, 0]]
    wind = write_series(place / "wind.csv", ("sequence", "wind"), [("a", 0.1), ("a", 0.2), ("b", 0.3)])
    rows = list(csv.reader(sampled(capsys, place / "winds", "--given", wind, "--count", "1").splitlines()))
    assert [row[0] for row in rows[1:]] == ["0", "0", "1"]


def test_pictures(capsys, place):
    pytest.importorskip("matplotlib")
    (place / "rows.txt").write_text("a\nc\n")
    for run, given, name in (
        ("strokes", "a,b", "pen.svg"),
        ("strokes", str(place / "rows.txt"), "pen.png"),
        ("waves", "calm", "waves.svg"),
    ):
        printed = sampled(capsys, place / run, "--given", given, "--count", "2", "--picture", str(place / name))
        assert "sequences drawn" in printed
        assert (place / name).stat().st_size > 1000
    assert (place / "pen.svg").read_text().startswith("<?xml")


def test_eval_scores_the_likelihood(capsys, place):
    assert main(["eval", str(place / "names")]) == 0
    assert "test nats per step: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("run", "options", "expected"),
    [
        ("names", ("--words", "3"), "words must be omitted for a generator, which draws whole sequences"),
        ("names", ("--given", "a"), "given must be omitted: sequences of this run depend on nothing"),
        ("names", ("--picture", "x.svg"), "picture must be omitted for a run that writes symbols"),
        ("names", ("--out", "x.csv"), "out must end in .txt; got 'x.csv'"),
        ("names", ("--start", "Zoe"), "start must have only the"),
        ("names", ("--count", "0"), "count must be an integer of at least 1"),
        ("names", ("--top-p", "2"), "top_p must be a share above 0 and at most 1"),
        ("waves", (), "depend on a class: calm, storm. Say it with --given."),
        ("waves", ("--given", "stormy"), "given must be a class: calm, storm; got 'stormy'. Did you mean 'storm'?"),
        ("waves", ("--given", "calm", "--top-k", "3"), "top_k must be omitted for a run that draws values"),
        ("waves", ("--given", "calm", "--start", "none.csv"), "start must be a file with the first steps"),
        ("waves", ("--given", "calm", "--out", "x.txt"), "out must end in .csv or .npz or .npy"),
        ("winds", ("--given", "0.5"), "given must be a file with series of the same length (wind)"),
    ],
)
def test_mistakes_in_samples(capsys, place, run, options, expected):
    assert expected in mistake(capsys, "sample", str(place / run), *options)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("names.txt", "--channels", "x"), "channels must be omitted: it is for series of values"),
        (("waves.csv", "--generate", "--units", "words"), "units must be omitted: it is for text files (.txt)"),
        (("waves.csv", "--task", "adding"), "--task must be one of file, forecast, translate, generate; got 'adding'"),
        (
            ("waves.csv", "--generate", "--channels", "height", "--length", "50"),
            "length must be at most 6, the longest",
        ),
        (("names.txt", "--preset", "auto"), "preset must be none for generate"),
        (("names.txt", "--feeding", "free:steps=0"), "steps must be an integer of at least 1"),
        (("names.txt", "--units", "words", "--min-count", "5"), "min_count must leave some words"),
        (("names.txt", "--ending", "halt"), "ending"),
        (("empty.txt",), "has no text: all its lines are empty"),
        (("one.txt",), "have at least three series, for training, validation and test; got 1"),
    ],
)
def test_mistakes_in_runs(capsys, place, monkeypatch, words, expected):
    monkeypatch.chdir(place)
    (place / "empty.txt").write_text("\n\n")
    (place / "one.txt").write_text("only this\n")
    assert expected in mistake(capsys, "run", *words)


def test_the_help_of_a_file_is_that_of_its_task(capsys, place):
    assert main(["run", str(place / "names.txt"), "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--units" in printed
    assert "--feeding" in printed
