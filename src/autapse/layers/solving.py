"""Solving: what layers share whose states are found by a solver over whole sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.forms.implicit import Rule
from autapse.gradient import Gradient
from autapse.gradient import Implicit as ImplicitGradient
from autapse.layers.per_thread import PerThread
from autapse.layers.solutions import MEGABYTE, Solutions
from autapse.sequences.batch import SequenceBatch
from autapse.sequences.red_black import RedBlack
from autapse.solve import LinearReport, Solver, SolveReport, Tolerance, general, recommended
from autapse.solve.report import warn_once
from autapse.unfold.whole import unfold_coupled


class Solving(nn.Module):
    """How a layer solves: solver, gradient, tolerance, cached solutions, and the reports of its last call."""

    calls: Tensor
    reports = PerThread[SolveReport]()  # one per layer, filled as they are solved
    adjoint_reports = PerThread[LinearReport]()  # one per layer, filled by the backward pass of that call

    def __init__(
        self, solver: Solver | None, gradient: Gradient | None, tolerance: Tolerance | float | None, cache: float
    ) -> None:
        """`cache` is the memory in megabytes for solutions that are kept by key; 0 for none."""
        super().__init__()
        self.solver = _checked("solver", solver, Solver, "one of autapse.solve, such as Chain(Tridiagonal(), Newton())")
        self.gradient = _checked("gradient", gradient, Gradient, "one of autapse.gradient, such as Implicit()")
        if isinstance(tolerance, int | float) and not isinstance(tolerance, bool):
            tolerance = checks.number("tolerance", tolerance, above=0.0)
            tolerance = Tolerance(training=tolerance, adjoint=tolerance, evaluation=tolerance)
        self.tolerance = _checked("tolerance", tolerance, Tolerance, "a number or autapse.solve.Tolerance(…)")
        self.tolerance = self.tolerance or Tolerance()
        self.solutions = Solutions(checks.number("cache", cache, low=0.0))
        # A schedule goes by training calls, which a resumed run must not count again.
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=self.tolerance.first is not None)

    def begin(self) -> tuple[float, float]:
        """A call of the layer: the tolerances of states and adjoint."""
        self.reports, self.adjoint_reports = [], []
        tolerances = self.tolerance.at(self.training, int(self.calls))
        if self.training and self.tolerance.first is not None:
            self.calls += 1
        return tolerances

    def unfold(
        self,
        rule: Rule,
        x: Tensor,  # [N, D], in the lattice's order
        drive: Any,  # x -> u
        lattice: RedBlack,
        edges: Tensor,
        batch: SequenceBatch,
        tolerances: tuple[float, float],
        start: Tensor | None,
    ) -> Tensor:
        """The states of one layer, in the lattice's order."""
        default = recommended if rule.has_bands else general
        states, report = unfold_coupled(
            rule,
            drive(x),
            lattice,
            edges,
            self.solver or default(),
            self.gradient or ImplicitGradient(),
            *tolerances,
            start,
            self.adjoint_reports.append,
        )
        self.reports.append(report.take(batch.places))
        self._warn(report)
        return states

    def _warn(self, report: SolveReport) -> None:
        if not report.all_converged:
            warn_once(
                self,
                f"The states of a batch were not all found: {report.words()}. Such sequences are kept at their best "
                "residual, give no gradient and are marked in layer.reports. Try a smaller learning rate, a looser "
                "tolerance or another solver. This warning comes once per layer.",
                stacklevel=7,  # the call of the layer, past torch.nn.Module and torch.compiler.disable
            )

    def words(self) -> list[str]:
        """name=value of what is not the default."""
        megabytes = self.solutions.limit / MEGABYTE
        given = {"solver": self.solver, "gradient": self.gradient, "cache": megabytes or None}
        given["tolerance"] = None if self.tolerance == Tolerance() else self.tolerance
        return [f"{name}={value!r}" for name, value in given.items() if value is not None]


def _checked(name: str, value: Any, kind: type, rule: str) -> Any:
    if value is not None and not isinstance(value, kind):
        checks.fail(name, f"be {rule}", value, "Leave it out for the default.", checks.KindError)
    return value


def own_edges(edges: Tensor | None, size: int, batch: SequenceBatch) -> Tensor:  # [1, S], or [2B, S]
    """The states past the ends that a layer has by itself: zero, or learned ones [2, S]."""
    if edges is None:
        return batch.rows.new_zeros(1, size)
    return edges[:, None].expand(2, batch.count, size).reshape(2 * batch.count, size)


def start_rows(entry: Any, sizes: Sequence[int], batch: SequenceBatch) -> Tensor:  # [N, S]
    """Start states as a caller gives them, one tensor per state size, in the batch's order."""
    states = list(entry) if isinstance(entry, tuple | list) else [entry]
    if len(states) != len(sizes) or not all(isinstance(s, Tensor) for s in states):
        rule = f"have {len(sizes)} tensors per layer, as return_states=True gives them"
        checks.fail("start_states", rule, type(entry).__name__, kind=checks.KindError)
    leading = batch.pad(batch.rows[:, :0]).shape[:-1]
    parts = []
    for state, size in zip(states, sizes, strict=True):
        if state.numel() != leading.numel() * size or state.shape[: len(leading)] != leading:
            checks.fail("start_states", f"have shape {(*leading, size)}", tuple(state.shape), kind=checks.ShapeError)
        parts.append(batch.unpad(state.detach().to(batch.rows).reshape(*leading, size)))
    return torch.cat(parts, 1)


def make_lattice(batch: SequenceBatch, stencil: tuple[int, ...], edges: bool) -> RedBlack:
    """The lattice of a batch."""
    sizes = torch.tensor(batch.sizes, dtype=torch.long)
    lengths = (sizes[:, None] > torch.arange(batch.count)).sum(0)
    return RedBlack(lengths, stencil, batch.rows.device, edges)


def final_states(z: Tensor, lattice: RedBlack, edges: Tensor) -> Tensor:  # [B, S]
    """The state at each sequence's own end; before the first position where it has none."""
    before = edges[: lattice.count] if lattice.edges else edges.expand(lattice.count, -1)
    if not lattice.total:
        return before
    empty = (lattice.lengths == 0).to(z.device)
    found = z.index_select(0, lattice.ends)
    return torch.where(empty[:, None], before, found) if bool(empty.any()) else found
