"""The scan on a cell whose states can be counted by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import autapse
from autapse.unfold import scan_reference


class Counter(autapse.Cell):
    """total' = total + u; seen' = 10·seen + t: the second state spells the positions that a sequence went through."""

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (1, 1)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: float, t: int) -> tuple[Tensor, ...]:
        total, seen = state
        return total + weights * u, 10 * seen + t


def states(*values: float) -> Tensor:
    return torch.tensor(values)[:, None]


def test_all_sequences_of_one_length() -> None:
    drive = states(1, 2, 10, 20, 100, 200)
    trace, (total, seen) = scan_reference(Counter(1, 1), 1.0, drive, (states(0, 1000), states(0, 0)), [2, 2, 2])
    assert [step[0].flatten().tolist() for step in trace] == [[1, 1002], [11, 1022], [111, 1222]]
    assert total.flatten().tolist() == [111, 1222]
    assert seen.flatten().tolist() == [12, 12]


def test_sequences_stop_at_their_own_end() -> None:
    """Lengths 3, 1, 1 and 0: the last one keeps its initial state."""
    drive = states(1, 2, 3, 10, 100)
    initial = (states(0, 0, 0, 7), states(0, 0, 0, 8))
    trace, (total, seen) = scan_reference(Counter(1, 1), 1.0, drive, initial, [3, 1, 1])
    assert [step[0].flatten().tolist() for step in trace] == [[1, 2, 3], [11], [111]]
    assert total.flatten().tolist() == [111, 2, 3, 7]
    assert seen.flatten().tolist() == [12, 0, 0, 8]


@pytest.mark.parametrize("start", [0, 4])
def test_positions_count_from_start(start: int) -> None:
    _, (_, seen) = scan_reference(Counter(1, 1), 1.0, states(1, 1), (states(0), states(0)), [1, 1], start)
    assert seen.item() == 10 * start + start + 1


def test_weights_reach_every_step() -> None:
    _, (total, _) = scan_reference(Counter(1, 1), 3.0, states(1, 1), (states(0), states(0)), [1, 1])
    assert total.item() == 6


def test_no_steps() -> None:
    trace, final = scan_reference(Counter(1, 1), 1.0, torch.zeros(0, 1), (states(5, 6), states(7, 8)), [])
    assert trace == []
    assert [s.flatten().tolist() for s in final] == [[5, 6], [7, 8]]
