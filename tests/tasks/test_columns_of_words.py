"""Sentences with several columns of labels, as in CoNLL-2000 and CoNLL-2003; and the F1 of spans."""

import numpy as np
import pytest

from autapse import checks
from autapse.data.formats.conllu import read_conllu_column, read_tagged_lines, read_words
from autapse.tasks import POS
from autapse.tasks.spans import are_spans, span_scores, spans
from command_line import mistake, said
from damage import message

NAMES = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German JJ B-NP B-MISC
call NN I-NP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
CONLLU = """1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\trun\trun\tVERB\tVBP\t_\t0\troot\t_\t_

"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTAPSE_CACHE", str(tmp_path / "cache"))


def conll_2003(folder):
    for name in ("eng.train", "eng.testa", "eng.testb"):
        (folder / name).write_text(NAMES)
    return folder


@pytest.mark.parametrize(("column", "first"), [(1, "NNP"), (2, "B-NP"), (3, "B-ORG")])
def test_any_column_may_have_the_labels(tmp_path, cache, column, first):
    task = POS(folder=str(conll_2003(tmp_path)), column=column, min_count=1)
    for split in ("train", "validation", "test"):
        data = task.split(split, 0)
        assert data.inputs.lengths.tolist() == [4, 2]  # without the line -DOCSTART-
        assert task.signature().classes[data.targets[0][0]] == first


def test_the_sections_of_the_wall_street_journal(tmp_path, cache):
    """As many sentences as the number of a section says."""
    for section in range(25):
        (tmp_path / f"{section:02}").mkdir()
        text = f"( (NP (DT The) (NN section) (CD {section})) )\n" * (section + 1)
        (tmp_path / f"{section:02}" / f"wsj_{section:02}01.mrg").write_text(text)
    task = POS(folder=str(tmp_path), min_count=1)
    sizes = [len(task.split(split, 0)) for split in ("train", "validation", "test")]
    assert sizes == [sum(range(1, 20)), 20 + 21 + 22, 23 + 24 + 25]
    assert task.signature().classes == ("CD", "DT", "NN")


def test_parsed_sentences_have_one_column_of_tags(tmp_path, cache):
    (tmp_path / "train.mrg").write_text("( (NN dog) )\n" * 9)
    assert POS(folder=str(tmp_path)).signature().classes == ("NN",)
    with pytest.raises(checks.InputError, match=r"column must be omitted for .mrg files"):
        POS(folder=str(tmp_path), column=2).signature()


def test_any_column_of_a_treebank(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text(CONLLU)
    assert read_conllu_column(path, 7) == [(("Dogs", "run"), ("nsubj", "root"))]


def test_words_of_such_files_can_be_labelled_without_their_labels(tmp_path):
    path = tmp_path / "x.conll"
    path.write_text(NAMES)
    assert read_words(path, 3)[1] == (("Peter", "Blackburn"), ("B-PER", "I-PER"))
    path.write_text("Peter\nBlackburn\n")
    assert read_words(path, 3) == [(("Peter", "Blackburn"), ())]


def test_sentences_without_dev_and_test_files_are_split(tmp_path, cache):
    path = tmp_path / "own.txt"
    path.write_text("".join(f"w{n} N{n}\nx V\n\n" for n in range(40)))
    task = POS(folder=str(path), min_count=1, validation=0.25)
    seen = []
    for split, size in (("train", 27), ("validation", 9), ("test", 4)):
        data = task.split(split, 5)
        assert len(data) == size
        seen += [task.signature().classes[data.targets[n][0]] for n in range(size)]
    assert sorted(seen) == sorted(f"N{n}" for n in range(40))  # each sentence once
    assert np.array_equal(task.split("test", 5).targets.values, task.split("test", 6).targets.values)


def test_refusals(tmp_path, cache):
    path = tmp_path / "x.txt"
    path.write_text(NAMES)
    choice = "Choose the one with the labels by --column, from 1 to 3; column 0 is the word."
    assert message(read_tagged_lines, path) == f"{path}, line 3 has 4 columns: 'EU NNP B-NP B-ORG'. {choice}"
    assert message(read_tagged_lines, path, 4) == (
        f"{path}, line 3 must have a word in column 0 and a label in column 4, separated by a tab or spaces; "
        "got 'EU NNP B-NP B-ORG'."
    )
    path.write_text("one N\n\ntwo N\n")
    said = message(POS(folder=str(path)).signature)
    assert said == f"{path} must have at least three sentences, for training, validation and test; got 2."
    with pytest.raises(checks.InputError, match="column must be an integer of at least 1; got 0"):
        POS(column=0)


def test_a_run_on_chunks(tmp_path, cache, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    conll_2003(tmp_path)
    tiny = "--hidden-size 4 --steps 2 --eval-every 1 --batch-size 2 --embedding-size 4".split()
    text = said(capsys, "run", "pos", "--folder", ".", "--column", "3", "--min-count", "1", *tiny, "--out", "run")
    assert "F1 of spans" in text
    (tmp_path / "asked.conll").write_text(NAMES)
    lines = said(capsys, "predict", "run", "asked.conll").splitlines()
    assert [line.split("\t")[0] for line in lines if line] == ["EU", "rejects", "German", "call", "Peter", "Blackburn"]
    assert "--column" in mistake(capsys, "run", "pos", "--folder", ".", *tiny)


# Spans: the rules of conlleval


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O O", []),
        ("B-A I-A O", [("A", 0, 2)]),
        ("B-A B-A", [("A", 0, 1), ("A", 1, 2)]),
        ("I-A I-A O I-B", [("A", 0, 2), ("B", 3, 4)]),  # IOB1
        ("B-A I-B", [("A", 0, 1), ("B", 1, 2)]),
        ("S-A B-B I-B E-B S-B", [("A", 0, 1), ("B", 1, 4), ("B", 4, 5)]),
    ],
)
def test_spans(labels, expected):
    assert sorted(spans(labels.split())) == expected


def test_the_f1_of_spans_by_hand():
    true = ["B-PER I-PER O B-LOC".split(), "B-LOC O".split()]
    predicted = ["B-PER I-PER O B-PER".split(), "B-LOC I-LOC".split()]
    rows = {row["class"]: row for row in span_scores(true, predicted)}
    assert (rows["PER"]["precision"], rows["PER"]["recall"]) == (0.5, 1.0)
    assert (rows["LOC"]["count"], rows["LOC"]["f1"]) == (2, 0.0)
    assert rows["all"]["f1"] == pytest.approx(2 * 1 / (3 + 3))
    assert are_spans(["B-PER", "I-PER", "O", "S-LOC"])
    assert not are_spans(["DET", "NOUN"])
