"""The scan in plain PyTorch: one step after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autapse.cells import Cell
from autapse.forms import State
from autapse.gradient.at_states import Step, clipped_at_states, seen_at_states
from autapse.gradient.function import without_autocast
from autapse.sequences.walk import walk
from autapse.solve import SolveReport
from autapse.unfold.information_flow import FlowTerms

Scanned = tuple[State, State]  # one [N, S] per state, after each step; one [B, S] per carried tensor, at the ends
Note = Callable[[SolveReport], None]


def scan_reference(
    cell: Cell,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # number of sequences at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    keep: bool = True,  # all states of each step, not only the first, which is the output
    weights: Any = None,  # the result of cell.prepare(), if the caller has it
    reverse: bool = False,  # from the last step to the first; for sequences of one length
    note: Note | None = None,  # gets the report of each step that is solved
    clip: float = math.inf,  # bound of each entry of the gradient at a state, in the backward pass
    flow: float = 0.0,  # weight of each term of the regulariser for information flow, in the backward pass
) -> Scanned:
    """The states after each step and at each sequence's own end."""
    if flow and torch.is_grad_enabled():
        return _scan_with_flow(cell, x, state, sizes, start, keep, reverse, clip, flow)
    return _scan(cell, x, state, sizes, start, keep, weights, reverse, note, clip)


def _scan(
    cell: Cell,
    x: Tensor,
    state: State,
    sizes: Sequence[int],
    start: int,
    keep: bool,
    weights: Any,
    reverse: bool,
    note: Note | None,
    clip: float,
    seen: Callable[[Step], Step] = lambda step: step,
) -> Scanned:
    weights = cell.prepare() if weights is None else weights

    def step(u: Tensor, state: State, t: int) -> State:
        return cell.advance(u, state, weights, t, check=t == start)

    def solved_step(u: Tensor, state: State, t: int) -> State:
        new, report = cell.solved_step(u, state, weights)
        if note is not None:
            note(report)
        return new

    def passing(step: Step) -> Step:
        return clipped_at_states(seen(step), clip, len(cell.state_sizes))

    keep = keep or not cell.outputs_state
    drive, count = cell.drive(x), len(cell.state_sizes) if keep else 1
    if not cell.is_solved:
        return walk(passing(step), drive, state, sizes, start, reverse, count)
    with without_autocast(x.device.type):
        return walk(passing(solved_step), drive, state, sizes, start, reverse, count)


def _scan_with_flow(
    cell: Cell,
    x: Tensor,
    state: State,
    sizes: Sequence[int],
    start: int,
    keep: bool,
    reverse: bool,
    clip: float,
    flow: float,
) -> Scanned:
    """The scan with probes that see the gradient at each state."""
    terms = FlowTerms(cell, x, state, sizes, start, reverse, flow)
    probes = terms.split(terms.probes())

    def seen(step: Step) -> Step:
        return seen_at_states(step, lambda t: probes[t - start], len(cell.state_sizes))

    states, final = _scan(cell, x, state, sizes, start, True, None, reverse, None, clip, seen)
    terms.states = tuple(s.detach() for s in states)
    return states if keep or not cell.outputs_state else states[:1], final
