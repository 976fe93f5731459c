"""The ERNN paper's first example: the feedback is the identity inside a tanh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells.base import uniform_, zeros_
from autapse.cells.equilibrium import EquilibriumRule
from autapse.gradient.base import Adjoint, attach
from autapse.gradient.step import solved_on_values
from autapse.solve import SolveReport

ITERATIONS = 30  # never reached: no value needs more than four, see the tests
SATURATED = 30.0  # from here on, tanh is 1 to all digits


class EquilibriumTanh(EquilibriumRule):
    """h' = tanh(h' + V·h + W·x + b)

    ERNN paper, equation 2: h' = Φ(α) with α = V·h + W·x + b, unit by unit, where Φ⁻¹(h) = atanh h − h. The unknown is
    s = |h' + α|: s − tanh s = |α| is increasing and convex, so Newton's method from above always converges. V and W are
    initially uniform in ±1/√n, b = 0 (the paper does not state it). With `inner_steps=1` the network is
    h' = (1 − η)·h + η·tanh((I + V)·h + W·x + b), and runs on the compiled kernels.

    Args:
        floor: smallest h'² that gradients and other solvers divide by. The derivative (1 − h'²)/h'² of Φ is infinite at
            h' = 0. The report flags sequences with a smaller h'².
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, floor: float = 1e-3, **keywords: Any
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **keywords)
        self.floor = checks.number("floor", floor, above=0.0, high=1.0)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.bias_h)
        self.reset_rate()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    def prepare(self) -> Tensor:
        return self.weight_hh

    def one_step(self, weights: Tensor) -> tuple[Tensor, str]:
        return torch.eye(self.hidden_size, dtype=weights.dtype, device=weights.device) + weights, "tanh"

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Tensor) -> Tensor:
        return torch.tanh(h + u + F.linear(previous, weights))

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Tensor) -> Tensor:
        return 1 - self.phi(h, previous, u, weights).square()

    def start(self, previous: Tensor, u: Tensor, weights: Tensor) -> Tensor:
        """Φ(α) is close to ∛(3α) if that is small, and else close to ±1."""
        alpha = u + F.linear(previous, weights)
        return torch.tanh(_above(alpha.abs())).copysign(alpha)

    def settle(self, previous: Tensor, u: Tensor, weights: Tensor) -> tuple[Tensor, SolveReport]:
        """By Φ and its derivative in closed form, unless another solver is given."""
        if self.solver is not None or previous.is_meta:
            return super().settle(previous, u, weights)
        alpha = u + F.linear(previous, weights)

        def solve(alpha: Tensor) -> tuple[Tensor, SolveReport]:
            h, iterations = equilibrium(alpha)
            h = h.masked_fill(h.isnan().any(1, keepdim=True), torch.nan)  # one NaN unit makes the whole row NaN
            return h, self._report(alpha, h, iterations)

        h, report = solved_on_values(solve, len(alpha), alpha)
        return attach(_Phi((alpha,), self.floor), h), report

    def _report(self, alpha: Tensor, h: Tensor, iterations: Tensor) -> SolveReport:
        settled = torch.tanh(h + alpha)
        residual, size = torch.stack((settled - h, h)).norm(dim=2).double()
        relative = torch.where(residual == 0, 0.0, residual / size).nan_to_num(nan=torch.inf)
        return SolveReport.make(
            relative <= self.tolerance(h),
            relative,
            iterations,
            1.0 + iterations,
            "scalar newton",
            torch.finfo(h.dtype).eps,
            flagged=(settled.square() < self.floor).any(1),
        )


@dataclass(eq=False)
class _Phi(Adjoint):
    """dΦ = (1 − Φ²)/Φ² dα, with the floor."""

    operands: tuple[Tensor]  # α
    floor: float

    def _slope(self, h: Tensor) -> Tensor:
        square = h.square()
        return (1 - square) / square.clamp_min(self.floor)

    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        return [gradient * self._slope(z)]

    def push(self, z: Tensor, operands: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Tensor:
        (tangent,) = tangents
        return torch.zeros_like(z) if tangent is None else tangent * self._slope(z)


def equilibrium(alpha: Tensor) -> tuple[Tensor, Tensor]:  # [B, H] -> [B, H], [B]
    """Φ(α), and the Newton iterations that each row took."""
    size = alpha.abs().clamp(max=SATURATED)
    s = _above(size)
    active = torch.ones_like(size, dtype=torch.bool)
    iterations = torch.zeros(len(alpha), dtype=torch.long, device=alpha.device)
    numbers = torch.finfo(alpha.dtype)
    tolerance = 0.5 * numbers.eps**0.5  # the error after a step is about its square
    for _ in range(ITERATIONS):
        slope = torch.tanh(s).square()
        change = (_difference(s, slope) - size) / slope.clamp_min(numbers.tiny)
        s = torch.where(active, s - change, s)
        iterations += active.any(1)
        active &= change.abs() > tolerance * s
        if not bool(active.any()):
            break
    return torch.tanh(s).copysign(alpha), iterations


def _above(size: Tensor) -> Tensor:
    """An upper bound of the s with s − tanh s = |α|, which is close to s if |α| is small or large."""
    root = (3 * size).pow(1 / 3)  # s³/3 is the first term of s − tanh s
    return torch.where(root < 1, root + 0.6 * size, size + 1)


def _difference(s: Tensor, slope: Tensor) -> Tensor:
    """s − tanh s without cancellation: Σ 2k/(2k+1)!·s²ᵏ⁺¹ / cosh s for small s, all terms positive; slope = tanh² s."""
    square = torch.clamp(s, max=1.0).square()
    total = torch.zeros_like(s)
    for coefficient in SERIES.get(s.dtype, SERIES[torch.float64]):
        total = (total + coefficient) * square
    return torch.where(s < 1, total * s * (1 - slope).sqrt(), s - slope.sqrt())


def _series(terms: int) -> tuple[float, ...]:
    factorial, coefficients = 1.0, []
    for k in range(1, terms + 1):
        factorial *= 2 * k * (2 * k + 1)
        coefficients.append(2 * k / factorial)
    return tuple(reversed(coefficients))


# For s up to 1 the first omitted term, 22/23! or 14/15!, is smaller than the rounding error.
SERIES = {torch.float64: _series(10), torch.float32: _series(6)}
