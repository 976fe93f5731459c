"""Text from a language model."""

import pytest

from autapse.cli.main import main
from autapse.cli.sample_text import text_of
from command_line import mistake
from small_data import data_in
from upstream_text import write_ptb

TINY = "--hidden-size 8 --embedding-size 4 --steps 4 --eval-every 2 --batch-size 4 --span 5".split()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A language model on a few made-up words, and their set."""
    place = tmp_path_factory.mktemp("sample")
    write_ptb(place)
    with data_in(place):
        assert main(["run", "ptb", *TINY, "--out", str(place / "run")]) == 0
    return place / "run"


def sampled(capsys, run, *options):
    assert main(("sample", str(run), *options)) == 0
    return capsys.readouterr().out


def test_a_text_has_known_words_and_as_many_as_asked_for(capsys, run):
    text = sampled(capsys, run, "--words", "40")
    known = "<unk> N the of to a in and 's that for $ is it said on".split()
    assert set(text.split()) <= set(known)
    assert "<eos>" not in text
    sentences = text.removesuffix("\n").count("\n")
    assert 39 <= len(text.split()) + sentences <= 40  # the end of the last sentence may be the last word


def test_the_seed_makes_the_text(capsys, run):
    assert sampled(capsys, run) == sampled(capsys, run, "--seed", "0")
    assert sampled(capsys, run) != sampled(capsys, run, "--seed", "1")


def test_a_cold_text_is_the_likeliest(capsys, run):
    cold = {sampled(capsys, run, "--temperature", "0.0001", "--seed", str(seed)) for seed in range(3)}
    assert len(cold) == 1


def test_only_likely_words_are_drawn(capsys, run):
    cold = sampled(capsys, run, "--temperature", "0.0001")
    assert sampled(capsys, run, "--top-k", "1", "--seed", "5") == cold
    assert sampled(capsys, run, "--top-p", "0.001", "--seed", "5") == cold


def test_characters(capsys, tmp_path):
    write_ptb(tmp_path)
    with data_in(tmp_path):
        assert main(["run", "ptb-characters", *TINY, "--out", str(tmp_path / "run")]) == 0
    assert "bits per character" in capsys.readouterr().out
    text = sampled(capsys, tmp_path / "run", "--words", "30", "--start", "it ")
    assert text.startswith("it ")
    assert len(text.replace("\n", "")) <= 33
    assert "got 'X'" in mistake(capsys, "sample", str(tmp_path / "run"), "--start", "X")


def test_a_text_goes_on_from_its_start(capsys, run):
    assert sampled(capsys, run, "--start", "it said <unk>", "--words", "5").startswith("it said <unk>")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--start", "it sayd"), "got 'sayd'. Did you mean 'said'? Write <unk> for a word that the run does not know."),
        (("--start", "Xylophone"), "got 'Xylophone'. Write <unk>"),
        (("--words", "0"), "words must be an integer of at least 1; got 0"),
        (("--temperature", "0"), "temperature must be a finite number above 0; got 0.0"),
        (("--seed", "-1"), "seed must be an integer of at least 0; got -1"),
        (("--count", "3"), "count must be omitted for a language model; got 3"),
        (("--picture", "x.svg"), "picture must be omitted for a language model; got 'x.svg'"),
    ],
)
def test_mistakes(capsys, run, options, expected):
    assert expected in mistake(capsys, "sample", str(run), *options)


def test_other_runs_write_no_text(capsys, tmp_path):
    sizes = "--length 4 --train-size 8 --validation-size 4 --test-size 4 --steps 1 --hidden-size 2 --batch-size 4"
    assert main(["run", "adding", *sizes.split(), "--out", str(tmp_path / "adding")]) == 0
    capsys.readouterr()
    assert "is a run on adding, neither a language model nor a generator" in mistake(
        capsys, "sample", str(tmp_path / "adding")
    )


def test_a_language_model_predicts_no_file(capsys, run, tmp_path):
    (tmp_path / "x.txt").write_text("it\nsaid\n")
    assert "Try `autapse sample`" in mistake(capsys, "predict", str(run), str(tmp_path / "x.txt"))


def test_lines_are_sentences():
    assert text_of("a b <eos> <eos> c <eos>".split()) == "a b\n\nc"
    assert text_of(["<eos>"]) == ""
