"""Pairs of texts: files, units, vocabularies, splits; and the edit distance by which translations are scored."""

import gzip
from functools import cache

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.formats.pairs import has_pairs, read_pairs, read_sources
from autapse.data.ragged import Ragged
from autapse.tasks import IGNORE, OwnPairs, TextPairs
from autapse.tasks.edits import edit_distances
from autapse.tasks.translate import choose_units

PAIRS = [(f"word{n}", f"{n}drow") for n in range(40)]


def texts_of(task, split):
    """The pairs of a split as texts again; None for a symbol that is not known."""
    data, (source, target) = task.split(split, seed=0), task.sides
    names = {IGNORE: None, **dict(enumerate(target.symbols.names))}
    return [
        ([source.symbols.names[i] for i in data.inputs[n][:, 0]], [names[i] for i in data.targets[n]])
        for n in range(len(data))
    ]


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "hello you\tsalut toi\nyes\toui"),
        ("a.tsv", "source\ttarget\nhello you\tsalut toi\n\nyes\toui\n"),
        ("a.tsv", "hello you\tsalut toi\tCC-BY\nyes\toui\tCC-BY\r\n"),
        ("a.csv", 'source,target\n"hello you","salut toi"\nyes,oui\n'),
        ("a.csv", "n,target,source\n1,salut toi,hello you\n2,oui,yes\n"),
        ("a.csv", "english,french\nhello you,salut toi\nyes,oui\n"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_pairs_are_read_from_lines_and_tables(tmp_path, name, content, packed):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content.encode()) if packed else b"\xef\xbb\xbf" + content.encode())
    assert [pair[1:] for pair in read_pairs(path)] == [("hello you", "salut toi"), ("yes", "oui")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", "yes\toui\nno\n", "line 2 must have a source and a target, with a tab between them; got 'no'"),
        ("a.tsv", "yes\toui\nno\t \n", "line 2: the target is empty. Remove the line."),
        ("a.tsv", "\toui\n", "line 1: the source is empty"),
        ("a.tsv", "\n\n", "has no pair of texts"),
        ("a.csv", "source\nyes\n", "line 1 must name at least two columns"),
        ("a.csv", "source,target\nyes\n", "line 2 must have 2 cells, as the first line; got 1"),
        ("a.csv", 'source,target\n"yes,no\n', "line"),
        ("a.json", "{}", "The ending of a.json must be one of .tsv, .csv, .txt"),
        ("a.tsv", b"yes\t\xff\n", "is not UTF-8 text"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=words):
        read_pairs(path)


def test_texts_to_translate_may_have_targets_and_empty_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("yes\n\nno")
    assert read_sources(path) == (["yes", "", "no"], None)
    path.write_text("yes\toui\nno\tnon\n")
    assert read_sources(path) == (["yes", "no"], ["oui", "non"])


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "yes\toui\nno\tnon\n", True),
        ("a.csv", "english,french\nyes,oui\n", True),
        ("a.tsv", "class\t1.5\nother\t2.5\n", False),  # the format of the UCR archive
        ("a.csv", "sequence,target,x\na,rest,1\n", False),
        ("a.csv", "sequence,x\na,1\n", False),
        ("a.npz", "yes\toui\n", False),
    ],
)
def test_pairs_are_recognised(tmp_path, name, content, expected):
    (tmp_path / name).write_text(content)
    assert has_pairs(tmp_path / name) is expected
    assert not has_pairs(tmp_path / "no.tsv")
    (tmp_path / "empty.csv").touch()
    assert not has_pairs(tmp_path / "empty.csv")


# Tasks ----------------------------------------------------------------------------------------------------------------


