"""People's own sequences: what is read from text and tables, and what the model is told."""

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.ragged import Ragged
from autapse.tasks import IGNORE, SPLITS, OwnSequences

LINES = ["abc", "ab", "", "  cab ", "bbbb", "a"]


def text_file(place, lines=LINES, end="\n"):
    path = place / "lines.txt"
    path.write_text("\n".join(lines) + end)
    return str(path)


def table(place, text):
    path = place / "table.csv"
    path.write_text(text)
    return str(path)


def all_targets(task):
    parts = [task.split(split, 0).targets for split in SPLITS]
    return [part[n] for part in parts for n in range(len(part))]


@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
def test_lines_become_characters(tmp_path, end):
    task = OwnSequences(path=text_file(tmp_path, end=end), test_share=0.2, validation=0.2)
    signature = task.signature()
    assert signature.classes == ("a", "b", "c")
    assert (signature.written.longest, signature.written.separator) == (4, "")
    names = np.array(signature.classes)
    assert sorted("".join(names[row]) for row in all_targets(task)) == ["a", "ab", "abc", "bbbb", "cab"]


def test_rare_words_are_unknown_and_a_test_file_is_read(tmp_path):
    path = text_file(tmp_path, ["the cat sat", "the dog sat", "the cat"])
    other = tmp_path / "more.txt"
    other.write_text("the bird sat\n")
    task = OwnSequences(path=path, test=str(other), units="words", validation=0.0)
    assert task.signature().classes == ("<unk>", "the", "cat", "sat")
    assert task.split("test", 0).targets[0].tolist() == [1, 0, 3]
    assert len(task.split("train", 0)) == 3


TABLE = "sequence,time,x,bit,kind\n" + "".join(
    f"{n},{t},{n + t / 10},{(n + t) % 2},{'ab'[n % 2]}\n" for n in range(8) for t in range(3)
)


def test_columns_become_values_and_conditions(tmp_path):
    task = OwnSequences(path=table(tmp_path, TABLE.replace("3.1", "")), given=("kind",), channels=("bit", "x"))
    signature, train = task.signature(), task.split("train", 0)
    written = signature.written
    assert (written.columns, written.values, written.binary) == (("x", "bit"), 1, 1)
    assert (written.depends, written.one_length, written.gaps) == ("vector", True, True)
    assert signature.vocabularies == (("a", "b"),)
    for n in range(len(train)):
        values = train.targets[n]
        assert train.inputs[n, 0, 0] == int(values[0, 0]) % 2
        assert values[:, 1].tolist() == [(int(values[0, 0]) + t) % 2 for t in range(3)]
    gaps = [row for row in all_targets(task) if np.isnan(row).any()]
    assert len(gaps) == 1
    assert np.isnan(gaps[0]).sum() == 1


def test_a_column_that_changes_is_a_sequence(tmp_path):
    task = OwnSequences(path=table(tmp_path, TABLE), given=("x",), channels=("bit",))
    signature, train = task.signature(), task.split("train", 0)
    assert signature.written.depends == "sequence"
    assert signature.channels == ("x",)
    assert isinstance(train.inputs, Ragged)
    np.testing.assert_array_equal(train.inputs.lengths, train.targets.lengths)
    assert signature.mean == pytest.approx([np.mean(dense_train(task))], abs=0.5)


def dense_train(task):
    return task.both()[0].inputs.values


def test_one_long_series_is_cut(tmp_path):
    path = table(tmp_path, "x\n" + "".join(f"{n}\n" for n in range(103)))
    task = OwnSequences(path=path, length=10)
    found = sorted(int(row[0, 0]) for row in all_targets(task))
    assert found == list(range(0, 100, 10))
    assert task.signature().written.one_length
    with pytest.raises(InputError, match=r"validation and test; got 1\. --sequence-column NAME"):
        OwnSequences(path=path).both()


def test_a_target_is_what_sequences_depend_on_unless_nothing_is(tmp_path):
    path = table(tmp_path, TABLE.replace("kind", "target"))
    assert OwnSequences(path=path).signature().vocabularies == (("a", "b"),)
    alone = OwnSequences(path=path, given=("nothing",), channels=("x", "bit"))
    assert alone.signature().written.depends == "nothing"
    assert alone.split("train", 0).inputs.shape[1:] == (1, 0)


def test_the_trivial_predictor_knows_frequencies(tmp_path):
    task = OwnSequences(path=text_file(tmp_path, ["ab", "ab", "ab", "ab"] * 3), test_share=0.25)
    assert task.baseline(task.split("test", 0)) == pytest.approx(np.log(2))  # one length
    assert task.floor(task.split("test", 0)) is None
    assert IGNORE not in task.split("test", 0).targets.values


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": "letters"}, "units must be one of characters, words; got 'letters'."),
        ({"length": 1}, "length must be an integer of at least 2; got 1."),
        ({"given": "x"}, "given must be omitted: it is for series of values; got ('x',)."),
        ({"min_count": 0}, "min_count must be an integer of at least 1; got 0."),
    ],
)
def test_bad_options_are_named(tmp_path, options, message):
    with pytest.raises(InputError) as error:
        OwnSequences(path=str(tmp_path / "lines.txt"), **options)
    assert str(error.value) == message


def test_sequences_that_are_too_long_are_refused(tmp_path):
    path = text_file(tmp_path, ["a" * 5001, "b", "c"])
    with pytest.raises(InputError, match=r"have sequences of at most 5000 steps; got 5001\. Use shorter lines\."):
        OwnSequences(path=path).both()
