"""The scan in plain PyTorch: one step after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
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
    terms = FlowTerms(cell, x, state, sizes, start, reverse, flow) if flow and torch.is_grad_enabled() else None
    probes = [] if terms is None else terms.split(terms.probes())
    weights = cell.prepare() if weights is None else weights
    drive, count, solved = cell.drive(x), len(cell.state_sizes), cell.is_solved
    output_only = not keep and cell.outputs_state

    def explicit(u: Tensor, state: State, t: int) -> State:
        return cell.advance(u, state, weights, t, check=t == start)

    step: Step = partial(cell.solved_step, weights, note or (lambda report: None)) if solved else explicit
    if terms is not None:
        step = seen_at_states(step, lambda t: probes[t - start], count)
    if clip < math.inf:
        step = clipped_at_states(step, clip, count)
    with without_autocast(x.device.type) if solved else nullcontext():
        states, final = walk(step, drive, state, sizes, start, reverse, 1 if output_only and terms is None else count)
    if terms is not None:
        terms.states = tuple(s.detach() for s in states)
        states = states[:1] if output_only else states
    return states, final
