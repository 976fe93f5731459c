"""The figure of the textbook's chapter on sequence models: a cliff, and gradient clipping."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse.diagnostics.plots import draw_loss_surface, new_figure
from autapse.diagnostics.surfaces import gradient_path, loss_surface
from autapse.layers import RNN
from autapse.reproduce.drawings.base import WIDE, Drawn, PaperFigure, number, short

STEPS, GOAL = 50, -0.7
W, B = ("weight_hh_l0", 0, 0), ("bias_ih_l0", 0)
START, RATE, CLIP = (1.5, -0.2), 0.2, 1.0


def figure_10_19(seed: int) -> Drawn:
    """The loss of h' = tanh(w·h + b) after 50 steps, over w and b, with plain and clipped gradient steps."""
    layer = RNN(1, 1)
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    layer = layer.double()
    x, h0 = torch.zeros(STEPS, 1, 1).double(), torch.full((1, 1, 1), 0.5).double()

    def loss(network: Any) -> Tensor:
        return (network(x, h0)[1] - GOAL).square().sum()

    surface = loss_surface(layer, loss, W, B, (0.0, 4.0), (-1.5, 0.5), points=81)
    plain = gradient_path(layer, loss, W, B, START, RATE, steps=60)
    clipped = gradient_path(layer, loss, W, B, START, RATE, steps=60, clip=CLIP)
    figure = new_figure(WIDE, 3.2)
    for axes, name, path in zip(
        figure.subplots(1, 2), ("plain", f"norm at most {CLIP:g}"), (plain, clipped), strict=True
    ):
        draw_loss_surface(surface, {name: path}, axes)
        axes.set(xlabel="w", ylabel="b", title=name)
        axes.get_legend().remove()
    farthest = [float(np.nanmax(np.linalg.norm(np.diff(path.points, axis=0), axis=1))) for path in (plain, clipped)]
    numbers = {
        "plain": {"loss": short(plain.loss), "w": short(plain.points[:, 0]), "b": short(plain.points[:, 1])},
        "clipped": {"loss": short(clipped.loss), "w": short(clipped.points[:, 0]), "b": short(clipped.points[:, 1])},
        "largest_gradient": number(float(np.nanmax(plain.gradient))),
        "largest_step": {"plain": number(farthest[0]), "clipped": number(farthest[1])},
    }
    ours = (
        f"At the cliff the gradient has the norm {np.nanmax(plain.gradient):.3g}: one plain step moves the "
        "parameters by "
        f"{farthest[0]:.3g}, and a clipped one by {farthest[1]:.3g}. After 60 steps the loss is "
        f"{plain.loss[-1]:.2g} without "
        f"and {clipped.loss[-1]:.2g} with clipping. The plain step leaves the picture."
    )
    return Drawn(figure, numbers, ours, farthest[0] > 10 * farthest[1] and clipped.loss[-1] < plain.loss[-1])


FIGURES = (
    PaperFigure(
        "textbook/figure10.19",
        "The loss over two parameters of a network with one unit, h' = tanh(w·h + b), after 50 steps from h = 0.5; the "
        "target is −0.7. The book's drawing is a sketch without numbers.",
        "Where the gradient explodes there is a cliff, from which a plain gradient step is pushed very "
        "far; clipping the "
        "norm of the gradient prevents it.",
        figure_10_19,
    ),
)
