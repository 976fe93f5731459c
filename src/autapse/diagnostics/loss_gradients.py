"""The gradient of a loss by each state of a model, step by step and layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.diagnostics import arguments
from autapse.diagnostics.deadline import is_over
from autapse.diagnostics.trajectories import array, checked_cell, flipped, recurrent_of
from autapse.forms import State
from autapse.layers import Recurrent
from autapse.layers.recurrent import columns_of
from autapse.models import SequenceModel
from autapse.sequences.lengths import checked_lengths, running


@dataclass(frozen=True, eq=False)
class LossGradient:
    """‖∂L/∂h_t‖, from `loss_gradient`, by layer, step and sequence; 0 past an end."""

    norm: np.ndarray  # [layers·directions, T, B], in the order of h_n; steps are positions in the sequence
    loss: float  # L
    lengths: np.ndarray  # [B]


def loss_gradient(model: SequenceModel, x: Any, loss: Callable[[Tensor], Tensor], lengths: Any = None) -> LossGradient:
    """The norm of the gradient of a loss by the state after each step, in each layer of a model.

    It is the total derivative: how much the loss would change if the state after that step were changed, and all later
    steps followed from that. The state has all its tensors, of an LSTM h and c.

    Args:
        model: a model with a recurrent layer. It is run in evaluation mode.
        x: its input, [B, T, D].
        loss: the loss as a function of the model's output, a single number.
        lengths: [B], the length of each sequence, if they differ.

    Returns:
        A `LossGradient`. Time: one forward and one backward pass, step by step in Python.

    >>> model = autapse.models.Regressor("gru", 2, 1, hidden_size=8)
    >>> x, y = torch.randn(4, 30, 2), torch.randn(4, 1)
    >>> loss_gradient(model, x, lambda output: (output - y).square().mean()).norm.shape
    (1, 30, 4)
    """
    if not isinstance(model, SequenceModel):
        checks.fail("model", "be a model with a head", type(model).__name__, kind=checks.KindError)
    arguments.function("loss", loss, "output")
    x = arguments.tensor("x", x)
    run, was_training = recurrent_of(model), model.training
    for layer in range(run.num_layers):
        checked_cell(run, layer)
    unrolled: list[_Unrolled] = []

    def replace(module: Any, args: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> Any:
        unrolled[:] = [_unroll(run, args[0], keywords.get("lengths"))]
        return unrolled[0].output, unrolled[0].h_n

    handle = run.register_forward_hook(replace, with_kwargs=True)
    try:
        with torch.enable_grad():
            value = loss(model.eval().carry(x, lengths)[0])
            _check_loss(value)
            norms = [_norms(value, states) for states in unrolled[0].states]
    finally:
        handle.remove()
        model.train(was_training)
    known = unrolled[0].lengths
    return LossGradient(
        np.stack([array(_placed(n, known, key)) for n, key in zip(norms, run.cells, strict=True)]),
        float(value.detach()),
        known.numpy(),
    )


@dataclass(eq=False)
class _Unrolled:
    """One call of a layer, with every state as a tensor of its own in the graph."""

    output: Tensor
    h_n: Any
    states: list[list[State]]  # by cell and step, in the order in which the cell reads
    lengths: Tensor


def _unroll(run: Recurrent, x: Tensor, lengths: Any) -> _Unrolled:
    rows = x.transpose(0, 1) if run.batch_first else x
    known = checked_lengths(lengths, *rows.shape[:2])
    every, finals = [], []
    for layer in range(run.num_layers):
        outputs = []
        for direction in range(run.directions):
            cell = run.cells[run._key(layer, direction)]
            states, final = _steps(cell, flipped(rows, known) if direction else rows, known)
            own = [s[: len(cell.state_sizes)] for s in states]
            output = torch.stack([cell.output(s) for s in own]) * running(known, len(rows))[:, :, None]
            outputs.append(flipped(output, known) if direction else output)
            every.append(own)
            finals.append(final)
        rows = torch.cat(outputs, dim=-1)
    h_n = _gathered(run, finals)
    return _Unrolled(rows.transpose(0, 1) if run.batch_first else rows, h_n, every, known)


def _steps(cell: Cell, rows: Tensor, lengths: Tensor) -> tuple[list[State], State]:
    """The carried states after each step, and at each sequence's own end."""
    weights, drive, state = cell.prepare(), cell.drive(rows), cell.initial_state(rows.shape[1], rows)
    states = []
    for t, u in enumerate(drive):
        is_over()
        # A copy of its own, so that the gradient by a state that is only carried on is found too.
        new = tuple(s.clone() for s in cell.advance(u, state, weights, t))
        state = tuple(torch.where((lengths > t)[:, None], a, b) for a, b in zip(new, state, strict=True))
        states.append(new)
    return states, state


def _gathered(run: Recurrent, finals: list[State]) -> Any:
    columns = columns_of(finals)
    if isinstance(run.hidden_size, list):
        d = run.directions
        parts: list[Any] = [tuple(torch.stack(c[n : n + d]) for n in range(0, len(c), d)) for c in columns]
    else:
        parts = [torch.stack(c) for c in columns]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _norms(value: Tensor, states: list[State]) -> Tensor:  # [T, B]
    flat = [s for state in states for s in state]
    learned = [s for s in flat if s.requires_grad]  # not a count of steps, or the time
    for s in learned:
        s.register_hook(_look_at_the_clock)
    gradients = iter(torch.autograd.grad(value, learned, retain_graph=True, allow_unused=True))
    per_state = [next(gradients) if s.requires_grad else None for s in flat]
    known = [torch.zeros_like(s) if g is None else g for g, s in zip(per_state, flat, strict=True)]
    squares = [g.double().square().sum(1) for g in known]
    return torch.stack(squares).view(len(states), len(states[0]), -1).sum(1).sqrt()


def _look_at_the_clock(gradient: Tensor) -> None:
    is_over()


def _placed(norms: Tensor, lengths: Tensor, key: str) -> Tensor:
    """By position in the sequence, for a cell that reads from the end too."""
    norms = norms * running(lengths, len(norms))
    return flipped(norms, lengths) if key.endswith("_reverse") else norms


def _check_loss(value: Any) -> None:
    if not isinstance(value, Tensor) or value.dim() or not value.requires_grad:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        checks.fail("loss", "return a single number that depends on the output", got)
