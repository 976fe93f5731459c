"""Dual gates: transform and carry gates of a network, and what each step contributes to the last state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.diagnostics.deadline import is_over
from autapse.diagnostics.trajectories import CHUNK, Network, Trajectory, array, trajectory
from autapse.forms import GatedRecurrent, GlobalGates, Leaky, LongShortTerm, SharedGate, State, UpdateGate


class StepGates(NamedTuple):
    """One step as h' = H ∘ T + h ∘ C, [B, H] each."""

    candidate: Tensor
    transform: Tensor
    carry: Tensor


@dataclass(frozen=True, eq=False)
class DualGates:
    """h_t = H_t ∘ T_t + h_{t−1} ∘ C_t, from `dual_gates`, over T steps, B sequences and H units; zero past an end.

    For an LSTM h is its cell c.
    """

    candidate: np.ndarray  # [T, B, H], H_t
    transform: np.ndarray  # [T, B, H], T_t
    carry: np.ndarray  # [T, B, H], C_t
    carried: np.ndarray  # [T, B, H], the product of the later carries, C_{t+1} ∘ … ∘ C_T
    contribution: np.ndarray  # [T, B, H], λ_t of equation 9; h_0 + Σ λ_t is the last state
    first: np.ndarray  # [B, H], h_0
    last: np.ndarray  # [B, H], the last state of each sequence
    lengths: np.ndarray  # [B]

    @property
    def error(self) -> float:
        """The largest |h_0 + Σ λ_t − h_T|. It is zero but for roundings."""
        return float(np.abs(self.first + self.contribution.sum(0) - self.last).max())

    @property
    def share(self) -> np.ndarray:
        """The part ‖λ_t‖ / Σ ‖λ_t‖ of each step in the last state, [T, B]."""
        sizes = np.linalg.norm(self.contribution, axis=2)
        return sizes / np.maximum(sizes.sum(0), np.finfo(float).tiny)


@torch.no_grad()
def dual_gates(network: Network, x: Any, lengths: Any = None, layer: int = 0, reverse: bool = False) -> DualGates:
    """Equations 4 to 9 of the RIN paper, for a network with transform and carry gates.

    LSTM (on its cells), GRU, UGRNN, FastGRNN, FastRNN, leaky units, the Antisymmetric family and ERNN with one inner
    step have them. A plain network has T = 1 and C = 0.

    λ_t = ((1 − C_t) ∘ (h_{t−1} − h_0) + h_t − h_{t−1}) ∘ C_{t+1} ∘ … ∘ C_T, so that h_T = h_0 + Σ λ_t.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        reverse: the cell of the reverse direction.

    Returns:
        A `DualGates`. Time: two forward passes.

    >>> gates = dual_gates(autapse.GRU(3, 8), torch.randn(20, 2, 3), lengths=[20, 12])
    >>> gates.carry.shape, gates.error < 1e-5
    ((20, 2, 8), True)
    """
    path = trajectory(network, x, lengths, layer, reverse)
    gates = gates_of(path)
    part = 1 if isinstance(path.form, LongShortTerm) else 0
    before, after = (path.own(states, part).double() for states in (path.before, path.after))
    exists = path.running[:, :, None]
    carry = torch.where(exists, gates.carry.double(), 1.0)
    carried = torch.cat([carry[1:], torch.ones_like(carry[:1])]).flip(0).cumprod(0).flip(0)
    contribution = ((1 - carry) * (before - before[0]) + after - before) * carried * exists
    last = after[(path.lengths - 1).clamp(min=0), torch.arange(len(path.lengths))]
    last = torch.where((path.lengths > 0)[:, None], last, before[0])
    shown = (array(values * exists) for values in (*gates, carried, contribution))
    H, T, C, later, each = shown
    return DualGates(H, T, C, later, each, array(before[0]), array(last), path.lengths.numpy())


def has_gates(path: Trajectory) -> bool:
    """Whether the step of a trajectory has the form H ∘ T + h ∘ C."""
    form = path.form
    return type(form) in _gates.registry and not (isinstance(form, Leaky) and form.inner_steps > 1)


def gates_of(path: Trajectory) -> StepGates:  # [T, B, H] each
    """The gates of all steps of a trajectory."""
    if not has_gates(path):
        rule = "have a step of the form H ∘ T + h ∘ C, such as GRU or LSTM"
        remedy = "A step that is solved, integrated otherwise than by Euler, or made of several inner steps has none."
        checks.fail("network", rule, type(path.cell).__name__, remedy)
    at_once = max(1, CHUNK // (len(path.lengths) * path.units))
    parts = [_gates_at(path, steps) for steps in torch.arange(path.steps).split(at_once)]
    return StepGates(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _gates_at(path: Trajectory, steps: Tensor) -> StepGates:
    is_over()
    count, here = len(path.lengths), slice(int(steps[0]), int(steps[-1]) + 1)
    state = path.before[here].flatten(0, 1).split(path.cell.carried_sizes, dim=-1)
    gates = _gates(path.form, path.drive[here].flatten(0, 1), state, steps.repeat_interleave(count))
    return StepGates(*(part.expand_as(gates.candidate).unflatten(0, (len(steps), count)) for part in gates))


@singledispatch
def _gates(form: Any, u: Tensor, state: State, t: Tensor) -> StepGates:
    raise NotImplementedError(type(form).__name__)


@_gates.register
def _(form: Leaky, u: Tensor, state: State, t: Tensor) -> StepGates:
    (candidate,) = replace(form, alpha=1.0, beta=0.0).step(u, state, 0)
    alpha, beta = (candidate.new_ones(1) * value for value in form._mixing_at(t, 0))
    return StepGates(candidate, alpha, beta)


@_gates.register
def _(form: SharedGate, u: Tensor, state: State, t: Tensor) -> StepGates:
    z, candidate = form._gates(u, state[0])
    return StepGates(candidate, form._affine(form.candidate, z), form._affine(form.carry, z) * torch.ones_like(z))


@_gates.register
def _(form: UpdateGate, u: Tensor, state: State, t: Tensor) -> StepGates:
    candidate, gate = form._gates(u, state[0])
    return StepGates(candidate, 1 - gate, gate)


@_gates.register(GatedRecurrent)
@_gates.register(GlobalGates)
def _(form: GatedRecurrent, u: Tensor, state: State, t: Tensor) -> StepGates:
    _, z, candidate, _ = form._gates(u, state[0])
    return StepGates(candidate, 1 - z, z)


@_gates.register
def _(form: LongShortTerm, u: Tensor, state: State, t: Tensor) -> StepGates:
    i, f, candidate, *_ = form._gates(u, state)
    return StepGates(candidate, i, f)
