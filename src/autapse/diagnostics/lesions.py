"""Lesion and shuffle: what a trained network loses without one step, or with two neighbouring steps exchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.diagnostics import arguments
from autapse.diagnostics.deadline import is_over
from autapse.diagnostics.trajectories import recurrent_of
from autapse.models import SequenceModel
from autapse.sequences.lengths import checked_lengths

STEPS = 64  # steps that are tried by default


@dataclass(frozen=True, eq=False)
class Lesion:
    """Scores of a model with one step changed, from `lesion`."""

    steps: np.ndarray  # [n], the steps that were left out, or exchanged with the next one
    score: np.ndarray  # [n], the score with that change
    intact: float  # the score without a change

    @property
    def change(self) -> np.ndarray:
        """The score less that of the intact network, [n]."""
        return self.score - self.intact


@torch.no_grad()
def lesion(
    model: SequenceModel,
    x: Any,
    score: Callable[[Tensor], Any],
    lengths: Any = None,
    kind: str = "leave_out",
    steps: Sequence[int] | None = None,
) -> Lesion:
    """The score of a trained model if single steps are left out, or neighbouring steps exchanged.

    The RIN paper, introduction. A step that is left out is removed from the input, so that the recurrent step is not
    taken. Sequences that do not have the step keep their input.

    Args:
        model: a model with one output per sequence. It is run in evaluation mode.
        x: its input, [B, T, D].
        score: a number from the model's output [B, K], such as a share of errors or a mean squared error.
        lengths: [B], the length of each sequence, if they differ.
        kind: "leave_out", or "exchange" for a step and the next one.
        steps: the steps to try. None: up to 64, evenly spaced.

    Returns:
        A `Lesion`. Time: one forward pass per step that is tried.

    >>> model, x = autapse.models.Classifier("gru", 2, 3, hidden_size=8), torch.randn(16, 30, 2)
    >>> y = model(x).argmax(-1)  # the classes that the intact network chooses
    >>> lesions = lesion(model, x, lambda output: (output.argmax(-1) != y).double().mean())
    >>> lesions.intact, lesions.score.shape
    (0.0, (30,))
    """
    recurrent_of(model)
    if not isinstance(model, SequenceModel) or model.every_step:
        rule = "be a model with one output per sequence"
        checks.fail("model", rule, type(model).__name__, kind=checks.KindError)
    checks.one_of("kind", kind, ("leave_out", "exchange"))
    arguments.function("score", score, "output")
    x = arguments.tensor("x", x)
    if x.dim() != 3 or not x.shape[0] or x.shape[1] < 2:
        checks.fail("x", "have shape (B, T, D) with at least two steps", tuple(x.shape), kind=checks.ShapeError)
    known = checked_lengths(lengths, x.shape[1], len(x))
    chosen = _steps(steps, x.shape[1] - (kind == "exchange"))
    change = _without if kind == "leave_out" else _exchanged
    was_training = model.training
    try:
        model.eval()
        is_over()
        intact = _number(score(model.carry(x, lengths)[0]))
        scores: dict[int, float] = {}
        for step in _far_apart(chosen):
            if is_over(len(scores), len(chosen), "steps"):
                break
            scores[step] = _number(score(model.carry(*change(x, known, step))[0]))
    finally:
        model.train(was_training)
    tried = sorted(scores)
    return Lesion(np.array(tried), np.array([scores[step] for step in tried]), intact)


def _steps(steps: Sequence[int] | None, count: int) -> list[int]:
    if steps is None:
        return sorted({round(step) for step in np.linspace(0, count - 1, min(STEPS, count))})
    return arguments.positions("steps", steps, count)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        checks.fail("score", "return a single number", got)


def _far_apart(steps: list[int]) -> list[int]:
    """The last step, the middle, the quarters and so on, so that the first few of the list are from everywhere."""
    digits = len(steps).bit_length()
    order = sorted(range(len(steps)), key=lambda n: f"{n:0{digits}b}"[::-1])
    return [steps[-1 - n] for n in order]


def _without(x: Tensor, lengths: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """The input without one step. A sequence of one step keeps it: there would be nothing left."""
    order = torch.arange(x.shape[1])
    later = torch.where(order < step, order, (order + 1).clamp(max=x.shape[1] - 1))
    has = (lengths > step) & (lengths > 1)
    return torch.where(has.to(x.device)[:, None, None], x[:, later], x), lengths - has.long()


def _exchanged(x: Tensor, lengths: Tensor, step: int) -> tuple[Tensor, Tensor]:
    order = torch.arange(x.shape[1])
    order[step], order[step + 1] = step + 1, step
    has = (lengths > step + 1).to(x.device)
    return torch.where(has[:, None, None], x[:, order], x), lengths
