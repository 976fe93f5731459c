"""The ERNN paper's linear dynamical system."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells.base import uniform_, zeros_
from autapse.cells.equilibrium import EquilibriumRule, amplification, loses_half
from autapse.cells.matrices import full_precision, without_autocast
from autapse.gradient.function import observe
from autapse.solve import SolveReport
from autapse.solve.report import worst_of


class Weights(NamedTuple):
    """What a step uses: I + U for the first order, or the factors of I − U and how much they let an error grow."""

    U: Tensor
    V: Tensor
    first_order: Tensor | None = None
    LU: Tensor | None = None
    pivots: Tensor | None = None
    growth: Tensor | None = None


class EquilibriumLinear(EquilibriumRule):
    """h' = U·h' + V·h + W·x + b

    ERNN paper, equation 10. Its solution is in closed form, h' = (I − U)⁻¹·(V·h + W·x + b), by a factorisation that is
    made once per sequence. Where I − U is so nearly singular that rounding may cost half of the digits of h', the
    report says so (`Reason.ILL_CONDITIONED`). `alignment="first_order"` is the paper's equation 11, I + U for
    (I − U)⁻¹, which misses the equilibrium by U²·(V·h + W·x + b): that is the report's residual. V and W start uniform
    in ±1/√n, U = 0, b = 0 (the paper does not state it). For `solver` and `rtol` see `EquilibriumRule`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, alignment: str = "exact", **keywords: Any
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **keywords)
        self.alignment = checks.one_of("alignment", alignment, ("exact", "first_order"))
        if self.solver is not None and alignment != "exact":
            checks.fail("solver", 'be left out with alignment="first_order", which solves nothing', self.solver)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.weight_align = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.weight_align, self.bias_h)

    def drive(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_ih, self.bias_h)

    def prepare(self) -> Weights:
        U, V = self.weight_align, self.weight_hh
        if self.alignment == "first_order":
            return Weights(U, V, torch.eye(self.hidden_size, dtype=U.dtype, device=U.device) + U)
        with without_autocast(U.device.type):
            wide = U.to(full_precision(U.dtype))
            identity = torch.eye(self.hidden_size, dtype=wide.dtype, device=wide.device)
            LU, pivots, _ = torch.linalg.lu_factor_ex(identity - wide)
            with torch.no_grad():
                growth = amplification(wide, LU, pivots)
        return Weights(U, V, None, LU, pivots, growth)

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Weights) -> Tensor:
        return F.linear(h, weights.U) + F.linear(previous, weights.V) + u

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Weights) -> Tensor:
        return weights.U.expand(len(h), -1, -1)

    def settle(self, previous: Tensor, u: Tensor, weights: Weights) -> tuple[Tensor, SolveReport]:
        """Its own way is linear in the drive, which autograd can follow."""
        if self.solver is not None or previous.is_meta:
            return super().settle(previous, u, weights)
        right = F.linear(previous, weights.V) + u
        if weights.first_order is not None:
            h = F.linear(right, weights.first_order)
        else:
            h = torch.linalg.lu_solve(weights.LU, weights.pivots, right, left=False, adjoint=True)
        reports: list[SolveReport] = []
        growth = h.new_zeros(()) if weights.growth is None else weights.growth
        observe(lambda *values: reports.append(self._report(*values)), h, right, weights.U, growth)
        return h, worst_of(reports, len(h))  # there are several under vmap

    def _report(self, h: Tensor, right: Tensor, U: Tensor, growth: Tensor) -> SolveReport:
        size = h.norm(dim=1)
        residual = (F.linear(h, U) + right - h).norm(dim=1)
        # What each term of the residual is rounded by, which no method can go below.
        scale = (1 + U.norm()) * size + right.norm(dim=1)
        # With first_order the caller asked for what is there: only numbers that are not finite count as failed.
        good = h.isfinite().all(1) if self.alignment == "first_order" else residual <= self.tolerance(h) * scale
        relative = torch.where(residual == 0, 0.0, residual / size).nan_to_num(nan=torch.inf)
        one = torch.ones_like(size)
        report = SolveReport.make(good, relative, one, one, self.alignment, torch.finfo(h.dtype).eps)
        return report.ill_conditioned(loses_half(growth, h.dtype).expand(len(h)))
