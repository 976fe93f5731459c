"""`autapse predict` on every kind of file."""

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autapse
from autapse.cli.main import main
from command_line import mistake
from upstream import ts_arrays, ts_text
from upstream_text import conllu_row, write_conllu, write_imdb

TINY = "--hidden-size 6 --eval-every 10 --batch-size 4 --learning-rate 0.02".split()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with files, and runs on them: `classes`, `numbers`, `pos`, `imdb`."""
    folder = tmp_path_factory.mktemp("kinds")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("AUTAPSE_DATA", str(folder / "data"))
        patch.setenv("AUTAPSE_CACHE", str(folder / "cache"))
        patch.setenv("AUTAPSE_OFFLINE", "1")
        for part in ("TRAIN", "TEST"):
            (folder / f"own_{part}.ts").write_text(ts_text(*ts_arrays(part)))
        long_form(folder / "rising.csv", [(f"s{n}", waves, 0.5 + n) for n, waves in enumerate(ts_arrays("TRAIN")[0])])
        write_conllu(folder / "data")
        write_imdb(folder / "data")
        assert main(["run", "own_TRAIN.ts", *TINY, "--steps", "20", "--out", "classes"]) == 0
        assert main(["run", "rising.csv", *TINY, "--steps", "4", "--out", "numbers"]) == 0
        words = ["--embedding-size", "6", *TINY]
        assert main(["run", "pos", *words, "--steps", "40", "--out", "pos"]) == 0
        assert main(["run", "imdb", *words, "--steps", "4", "--out", "imdb"]) == 0
    return folder


@pytest.fixture(autouse=True)
def _there(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.delenv("AUTAPSE_DATA", raising=False)  # a run knows all that it needs


def long_form(path, sequences, target=True):
    rows = [["sequence", "a", "b"] + ["target"] * target]
    rows += [[name, *step, *([label] * target)] for name, steps, label in sequences for step in steps.tolist()]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def predict(capsys, *words):
    assert main(("predict", *words)) == 0
    captured = capsys.readouterr()
    return captured.out.splitlines(), captured.err


def by_hand(run, series):
    """What the model says of one series at a time."""
    import torch

    model = autapse.load(run)
    return [model.predict(torch.tensor(one[None], dtype=torch.float32))[0].tolist() for one in series]


CLASSES = ("slow", "fast", "idle")
CONLLU = "data/ud-english-ewt/en_ewt-ud-test.conllu"


def test_ts_files_give_names_and_a_score(capsys):
    series, labels = ts_arrays("TEST")
    lines, score = predict(capsys, "classes", "own_TEST.ts")
    assert lines == [CLASSES[n] for n in by_hand("classes", series)]
    wrong = sum(one != other for one, other in zip(lines, labels, strict=True))
    assert score == f"error rate: {wrong / 12:.6g} ({wrong} of 12)\n"
    test = json.loads(Path("classes/summary.json").read_text())["test"]
    assert test == pytest.approx(wrong / 12)


def test_numbers_in_place_of_names(capsys):
    lines, _ = predict(capsys, "classes", "own_TEST.ts", "--numbers")
    assert lines == [str(n) for n in by_hand("classes", ts_arrays("TEST")[0])]


def test_every_kind_of_file_gives_the_same(capsys, place):
    series, labels = ts_arrays("TEST")
    expected, score = predict(capsys, "classes", "own_TEST.ts")
    named = [(f"s{n}", one, label) for n, (one, label) in enumerate(zip(series, labels, strict=True))]
    long_form(place / "long.csv", named)
    long_form(place / "bare.csv", named, target=False)
    padded, lengths = np.zeros((12, 20, 2)), np.array([len(one) for one in series])
    for n, one in enumerate(series):
        padded[n, : len(one)] = one
        padded[n, len(one) :] = np.nan  # what lies beyond is ignored
    np.savez(place / "some.npz", inputs=padded, lengths=lengths)
    np.savez(place / "with.npz", inputs=padded, lengths=lengths, targets=np.array(labels))
    (place / "some.ts.gz").write_bytes(gzip.compress((place / "own_TEST.ts").read_bytes()))
    with_names = [f"s{n}\t{label}" for n, label in enumerate(expected)]
    assert predict(capsys, "classes", "long.csv") == (with_names, score)
    assert predict(capsys, "classes", "bare.csv") == (with_names, "")
    assert predict(capsys, "classes", "some.npz") == (expected, "")
    assert predict(capsys, "classes", "with.npz") == (expected, score)
    assert predict(capsys, "classes", "some.ts.gz") == (expected, score)
    np.save(place / "one.npy", series[5])
    np.savetxt(place / "one.csv", series[5], delimiter=",")
    assert predict(capsys, "classes", "one.npy") == predict(capsys, "classes", "one.csv") == (expected[5:6], "")


def test_written_predictions(capsys, place):
    series, labels = ts_arrays("TEST")
    long_form(place / "named.csv", [("x, y", series[0], labels[0]), ("z", series[1], labels[1])])
    numbers = by_hand("classes", series[:2])
    names = [CLASSES[n] for n in numbers]
    for ending in ("npy", "csv", "json"):
        lines, _ = predict(capsys, "classes", "named.csv", "--out", f"out.{ending}")
        assert lines == [f"2 predictions: out.{ending}"]
    assert np.load("out.npy").tolist() == numbers
    assert list(csv.reader(Path("out.csv").read_text().splitlines())) == [
        ["sequence", "prediction"],
        ["x, y", names[0]],
        ["z", names[1]],
    ]
    assert json.loads(Path("out.json").read_text()) == {"x, y": names[0], "z": names[1]}


def probabilities(run, series):
    """The softmax of the scores of one series at a time."""
    import torch

    model = autapse.load(run)
    with torch.no_grad():
        scores = np.stack([model(torch.tensor(one[None], dtype=torch.float32))[0].numpy() for one in series])
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


def test_probabilities(capsys, place):
    series, labels = ts_arrays("TEST")
    long_form(place / "sure.csv", [("x, y", series[0], labels[0]), ("z", series[1], labels[1])])
    expected = probabilities("classes", series[:2])
    lines, score = predict(capsys, "classes", "sure.csv", "--probabilities")
    assert lines[0].split("\t") == ["sequence", *CLASSES]
    assert np.allclose([[float(cell) for cell in line.split("\t")[1:]] for line in lines[1:]], expected, rtol=1e-4)
    assert score == predict(capsys, "classes", "sure.csv")[1] != ""
    for ending in ("npy", "csv", "json"):
        predict(capsys, "classes", "sure.csv", "--probabilities", "--out", f"sure.p.{ending}")
    assert np.allclose(np.load("sure.p.npy"), expected, rtol=1e-4)
    header, *rows = csv.reader(Path("sure.p.csv").read_text().splitlines())
    assert (header, rows[0][0]) == (["sequence", *CLASSES], "x, y")
    assert np.allclose([[float(cell) for cell in row[1:]] for row in rows], expected, rtol=1e-4)
    content = json.loads(Path("sure.p.json").read_text())
    assert list(content["z"]) == list(CLASSES)
    assert np.allclose(list(content["z"].values()), expected[1], rtol=1e-4)


def test_values_have_no_probabilities(capsys):
    expected = "probabilities must be False for a run that predicts values"
    assert expected in mistake(capsys, "predict", "numbers", "rising.csv", "--probabilities")
    expected = "probabilities must be False for sentences"
    assert expected in mistake(capsys, "predict", "pos", CONLLU, "--probabilities")


@pytest.mark.parametrize("name", ["piped.csv", "piped.npy", "piped.npz"])
def test_pipes(place, name):
    """Standard input and output, in a process of its own."""
    series, _ = ts_arrays("TEST")
    kinds = {
        "piped.csv": lambda path: np.savetxt(path, series[5], delimiter=","),
        "piped.npy": lambda path: np.save(path, series[5]),
        "piped.npz": lambda path: np.savez(path, inputs=series[5][None]),
    }
    kinds[name](place / name)
    command = [sys.executable, "-m", "autapse", "predict", "classes", "-", "--out", "-"]
    done = subprocess.run(command, input=(place / name).read_bytes(), capture_output=True, check=True)
    assert done.stdout.decode() == f"sequence,prediction\n0,{CLASSES[by_hand('classes', series[5:6])[0]]}\n"


def test_piped_text(place):
    command = [sys.executable, "-m", "autapse", "predict", "imdb", "-", "--out", "-", "--probabilities"]
    done = subprocess.run(command, input=b"It was superb!\nAwful.\n", capture_output=True, check=True)
    header, *rows = csv.reader(done.stdout.decode().splitlines())
    assert header == ["sequence", "bad", "good"]
    assert np.allclose([float(row[1]) + float(row[2]) for row in rows], [1, 1], atol=1e-5)


def test_a_pipe_with_something_else():
    command = [sys.executable, "-m", "autapse", "predict", "classes", "-"]
    done = subprocess.run(command, input=b"", capture_output=True, check=False)
    assert done.returncode == 2
    assert b"stdin.csv is empty." in done.stderr


def test_numbers_to_predict(capsys, place):
    series, _ = ts_arrays("TRAIN")
    lines, score = predict(capsys, "numbers", "rising.csv")
    found = [json.loads(line.split("\t")[1]) for line in lines]
    assert np.allclose(found, by_hand("numbers", series), rtol=1e-5)
    predict(capsys, "numbers", "rising.csv", "--out", "rising-out.csv")
    assert Path("rising-out.csv").read_text().splitlines()[0] == "sequence,prediction"
    squared = np.square(np.array(found)[:, 0] - (0.5 + np.arange(12))).mean()
    assert score.startswith("mean squared error: ")
    assert float(score.split()[-1]) == pytest.approx(squared, rel=1e-4)
    # Whole numbers are numbers too here, and text has no distance.
    long_form(place / "whole.csv", [("p", series[0], 1), ("q", series[1], 2)])
    assert predict(capsys, "numbers", "whole.csv")[1].startswith("mean squared error: ")
    long_form(place / "text.csv", [("p", series[0], "yes"), ("q", series[1], "no")])
    assert predict(capsys, "numbers", "text.csv")[1] == ""


SENTENCES = [["the", "cat", "do", "n't", "sing", "."], ["a", "dog", "."]]
TAGS = [["DET", "NOUN", "AUX", "PART", "VERB", "PUNCT"], ["DET", "NOUN", "PUNCT"]]


def word_lines(*columns):
    """Sentences as files have them: columns with tabs between, a blank line after each sentence."""
    return "".join(
        "".join("\t".join(row) + "\n" for row in zip(*sentence, strict=True)) + "\n"
        for sentence in zip(*columns, strict=True)
    )


def test_words_get_their_tags(capsys, place):
    (place / "words.txt").write_text(word_lines(SENTENCES).removesuffix("\n\n"))
    (place / "tagged.txt").write_text(word_lines(SENTENCES, TAGS))
    lines, score = predict(capsys, "pos", "words.txt")
    assert [line.split("\t")[0] for line in lines] == [word for s in SENTENCES for word in [*s, ""]]
    assert score == ""
    found = [line.split("\t")[1] for line in lines if line]
    assert set(found) <= {tag for row in TAGS for tag in row}
    wrong = sum(one != other for one, other in zip(found, [t for row in TAGS for t in row], strict=True))
    assert predict(capsys, "pos", "tagged.txt") == (lines, f"error rate: {wrong / 9:.6g} ({wrong} of 9)\n")
    assert wrong < 3, "forty steps teach six words"
    assert predict(capsys, "pos", "words.txt", "--out", "tags.txt")[0] == ["2 sentences: tags.txt"]
    assert Path("tags.txt").read_text().splitlines() == lines
    assert predict(capsys, "pos", "tags.txt")[1] == "error rate: 0 (0 of 9)\n"
    (place / "row.txt").write_text("the cat\n")  # not a word and its tag
    assert "such as 'cat', are not those of the run. Write one word" in mistake(capsys, "predict", "pos", "row.txt")


def test_conllu_with_and_without_tags(capsys, place):
    lines, score = predict(capsys, "pos", CONLLU)
    assert sum(not line for line in lines) == 4
    assert "of 24)" in score
    rows = [conllu_row(str(n), word, "_", "_") for n, word in enumerate(SENTENCES[0], 1)]
    (place / "bare.conllu").write_text("\n".join([*rows, "", ""]))
    lines, score = predict(capsys, "pos", "bare.conllu")
    assert len(lines) == 7
    assert score == ""


def test_a_review_per_line(capsys, place):
    (place / "reviews.txt").write_text("It was superb!\n\nAwful, the film isn't good.")
    lines, _ = predict(capsys, "imdb", "reviews.txt")
    assert len(lines) == 3
    assert set(lines) <= {"bad", "good"}


@pytest.mark.parametrize(
    ("run", "name", "content", "expected"),
    [
        ("classes", "x.txt", "1,2\n", "must end in .ts, .tsv or .csv"),
        ("classes", "x.csv", "", "x.csv is empty."),
        ("classes", "x.csv", "1,2,3\n", "x.csv must have 2 channels per step, as the run's task has; got 3"),
        ("classes", "x.csv", "sequence,a\ns,1\n", "x.csv must have 2 channels per step, as the run's task has; got 1"),
        ("classes", "x.csv", "a,b\n1,2\n", "x.csv has no column 'sequence'; its columns are a, b."),
        (
            "classes",
            "x.csv",
            "sequence,1,2,3\ns,1,2,3\n",
            "must have 2 channels per step, as the run's task has; got 3",
        ),
        ("classes", "x.csv", "1,2\n3,nan\n", "x.csv, line 2, column 'column 2': 'nan' is not a finite number."),
        ("classes", "x.csv", "1,2\n3\n", "x.csv, line 2: it has 1 cells, but the first line has 2."),
        ("classes", "x.npy", "", "is not a complete .npy file of a plain array"),
        ("classes", "x.ts", "", "x.ts is damaged at line 1: it has no line '@data'"),
        ("classes", "gone.ts", None, "gone.ts is missing."),
        (
            "pos",
            "x.csv",
            "1,2\n",
            "The ending of x.csv must be one of .conllu, .mrg, .txt, .conll, .bio, .iob, .iob2; got '.csv'",
        ),
        ("pos", "x.txt", "", "it has no sentence"),
        (
            "pos",
            "x.txt",
            "the cat sings\n",
            "x.txt, line 1 must be one word, or one word and its tag as on all lines; got 'the cat sings'.",
        ),
        ("pos", "x.txt", "the\ncat sings\n", "x.txt, line 2 must be one word"),
        ("pos", "x.conllu", "\n", "a blank line ends a sentence without words"),
        ("imdb", "x.csv", "1,2\n", "The ending of x.csv must be one of .txt; got '.csv'"),
    ],
)
def test_mistakes(capsys, tmp_path, run, name, content, expected):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert expected in mistake(capsys, "predict", run, str(tmp_path / name))


def test_out_must_suit_what_is_predicted(capsys):
    assert "must be one of .npy, .csv, .json; got '.txt'" in mistake(
        capsys, "predict", "classes", "own_TEST.ts", "--out", "n.txt"
    )
    assert "must be one of .txt; got '.csv'" in mistake(capsys, "predict", "pos", CONLLU, "--out", "n.csv")
