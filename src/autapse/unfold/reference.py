"""The scan in plain PyTorch: one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from autapse.cells import Cell
from autapse.forms import State
from autapse.sequences.walk import walk
from autapse.solve import SolveReport


class Scanned(NamedTuple):
    """What a scan finds."""

    states: State  # one [N, S] per state: after each step
    final: State  # one [B, S] per carried tensor: at each sequence's own end
    reports: Sequence[SolveReport] = ()  # one per step, where steps are solved


def scan_reference(
    cell: Cell,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # how many sequences are running at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    keep: bool = True,  # all states of each step; the reference always has them
    weights: Any = None,  # what cell.prepare() gives, where the caller has it
    reverse: bool = False,  # from the last step to the first; for sequences of one length
) -> Scanned:
    """The states after each step and at each sequence's own end."""
    weights = cell.prepare() if weights is None else weights
    reports: list[SolveReport] = []

    def step(u: Tensor, state: State, t: int) -> State:
        new, report = cell.reported_step(u, state, weights, t, check=t == start)
        reports.extend([] if report is None else [report])
        return new

    states, final = walk(step, cell.drive(x), state, sizes, start, reverse, len(cell.state_sizes))
    return Scanned(states, final, reports)
