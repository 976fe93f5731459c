"""The tasks multiplication, xor, temporal-order and random-permutation, each against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from autapse.checks import InputError
from autapse.tasks import XOR, Adding, Multiplication, RandomPermutation, TemporalOrder
from autapse.training import objective


@pytest.mark.parametrize("kind", [Adding, Multiplication, XOR])
@pytest.mark.parametrize("length", [4, 9, 10, 31, 100])
def test_early_markers_are_in_the_first_tenth_and_before_the_middle(kind, length):
    data = kind(length=length, markers="early", test_size=200).split("test", seed=0)
    places = np.array([np.flatnonzero(marks) for marks in data.inputs[..., 1]])
    tenth = max(1, length // 10)
    assert places.shape == (200, 2)
    assert (places[:, 0] < tenth).all()
    assert ((tenth <= places[:, 1]) & (places[:, 1] < length // 2)).all()


def test_targets_follow_from_the_marked_values():
    for sequence, target in zip(*_parts(Multiplication(length=30, test_size=100)), strict=True):
        first, second = (float(u) for u, mark in sequence if mark == 1)
        assert target[0] == pytest.approx(first * second, abs=1e-6)
    for sequence, target in zip(*_parts(XOR(length=30, test_size=100)), strict=True):
        first, second = (int(b) for b, mark in sequence if mark == 1)
        assert target == first ^ second
    assert set(np.unique(XOR(length=30).split("test", 0).inputs)) == {0.0, 1.0}


def test_the_trivial_product_is_wrong_as_often_as_an_integral_says():
    for tolerance in (0.04, 0.1, 0.3, 0.9):
        low, high = max(0.25 - tolerance, 0), min(0.25 + tolerance, 1)
        right, _ = integrate.quad(lambda p: -math.log(p), low, high)  # the density of a product of two uniform numbers
        task = Multiplication(tolerance=tolerance)
        assert task.baseline(task.split("test", 0)) == pytest.approx(1 - right, abs=1e-7)


def test_an_answer_is_wrong_beyond_the_tolerance():
    goal = objective(Multiplication())
    output, target = torch.tensor([[0.5], [0.5], [0.5]]), torch.tensor([[0.53], [0.45], [0.55]])
    assert int(goal.score(output, target)) == 2
    assert float(goal.loss(output, target)) == pytest.approx(0.03**2 + 0.05**2 + 0.05**2, rel=1e-4)


@pytest.mark.parametrize("relevant", [2, 3])
@pytest.mark.parametrize("length", [10, 50, 117])
def test_the_class_is_the_order_of_the_relevant_symbols(relevant, length):
    task = TemporalOrder(length=length, relevant=relevant, test_size=300)
    begins = {2: (0.1, 0.5), 3: (0.1, 0.33, 0.66)}[relevant]
    names = ["X", "Y", "a", "b", "c", "d"]
    orders = ["XX", "XY", "YX", "YY"] if relevant == 2 else [a + b + c for a in "XY" for b in "XY" for c in "XY"]
    for sequence, target in zip(*_parts(task), strict=True):
        symbols = [names[int(np.argmax(step))] for step in sequence]
        assert (sequence.sum(axis=1) == 1).all()
        places = [t for t, symbol in enumerate(symbols) if symbol in "XY"]
        assert "".join(symbols[t] for t in places) == orders[target]
        for place, begin in zip(places, begins, strict=True):
            assert int(begin * length) <= place < int((begin + 0.1) * length)


@pytest.mark.parametrize("length", [2, 50, 99, 150])
def test_the_first_symbol_comes_again_after_a_permutation(length):
    data = RandomPermutation(length=length, test_size=200).split("test", seed=0)
    symbols = data.inputs.argmax(-1)
    np.testing.assert_array_equal(data.targets, symbols[:, 0])
    assert set(np.unique(data.targets)) == {0, 1}
    for row in symbols[:, 1:99]:
        assert row.min() >= 2
        assert len(set(row)) == len(row)  # a permutation has nothing twice


def test_all_classes_are_equally_likely():
    for task in (XOR(test_size=8000), TemporalOrder(test_size=8000), RandomPermutation(length=4, test_size=8000)):
        counts = np.unique(task.split("test", seed=0).targets, return_counts=True)[1]
        assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Multiplication(tolerance=-0.1), "tolerance must be"),
        (lambda: XOR(length=3), "length must be"),
        (lambda: XOR(markers="late"), "markers must be"),
        (lambda: TemporalOrder(length=9), "length must be"),
        (lambda: TemporalOrder(relevant=4), "relevant must be"),
        (lambda: RandomPermutation(symbols=2), "symbols must be"),
    ],
)
def test_bad_options_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def _parts(task):
    data = task.split("test", seed=0)
    return data.inputs, data.targets
