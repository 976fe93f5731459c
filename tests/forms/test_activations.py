"""Each activation's slope, written in its own value, against automatic differentiation."""

from __future__ import annotations

import pytest
import torch

from autapse.forms import ACTIVATIONS, modrelu
from tolerance import close


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slope_is_the_derivative(name: str) -> None:
    a = torch.linspace(-3, 3, 50, dtype=torch.float64, requires_grad=True)  # 0 is not among them
    y = ACTIVATIONS[name].apply(a)
    (derivative,) = torch.autograd.grad(y.sum(), a)
    close(ACTIVATIONS[name].slope(y.detach()), derivative)


def test_the_list_is_complete() -> None:
    assert set(ACTIVATIONS) == {"tanh", "relu", "sigmoid", "identity"}


@pytest.mark.parametrize(
    ("a", "threshold", "expected"),
    [(2.0, 0.5, 2.5), (-2.0, 0.5, -2.5), (2.0, -0.5, 1.5), (-2.0, -0.5, -1.5), (0.3, -0.5, 0.0), (0.0, 0.5, 0.0)],
)
def test_modrelu_shifts_the_modulus_and_keeps_the_sign(a: float, threshold: float, expected: float) -> None:
    assert modrelu(torch.tensor(a), torch.tensor(threshold)).item() == expected
