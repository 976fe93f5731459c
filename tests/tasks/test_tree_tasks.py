"""Tasks with trees: expressions that Python can evaluate, and files in brackets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.tasks import IGNORE, SST, Expressions, ExpressionsText, OwnTrees

LINES = ["(3 (2 It) (4 Works))", "(1 (2 it) (1 (2 never) (3 works)))", "(2 it)", "(4 (3 works) (_ well))"]
SMALL = {"train_size": 40, "validation_size": 20, "test_size": 20}


def file(folder: Path, lines: list[str] = LINES, name: str = "trees.txt") -> str:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / name)


def evaluated(tokens: list[str]) -> int:
    """The value of an expression with brackets, by Python's own parser."""
    names = {"+": "+", "max": "@", "min": "%", "(": "(", ")": ")"}
    text = "".join(names.get(token, f"V({token})") for token in tokens)

    class V:
        def __init__(self, n: int) -> None:
            self.n = n

        def __add__(self, other: V) -> V:
            return V((self.n + other.n) % 10)

        def __matmul__(self, other: V) -> V:
            return V(max(self.n, other.n))

        def __mod__(self, other: V) -> V:
            return V(min(self.n, other.n))

    return eval(text, {"V": V}).n


def test_expressions_have_the_value_that_python_gives() -> None:
    task = ExpressionsText(**SMALL)
    data, words = task.split("train", seed=2), task.signature().vocabularies[0]
    for n in range(len(data)):
        tokens = [words[number] for number in data.inputs[n][:, 0]]
        assert tokens.count("(") == tokens.count(")")
        assert data.targets[n][-1] == evaluated(tokens)
        assert ((data.targets[n] != IGNORE) == (np.array(tokens) == ")")).all()


def test_trees_and_texts_are_the_same_expressions() -> None:
    trees, texts = (kind(**SMALL).split("test", seed=4) for kind in (Expressions, ExpressionsText))
    for n in range(len(trees)):
        tree, text = (data.targets[n][data.targets[n] != IGNORE] for data in (trees, texts))
        assert (tree == text).all()
        digits = trees.inputs[n][:, 0] - 2
        assert (digits[digits < 10] == texts.inputs[n][:, 0][texts.inputs[n][:, 0] < 10]).all()
    assert Expressions(**SMALL).baseline(trees) == ExpressionsText(**SMALL).baseline(texts)


def test_scores_may_be_on_longer_expressions() -> None:
    task = Expressions(numbers=3, score_numbers=8, **SMALL)
    assert task.split("train", seed=0).inputs.lengths.max() == 5
    assert set(task.split("test", seed=0).inputs.lengths) == {15}


def test_a_file_of_trees(tmp_path: Path) -> None:
    task = OwnTrees(path=file(tmp_path), test=file(tmp_path, LINES[:1], "test.txt"), validation=0.25, min_count=2)
    known = task.signature()
    assert known.classes == ("1", "2", "3", "4")
    assert known.vocabularies[0] == ("<node>", "<unk>", "it", "works")
    assert known.tree is not None
    assert known.tree.arity == 2
    test = task.split("test", seed=0)
    assert test.inputs[0].tolist() == [[2, 2], [3, 1], [0, 0]]
    assert test.targets[0].tolist() == [1, 3, 2]
    assert len(task.split("train", seed=0)) == 3
    assert len(task.split("validation", seed=0)) == 1
    assert task.baseline(test) == 0  # one root


def test_options_change_what_is_read(tmp_path: Path) -> None:
    path, test = file(tmp_path), file(tmp_path, LINES[1:2], "test.txt")
    options = {"path": path, "test": test, "validation": 0}
    root = OwnTrees(**options, targets="root").split("test", seed=0)
    assert root.targets[0].tolist() == [IGNORE] * 4 + [0]
    left = OwnTrees(**options, structure="left").split("test", seed=0)
    assert left.inputs[0][:, 1].tolist() == [2, 1, 2, 1, 0]
    assert left.targets[0].tolist() == [1, 1, IGNORE, 2, 0]
    upper = OwnTrees(**options, lower=False, min_count=1).signature().vocabularies[0]
    assert {"It", "it", "Works"} <= set(upper)


def test_the_test_part_is_held_out(tmp_path: Path) -> None:
    task = OwnTrees(path=file(tmp_path, LINES * 5), test_share=0.2)
    assert [len(task.split(split, seed=0)) for split in ("train", "validation", "test")] == [14, 2, 4]
    assert len(OwnTrees(path=file(tmp_path), test_share=0).split("test", seed=0)) == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"trees.txt has no tree"),
        (["(3 (2 a)"], r"trees.txt, line 1 must close every bracket"),
        (["(3 a)", "", "(2 b"], r"trees.txt, line 3 must close every bracket"),
        (["(_ (2 a) (3 b))"] * 3, r"trees.txt, line 1 must have a label at its root; got None"),
        (["((2 a) (3 b))"] * 3, r"line 1 must have a label after each opening bracket"),
        (["(3 a)"], "must have at least 3 trees, one for each split; got 1"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OwnTrees(path=file(tmp_path, lines)).signature()


def test_bad_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="scored must be root if only roots have targets"):
        OwnTrees(path="x", targets="root", scored="nodes")
    with pytest.raises(InputError, match="structure must be one of given, balanced, left, right"):
        OwnTrees(path="x", structure="up")
    with pytest.raises(InputError, match="sentiments must be 2 or 5; got 3"):
        SST(sentiments=3)
    with pytest.raises(InputError, match="numbers must be an integer of at least 2"):
        Expressions(numbers=1)


def test_the_treebank_has_five_or_two_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sst"
    folder.mkdir()
    for name in ("train", "dev", "test"):
        file(folder, ["(3 (2 It) (4 works))", "(2 (1 so) (3 so))", "(0 (2 it) (1 fails))"], f"{name}.txt")
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path))
    five, two = SST(min_count=1), SST(sentiments=2, min_count=1)
    assert five.signature().classes == ("0", "1", "2", "3", "4")
    assert two.signature().classes == ("negative", "positive")
    assert (len(five.split("test", seed=0)), len(two.split("test", seed=0))) == (3, 2)  # a neutral sentence is left out
    assert two.split("test", seed=0).targets[0].tolist() == [IGNORE, 1, 1]
    assert len(SST(validation=0).split("train", seed=0)) == 6
