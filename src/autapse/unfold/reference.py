"""The scan in plain PyTorch: one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autapse.cells import Cell
from autapse.forms import State
from autapse.solve import SolveReport

Scanned = tuple[State, State]  # one [N, S] per state, after each step; one [B, S] per carried tensor, at the ends
Note = Callable[[SolveReport], None]


def scan_reference(
    cell: Cell,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # how many sequences are running at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    keep: bool = True,  # all states of each step; the reference always has them
    weights: Any = None,  # what cell.prepare() gives, where the caller has it
    reverse: bool = False,  # from the last step to the first; for sequences of one length
    note: Note | None = None,  # gets the report of each step that is solved
) -> Scanned:
    """The states after each step and at each sequence's own end."""
    weights = cell.prepare() if weights is None else weights

    def step(u: Tensor, state: State, t: int) -> State:
        new, report = cell.reported_step(u, state, weights, t, check=t == start)
        if report is not None and note is not None:
            note(report)
        return new

    return walk(step, cell.drive(x), state, sizes, start, reverse, len(cell.state_sizes))


def walk(
    step: Callable[[Tensor, State, int], State],
    drive: Tensor,
    state: State,
    sizes: Sequence[int],
    start: int,
    reverse: bool = False,
    traced: int | None = None,  # how many of the state's tensors are wanted of each step; None for all
) -> Scanned:
    """`step` from position to position, given its drive; its gradient is autograd's, of any order."""
    trace: list[State] = []
    ended: list[State] = []
    steps = drive.split(list(sizes))
    for t, u in enumerate(reversed(steps) if reverse else steps, start):
        state, stopped = _split(state, len(u))
        ended += stopped
        state = step(u, state, t)
        trace.append(state[:traced])
    columns = zip(*(reversed(trace) if reverse else trace), strict=True)
    states = tuple(torch.cat(column) for column in columns) if trace else tuple(s[:0] for s in state[:traced])
    return states, _rejoin(state, ended)


def _split(state: State, running: int) -> tuple[State, list[State]]:
    if running == len(state[0]):
        return state, []
    return tuple(s[:running] for s in state), [tuple(s[running:] for s in state)]


def _rejoin(state: State, ended: list[State]) -> State:
    parts = [state, *reversed(ended)]
    return state if len(parts) == 1 else tuple(torch.cat(part) for part in zip(*parts, strict=True))
