"""The scan on a cell whose states can be counted by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import autapse
from autapse.unfold import scan_reference


class Counter(autapse.Cell):
    """total' = total + w·u; seen' = 10·seen + t: the second state spells the positions that a sequence went through."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__(1, 1)
        self.factor, self.prepared, self.driven = factor, 0, 0

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (1, 1)

    def prepare(self) -> float:
        self.prepared += 1
        return self.factor

    def drive(self, x: Tensor) -> Tensor:
        self.driven += 1
        return -x

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: float, t: int) -> tuple[Tensor, ...]:
        total, seen = state
        return total - weights * u, 10 * seen + t


def states(*values: float) -> Tensor:
    return torch.tensor(values)[:, None]


def test_all_sequences_of_one_length() -> None:
    x = states(1, 2, 10, 20, 100, 200)
    (totals, seens), (total, seen) = scan_reference(Counter(), x, (states(0, 1000), states(0, 0)), [2, 2, 2])
    assert totals.flatten().tolist() == [1, 1002, 11, 1022, 111, 1222]
    assert seens.flatten().tolist() == [0, 0, 1, 1, 12, 12]
    assert total.flatten().tolist() == [111, 1222]
    assert seen.flatten().tolist() == [12, 12]


def test_sequences_stop_at_their_own_end() -> None:
    """Lengths 3, 1, 1 and 0: the last one keeps its initial state."""
    x = states(1, 2, 3, 10, 100)
    initial = (states(0, 0, 0, 7), states(0, 0, 0, 8))
    (totals, seens), (total, seen) = scan_reference(Counter(), x, initial, [3, 1, 1])
    assert totals.flatten().tolist() == [1, 2, 3, 11, 111]
    assert seens.flatten().tolist() == [0, 0, 0, 1, 12]
    assert total.flatten().tolist() == [111, 2, 3, 7]
    assert seen.flatten().tolist() == [12, 0, 0, 8]


@pytest.mark.parametrize("start", [0, 4])
def test_positions_count_from_start(start: int) -> None:
    _, (_, seen) = scan_reference(Counter(), states(1, 1), (states(0), states(0)), [1, 1], start)
    assert seen.item() == 10 * start + start + 1


def test_weights_reach_every_step() -> None:
    """They are prepared once, and the input is driven once, for all steps."""
    cell = Counter(3.0)
    _, (total, _) = scan_reference(cell, states(1, 1), (states(0), states(0)), [1, 1])
    assert total.item() == 6
    assert (cell.prepared, cell.driven) == (1, 1)


@pytest.mark.parametrize("keep", [False, True])
def test_no_steps(keep: bool) -> None:
    trace, final = scan_reference(Counter(), torch.zeros(0, 1), (states(5, 6), states(7, 8)), [], 0, keep)
    assert [tuple(s.shape) for s in trace] == [(0, 1)] * (2 if keep else 1)  # only the output, or all states
    assert [s.flatten().tolist() for s in final] == [[5, 6], [7, 8]]


def test_a_step_that_returns_other_shapes_is_an_error() -> None:
    class Bare(Counter):
        def step(self, u: Tensor, state: tuple[Tensor, ...], weights: float, t: int) -> tuple[Tensor, ...]:
            return super().step(u, state, weights, t)[:1]

    with pytest.raises(autapse.checks.ShapeError, match="one tensor per state"):
        scan_reference(Bare(), states(1, 1), (states(0), states(0)), [1, 1], start=3)
