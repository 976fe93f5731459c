"""The scan in plain PyTorch: a stencil of (−1) solved one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autapse.cells import Cell
from autapse.forms import State

Scanned = tuple[State, State]  # the states after each step, one [N, S] each; the states at the ends, one [B, S] each


def scan_reference(
    cell: Cell,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # how many sequences are running at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    keep: bool = True,  # all states of each step; what is not wanted here is dropped by the caller
    form: Any = None,  # what cell.prepare() gives, where the caller has it
) -> Scanned:
    """The states after each step, one [N, S] each, and the state of each sequence at its own end."""
    weights = cell.prepare() if form is None else form

    def step(u: Tensor, state: State, t: int) -> State:
        new = cell.step(u, state, weights, t)
        return cell.checked(new, len(u)) if t == start else new

    return walk(step, cell.drive(x), state, sizes, start)


def walk(
    step: Callable[[Tensor, State, int], State], drive: Tensor, state: State, sizes: Sequence[int], start: int
) -> Scanned:
    """`step` from position to position, its drive given; its gradient is autograd's, of any order."""
    trace: list[State] = []
    ended: list[State] = []
    for t, u in enumerate(drive.split(list(sizes)), start):
        state, stopped = _split(state, len(u))
        ended += stopped
        state = step(u, state, t)
        trace.append(state)
    states = tuple(torch.cat(column) for column in zip(*trace, strict=True)) if trace else tuple(s[:0] for s in state)
    return states, _rejoin(state, ended)


def _split(state: State, running: int) -> tuple[State, list[State]]:
    if running == len(state[0]):
        return state, []
    return tuple(s[:running] for s in state), [tuple(s[running:] for s in state)]


def _rejoin(state: State, ended: list[State]) -> State:
    parts = [state, *reversed(ended)]
    return state if len(parts) == 1 else tuple(torch.cat(part) for part in zip(*parts, strict=True))
