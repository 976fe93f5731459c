"""SolveReport: how a batch of solves went, problem by problem."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


class NotConvergedWarning(RuntimeWarning):
    """Some problems of a batch were left at their best residual, which is above the tolerance."""


@dataclass(frozen=True)
class SolveReport:
    """What a solver says of each of B problems. Tensors are detached and on the CPU.

    `evaluations` are in units of one F over all unknowns of a problem; a product with F's Jacobian counts as one.
    """

    converged: Tensor  # [B] bool
    residual: Tensor  # [B] float64, ‖F(z) − z‖ / ‖z‖ of what was returned
    iterations: Tensor  # [B] int64
    evaluations: Tensor  # [B] float64
    finished_by: tuple[str, ...]  # [B], the method that found what was returned
    flagged: Tensor | None = None  # [B] bool, problems at a singular point, where a method has such

    @property
    def all_converged(self) -> bool:
        return bool(self.converged.all())

    def words(self) -> str:
        """One line: how many failed, the worst residual, the mean cost."""
        failed, count = int((~self.converged).sum()), len(self.converged)
        worst = float(self.residual.max()) if count else 0.0
        cost = float(self.evaluations.mean()) if count else 0.0
        return (
            f"{failed} of {count} problems not converged, worst residual {worst:.2g}, {cost:.1f} evaluations on average"
        )

    def take(self, index: Tensor) -> SolveReport:
        """The report with its problems in another order, or of some of them."""
        index = index.cpu()
        return SolveReport(
            self.converged[index],
            self.residual[index],
            self.iterations[index],
            self.evaluations[index],
            tuple(self.finished_by[int(i)] for i in index),
            None if self.flagged is None else self.flagged[index],
        )

    @staticmethod
    def empty(name: str, count: int = 0) -> SolveReport:
        """The report of `count` problems without unknowns, which any value solves."""
        zeros = torch.zeros(count, dtype=torch.float64)
        return SolveReport(zeros == 0, zeros, zeros.long(), zeros.clone(), (name,) * count)
