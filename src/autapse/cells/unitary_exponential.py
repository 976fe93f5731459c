"""exp of a skew-Hermitian matrix by its eigenvalues, many times faster than by its series."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from autapse.cells.matrices import exponential, in_full_precision
from autapse.gradient.function import Function


@in_full_precision
def unitary_exponential(A: Tensor) -> Tensor:  # [n, n], complex
    """exp(A) for A = −Aᴴ, unitary."""
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return exponential(A)
    value: Tensor = _Exponential.apply(A)[0]
    return value


class _Exponential(Function):
    """V·exp(iλ)·Vᴴ with A = V·iλ·Vᴴ; eigenvalues and vectors are constants for the gradient."""

    @staticmethod
    def forward(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, V = torch.linalg.eigh(-1j * A)
        return (V * torch.polar(torch.ones_like(values), values)) @ V.mH, values, V

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, *output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        A, values, V = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted
            return torch.autograd.grad(exponential(A), A, gradients[0], create_graph=True)[0]
        # The derivative is a product, entry by entry, in the basis V: with (e^ia − e^ib) / (ia − ib), also for a = b.
        middle, half = (values[:, None] + values) / 2, (values[:, None] - values) / 2
        quotients = torch.polar(torch.ones_like(middle), middle) * torch.sinc(half / math.pi)
        return V @ (quotients.conj() * (V.mH @ gradients[0] @ V)) @ V.mH
