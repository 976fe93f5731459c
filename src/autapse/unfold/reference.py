"""The scan in plain PyTorch: one step after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autapse.cells import Cell
from autapse.cells.base import Note
from autapse.forms import Scanned, State
from autapse.gradient.at_states import Step, clipped_at_states, seen_at_states
from autapse.gradient.function import without_autocast
from autapse.sequences.walk import walk
from autapse.solve import SolveReport
from autapse.unfold.information_flow import FlowTerms


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
    probes: Sequence[State] = (),  # of each step, to see the gradients at its states
) -> Scanned:
    weights = cell.prepare() if weights is None else weights

    def explicit(u: Tensor, state: State, t: int) -> State:
        return cell.advance(u, state, weights, t, check=t == start)

    drive, count = cell.drive(x), len(cell.state_sizes)
    traced = count if keep or not cell.outputs_state else 1
    step: Step = explicit
    if cell.is_solved:
        step = partial(cell.solved_step, weights, note or _ignore)
    if probes:
        step = seen_at_states(step, lambda t: probes[t - start], count)
    if clip < math.inf:
        step = clipped_at_states(step, clip, count)
    if not cell.is_solved:
        return walk(step, drive, state, sizes, start, reverse, traced)
    with without_autocast(x.device.type):
        return walk(step, drive, state, sizes, start, reverse, traced)


def _ignore(report: SolveReport) -> None:
    pass


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
    states, final = _scan(cell, x, state, sizes, start, True, None, reverse, None, clip, probes)
    terms.states = tuple(s.detach() for s in states)
    return states if keep or not cell.outputs_state else states[:1], final
