"""The ERNN paper's linear dynamical system."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells.base import uniform_, zeros_
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.matrices import without_autocast
from autapse.solve import SolveReport


class EquilibriumLinear(EquilibriumRule):
    """h' = U·h' + V·h + W·x + b

    ERNN paper, equation 10. Its solution is in closed form, h' = (I − U)⁻¹·(V·h + W·x + b), the inverse made once per
    sequence; `alignment="first_order"` is the paper's equation 11, I + U for (I − U)⁻¹, which misses the equilibrium by
    U²·(V·h + W·x + b), as the report's residual tells. V and W start uniform in ±1/√n, U = 0, b = 0 (the paper does not
    state it). For `solver` and `rtol` see `EquilibriumRule`.
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

    def prepare(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """U, V, and what is multiplied with V·h + W·x + b."""
        U = self.weight_align
        if self.solver is not None:
            return U, self.weight_hh, None
        identity = torch.eye(self.hidden_size, dtype=U.dtype, device=U.device)
        if self.alignment == "first_order":
            return U, self.weight_hh, identity + U
        with without_autocast(U.device.type):
            return U, self.weight_hh, torch.linalg.inv_ex(identity - U)[0]

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: tuple[Tensor, Tensor, Tensor | None]) -> Tensor:
        U, V, _ = weights
        return F.linear(h, U) + F.linear(previous, V) + u

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: tuple[Tensor, Tensor, Tensor | None]) -> Tensor:
        return weights[0].expand(len(h), -1, -1)

    def settle(
        self, previous: Tensor, u: Tensor, weights: tuple[Tensor, Tensor, Tensor | None]
    ) -> tuple[Tensor, SolveReport]:
        _, V, align = weights
        if align is None or previous.is_meta:
            return super().settle(previous, u, weights)
        h = F.linear(F.linear(previous, V) + u, align)
        return h, self._report(h, previous, u, weights)

    @torch.no_grad()
    def _report(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> SolveReport:
        residual, size = (self.phi(h, previous, u, weights) - h).norm(dim=1).double(), h.norm(dim=1).double()
        one = torch.ones(len(h), dtype=torch.long)
        # What the caller asked for is there, with first_order too: only numbers that are none count as failed.
        good = (
            h.isfinite().all(1)
            if self.alignment == "first_order"
            else residual <= self.tolerance(h) * (size + u.norm(dim=1))
        )
        found = torch.where(residual == 0, 0.0, residual / size).nan_to_num(nan=torch.inf)
        return SolveReport(good.cpu(), found.cpu(), one, one.double(), (self.alignment,) * len(h))
