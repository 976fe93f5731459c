"""Half precision: what LAPACK and the matrix exponential do not serve is computed in float32."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import autapse
from networks import COMPOSED_VARIANTS, SOLVED_VARIANTS, VARIANTS, D, H, Network

HALF = [torch.bfloat16, torch.float16]
every_half = pytest.mark.parametrize("dtype", HALF, ids=str)
T, B = 3, 2
# The slope of EquilibriumTanh is infinite at 0, where a rounding of the input moves a state by any amount.
SMOOTH = [n for n in [*VARIANTS, *SOLVED_VARIANTS, *COMPOSED_VARIANTS] if n.name != "EquilibriumTanh"]


@every_half
@pytest.mark.parametrize("network", SMOOTH, ids=str)
def test_every_layer_is_that_of_float32_to_rounding(network: Network, dtype: torch.dtype) -> None:
    """The same weights, rounded; values and gradients."""
    torch.manual_seed(3)
    layer = network.layer_class(D, H, dtype=torch.float32, **network.options).to(dtype)
    single = copy.deepcopy(layer).float()
    x = torch.randn(T, B, D).to(dtype)
    output, _ = layer(x)
    expected, _ = single(x.float())
    assert output.dtype == dtype
    close = {"rtol": 0.1, "atol": 0.05}  # bfloat16 has three digits
    torch.testing.assert_close(output.float(), expected, **close)
    for one in (output.float(), expected):
        one.square().sum().backward()
    found = torch.cat([p.grad.float().flatten() for p in layer.parameters()])
    truth = torch.cat([p.grad.flatten() for p in single.parameters()])
    assert (found - truth).norm() < 0.1 * truth.norm()


@every_half
def test_the_tanh_equilibrium_in_half_precision(dtype: torch.dtype) -> None:
    layer = autapse.EquilibriumTanh(D, H, dtype=dtype)
    torch.nn.init.constant_(layer.cells["l0"].bias_h, 2.0)  # away from its singular point
    x = torch.randn(T, B, D).to(dtype)
    output, _ = layer(x)
    expected, _ = copy.deepcopy(layer).float()(x.float())
    torch.testing.assert_close(output.float(), expected, rtol=0.02, atol=0.02)
    assert layer.reports[0].all_converged


@every_half
@pytest.mark.parametrize("options", [{}, {"parametrization": "cayley"}, {"parametrization": "rotations"}], ids=str)
def test_orthogonal_matrices_are_orthogonal(options: dict[str, Any], dtype: torch.dtype) -> None:
    cell = autapse.cells.OrthogonalRNN(D, 32, **options).to(dtype)
    R = cell.matrix()
    assert R.dtype == dtype
    error = (R.double().T @ R.double() - torch.eye(32)).abs().max()
    assert error < 4 * torch.finfo(dtype).eps  # each entry is rounded once


@every_half
@pytest.mark.parametrize("name", ["OrthogonalRNN", "SpectralRNN", "ERNN", "EquilibriumLinear", "ImplicitMidpoint"])
def test_autocast_computes_the_maps_in_float32(name: str, dtype: torch.dtype) -> None:
    options = {"alignment": "exact"} if name == "ERNN" else {}
    layer = getattr(autapse, name)(D, H, **options)
    x = torch.randn(T, B, D)
    expected, _ = layer(x)
    with torch.autocast("cpu", dtype=dtype):
        output, _ = layer(x)
    torch.testing.assert_close(output.float(), expected, rtol=0.1, atol=0.05)
