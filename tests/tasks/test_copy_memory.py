import math

import numpy as np
import pytest
from scipy import stats

from autapse.tasks import Copy


def described(message: list[int], delay: int, symbols: int) -> tuple[list[int], list[int]]:
    """The sequence and its targets, one step after another."""
    blank, marker = symbols, symbols + 1
    shown = message + [blank] * (delay - 1) + [marker] + [blank] * len(message)
    return shown, [blank] * (len(message) + delay) + message


@pytest.mark.parametrize(("delay", "memory", "symbols"), [(50, 10, 8), (1, 1, 2), (7, 3, 4)])
def test_sequences_are_as_described(delay, memory, symbols):
    data = Copy(delay=delay, memory=memory, symbols=symbols, test_size=100).split("test", seed=0)
    assert data.inputs.shape == (100, delay + 2 * memory, symbols + 2)
    for sequence, targets in zip(data.inputs, data.targets, strict=True):
        assert sorted(np.unique(sequence)) == [0, 1]
        assert (sequence.sum(axis=1) == 1).all()
        shown = sequence.argmax(axis=1).tolist()
        assert (shown, targets.tolist()) == described(shown[:memory], delay, symbols)


def test_symbols_are_equally_likely_at_every_place():
    data = Copy(symbols=4, memory=3, test_size=10_000).split("test", seed=0)
    _, counts = np.unique(data.targets[:, -3:], axis=0, return_counts=True)
    assert len(counts) == 4**3
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize("options", [{}, {"delay": 7, "memory": 3, "symbols": 4}])
def test_baseline_is_the_memoryless_cross_entropy(options):
    task = Copy(test_size=20, **options)
    data = task.split("test", seed=0)
    probabilities = np.zeros((*data.targets.shape, task.output_size))
    probabilities[:, : -task.memory, task.symbols] = 1
    probabilities[:, -task.memory :, : task.symbols] = 1 / task.symbols
    score = -np.log(np.take_along_axis(probabilities, data.targets[..., None], axis=-1)).mean()
    assert task.baseline(data) == pytest.approx(score, rel=1e-12)


def test_baseline_at_the_defaults():
    task = Copy(test_size=1)
    assert task.baseline(task.split("test", seed=0)) == pytest.approx(10 * math.log(8) / 70, rel=1e-12)
