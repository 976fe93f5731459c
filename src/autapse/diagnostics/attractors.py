"""Fixed and slow points of a network at a constant input."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.diagnostics import arguments
from autapse.diagnostics.deadline import OutOfTime, is_over, time_left
from autapse.diagnostics.trajectories import Network, array, trajectory
from autapse.solve import Newton, NotConvergedWarning
from autapse.solve.direct import Direct
from autapse.solve.step_system import StepSystem

STARTS = 128
TOGETHER = 8  # starts that are solved at a time before a deadline
ENTRIES = 1 << 20  # of the matrices whose eigenvalues are computed at a time
ITERATIONS = 60
ATOL = 1e-10  # of a fixed point, in float64


@dataclass(frozen=True, eq=False)
class FixedPoints:
    """Fixed and slow points of a network, from `fixed_points`: P points of S units, the slowest first."""

    points: np.ndarray  # [P, S], states with all their tensors
    speed: np.ndarray  # [P], ‖F(h) − h‖, zero but for roundings at a fixed point
    fixed: np.ndarray  # [P] bool, whether it is a fixed point; otherwise it is a slow point
    eigenvalues: np.ndarray  # [P, S] complex, those of ∂F/∂h, largest modulus first
    counts: np.ndarray  # [P], how many starts ended there
    starts: int  # number of starts
    at: np.ndarray  # [D], the constant input of the cell

    @property
    def kinds(self) -> list[str]:
        """The kind of each point: "attractor" (all |λ| < 1), "repeller" (all |λ| > 1) or "saddle"."""
        growing = (np.abs(self.eigenvalues) > 1).sum(1)
        return ["attractor" if n == 0 else "repeller" if n == self.eigenvalues.shape[1] else "saddle" for n in growing]


@torch.no_grad()
def fixed_points(
    network: Network,
    x: Any,
    lengths: Any = None,
    layer: int = 0,
    at: Tensor | None = None,
    starts: int = STARTS,
    slow: float = 1e-3,
    apart: float = 1e-3,
    seed: int = 0,
) -> FixedPoints:
    """The fixed and slow points of h' = F(h) at a constant input, by Newton's method from states of the trajectory.

    Newton's method with a line search runs in float64 from many states. Where it ends without a solution but with
    ‖F(h) − h‖ ≤ `slow`, the state is a slow point: the network stays near it for long.

    If the steps of a cell depend on their position, as those of a PhasedLSTM do, F is the first step. A state that
    counts, as that of a SkipRNN does, has no fixed points.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input whose trajectory gives the starts.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        at: [D], the constant input of the cell. None: the mean of what it reads along the trajectory.
        starts: number of states to start from, drawn from the trajectory; the initial state is one of them.
        slow: the largest speed of a slow point.
        apart: points that are closer than this times (1 + their norm) are one point.
        seed: of the choice of the starts.

    Returns:
        A `FixedPoints`. Time: up to 60 steps of O(starts·S³).

    >>> layer = autapse.RNN(1, 1, bias=False)
    >>> _ = layer.weight_hh_l0.data.fill_(2.0)  # h = tanh(2·h) at −0.96, 0 and 0.96
    >>> states = fixed_points(layer, torch.randn(50, 8, 1), at=torch.zeros(1))
    >>> sorted(zip(states.points[:, 0].round(2).tolist(), states.kinds))
    [(-0.96, 'attractor'), (0.0, 'repeller'), (0.96, 'attractor')]
    """
    path = trajectory(network, x, lengths, layer)
    path.check_dense()
    checks.integer("starts", starts, minimum=1)
    checks.number("slow", slow, low=0.0)
    checks.number("apart", apart, above=0.0)
    cell = copy.deepcopy(path.cell).double().eval()
    constant = path.inputs[path.running].double().mean(0) if at is None else arguments.tensor("at", at, torch.float64)
    if tuple(constant.shape) != (cell.input_size,):
        rule = f"have one value per feature that the cell reads, shape ({cell.input_size},)"
        checks.fail("at", rule, tuple(constant.shape), kind=checks.ShapeError)
    first = _starts(path.before[path.running].double(), path.before[0, 0].double(), starts, seed)
    h, speed = _solved(cell, constant, first)
    points, slowness, counts = _distinct(h[speed <= slow], speed[speed <= slow], apart)
    eigenvalues = _eigenvalues(cell, constant, points)
    known = slice(len(eigenvalues))
    fixed = slowness <= 10 * ATOL * (1 + points.norm(dim=1))
    shown = [array(each[known]) for each in (points, slowness, fixed, eigenvalues, counts)]
    return FixedPoints(shown[0], shown[1], shown[2], shown[3], shown[4], len(h), array(constant))


class _Autonomous:
    """F at a constant input, as the rule of h = F(h)."""

    floor, factorises = 0.0, False

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        is_over()
        return torch.cat(self.cell.advance(u, h.split(self.cell.carried_sizes, dim=-1), weights, 0), dim=-1)

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        return self.cell._jacobian(u, h.split(self.cell.carried_sizes, dim=-1), weights, 0)


def _starts(states: Tensor, initial: Tensor, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(checks.seed("seed", seed))
    chosen = torch.randperm(len(states), generator=generator)[: count - 1]
    return torch.cat([initial[None], states[chosen]])


def _solved(cell: Cell, constant: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Where the starts end, and the speed there. Before a deadline, for as many starts as there is time for."""
    drive, weights = cell.drive(constant[None]), cell.prepare()
    solver = Newton(linear=Direct(), line_search=True, max_iterations=ITERATIONS, atol=ATOL)
    ends: list[tuple[Tensor, Tensor]] = []
    for part in first.split(len(first) if math.isinf(time_left()) else TOGETHER):
        try:
            system = StepSystem(_Autonomous(cell), part, drive.expand(len(part), -1), weights)
            with warnings.catch_warnings():
                # An equilibrium may have no solution at a state that Newton's method tries. Such a start ends nowhere.
                warnings.simplefilter("ignore", NotConvergedWarning)
                h, _ = solver.solve(system, rtol=ATOL)
                ends.append((h, (system.evaluate(h) - h).norm(dim=1)))
        except OutOfTime:
            if is_over(TOGETHER * len(ends), len(first), "starts"):
                break
    states, speeds = zip(*ends, strict=True)
    return torch.cat(states), torch.cat(speeds)


