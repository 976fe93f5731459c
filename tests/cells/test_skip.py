"""Skip RNN: which steps it uses, its count and its budget."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import autapse
from autapse.checks import InputError
from tolerance import close

D, H = 3, 4


def with_chance(chance: float, **options: Any) -> Any:
    """A layer for which every Δ is `chance`."""
    layer = autapse.SkipRNN(D, H, dtype=torch.float64, **options)
    with torch.no_grad():
        layer.cells["l0"].weight_skip.zero_()
        layer.cells["l0"].bias_skip.fill_(math.log(chance / (1 - chance)))
    return layer


@pytest.mark.parametrize(
    ("chance", "used"),
    [
        (0.9, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (0.3, [0, 2, 4, 6, 8]),  # q: 1, 0.3, 0.6
        (0.2, [0, 3, 6, 9]),  # q: 1, 0.2, 0.4, 0.6
        (0.06, [0, 9]),
    ],
)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_steps_are_skipped_until_the_chance_is_a_half(chance: float, used: list[int], cell: str) -> None:
    layer = with_chance(chance, cell=cell)
    x = torch.randn(10, 2, D, dtype=torch.float64)
    output, h_n = layer(x)
    assert h_n[-1].flatten().tolist() == [len(used)] * 2
    before = torch.cat([torch.zeros(1, 2, H, dtype=torch.float64), output[:-1]])
    assert [t for t in range(10) if not torch.equal(output[t], before[t])] == used
    inner = layer.cells["l0"].inner
    alone = autapse.Recurrent(type(inner), D, H, dtype=torch.float64)
    alone.cells["l0"].load_state_dict(inner.state_dict())
    close(output[used], alone(x[used])[0])  # the other steps have no effect at all


def test_skipped_steps_leave_every_state_as_it_is() -> None:
    layer = with_chance(0.2, cell="lstm")
    _, _, states = layer(torch.randn(3, 2, D, dtype=torch.float64), return_states=True)
    for part in states[0][:2]:
        assert torch.equal(part[0], part[1])
        assert torch.equal(part[0], part[2])


@pytest.mark.parametrize(("cell", "read"), [("lstm", 1), ("phasedlstm:time=input", 1), ("skiprnn", 0)])
def test_times_and_counts_do_not_decide_what_is_skipped(cell: str, read: int) -> None:
    """Δ reads the LSTM's c and the GRU's h, not the time stamp or the count that come after them."""
    skipping = autapse.cells.SkipRNN(D, H, cell=cell, dtype=torch.float64)
    after = skipping(torch.randn(2, D, dtype=torch.float64))
    delta = torch.sigmoid(after[read] @ skipping.weight_skip + skipping.bias_skip)
    close(after[-2].squeeze(1), delta)  # the first step is used, so q' = Δ


def test_the_budget_is_paid_for_used_steps() -> None:
    cell = with_chance(0.2, budget=0.5).cells["l0"]
    state = (torch.zeros(2, H), torch.zeros(2, 1), torch.tensor([[3.0], [7.0]]))
    assert cell.penalty(state).tolist() == [1.5, 3.5]
    assert with_chance(0.2).cells["l0"].penalty(state) is None


def test_a_cell_inside_another_one_pays_too() -> None:
    cell = autapse.cells.SkipRNN(2, 3, cell="skiprnn:budget=0.5", budget=2.0)
    h, chance = torch.zeros(1, 3), torch.zeros(1, 1)
    state = (h, chance, torch.tensor([[3.0]]), chance, torch.tensor([[4.0]]))  # 3 used steps inside, 4 outside
    assert cell.penalty(state).tolist() == [0.5 * 3 + 2.0 * 4]


def test_the_budget_lowers_the_chance_of_steps() -> None:
    """The gradient of the number of used steps: by the straight-through estimator, used = Σ q."""
    layer = with_chance(0.3)
    _, h_n = layer(torch.randn(2, 1, D, dtype=torch.float64))
    (slope,) = torch.autograd.grad(h_n[-1].sum(), layer.cells["l0"].bias_skip)
    # q₁ = z₀·Δ + (1 − z₀)·(…) with z₀ = 1, so dused/db = dq₁/db = Δ′ = 0.3·0.7
    close(slope, torch.tensor([0.21], dtype=torch.float64))


def test_pieces_and_streams_continue_the_chance() -> None:
    layer = autapse.SkipRNN(D, H, cell="lstm", dtype=torch.float64)
    x = torch.randn(9, 2, D, dtype=torch.float64)
    whole, last = layer(x)
    first, carried = layer(x[:4])
    second, final = layer(x[4:], carried)
    close(torch.cat([first, second]), whole)
    close(final, last)
    stream = layer.stream(2)
    close(torch.stack([stream(row) for row in x]), whole.detach())


def test_it_starts_by_using_steps() -> None:
    cell = autapse.cells.SkipRNN(D, H)
    assert cell.bias_skip.tolist() == [1.0]
    assert cell.weight_skip.abs().max() <= H**-0.5
    q, used = cell.initial_state(2, torch.zeros(1))[-2:]
    assert (q.tolist(), used.tolist()) == ([[1.0], [1.0]], [[0.0], [0.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -1.0}, "budget must be a finite number at least 0; got -1.0."),
        ({"cell": "delayed"}, "cell must read the state of one step before, .*; got 'delayed'. Try gru."),
        ({"cell": "equilibriumlinear"}, "cell must read the state of one step before, and solve no equation"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        autapse.SkipRNN(D, H, **options)
