"""Direct: the exact inverse, for operators that have one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse.solve.linear import LinearReport, LinearSolver
from autapse.solve.operator import Operator


@dataclass(frozen=True, kw_only=True)
class Direct(LinearSolver):
    """x = A⁻¹·b, for operators whose preconditioner is the inverse itself."""

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        inverse = operator.precondition()
        if inverse is None:
            raise NotImplementedError(f"{type(operator).__name__} has no inverse: use GMRES() or BiCGStab() instead.")
        count = operator.groups.count
        one = torch.ones(count, dtype=torch.long, device=b.device)
        report = LinearReport(one > 0, torch.zeros(count, dtype=torch.float64, device=b.device), one, one.double())
        return inverse(b), report
