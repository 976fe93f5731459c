"""StepSystem: the equations of one step, a small system for each sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from autapse.solve.base import Solver
from autapse.solve.condition import amplification, loses_half
from autapse.solve.report import SolveReport
from autapse.solve.system import Groups, Linear, System

CONTRACTS = 0.9  # I − ∂φ/∂h is well-conditioned if the norm of ∂φ/∂h is smaller


class StepRule(Protocol):
    """The right side φ of h = φ(h, h_{t−1}, u_t), and its derivative by h."""

    floor: float  # smallest |1 − ∂φ/∂h| that is divided by, if ∂φ/∂h is diagonal
    factorises: bool  # whether the solver factorises I − ∂φ/∂h, so that its condition costs little

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """φ, [B, H]."""

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """∂φ/∂h, [B, H, H], or [B, H] if it is diagonal."""


class StepSystem(System):
    """h = φ(h, h_{t−1}, u_t) of one step; row b is problem b."""

    def __init__(
        self,
        rule: StepRule,
        previous: Tensor,  # [B, H]
        u: Tensor,  # [B, G]
        weights: Any,
        start: Tensor | None = None,  # [B, H], the first point of solvers; None: `previous`
    ) -> None:
        self.rule, self.previous, self.u, self.weights = rule, previous, u, weights
        self.start = previous if start is None else start
        self.groups = Groups(len(previous))
        self._last: tuple[Tensor, Feedback] | None = None  # the point of the last `linearize`, and ∂φ/∂h there

    def evaluate(self, z: Tensor) -> Tensor:
        return self.rule.phi(z, self.previous, self.u, self.weights)

    def zero(self) -> Tensor:
        return self.start

    def select(self, problems: Tensor) -> tuple[StepSystem, Tensor]:
        previous, u, start = (rows.index_select(0, problems) for rows in (self.previous, self.u, self.start))
        return StepSystem(self.rule, previous, u, self.weights, start), problems

    def linearize(self, z: Tensor) -> tuple[Tensor, Feedback]:
        with torch.no_grad():
            slope = self.rule.feedback(z, self.previous, self.u, self.weights)
        value, feedback = self.rule.phi(z, self.previous, self.u, self.weights), Feedback(slope, self.rule.floor)
        self._last = z, feedback
        return value, feedback

    @torch.no_grad()
    def solve(self, solver: Solver, rtol: float) -> tuple[Tensor, SolveReport]:
        """The solution and the report. Rows near a singular point are flagged; rows that are not finite are NaN."""
        h, report = solver.solve(self, rtol=rtol)
        if self.rule.floor or self.rule.factorises:
            report = self._flagged(h, report)
        lost = ~report.residual.isfinite()
        return (h.masked_fill(lost.to(h.device)[:, None], torch.nan) if bool(lost.any()) else h), report

    def _flagged(self, h: Tensor, report: SolveReport) -> SolveReport:
        if self._last is not None and torch.equal(self._last[0], h):  # the solver has linearised there
            feedback = self._last[1]
        else:
            feedback = Feedback(self.rule.feedback(h, self.previous, self.u, self.weights), self.rule.floor)
        if self.rule.floor:
            report = replace(report, flagged=feedback.at_floor().cpu())
        return report.ill_conditioned(loses_half(feedback.amplification(), h.dtype))


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
        """(I − ∂φ/∂h)⁻¹·b, with the floor if it is diagonal; not finite if it is singular."""
        if self.matrices.dim() == 2:
            slack = 1 - self.matrices
            return b / torch.where(slack.abs() < self.floor, torch.full_like(slack, self.floor).copysign(slack), slack)
        identity = torch.eye(b.shape[1], dtype=b.dtype, device=b.device)
        matrices = identity - (self.matrices.mT if transposed else self.matrices)
        return torch.linalg.solve_ex(matrices, b.unsqueeze(2))[0].squeeze(2)

    def at_floor(self) -> Tensor:  # [B] bool
        """The rows with a value below the floor."""
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
