"""The leaky form: one product and one nonlinearity, mixed with the old state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor

from autapse.forms.activations import ACTIVATIONS, modrelu
from autapse.forms.at_rows import AtRows
from autapse.forms.base import Form, State, diagonal, rows
from autapse.native import operands as native
from autapse.native.operands import Extent, FormOperands, Kind, Operands, Shapes, check_shape

Coefficient = float | Tensor  # a number, [] or [H]; or [S, K] per step and inner step, with the last row for t ≥ S
Position = int | Tensor  # one for all rows, or [B]


@dataclass(frozen=True)
class Leaky(Form):
    """h' = α ∘ act(u + R·h) + β ∘ h, repeated K times with the same u; R is dense, or sparse with a pattern"""

    name = "leaky"
    activations: ClassVar[Sequence[str]] = native.ACTIVATIONS
    most_inner = native.MOST_INNER

    matrix: Tensor  # R, [H, H]; or its entries, [n], with a pattern
    activation: str = "tanh"
    alpha: Coefficient = 1.0
    beta: Coefficient = 0.0
    inner_steps: int = 1
    threshold: Tensor | None = None  # [H], for activation "modrelu"
    pattern: Tensor | None = None  # [2, n], row and column of each entry of R, sorted, none twice

    @property
    def is_one_map(self) -> bool:
        """Whether the step is act(u + R·h), with an activation that does not need a threshold."""
        plain = not any(isinstance(value, Tensor) for value in (self.alpha, self.beta))
        return plain and (self.alpha, self.beta, self.inner_steps) == (1.0, 0.0, 1) and self.activation in ACTIVATIONS

    def step(self, u: Tensor, state: State, t: Position) -> State:
        (h,) = state
        for k in range(self.inner_steps):
            h = _mix(self._activate(self._driven(u, h)), h, *self._mixing_at(t, k))
        return (h,)

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        return kind.inner == 1

    def product(self, h: Tensor) -> Tensor:
        return self._driven(torch.zeros_like(h), h)

    def joined(self, u: Tensor, product: Tensor, state: State, t: Position) -> State:
        return (_mix(self._activate(u + product), state[0], *self._mixing_at(t, 0)),)

    def _driven(self, u: Tensor, h: Tensor) -> Tensor:
        """u + R·h"""
        if self.pattern is None:
            return torch.addmm(u, h, self._transposed)
        row, column = self.pattern
        return torch.index_add(u, 1, row, (self.matrix * h.index_select(1, column)).to(u.dtype))

    def _dense(self, units: int) -> Tensor:
        """R as a dense matrix."""
        if self.pattern is None:
            return self.matrix
        return self.matrix.new_zeros(units, units).index_put(tuple(self.pattern), self.matrix)

    def jacobian(self, u: Tensor, state: State, t: Position) -> Tensor:
        (h,) = state
        return self.jacobians(u, h, t)[0]

    def jacobians(self, u: Tensor, h: Tensor, t: Position) -> tuple[Tensor, Tensor]:  # [B, H, H] each
        """∂h'/∂h and ∂h'/∂u of a step, in closed form."""
        by_state = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device).expand(h.shape[0], -1, -1)
        by_drive = torch.zeros_like(by_state)
        for k in range(self.inner_steps):
            y = self._activate(self._driven(u, h))
            alpha, beta = self._mixing_at(t, k)
            slope = alpha * self._slope(y)
            one = rows(slope, self._dense(h.shape[-1])) + diagonal(beta * torch.ones_like(h))
            by_state, by_drive = one @ by_state, one @ by_drive + diagonal(slope)
            h = _mix(y, h, alpha, beta)
        return by_state, by_drive

    @property
    def has_tangent(self) -> bool:
        return self.inner_steps == 1 and self.pattern is None

    def linearised(self, at: AtRows, moved: Operands) -> tuple[Tensor, ...]:
        alpha, beta = self._mixing_at(at.step, 0)
        y = at.reserve if at.reserve.shape[1] else at.new_h
        a = alpha * self._slope(y)
        b = a * (at.drive + at.product)
        for tangent, value in ((moved.alpha, y), (moved.beta, at.h)):
            if tangent is not None:
                b = b + _of_rows(tangent, at.step, 0) * value
        if moved.offset is not None:
            b = b + alpha * torch.sign(y) * moved.offset
        return b, beta * torch.ones_like(y), a

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        alpha, beta, per_step = self._mixing(steps, start)
        code, activation = native.KERNELS.index(Leaky), native.ACTIVATIONS.index(self.activation)
        kind = Kind(code, activation, self.inner_steps, per_step=per_step)
        return FormOperands(self.matrix, self.threshold, alpha=alpha, beta=beta, pattern=self.pattern), kind

    def _mixing(self, steps: int, start: int) -> tuple[Tensor | None, Tensor | None, bool]:
        """α and β as [H] or [T, K] tensors, None if they are 1 and 0; and whether they are [T, K]."""
        pair = (self.alpha, self.beta)
        if not any(isinstance(value, Tensor) for value in pair) and pair == (1.0, 0.0):
            return None, None, False
        per_unit = [value for value in pair if isinstance(value, Tensor) and value.dim() == 1]
        shape = per_unit[0].shape if per_unit else (steps, self.inner_steps)
        alpha, beta = (self._expanded(value, shape, start) for value in pair)
        return alpha, beta, not per_unit

    def _expanded(self, value: Coefficient, shape: tuple[int, ...], start: int) -> Tensor:
        if not isinstance(value, Tensor):
            return self.matrix.new_full(shape, value)
        if _is_table(value):
            steps = torch.arange(start, start + shape[0], device=value.device)
            return value.index_select(0, steps.clamp_(max=len(value) - 1))
        return value.expand(shape)

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> Leaky:
        alpha = 1.0 if operands.alpha is None else operands.alpha
        beta = 0.0 if operands.beta is None else operands.beta
        activation, inner = native.ACTIVATIONS[kind.activation], kind.inner
        return cls(operands.matrix, activation, alpha, beta, inner, operands.offset, operands.pattern)

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        H, mixing = extent.hidden, (extent.steps, kind.inner) if kind.per_step else (extent.hidden,)
        optional: Shapes = {"alpha": mixing, "beta": mixing}
        if native.ACTIVATIONS[kind.activation] == "modrelu":
            optional["offset"] = (H,)
        if given["pattern"] is None:
            return {"matrix": (H, H)}, optional
        count = check_shape("matrix", given["matrix"], (None,))[0]
        return {"matrix": (count,), "pattern": (2, count)}, optional

    def _mixing_at(self, t: Position, k: int) -> list[float | Tensor]:
        """α and β of inner step k, at one position or at that of each row."""
        if isinstance(t, Tensor):
            return [_of_rows(value, t, k) for value in (self.alpha, self.beta)]
        return [v[min(t, len(v) - 1)][k] if isinstance(v, list) else v for v in self._unbound]

    def _activate(self, a: Tensor) -> Tensor:
        return modrelu(a, self._shift) if self.activation == "modrelu" else ACTIVATIONS[self.activation].apply(a)

    def _slope(self, y: Tensor) -> Tensor:
        return (y != 0).to(y.dtype) if self.activation == "modrelu" else ACTIVATIONS[self.activation].slope(y)

    @property
    def _shift(self) -> Tensor:
        return self.matrix.new_zeros(()) if self.threshold is None else self.threshold

    @cached_property
    def _transposed(self) -> Tensor:
        return self.matrix.t()

    @cached_property
    def _unbound(self) -> list[float | Tensor | list[tuple[Tensor, ...]]]:
        # Indexing [S, K] at each step would make S tensors of zeros in the backward pass; unbinding once does not.
        values = (self.alpha, self.beta)
        return [[row.unbind(0) for row in v.unbind(0)] if _is_table(v) else v for v in values]


def _mix(y: Tensor, h: Tensor, alpha: float | Tensor, beta: float | Tensor) -> Tensor:
    scaled = y if isinstance(alpha, float) and alpha == 1.0 else alpha * y
    return scaled if isinstance(beta, float) and beta == 0.0 else scaled + beta * h


def _is_table(value: Coefficient) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.dim() == 2


def _of_rows(value: Coefficient, t: Tensor, k: int) -> float | Tensor:  # [B] -> a number, [], [H] or [B, 1]
    return value[:, k].index_select(0, t.clamp(max=len(value) - 1)).unsqueeze(1) if _is_table(value) else value
