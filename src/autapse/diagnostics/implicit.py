"""Implicit networks: what their solves cost, how they converge, and how far a change of one input spreads."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.diagnostics.deadline import groups
from autapse.diagnostics.trajectories import Network, array, layer_input
from autapse.layers import Recurrent
from autapse.solve import Anderson, FixedPoint, Newton, Solver, SolveReport
from autapse.unfold import Solve

COUNTS = ("evaluations", "converged")
AT_ZERO = 1e6  # a larger relative residual is that of a start from zero


@dataclass(frozen=True, eq=False)
class ImplicitSolves:
    """The cost of each of n solvers on B sequences, from `implicit_solves`."""

    solvers: tuple[str, ...]  # names of the n solvers
    lengths: np.ndarray  # [B]
    evaluations: np.ndarray  # [n, B], in evaluations of F for the whole sequence
    converged: np.ndarray  # [n, B] bool
    residual: np.ndarray  # [n, iterations + 1, B], the smallest ‖F(z) − z‖ / ‖z‖ so far; NaN for z = 0 or no steps

    def by_length(self, solver: str) -> dict[int, float]:
        """The mean number of evaluations of the sequences of each length."""
        row = self.evaluations[self.solvers.index(checks.one_of("solver", solver, self.solvers))]
        return {int(n): float(row[self.lengths == n].mean()) for n in np.unique(self.lengths)}


@torch.no_grad()
def implicit_solves(
    network: Network,
    x: Any,
    lengths: Any = None,
    solvers: Mapping[str, Solver] | None = None,
    tolerance: float = 1e-4,
    iterations: int = 8,
) -> ImplicitSolves:
    """The evaluations that solvers need for the sequences of an implicit network, and their convergence curves.

    Args:
        network: a layer that looks ahead, such as `ImplicitGRU`, with one layer; or a model with one.
        x: the input, as the network takes it.
        lengths: [B], the length of each sequence, if they differ.
        solvers: solvers of `autapse.solve` by name. None: fixed-point iteration, Anderson and Newton.
        tolerance: relative residual to reach.
        iterations: length of the convergence curves.

    Returns:
        An `ImplicitSolves`. Time: about iterations² / 2 iterations per solver, since each point of a curve is a solve
        of its own. 784 steps of 128 units and 32 sequences take about 25 s with two threads.

    >>> solves = implicit_solves(autapse.ImplicitGRU(3, 4), torch.randn(10, 2, 3), iterations=4)
    >>> solves.evaluations.shape, solves.residual.shape
    ((3, 2), (3, 5, 2))
    """
    run, x, known = layer_input(network, x, lengths)
    if not run.looks_ahead or run.num_layers > 1:
        checks.fail("network", "be one layer that looks ahead, such as ImplicitGRU", run.cell_class.__name__)
    given = {"fixed point": FixedPoint(), "anderson": Anderson(), "newton": Newton()} if solvers is None else solvers
    if not isinstance(given, Mapping) or not given or not all(isinstance(one, Solver) for one in given.values()):
        remedy = 'Pass solvers of autapse.solve, as in {"newton": Newton()}.'
        checks.fail("solvers", "have at least one solver, by name", given, remedy)
    checks.number("tolerance", tolerance, above=0.0)
    checks.integer("iterations", iterations, minimum=1)
    parts = []
    for rows in groups(len(known)):
        part, steps = x[:, rows], known[rows]
        reports = [_report(run, part, steps, solver, tolerance) for solver in given.values()]
        curves = [[_residual(run, part, steps, solver, n) for n in range(iterations + 1)] for solver in given.values()]
        evaluations, converged = ([array(getattr(report, name)) for report in reports] for name in COUNTS)
        parts.append((steps.numpy(), np.array(evaluations), np.array(converged), np.array(curves)))
    return ImplicitSolves(tuple(given), *(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))


def _residual(run: Recurrent, x: Tensor, lengths: Tensor, solver: Solver, limit: int) -> np.ndarray:  # [B]
    # A tolerance that is never reached, so that all sequences take as many iterations.
    residual = array(_report(run, x, lengths, replace(solver, max_iterations=limit), 1e-15).residual)
    return np.where((residual < AT_ZERO) & (lengths.numpy() > 0), residual, np.nan)


def _report(run: Recurrent, x: Tensor, lengths: Tensor, solver: Solver, tolerance: float) -> SolveReport:
    layer = copy.deepcopy(run).eval()
    layer.unfold = Solve(solver=solver, tolerance=tolerance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # solves that stop early are the point
        layer(x.transpose(0, 1) if run.batch_first else x, lengths=lengths)
    return layer.reports[0]


@dataclass(frozen=True, eq=False)
class ImplicitSpread:
    """The effect of a change of one input on all outputs, from `implicit_spread`."""

    offset: np.ndarray  # [T], position less that of the changed input
    effect: np.ndarray  # [T, B], ‖change of the output‖ / ‖change of the input‖; NaN past an end

    @property
    def typical(self) -> np.ndarray:
        """The root mean square over the sequences, [T]."""
        return np.sqrt(np.nanmean(self.effect**2, axis=1))

    def reach(self, share: float = 0.01) -> tuple[int, int]:
        """How many steps to the left and to the right the effect stays above `share` of its largest value."""
        offsets = self.offset[self.typical >= share * self.typical.max()]
        return int(-offsets.min()), int(offsets.max())


@torch.no_grad()
def implicit_spread(
    network: Network, x: Any, position: int | None = None, lengths: Any = None, size: float = 1e-4, seed: int = 0
) -> ImplicitSpread:
    """How far a small change of the input at one position spreads to either side, in the output of a layer.

    It is the difference of two runs in float64, with equations solved to 10⁻¹². It works for every layer: one that only
    looks back has no effect to the left.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it.
        position: where the input is changed; by default in the middle of the longest sequence.
        lengths: [B], the length of each sequence, if they differ. All must have the position.
        size: norm of the change, which has a random direction.
        seed: of the direction.

    Returns:
        An `ImplicitSpread`. Time: two forward passes.

    >>> float(implicit_spread(autapse.GRU(3, 4), torch.randn(20, 2, 3), position=5).effect[:5].max())
    0.0
    """
    run, x, known = layer_input(network, x, lengths)
    at = len(x) // 2 if position is None else position
    checks.integer("position", at, minimum=0, maximum=int(known.min()) - 1)
    checks.number("size", size, above=0.0)
    layer, x = copy.deepcopy(run).double().eval(), x.double()
    if layer.looks_ahead:
        layer.unfold = Solve(solver=layer.strategy.solver, tolerance=1e-12)  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(checks.seed("seed", seed))
    change = torch.randn(x.shape[1:], generator=generator, dtype=x.dtype)
    changed = x.clone()
    changed[at] += size * change / change.norm(dim=1, keepdim=True)
    effects = []
    for rows in groups(len(known)):
        both = [_outputs(layer, v[:, rows], known[rows]) for v in (x, changed)]
        effects.append((both[1] - both[0]).norm(dim=2) / size)
    effect = torch.cat(effects, dim=1)
    past = torch.arange(len(x))[:, None] >= known[: effect.shape[1]]
    return ImplicitSpread(np.arange(len(x)) - at, array(effect.masked_fill(past, torch.nan)))


def _outputs(layer: Recurrent, x: Tensor, lengths: Tensor) -> Tensor:  # [T, B, H]
    output = layer(x.transpose(0, 1) if layer.batch_first else x, lengths=lengths)[0]
    return output.transpose(0, 1) if layer.batch_first else output
