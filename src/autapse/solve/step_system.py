"""StepSystem: the equations of one step, a small system for each sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from autapse.solve.condition import amplification
from autapse.solve.system import Groups, Linear, System

CONTRACTS = 0.9  # a feedback of a norm below this is well-conditioned


class StepRule(Protocol):
    """The right side φ of h = φ(h, h_{t−1}, u_t), and its derivative by h."""

    floor: float  # least |1 − ∂φ/∂h| where the derivative is diagonal

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """φ, [B, H]."""

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """∂φ/∂h, [B, H, H], or [B, H] where it is diagonal."""


class StepSystem(System):
    """h = φ(h, h_{t−1}, u_t) of one step; row b is problem b."""

    def __init__(self, rule: StepRule, previous: Tensor, u: Tensor, weights: Any, start: Tensor) -> None:
        self.rule, self.previous, self.u, self.weights, self.start = rule, previous, u, weights, start
        self.groups = Groups(len(start))

    def evaluate(self, z: Tensor) -> Tensor:
        return self.rule.phi(z, self.previous, self.u, self.weights)

    def zero(self) -> Tensor:
        return self.start

    def select(self, problems: Tensor) -> tuple[StepSystem, Tensor]:
        previous, u, start = (rows.index_select(0, problems) for rows in (self.previous, self.u, self.start))
        return StepSystem(self.rule, previous, u, self.weights, start), problems

    def linearize(self, z: Tensor) -> tuple[Tensor, Feedback]:
        with torch.no_grad():
            feedback = self.feedback(z)
        return self.evaluate(z), feedback

    def feedback(self, z: Tensor) -> Feedback:
        """∂φ/∂h at a point."""
        return Feedback(self.rule.feedback(z, self.previous, self.u, self.weights), self.rule.floor)


class Feedback(Linear):
    """∂φ/∂h as matrices or diagonals, one per row; its `precondition` is the inverse of I − ∂φ/∂h itself."""

    def __init__(self, matrices: Tensor, floor: float = 0.0) -> None:  # [B, H, H] or [B, H]
        self.matrices, self.floor, self.groups = matrices, floor, Groups(len(matrices))

    def jvp(self, v: Tensor) -> Tensor:
        return self._times(self.matrices, v)

    def vjp(self, v: Tensor) -> Tensor:
        return self._times(self.matrices.mT if self.matrices.dim() == 3 else self.matrices, v)

    @staticmethod
    def _times(matrices: Tensor, v: Tensor) -> Tensor:
        return matrices * v if matrices.dim() == 2 else torch.bmm(matrices, v.unsqueeze(2)).squeeze(2)

    def precondition(self, transposed: bool = False) -> Callable[[Tensor], Tensor]:
        return lambda b: self.resolve(b, transposed)

    def resolve(self, b: Tensor, transposed: bool = False) -> Tensor:
        """(I − ∂φ/∂h)⁻¹·b, with the floor where it is diagonal; NaN where it is singular."""
        if self.matrices.dim() == 2:
            slack = 1 - self.matrices
            return b / torch.where(slack.abs() < self.floor, torch.full_like(slack, self.floor).copysign(slack), slack)
        identity = torch.eye(b.shape[1], dtype=b.dtype, device=b.device)
        matrices = identity - (self.matrices.mT if transposed else self.matrices)
        return torch.linalg.solve_ex(matrices, b.unsqueeze(2))[0].squeeze(2)

    def at_floor(self) -> Tensor:  # [B] bool
        """The rows where the floor acts."""
        return ((1 - self.matrices).abs() < self.floor).any(1)

    def amplification(self) -> Tensor:  # [B]
        """‖(I − ∂φ/∂h)⁻¹‖·(1 + ‖∂φ/∂h‖): how much a rounding error of φ may grow in h."""
        if self.matrices.dim() == 2:
            return (1 + self.matrices.abs().amax(1)) / (1 - self.matrices).abs().amin(1)
        bound = self.matrices.flatten(1).norm(dim=1)
        if bool((bound < CONTRACTS).all()):
            return (1 + bound) / (1 - bound)
        identity = torch.eye(self.matrices.shape[2], dtype=bound.dtype, device=bound.device)
        return amplification(self.matrices, *torch.linalg.lu_factor_ex(identity - self.matrices)[:2])
