"""Draws the picture of docs/optimizers.md: several optimizers on a loss with tiny gradients.

.venv/bin/python docs/pictures/optimizers.py

A linear unit must keep its first input for LENGTH steps: h' = w·h + x, loss (v·h - 1)². Where w^LENGTH is tiny, so are
the gradient and the curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from autapse.diagnostics.plots import Panel, draw_svg
from autapse.training import TrainingConfig
from autapse.training.clipping import clip
from autapse.training.curvature import LocalProblem
from autapse.training.optimizers import make_optimizer, set_rates, update
from autapse.training.schedule import momentum

HERE = Path(__file__).resolve().parent
SMALLEST = 1e-12  # loss that is drawn
LENGTH, STEPS, START = 50, 300, (0.88, 0.5)
METHODS: dict[str, dict[str, Any]] = {
    "SGD": {"optimizer": "sgd", "learning_rate": 1e-3},
    "Nesterov": {"optimizer": "nesterov", "learning_rate": 1e-3, "momentum": 0.95, "momentum_schedule": "sutskever"},
    "Adam": {"optimizer": "adam", "learning_rate": 1e-2},
    "Hessian-free": {"optimizer": "hessian-free", "damping": 0.1, "cg_steps": 2},
}


class Unit(nn.Module):
    """One linear unit: v·w^LENGTH."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = (nn.Parameter(torch.tensor(value, dtype=torch.float64)) for value in START)

    def forward(self) -> Tensor:
        return (self.v * self.w**LENGTH).reshape(1)


def trained(settings: dict[str, Any]) -> list[float]:
    """The loss after each step."""
    unit, config = Unit(), TrainingConfig(**settings)
    optimizer = make_optimizer(config, unit.parameters())

    def evaluate(call: Callable[..., Any], _sequences: Any) -> Any:
        return call(), lambda output: (output - 1).square().sum()

    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (unit() - 1).square().sum()
        loss.backward()
        losses.append(max(float(loss.detach()), SMALLEST))
        clip(list(unit.parameters()), config.clip_norm, None)
        set_rates(optimizer, config, config.learning_rate, momentum(config, step, STEPS))
        update(optimizer, lambda: LocalProblem(unit, evaluate, range(1)))
    return losses


def main() -> None:
    torch.manual_seed(0)
    curves = {name: list(enumerate(trained(settings))) for name, settings in METHODS.items()}
    for name, curve in curves.items():
        solved = next((step for step, loss in curve if loss < 0.01), None)
        print(f"{name}: {curve[-1][1]:.3g} after {STEPS} steps, below 0.01 at step {solved}")
    panel = Panel(f"one linear unit, {LENGTH} steps", "step", "loss", True, curves)
    (HERE / "optimizers.svg").write_bytes(draw_svg([panel]))


if __name__ == "__main__":
    main()