def test_splits_are_disjoint_by_source_and_complete(tmp_path):
    pairs = [*PAIRS, *[(source, target + "!") for source, target in PAIRS[:20]]]
    (tmp_path / "a.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    for task in (TextPairs(pairs), OwnPairs(path=str(tmp_path / "a.tsv"))):
        parts = [texts_of(task, split) for split in ("train", "validation", "test")]
        sources = [{"".join(source) for source, _ in part} for part in parts]
        assert not sources[0] & sources[1]
        assert not (sources[0] | sources[1]) & sources[2]
        assert sum(map(len, parts)) == 60
        assert all(parts)


def test_a_test_file_leaves_all_pairs_for_training(tmp_path):
    for name, pairs in (("a", PAIRS), ("b", [("other", "abc")])):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    task = OwnPairs(path=str(tmp_path / "a.tsv"), test=str(tmp_path / "b.tsv"), validation=0.0)
    assert len(task.split("train", 0)) == 40
    # h is in no training source, and b and c are in no training target
    (pair,) = texts_of(task, "test")
    assert pair == (["o", "<unk>", "<unk>", "<unk>", "r"], [None, None, None])
    assert task.sides[1].unknown == 1.0


def test_rare_words_are_read_as_unknown_and_never_written():
    pairs = [("the cat sat down", "die katze"), ("the dog sat down", "die hund"), ("the cat ran down", "die katze")]
    all_train = {"units": "words", "test_share": 0.0, "validation": 0.0}
    task = TextPairs(pairs, **all_train)
    source, target = (side.symbols.names for side in task.sides)
    assert source == ("<unk>", "down", "the", "cat", "sat")
    assert target == ("die", "katze")
    assert texts_of(task, "train")[1] == (["the", "<unk>", "sat", "down"], ["die", None])
    assert "hund" in TextPairs(pairs, min_count=1, **all_train).sides[1].symbols.names


def test_accents_and_their_letters_are_one_symbol():
    one, other = (
        TextPairs([("e\u0301", "x")] * 3, validation=0, test_share=0),
        TextPairs([("\u00e9", "x")] * 3, validation=0, test_share=0),
    )
    assert one.sides[0].symbols.names == other.sides[0].symbols.names == ("<unk>", "\u00e9")


def test_units_follow_the_texts():
    sentences = [f"the {a} sees the {b}" for a in ("dog", "cat", "man") for b in ("dog", "cat", "man")]
    assert choose_units(sentences)[0] == "words"
    assert choose_units([f"all words {n} differ{n} here{n}" for n in range(9)])[0] == "characters"
    task = TextPairs([(f"w{n}", "AA B AA") for n in range(9)], units=("characters", "words"))
    assert [side.units for side in task.sides] == ["characters", "words"]
    written = task.signature().written
    assert (written.source_separator, written.separator) == ("", " ")


def test_the_baseline_is_the_better_of_a_constant_and_a_copy():
    copied = TextPairs([(f"abc{n}", f"abc{n}") for n in range(30)])
    assert copied.baseline(copied.split("test", 0)) == 0.0
    constant = TextPairs([(f"abc{n}", "yes") for n in range(30)])
    assert constant.baseline(constant.split("test", 0)) == 0.0
    other = TextPairs([(f"abc{n}", "yes") for n in range(30)], units=("characters", "words"))
    assert other.baseline(other.split("test", 0)) == 0.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TextPairs([("a", "b")]), "pairs must have at least 3 different sources, one for each split; got 1"),
        (lambda: TextPairs([]), "pairs must have at least one pair; got 0"),
        (lambda: TextPairs([("a", "")] * 3), r"pairs\[0\] must have a source and a target that are not empty"),
        (lambda: TextPairs(["ab"]), r"pairs\[0\] must be \(source, target\), two texts; got 'ab'"),
        (lambda: TextPairs(PAIRS, longest=4).signature(), r"pairs\[\d+\]: the source must have at most 4 characters"),
        (lambda: TextPairs(PAIRS, min_count=500).signature(), "min_count must leave some characters to learn"),
        (lambda: TextPairs(PAIRS, units="letters"), "units must be one of characters, words; got 'letters'"),
        (lambda: TextPairs(PAIRS, units=["words"] * 3), "units must be one for both sides, or one for the sources"),
        (lambda: TextPairs(PAIRS, unit="words"), "option must be one of"),
        (lambda: TextPairs().signature(), "This run was trained on texts in memory, which are not in its folder"),
    ],
)
def test_bad_options_are_one_clear_line(make, words):
    with pytest.raises(InputError, match=words):
        make()


# The edit distance ----------------------------------------------------------------------------------------------------


def by_recursion(a, b):
    """Levenshtein's definition."""

    @cache
    def distance(i, j):
        if not i or not j:
            return i + j
        changed = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1] or b[j - 1] < 0)
        return min(changed, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(a), len(b))


def test_edit_distances_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    one, other = ([rng.integers(-1, 3, rng.integers(0, 8)) for _ in range(60)] for _ in range(2))
    one = [np.abs(row) for row in one]
    found = edit_distances(Ragged.of(one), Ragged.of(other))
    assert found.tolist() == [by_recursion(tuple(a), tuple(b)) for a, b in zip(one, other, strict=True)]
    assert edit_distances(Ragged.of(one[:0] or [np.zeros(0, int)]), Ragged.of([np.arange(3)])).tolist() == [3]
