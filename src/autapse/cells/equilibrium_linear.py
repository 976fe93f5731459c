"""The ERNN paper's linear dynamical system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells.base import uniform_, zeros_
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.matrices import full_precision
from autapse.gradient.base import Adjoint, attach
from autapse.gradient.function import on_values, without_autocast
from autapse.gradient.step import solved_on_values
from autapse.solve import SolveReport
from autapse.solve.condition import amplification, loses_half


class Weights(NamedTuple):
    """The matrices of a step."""

    U: Tensor
    V: Tensor
    first_order: Tensor | None = None  # I + U, for alignment="first_order"
    LU: Tensor | None = None  # the factors of I − U, for alignment="exact", with the following
    pivots: Tensor | None = None
    ill: Tensor | None = None  # [] bool, whether I − U is ill-conditioned
    bulk: Tensor | None = None  # [], 1 + ‖U‖


class EquilibriumLinear(EquilibriumRule):
    """h' = U·h' + V·h + W·x + b

    ERNN paper, equation 10. The solution is h' = (I − U)⁻¹·(V·h + W·x + b), with one factorisation per sequence. If
    I − U is so close to singular that rounding may cost half of the digits of h', the report says so
    (`Reason.ILL_CONDITIONED`). V and W start uniform in ±1/√n, U = 0, b = 0 (the paper does not state it). With
    `inner_steps=1` the network is h' = (1 − η)·h + η·((U + V)·h + W·x + b), and runs on the compiled kernels.

    Args:
        alignment: "exact", or "first_order": the paper's equation 11, I + U instead of (I − U)⁻¹. It misses the
            equilibrium by U²·(V·h + W·x + b), which is the residual in the report.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, alignment: str = "exact", **keywords: Any
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **keywords)
        self.factorises = True  # once per sequence, whatever the solver
        self.alignment = checks.one_of("alignment", alignment, ("exact", "first_order"))
        if self.solver is not None and alignment != "exact":
            checks.fail("solver", 'be None with alignment="first_order", which solves nothing', self.solver)
        if self.inner_steps is not None and alignment != "exact":
            checks.fail("alignment", 'be "exact" with inner_steps, which takes steps instead', alignment)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.weight_align = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.weight_align, self.bias_h)
        self.reset_rate()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    def one_step(self, weights: Weights) -> tuple[Tensor, str]:
        return weights.U + weights.V, "identity"

    def prepare(self) -> Weights:
        U, V = self.weight_align, self.weight_hh
        if self.inner_steps is not None:
            return Weights(U, V)
        if self.alignment == "first_order":
            return Weights(U, V, torch.eye(self.hidden_size, dtype=U.dtype, device=U.device) + U)
        with torch.no_grad(), without_autocast(U.device.type):
            wide = U.to(full_precision(U.dtype))
            identity = torch.eye(self.hidden_size, dtype=wide.dtype, device=wide.device)
            LU, pivots, _ = torch.linalg.lu_factor_ex(identity - wide)
            ill = loses_half(amplification(wide, LU, pivots), wide.dtype)
            return Weights(U, V, None, LU, pivots, ill, 1 + torch.linalg.vector_norm(wide))

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Weights) -> Tensor:
        return F.linear(h, weights.U) + F.linear(previous, weights.V) + u

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Weights) -> Tensor:
        return weights.U.expand(len(h), -1, -1)

    def settle(self, previous: Tensor, u: Tensor, weights: Weights) -> tuple[Tensor, SolveReport]:
        """By the factors of I − U, unless another solver is given."""
        if self.solver is not None or previous.is_meta:
            return super().settle(previous, u, weights)
        U, V, first_order, LU, pivots, ill, bulk = weights
        right = F.linear(previous, V) + u
        h = _resolve(U, right, LU, pivots) if first_order is None else F.linear(right, first_order)  # type: ignore[arg-type]
        return h, solved_on_values(lambda h, *rest: (h, self._report(h, *rest)), len(h), h, right, U, ill, bulk)[1]

    def _report(self, h: Tensor, right: Tensor, U: Tensor, ill: Tensor | None, bulk: Tensor | None) -> SolveReport:
        parts = torch.stack((F.linear(h, U) + right - h, h, right))
        residual, size, given = torch.linalg.vector_norm(parts, dim=2)
        # The first order is what the caller asked for, so it fails only if it is not finite. The residual of a solution
        # is compared with the size of its terms, because their rounding is the best that any method can reach.
        good = size.isfinite() if bulk is None else residual <= self.tolerance(h) * (bulk * size + given)
        relative = torch.where(residual == 0, residual, residual / size).nan_to_num(nan=torch.inf, posinf=torch.inf)
        one = torch.ones_like(size)
        report = SolveReport.make(good, relative, one, one, self.alignment, torch.finfo(h.dtype).eps)
        return report if ill is None else report.ill_conditioned(ill.expand(len(h)))


def _resolve(U: Tensor, right: Tensor, LU: Tensor, pivots: Tensor, transposed: bool = False) -> Tensor:
    """(I − U)⁻¹·right, or (I − U)⁻ᵀ·right, by the factors of I − U; differentiable in U and right."""

    def solve(right: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:
        return torch.linalg.lu_solve(LU, pivots, right, left=False, adjoint=not transposed)

    return attach(_Resolved((U, right, LU, pivots), transposed), on_values(solve, right, LU, pivots))


class _Resolved(Adjoint):
    """dh = (I − U)⁻¹·(dU·h + d right)."""

    def __init__(self, operands: tuple[Tensor, ...], transposed: bool) -> None:
        self.operands, self.transposed = operands, transposed

    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        U, _, LU, pivots = operands
        v = _resolve(U, gradient, LU, pivots, not self.transposed)
        return [z.mT @ v if self.transposed else v.mT @ z, v, None, None]

    def push(self, z: Tensor, operands: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Tensor:
        U, _, LU, pivots = operands
        of_U, of_right, *_ = tangents
        right = torch.zeros_like(z) if of_right is None else of_right
        if of_U is not None:
            right = right + z @ (of_U if self.transposed else of_U.mT)
        return _resolve(U, right, LU, pivots, self.transposed)
