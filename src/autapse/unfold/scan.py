"""The scan: a stencil of (−1) solved one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autapse.cells import Cell
from autapse.forms import State


def scan_reference(
    cell: Cell,
    weights: Any,  # what cell.prepare() made
    drive: Tensor,  # [N, G], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # how many sequences are running at each step; never grows; sums to N
    start: int = 0,  # position of the first step
) -> tuple[list[State], State]:
    """The states after each step, and the state of each sequence at its own end."""
    trace: list[State] = []
    ended: list[State] = []
    for t, u in enumerate(drive.split(list(sizes)), start):
        state, stopped = _split(state, len(u))
        ended += stopped
        state = cell.step(u, state, weights, t)
        if not trace:
            cell.checked(state, len(u))
        trace.append(state)
    return trace, _rejoin(state, ended)


def _split(state: State, running: int) -> tuple[State, list[State]]:
    if running == len(state[0]):
        return state, []
    return tuple(s[:running] for s in state), [tuple(s[running:] for s in state)]


def _rejoin(state: State, ended: list[State]) -> State:
    parts = [state, *reversed(ended)]
    return state if len(parts) == 1 else tuple(torch.cat(part) for part in zip(*parts, strict=True))
