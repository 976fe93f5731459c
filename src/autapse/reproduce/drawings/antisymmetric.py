"""The AntisymmetricRNN paper: phase portraits of networks with two units (section 4 and appendix D)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from autapse.diagnostics.figures.base import COLOURS
from autapse.diagnostics.phase import PAPER, PhasePortrait, phase_portrait
from autapse.diagnostics.plots import new_figure
from autapse.layers import RNN, Antisymmetric
from autapse.reproduce.drawings.base import WIDE, Drawn, PaperFigure, grid_of, number, short

STEP = 0.1
DIFFUSION = 0.15
MATRICES = {
    "positive eigenvalues": ((2.0, 0.0), (-2.0, 2.0)),
    "negative eigenvalues": ((-2.0, 0.0), (2.0, -2.0)),
    "imaginary eigenvalues": ((0.0, 2.0), (-2.0, 0.0)),
    "imaginary, with diffusion": ((-DIFFUSION, 2.0), (-2.0, -DIFFUSION)),
}
STEPS = 50
ARROWS, FEW_ARROWS = 7, 4  # per side, so that the files stay small
SHADES = (0.3, 0.6, 1.0)


def figure_1(seed: int) -> Drawn:
    """Four RNNs above four networks with feedback."""
    random = torch.Generator().manual_seed(seed)
    vanilla = {
        "RNN, random": torch.randn(2, 2, generator=random),
        "RNN, identity": torch.eye(2),
        "RNN, reflection": torch.tensor([[0.6, 0.8], [0.8, -0.6]]),
        "RNN, rotation": torch.tensor([[0.6, 0.8], [-0.8, 0.6]]),
    }
    portraits = {name: phase_portrait(_vanilla(W), grid=ARROWS) for name, W in vanilla.items()}
    portraits |= {name: phase_portrait(_feedback(W), grid=ARROWS) for name, W in MATRICES.items()}
    growth = {name: _growth(one) for name, one in portraits.items()}
    shrink = all(
        growth[name] < 1 for name in ("RNN, identity", "RNN, reflection", "RNN, rotation", "negative eigenvalues")
    )
    outward, kept = growth["imaginary eigenvalues"], growth["imaginary, with diffusion"]
    holds = shrink and growth["positive eigenvalues"] > 1.5 and outward > 1 and abs(kept - 1) < min(0.25, outward - 1)
    ours = (
        f"Over 50 steps the distance from the origin shrinks to {growth['RNN, rotation']:.2f} for a "
        "rotation in an RNN; with "
        f"feedback it grows to {growth['positive eigenvalues']:.2f} and shrinks to "
        f"{growth['negative eigenvalues']:.2g} for "
        f"positive and negative eigenvalues, and is {outward:.2f} for imaginary ones: {kept:.2f} with diffusion."
    )
    return Drawn(_panels(portraits, 4), {"growth": growth, "paths": _paths(portraits)}, ours, holds)


def figure_2(seed: int) -> Drawn:
    """16 RNNs with random matrices."""
    portraits = {f"seed {n}": phase_portrait(_vanilla(_gaussian(n)), grid=FEW_ARROWS) for n in _seeds(seed)}
    growth = {name: _growth(one) for name, one in portraits.items()}
    ends = {name: _ends(one) for name, one in portraits.items()}
    kinds = [_fate(one) for one in portraits.values()]
    counts = {kind: kinds.count(kind) for kind in ("the origin", "other fixed points", "no fixed point")}
    shown = ", ".join(f"{count} end at {kind}" for kind, count in counts.items())
    ours = f"Of 16 random matrices, {shown} within 50 steps: the behaviour differs from seed to seed."
    numbers = {"growth": growth, "ends": ends, "kinds": counts}
    return Drawn(_panels(portraits, 4), numbers, ours, sum(count > 0 for count in counts.values()) > 1)


def figure_3(seed: int) -> Drawn:
    """16 AntisymmetricRNNs with random matrices and diffusion 0.1."""
    portraits = {}
    for n in _seeds(seed):
        layer = Antisymmetric(1, 2, bias=False, step=STEP, diffusion=0.1)
        with torch.no_grad():
            cast(Tensor, layer.cells["l0"].weight_hh).copy_(_gaussian(n)[0, 1].reshape(1))
        portraits[f"seed {n}"] = phase_portrait(layer, grid=FEW_ARROWS)
    growth = {name: _growth(one) for name, one in portraits.items()}
    low, high = min(growth.values()), max(growth.values())
    ours = (
        "In all 16 networks the states move around the origin, and after 50 steps their distance is "
        f"{low:.2f} to {high:.2f} "
        "of the first one: nothing collapses or explodes."
    )
    return Drawn(_panels(portraits, 4), {"growth": growth}, ours, low > 0.3 and high < 2.0)


def figure_4(seed: int) -> Drawn:
    """Networks with feedback, with Gaussian input at every step."""
    random = torch.Generator().manual_seed(seed)
    noise = torch.randn(STEPS, len(PAPER), 2, generator=random)
    portraits = {name: _driven(_feedback(W, inputs=2), noise) for name, W in MATRICES.items()}
    growth = {name: _growth(one) for name, one in portraits.items()}
    ours = (
        f"With input the paths are noisier, and the trend is the same: the distance from the origin becomes "
        f"{growth['positive eigenvalues']:.2f}, {growth['negative eigenvalues']:.2f}, "
        f"{growth['imaginary eigenvalues']:.2f} "
        f"and {growth['imaginary, with diffusion']:.2f} of the first one."
    )
    holds = growth["negative eigenvalues"] < growth["imaginary, with diffusion"] < growth["positive eigenvalues"]
    return Drawn(_panels(portraits, 4), {"growth": growth, "paths": _paths(portraits)}, ours, holds)


# Networks ------------------------------------------------------------------------------------------------------------


def _seeds(seed: int) -> range:
    return range(16 * seed + 1, 16 * seed + 17)


def _gaussian(seed: int) -> Tensor:
    return torch.randn(2, 2, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def _vanilla(W: Tensor) -> RNN:
    """h' = tanh(W·h)"""
    layer = RNN(1, 2, bias=False)
    cast(Tensor, layer.weight_hh_l0).copy_(W)
    return layer


