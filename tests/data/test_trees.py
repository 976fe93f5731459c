"""Trees from brackets, nested tuples, parents and sentences; what is not a tree gets one clear line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autapse.checks import InputError
from autapse.data.trees import Trees

DEEP = 100_000
NO_LABEL = "line 1 must have a label after each opening bracket; got '{}'. Write _ for an unknown one."


def test_brackets_are_read_and_written() -> None:
    texts = ["(4 (3 really) (3 good))", "(1 dull)", "(S (NP (D the) (A big) (N cat)) (VP (V sat)))"]
    trees = Trees.of_brackets(texts)
    assert [trees.brackets(n) for n in range(3)] == texts
    assert trees.parents[2].tolist() == [3, 3, 3, 6, 5, 6, -1]
    assert trees.sentence(2) == ("the", "big", "cat", "sat")
    assert trees.labels[:4] == ("3", "3", "4", "1")
    assert trees.arity == 3
    assert trees.flat_parents.tolist() == [2, 2, -1, -1, 7, 7, 7, 10, 9, 10, -1]
    assert trees.distances.tolist() == [2, 1, 0, 0, 3, 2, 1, 3, 1, 1, 0]


def test_brackets_of_the_penn_treebank() -> None:
    """An outermost bracket without a label, words beside subtrees, spaces anywhere."""
    trees = Trees.of_brackets(["( (S (NP It)(VP works) ) )", "(NP the (A big) cat)"], labels=True)
    assert trees.brackets(0) == "(S (NP It) (VP works))"
    assert trees.brackets(1) == "(NP (_ the) (A big) (_ cat))"


def test_labels_are_optional() -> None:
    trees = Trees.of_brackets(["((the cat) (sat (on it)))", "(a b)"])
    assert trees.brackets(0) == "((the cat) (sat (on it)))"
    assert set(trees.labels) == {None}
    assert Trees.of_brackets(["(a b)"]).labels == ("a",)  # on its own this is a label and a word
    assert Trees.of_brackets(["(_ (_ a) (2 b))"]).labels == (None, "2", None)


def test_nested_tuples() -> None:
    trees = Trees.of_nested([(("the", "cat"), "sat"), "hello", [["a", "b", "c"]]])
    assert [trees.brackets(n) for n in range(3)] == ["((the cat) sat)", "hello", "(a b c)"]


trees_of_words = st.recursive(
    st.sampled_from("abcd"), lambda inner: st.lists(inner, min_size=2, max_size=4).map(tuple), max_leaves=30
)


@given(st.lists(trees_of_words, min_size=1, max_size=4))
def test_every_form_is_the_same_tree(nested: list[Any]) -> None:
    trees = Trees.of_nested(nested)
    own = [trees.parents[n].tolist() for n in range(len(trees))]
    words = [trees.words[trees.parents.starts[n] : trees.parents.starts[n + 1]] for n in range(len(trees))]
    for n, parents in enumerate(own):
        assert all(node < parent for node, parent in enumerate(parents[:-1]))  # children first, the root last
        assert parents[-1] == -1
        texts = trees.brackets(n)
        if "(" in texts:
            again = Trees.of_brackets([texts], labels=False)
            assert (again.parents.values.tolist(), again.words) == (parents, words[n])
    again = Trees.of_parents(own, words)
    assert again.parents.values.tolist() == trees.parents.values.tolist()
    assert again.words == trees.words


def test_parents_in_any_order() -> None:
    trees = Trees.of_parents([[-1, 0, 0, 2, 2]], [[None, "a", None, "b", "c"]], [["5", "1", "4", "2", "3"]])
    assert trees.brackets(0) == "(5 (1 a) (4 (2 b) (3 c)))"


def test_trees_over_sentences() -> None:
    words = "a b c d e".split()
    shapes = {s: Trees.over([words, ["x"]], s) for s in ("balanced", "left", "right")}
    assert shapes["balanced"].brackets(0) == "(((a b) c) (d e))"
    assert shapes["left"].brackets(0) == "((((a b) c) d) e)"
    assert shapes["right"].brackets(0) == "(a (b (c (d e))))"
    assert {trees.brackets(1) for trees in shapes.values()} == {"x"}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 33])
def test_balanced_trees_are_as_low_as_possible(count: int) -> None:
    from autapse.sequences.tree_batch import depths

    trees = Trees.over([["w"] * count])
    assert trees.lengths.tolist() == [2 * count - 1]
    assert depths(trees.flat_parents).max() == int(np.ceil(np.log2(count)))


def test_other_structures_keep_the_labels_of_words_and_roots() -> None:
    trees = Trees.of_brackets(["(9 (1 a) (8 (2 b) (3 c)))", "(7 (5 d) (6 e))"])
    other = trees.restructured("left")
    assert other.brackets(0) == "(9 (_ (1 a) (2 b)) (3 c))"
    assert other.brackets(1) == "(7 (5 d) (6 e))"
    assert trees.restructured("given") is trees


def test_some_trees_of_many() -> None:
    trees = Trees.of_brackets(["(1 a)", "(2 (3 b) (4 c))", "(5 d)"]).take([1, 0])
    assert [trees.brackets(n) for n in range(len(trees))] == ["(2 (3 b) (4 c))", "(1 a)"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 a)", "line 1 must close every bracket; got '1 that are open at the end of (3 (2 a)'."),
        ("(3 (2 a)))", "line 1 must be one tree; got \"')' after its end\". Write one tree per line."),
        ("(3 (2 a)) (2 b)", "line 1 must be one tree; got \"'(' after its end\". Write one tree per line."),
        (")", "line 1 must be a tree in brackets, such as (3 (2 It) (4 works)); got ')'."),
        ("hello", "line 1 must be a tree in brackets, such as (3 (2 It) (4 works)); got 'hello'."),
        ("(3)", "line 1 must have a word or a tree after each label; got '(3)'."),
        ("(3 ((2 a) (1 b)) (0 c))", NO_LABEL.format("(3 ((2 a) (1 b)) (0 c))")),
        ("((2 a) (1 b))", NO_LABEL.format("((2 a) (1 b))")),
    ],
)
def test_bad_brackets_are_named(line: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        Trees.of_brackets([line], labels=True)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([-1, -1], "parents[0] must have one root, whose parent is −1; got '2 roots'."),
        ([0], "parents[0] must have one root, whose parent is −1; got '0 roots'."),
        ([1, 0, -1], "parents[0] must be a tree, in which no node is above itself; got 'a cycle above node 0'."),
        ([3, -1], "parents[0][0] must be an integer of at least -1 and at most 1; got 3."),
    ],
)
def test_bad_parents_are_named(parents: list[int], message: str) -> None:
    with pytest.raises(InputError) as error:
        Trees.of_parents([parents])
    assert str(error.value) == message


def test_other_bad_trees_are_named() -> None:
    with pytest.raises(InputError, match="trees must have at least one tree"):
        Trees.of_brackets([" "])
    with pytest.raises(InputError, match=r"trees\[0\] must be nested tuples or lists of words; got 3"):
        Trees.of_nested([("a", 3)])
    with pytest.raises(InputError, match="have a word or a tree in each list"):
        Trees.of_nested([("a", ())])
    with pytest.raises(InputError, match=r"sentences\[0\] must be a list with at least one word"):
        Trees.over([[]])
    with pytest.raises(InputError, match="structure must be one of balanced, left, right"):
        Trees.over([["a"]], "centre")
    with pytest.raises(InputError, match="have one entry for each of 2 nodes"):
        Trees.of_parents([[1, -1]], [["a"]])
    loop: list[Any] = ["a"]
    loop.append(loop)
    with pytest.raises(InputError, match="not contain itself"):
        Trees.of_nested([loop])


def test_deep_trees_do_not_overflow_the_stack() -> None:
    assert Trees.of_brackets(["(0 " * DEEP + "a" + ")" * DEEP]).lengths.tolist() == [DEEP]
    with pytest.raises(InputError, match="close every bracket"):
        Trees.of_brackets(["(" * DEEP])
    less = DEEP // 20  # still more than Python's recursion allows
    assert Trees.of_brackets(["(0 (1 a) " * less + "(1 b)" + ")" * less]).lengths.tolist() == [2 * less + 1]
    nested: Any = "a"
    for _ in range(less):
        nested = (nested, "b")
    assert Trees.of_nested([nested]).brackets(0).startswith("(" * less)
    assert Trees.over([["w"] * less], "left").lengths.tolist() == [2 * less - 1]
    assert Trees.of_parents([[*range(1, less), -1]]).lengths.tolist() == [less]
