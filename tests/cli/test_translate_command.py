"""`autapse run FILE --task translate`, and `autapse predict` for its run."""

import csv
import io
import json

import pytest

import autapse
from autapse.tasks import TextPairs
from autapse.training import Trainer, train, translate_config
from command_line import mistake, said

TINY = "--hidden-size 12 --encoder-size 6 --steps 6 --eval-every 3 --batch-size 8".split()
WORDS = [f"{a}{b}{c}" for a in "bdk" for b in "aeiou" for c in "lmnt"]
PAIRS = [(word, word[::-1]) for word in WORDS]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS))
    return tmp_path


def test_from_the_file_to_the_translation(capsys, folder):
    text = said(capsys, "run", "pairs.tsv", "--task", "translate", *TINY)
    assert "60 pairs with 60 different sources: 49 train, 5 validation, 6 test" in text
    assert "source: 13 different characters (texts have 1.0 words on average), 3 to 3 per text, median 3" in text
    assert "test symbol error rate" in text
    assert "wrong sequences" in text
    assert text.count(" → ") == 5
    run = folder / "runs" / "pairs-gru"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["test"] == pytest.approx(summary["symbol_error_rate"])
    assert (run / "attention.png").exists()
    (folder / "new.txt").write_text("bal\n\ndem\n")
    lines = said(capsys, "predict", str(run), "new.txt", "--beam", "3").splitlines()
    model = autapse.load(run)
    assert lines == [model.translate("bal", beam=3), "", model.translate("dem", beam=3)]
    rows = list(csv.reader(io.StringIO(said(capsys, "predict", str(run), "new.txt", "--best", "2"))))
    assert rows[0] == ["source", "translation", "log-likelihood", "score"]
    best = model.translate(["bal", "dem"], beam=2, best=2)
    assert [row[:2] for row in rows[1:]] == [
        [s, one.target] for s, n in zip(("bal", "dem"), best, strict=True) for one in n
    ]
    said(capsys, "eval", str(run))
    said(capsys, "resume", str(run), "--steps", "9")


def test_an_implicit_encoder(capsys, folder):
    tiny = [*TINY, "--steps", "2", "--eval-every", "2"]
    said(capsys, "run", "pairs.tsv", "--task", "translate", "--encoder", "implicitgru", *tiny, "--out", "run")
    assert json.loads((folder / "run" / "config.json").read_text())["model"]["bidirectional"] is False


def test_a_pipe_and_files_in_three_forms(capsys, folder, monkeypatch):
    said(capsys, "run", "pairs.tsv", "--task=translate", *TINY, "--out", "run")
    model = autapse.load("run")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"bal\nkit\n")))
    assert said(capsys, "predict", "run", "-").splitlines() == model.translate(["bal", "kit"])
    for name in ("o.txt", "o.csv", "o.json"):
        assert main_with_error(capsys, "predict", "run", "pairs.tsv", "--out", name).startswith("symbol error rate: ")
    assert (folder / "o.txt").read_text().splitlines() == model.translate(WORDS)
    assert len((folder / "o.csv").read_text().splitlines()) == 61
    content = json.loads((folder / "o.json").read_text())
    assert content[0]["source"] == "bal"
    assert content[0]["translations"][0]["target"] == model.translate("bal")


def main_with_error(capsys, *words):
    """What a command that succeeds prints on stderr."""
    assert autapse.cli.main(list(words)) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "run pairs.tsv --task translator",
            "--task must be one of file, forecast, translate, generate, trees; got 'translator'",
        ),
        ("run pairs.tsv", "pairs.tsv has pairs of texts. To translate them, add --task translate."),
        ("run pairs.tsv --task translate --units letters", "units"),
        ("run pairs.tsv --task translate --longest 2", "the source must have at most 2 characters; got 3"),
        ("run no.tsv --task translate", "no.tsv is missing"),
        ("run pairs.tsv --task translate --attention dot", "attention must be one of additive, multiplicative"),
        ("run pairs.tsv --task translate --preset auto", "preset must be none for translate"),
        (
            "run pairs.tsv --task translate --encoder implicitgru --bidirectional",
            "an implicit layer looks both ways already; got True.",
        ),
        ("run adding --steps 1 --attention additive", "--attention"),
    ],
)
def test_refusals_are_one_line(capsys, folder, words, complaint):
    assert complaint in mistake(capsys, *words.split())


def test_options_of_other_runs_are_refused(capsys, folder):
    said(capsys, "run", "pairs.tsv", "--task", "translate", *TINY, "--out", "run")
    (folder / "new.txt").write_text("bal\n")
    assert "steps must be omitted for a run that translates" in mistake(
        capsys, *"predict run new.txt --steps 3".split()
    )
    assert "is a run on translate, neither" in mistake(capsys, "sample", "run")
    assert "It translates: autapse predict run FILE." in mistake(capsys, "sample", "run")
    (folder / "new.npy").write_text("bal\n")
    assert "The ending of new.npy must be one of" in mistake(capsys, *"predict run new.npy".split())
    said(capsys, *"run adding --length 5 --train-size 20 --steps 1 --hidden-size 2 --out other".split())
    (folder / "x.csv").write_text("0,1\n1,1\n")
    assert "beam must be omitted for a run that does not translate" in mistake(
        capsys, *"predict other x.csv --beam 2".split()
    )


def test_from_python(tmp_path):
    task = TextPairs(PAIRS, validation=0.0)
    config = translate_config(task, model={"hidden_size": (8,), "encoder_size": (4,)}, training={"steps": 4})
    summary = train(config, tmp_path / "run")
    assert 0 <= summary.symbol_error_rate <= 3
    model = autapse.load(tmp_path / "run")
    assert isinstance(model.translate("bal"), str)
    assert Trainer.resume(tmp_path / "run", task=task, steps=6).train().steps == 6