def _eigenvalues(cell: Cell, constant: Tensor, points: Tensor) -> Tensor:  # [P, S], largest modulus first
    """Those of ∂F/∂h at each point. Before a deadline, at as many points as there is time for, but at one at least."""
    drive, weights, eigenvalues = cell.drive(constant[None]), cell.prepare(), []
    for part in points.split(max(1, ENTRIES // points.shape[1] ** 2)):
        jacobians = _Autonomous(cell).feedback(part, part, drive.expand(len(part), -1), weights)
        values = torch.linalg.eigvals(jacobians)
        eigenvalues.append(values.gather(-1, values.abs().argsort(dim=-1, descending=True)))
        if is_over(sum(map(len, eigenvalues)), len(points), "points"):
            break
    return torch.cat(eigenvalues)


def _distinct(h: Tensor, speed: Tensor, apart: float) -> tuple[Tensor, Tensor, Tensor]:
    """One state of each group of close ones, slowest first, and the size of each group."""
    order = speed.argsort()
    h, speed = h[order], speed[order]
    kept: list[int] = []
    counts: list[int] = []
    for n, state in enumerate(h):
        distances = (h[kept] - state).norm(dim=1) if kept else torch.empty(0)
        close = (distances <= apart * (1 + state.norm())).nonzero()
        if len(close):
            counts[int(close[0])] += 1
        else:
            kept.append(n)
            counts.append(1)
    return h[kept], speed[kept], torch.tensor(counts, dtype=torch.long)
