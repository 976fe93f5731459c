"""Phase portraits: trajectories and arrows of a network in a plane, at a constant input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.diagnostics import arguments
from autapse.diagnostics.trajectories import Network, Trajectory, array, checked_cell, recurrent_of, trajectory

PAPER = ((0.0, 0.5), (-0.5, -0.5), (0.5, -0.75))  # the initial states of the AntisymmetricRNN paper, section 4


@dataclass(frozen=True, eq=False)
class PhasePortrait:
    """Trajectories and arrows in a plane, from `phase_portrait`, in the coordinates of the plane."""

    paths: np.ndarray  # [steps + 1, N, 2], the states of N trajectories
    grid: np.ndarray  # [G, G, 2], the points of a grid
    arrows: np.ndarray  # [G, G, 2], F(h) − h at these points
    explained: np.ndarray  # [2], the share of the variance of the states along each axis; 1 for two units
    axes: tuple[str, str]  # what the two axes are


@torch.no_grad()
def phase_portrait(
    network: Network,
    x: Any = None,
    lengths: Any = None,
    layer: int = 0,
    at: Tensor | None = None,
    starts: Any = None,
    steps: int = 50,
    limits: float | None = None,
    grid: int = 15,
) -> PhasePortrait:
    """The dynamics of a network at a constant input, in a plane, as in Fig. 1 of the AntisymmetricRNN paper.

    A network with two units is drawn in these two. For others, the plane is that of the first two principal components
    of the states along `x`, and an arrow is the part of the step in the plane.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input whose states give the plane; not needed for two units.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        at: [D], the constant input of the cell. None: zeros for two units, and otherwise the mean of what it reads.
        starts: [N, S], the states that trajectories start from. None: the paper's three for two units, and otherwise
            the first states of up to eight sequences after one step.
        steps: length of the trajectories.
        limits: half of the width of the grid. None: 1 for two units, and otherwise as wide as the states along `x` and
            the trajectories, but at most three times as wide as the former.
        grid: arrows per side.

    Returns:
        A `PhasePortrait`. Time: one forward pass, and (grid² + steps·N) steps.

    >>> layer = autapse.Antisymmetric(1, 2, step=0.1, diffusion=0.0, bias=False)
    >>> portrait = phase_portrait(layer)
    >>> portrait.paths.shape, portrait.arrows.shape
    ((51, 3, 2), (15, 15, 2))
    """
    checks.integer("steps", steps, minimum=1)
    checks.integer("grid", grid, minimum=2)
    run = recurrent_of(network)
    cell = checked_cell(run, layer)
    plane = _plane(cell, None if x is None else trajectory(network, x, lengths, layer))
    dtype = next(iter(cell.parameters()), torch.empty(0)).dtype
    constant = plane.input if at is None else arguments.tensor("at", at)
    if tuple(constant.shape) != (cell.input_size,):
        checks.fail("at", f"have shape ({cell.input_size},)", tuple(constant.shape), kind=checks.ShapeError)
    advance = _autonomous(cell, constant.to(dtype))
    first = plane.starts if starts is None else arguments.tensor("starts", starts, torch.float64)
    if first.dim() != 2 or first.shape[1] != sum(cell.carried_sizes):
        rule = f"have shape (N, S) with S = {sum(cell.carried_sizes)}"
        checks.fail("starts", rule, tuple(first.shape), kind=checks.ShapeError)
    states = [first.to(dtype)]
    for t in range(steps):
        states.append(advance(states[-1], t))
    shown = (torch.stack(states).double() - plane.center) @ plane.basis.T
    width = plane.width_with(shown) if limits is None else checks.number("limits", limits, above=0.0)
    side = np.linspace(-1, 1, grid) * width
    points = torch.from_numpy(np.stack(np.meshgrid(side, side), axis=-1))
    lifted = (plane.center + points.reshape(-1, 2) @ plane.basis).to(dtype)
    arrows = ((advance(lifted, 0) - lifted).double() @ plane.basis.T).reshape(grid, grid, 2)
    return PhasePortrait(array(shown), points.numpy(), array(arrows), plane.explained, plane.names)


@dataclass(frozen=True, eq=False)
class _Plane:
    center: Tensor  # [S]
    basis: Tensor  # [2, S], orthonormal
    width: float  # half of the width of the states
    explained: np.ndarray
    names: tuple[str, str]
    starts: Tensor  # [N, S]
    input: Tensor  # [D], the constant input

    def width_with(self, paths: Tensor) -> float:
        """Half of the width of what is shown."""
        if self.names[0] == "unit 1":
            return self.width
        return max(self.width, min(float(paths.abs().nan_to_num(math.inf).max()), 3 * self.width))


def _plane(cell: Cell, path: Trajectory | None) -> _Plane:
    units = sum(cell.carried_sizes)
    if units == 2:
        names = ("unit 1", "unit 2")
        start, still = torch.tensor(PAPER).double(), torch.zeros(cell.input_size)
        return _Plane(torch.zeros(2).double(), torch.eye(2).double(), 1.0, np.ones(2), names, start, still)
    if path is None:
        checks.fail("x", f"be given for a state of {units} units: its principal components give the plane", None)
    if units < 2:
        checks.fail("network", "have at least two units", units)
    states = path.after[path.running].double()
    center = states.mean(0)
    _, values, basis = torch.linalg.svd(states - center, full_matrices=False)
    if len(values) < 2:
        checks.fail("x", "have at least two steps, for two principal components", tuple(path.inputs.shape))
    explained = array(values.square() / values.square().sum().clamp(min=torch.finfo(torch.float64).tiny))[:2]
    width = float(((states - center) @ basis[:2].T).abs().max()) or 1.0  # if the state never changes
    names, start = ("component 1", "component 2"), path.after[0, :8].double()
    return _Plane(center, basis[:2], width, explained, names, start, path.inputs[path.running].mean(0))


def _autonomous(cell: Cell, constant: Tensor) -> Any:
    u, weights = cell.drive(constant[None]), cell.prepare()

    def advance(states: Tensor, t: int) -> Tensor:
        parts = states.split(cell.carried_sizes, dim=-1)
        return torch.cat(cell.advance(u.expand(len(states), -1), parts, weights, t), dim=-1)

    return advance
