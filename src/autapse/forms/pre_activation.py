"""The form of leaky units whose state is the pre-activation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse.forms.activations import ACTIVATIONS
from autapse.forms.base import Form, State, diagonal
from autapse.native import operands as native
from autapse.native.operands import Extent, FormOperands, Kind, Operands, Shapes


@dataclass(frozen=True)
class PreActivation(Form):
    """s' = α ∘ (u + R·act(s)) + β ∘ s"""

    name = "pre_activation"

    matrix: Tensor  # R, [H, H]
    activation: str
    alpha: Tensor  # [H]
    beta: Tensor  # [H]

    def step(self, u: Tensor, state: State, t: int) -> State:
        (s,) = state
        y = ACTIVATIONS[self.activation].apply(s)
        return (self.alpha * torch.addmm(u, y, self.matrix.t()) + self.beta * s,)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        (s,) = state
        kind = ACTIVATIONS[self.activation]
        slope = kind.slope(kind.apply(s))
        through = (self.alpha[:, None] * self.matrix) * slope.unsqueeze(1)
        return through + diagonal(self.beta * torch.ones_like(s))

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        kind = Kind(native.KERNELS.index(PreActivation), native.ACTIVATIONS.index(self.activation))
        return FormOperands(self.matrix, alpha=self.alpha, beta=self.beta), kind

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> PreActivation:
        return cls(operands.matrix, native.ACTIVATIONS[kind.activation], operands.alpha, operands.beta)  # type: ignore[arg-type]

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        H = extent.hidden
        return {"matrix": (H, H), "alpha": (H,), "beta": (H,)}, {}
