"""Draws the pictures of docs/cells: energies of the steps of an equation, an open unit, and how far gradients reach.

.venv/bin/python docs/pictures/networks.py    trains nothing; a few seconds
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from picture import save

import autapse
from autapse.layers import Recurrent

DOUBLE = {"dtype": torch.float64}


def integrators() -> None:
    """‖h‖² over the steps of dh/dt = M·h with an antisymmetric M, which keeps it."""
    figure, axes = plt.subplots(figsize=(6, 3))
    for name, style in {"euler": "--", "heun": "-.", "rk4": ":", "splitting": "-"}.items():
        torch.manual_seed(0)
        options = {"step": 0.9, "diffusion": 0.0, "nonlinearity": "identity", "bias": False}
        layer = autapse.Antisymmetric(1, 8, integrator=name, **options, **DOUBLE)  # type: ignore[arg-type]
        states, _ = layer(torch.zeros(200, 1, 1, **DOUBLE), torch.ones(1, 1, 8, **DOUBLE))  # type: ignore[arg-type]
        axes.plot((states[:, 0].detach().square().sum(1) / 8).numpy(), style, label=name)
    axes.set(xlabel="step", ylabel="‖h‖² / ‖h₀‖²", ylim=(0, 2))
    finish(axes)
    save(figure, "integrators.svg")


def openness() -> None:
    """k of three units of a Phased LSTM over the time."""
    cell = autapse.cells.PhasedLSTM(1, 3, open_ratio=0.2)
    periods = [8.0, 20.0, 50.0]
    with torch.no_grad():
        cell.log_period.copy_(torch.tensor(periods).log())
        cell.shift.copy_(torch.tensor([0.0, 6.0, 15.0]))
        times = torch.linspace(0, 100, 501)[:, None]
        k = cell.prepare().openness(times)  # type: ignore[attr-defined]
    figure, axes = plt.subplots(figsize=(6, 2.4))
    for unit in range(3):
        axes.fill_between(times[:, 0], unit + 0.8 * k[:, unit], unit, alpha=0.7)
    axes.set(xlabel="time t", yticks=[0.4, 1.4, 2.4], yticklabels=[f"τ = {period:g}" for period in periods])
    finish(axes, legend=False)
    save(figure, "phased.svg")


def reach(layer: Recurrent, x: torch.Tensor) -> torch.Tensor:
    """The largest ‖v·∂h_T/∂h_t‖ over ‖v‖ = 1, by the lag T − t: the norm of the product of all Jacobians between."""
    cell = layer.cells["l0"]
    state = cell.initial_state(1, x[0])
    jacobians = []
    for x_t in x:
        jacobians.append(cell.jacobian(x_t, *state)[0].detach())
        state = tuple(part.detach() for part in cell.advance(cell.drive(x_t), state, cell.prepare(), 0))
    product, norms = torch.eye(len(jacobians[0]), **DOUBLE), []  # type: ignore[call-overload]
    for jacobian in reversed(jacobians):
        product = product @ jacobian
        norms.append(torch.linalg.matrix_norm(product, 2))
    return torch.stack(norms)


def gradients() -> None:
    """How far gradients reach before any training."""
    torch.manual_seed(0)
    layers = {
        "RNN": autapse.RNN(1, 32, **DOUBLE),  # type: ignore[arg-type]
        "GRU": autapse.GRU(1, 32, **DOUBLE),  # type: ignore[arg-type]
        "CFN": autapse.CFN(1, 32, **DOUBLE),  # type: ignore[arg-type]
        "GORU": autapse.GORU(1, 32, **DOUBLE),  # type: ignore[arg-type]
        "complex OrthogonalRNN": autapse.OrthogonalRNN(1, 16, field="complex", **DOUBLE),  # type: ignore[arg-type]
    }
    x = torch.randn(100, 1, 1, **DOUBLE)  # type: ignore[call-overload]
    figure, axes = plt.subplots(figsize=(6, 3.4))
    for name, layer in layers.items():
        axes.semilogy(range(1, 101), reach(layer, x), label=name)
    axes.set(xlabel="lag: steps before the end", ylabel="norm of the Jacobian", ylim=(1e-12, 10))
    finish(axes)
    save(figure, "reach.svg")


def finish(axes: Axes, legend: bool = True) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False)


if __name__ == "__main__":
    integrators()
    openness()
    gradients()