@torch.no_grad()
def _feedback(W: Sequence[Sequence[float]], inputs: int = 1) -> Antisymmetric:
    """h' = h + ε·tanh(W·h + x) with any matrix W."""
    layer = Antisymmetric(inputs, 2, bias=False, step=STEP, diffusion=0.0, structured=False)
    cast(Tensor, layer.cells["l0"].weight_hh).copy_(torch.tensor(W))
    cast(Tensor, layer.cells["l0"].weight_ih).copy_(torch.eye(2)[:, :inputs])
    return layer


@torch.no_grad()
def _driven(layer: Antisymmetric, noise: Tensor) -> PhasePortrait:
    """The paths with input, over the arrows without."""
    first = torch.tensor(PAPER)
    output, _ = layer(noise, first[None])
    still = phase_portrait(layer, grid=ARROWS)
    paths = torch.cat([first[None], output]).double().numpy()
    return PhasePortrait(paths, still.grid, still.arrows, still.explained, still.axes)


# Numbers -------------------------------------------------------------------------------------------------------------


def _growth(portrait: PhasePortrait) -> float:
    """The distance from the origin at the end, as a multiple of the first one: the mean over the paths."""
    size = np.linalg.norm(portrait.paths, axis=2)
    return number(float((size[-1] / size[0]).mean())) or 0.0


def _ends(portrait: PhasePortrait) -> list[float | None]:
    return short(portrait.paths[-1])


def _fate(portrait: PhasePortrait) -> str:
    """Where the paths of a portrait end."""
    if np.abs(portrait.paths[-1]).max() < 0.1:
        return "the origin"
    moves = np.abs(portrait.paths[-1] - portrait.paths[-2]).max() > 0.05
    return "no fixed point" if moves else "other fixed points"


def _paths(portraits: dict[str, PhasePortrait]) -> dict[str, Any]:
    return {name: [short(path) for path in one.paths[::10].transpose(1, 0, 2)] for name, one in portraits.items()}


def _panels(portraits: dict[str, PhasePortrait], across: int) -> Any:
    rows = -(-len(portraits) // across)
    figure = new_figure(WIDE, 1.05 * WIDE / across * rows)
    for axes, (name, one) in zip(grid_of(figure, len(portraits), across), portraits.items(), strict=True):
        _draw(one, axes)
        axes.set_title(name, fontsize="small" if len(name) > 10 else "medium")
        axes.set(xlabel="unit 1", ylabel="unit 2")
        axes.label_outer()
    return figure


def _draw(portrait: PhasePortrait, axes: Any) -> None:
    """Arrows, and paths that become darker. (`draw_phase` has a dot for each state: too much for many panels.)"""
    places = np.moveaxis(portrait.grid, -1, 0), np.moveaxis(portrait.arrows, -1, 0)
    axes.quiver(*places[0], *places[1], color="silver", width=0.008)
    ends = np.linspace(0, len(portrait.paths) - 1, len(SHADES) + 1).round().astype(int)
    for n in range(portrait.paths.shape[1]):
        path, colour = portrait.paths[:, n], COLOURS[n % len(COLOURS)]
        for shade, first, last in zip(SHADES, ends[:-1], ends[1:], strict=True):
            axes.plot(*path[first : last + 1].T, color=colour, alpha=shade, linewidth=1.0)
        axes.plot(*path[0], color=colour, marker="*", markersize=9)
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])


TIME = "Stars are the starts; later states are darker. 50 steps."
FIGURES = (
    PaperFigure(
        "antisymmetric/figure1",
        f"Networks with two units without input: above h' = tanh(W·h), below h' = h + 0.1·tanh(W·h). {TIME}",
        "RNNs converge to the origin even if W is orthogonal; with feedback the eigenvalues of W decide: "
        "away from the origin, "
        "towards it, or around it, slowly outwards without diffusion and at a constant distance with it.",
        figure_1,
    ),
    PaperFigure(
        "antisymmetric/figure2",
        f"RNNs with two units and standard normal matrices, 16 seeds. {TIME} The seeds are not the paper's.",
        "The behaviour of an RNN with random weights is unpredictable: it differs from seed to seed.",
        figure_2,
    ),
    PaperFigure(
        "antisymmetric/figure3",
        f"AntisymmetricRNNs with two units and standard normal matrices, 16 seeds, diffusion 0.1. {TIME}",
        "The dynamics of an AntisymmetricRNN with random weights is predictable: states move around the origin.",
        figure_3,
    ),
    PaperFigure(
        "antisymmetric/figure4",
        f"The networks with feedback of Figure 1 with independent standard normal input at each step. {TIME}",
        "With input the dynamics are noisier, but the trend remains the same.",
        figure_4,
    ),
)
