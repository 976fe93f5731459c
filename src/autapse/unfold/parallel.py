"""Parallel: all steps of a recurrent network at once, by Newton's method with an associative scan."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.forms import Form, State
from autapse.gradient.base import Adjoint, attach
from autapse.gradient.function import opaque, reverse_mode_only, without_autocast
from autapse.native.operands import KERNELS
from autapse.sequences.batch import SequenceBatch
from autapse.solve.limits import Limits
from autapse.solve.line import Line
from autapse.solve.newton_scan import solve_recurrence
from autapse.solve.recurrence import Position, Steps, TransposedSteps
from autapse.solve.report import SolveReport, merge, warn_unsolved
from autapse.unfold.base import Unfold, Unfolded, name_of

DENSE_UP_TO = 64  # the largest state size, all state tensors together, for which `jacobian="auto"` is dense
SCAN = "Use unfold=None: the scan has derivatives of any order, in every mode."
SECOND = f"Parallel() has first derivatives only. {SCAN}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Parallel(Limits, Unfold):
    """h_t = f_t(h_{t−1}) for all t at once, by Newton's method.

    An iteration computes the derivative J_t of every step at the current states. It then solves the linear recurrence
    δ_t = J_t·δ_{t−1} + r_t, with r_t = f_t(h_{t−1}) − h_t, in about 2·log₂ T rounds of an associative scan. Each
    iteration makes at least one more state of each sequence exact, so T iterations are always enough; most networks
    need only a few. The gradient solves the adjoint recurrence in the same way. The results are those of the step by
    step scan, up to the tolerance.

    Args:
        rtol: tolerance of ‖r_t‖ relative to the larger of ‖h_t‖ and ‖h_{t−1}‖, at every t. None: 1e-12 in float64 and
            2e-6 in float32. At least 4ε.
        max_iterations: largest number of iterations. None: the length of the longest sequence plus one, which is always
            enough.
        jacobian: how J is stored. "dense": all T·B·S² entries. "diagonal": only the diagonal, T·B·S entries, with more
            iterations. "auto": dense up to a state size S of 64.
        damping: J is multiplied by 1 − damping, for networks where Newton's method overshoots. Corrections that are not
            finite or very large are never used, with or without damping.

    >>> layer = autapse.GRU(3, 4, unfold=autapse.unfold.Parallel())
    >>> output, h_n = layer(torch.randn(100, 2, 3))
    >>> layer.reports[0].all_converged
    True
    """

    jacobian: str = "auto"
    damping: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("jacobian", self.jacobian, ("auto", "dense", "diagonal"))
        checks.number("damping", self.damping, low=0.0, high=1.0)

    def __repr__(self) -> str:
        changed = [f for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        return f"Parallel({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"

    unsolved: ClassVar[str] = (
        "Use max_iterations=None, which is enough if all values are finite, or unfold=None for the scan."
    )

    def check(self, cell: type[Cell] | Cell) -> None:
        if cell.stencil != (-1,):
            rule = f"be None: {name_of(cell)} has the stencil {cell.stencil}, and Parallel() supports only (-1,)"
            checks.fail("unfold", rule, self)
        if isinstance(cell, Cell) and cell.draws:
            rule = f"be None: {name_of(cell)} draws random numbers, and Parallel() computes a step several times"
            checks.fail("unfold", rule, self)

    def run(
        self,
        cell: Cell,
        rows: Tensor,
        batch: SequenceBatch,
        initial: State,
        *,
        layer: int = 0,
        start: int = 0,
        reverse: bool = False,
        keep: bool = True,
    ) -> Unfolded:
        if not batch.sizes:
            return Unfolded(tuple(s[:0] for s in initial), initial, SolveReport.empty("parallel", batch.count))
        weight = next(cell.parameters(), rows)
        reverse_mode_only("Parallel()", (rows, *initial, *cell.parameters()), SCAN)
        with without_autocast(rows.device.type):  # half precision is too coarse for a residual
            first = torch.cat(initial, dim=-1).to(weight.dtype)
            x = (batch.reverse(rows) if reverse else rows).to(first.dtype)
            sizes, weights, drive = cell.state_sizes, cell.prepare(), cell.drive(x)
            form = cell.fused(weights)
            is_form = type(form) in KERNELS  # a subclass of a form may have another step
            rule: Any = form if is_form else _CellSteps(cell, weights)
            position: Position = "of each row" if is_form else "of one step" if cell.depends_on_position else "any"
            line = Line.packed(batch.sizes, rows.device)
            dense = self.jacobian == "dense" or (self.jacobian == "auto" and first.shape[-1] <= DENSE_UP_TO)
            steps = Steps(rule, position, drive, first[: line.count], line, start, dense, sizes)
            # A form caches what it computes from its matrices, and the values of a solver have no graph.
            plain = dataclasses.replace(steps, rule=copy.copy(rule))
            h, report = solve_recurrence(plain, self, self.damping)
            # Autograd sees one more step of each state by itself. The adjoint adds the dependence between the steps.
            before = line.previous(h, steps.first)
            value = steps.step(before)
            operands = (value, *cell.parameters(), *cell.buffers())
            h = attach(_Recurrence(operands, self, plain, before.detach()), value.detach())
            final = torch.cat([first, h]).index_select(0, line.last(batch.count)).split(sizes, dim=-1)
        states = tuple(batch.reverse(part) if reverse else part for part in h.split(sizes, dim=-1))
        if line.count < batch.count:  # sequences without steps come last, and the solver does not see them
            report = merge([SolveReport.empty("parallel", batch.count), report], batch.count, worst=True)
        return Unfolded(states, final, report)


@dataclass(frozen=True)
class _CellSteps:
    """The steps of a cell that has no form."""

    cell: Cell
    weights: Any  # the result of cell.prepare()

    def step(self, u: Tensor, state: State, t: int) -> State:
        return self.cell.advance(u, state, self.weights, t)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        return self.cell._jacobian(u, state, self.weights, t)

    def __copy__(self) -> _CellSteps:
        return _CellSteps(self.cell, copy.copy(self.weights) if isinstance(self.weights, Form) else self.weights)


@dataclass(eq=False)
class _Recurrence(Adjoint):
    """The gradient of each state, with those of all later steps added by the adjoint recurrence."""

    remedy = SCAN

    operands: tuple[Tensor, ...]  # the step of each state, and the tensors that are read again
    settings: Parallel
    steps: Steps
    before: Tensor  # [N, S], the state before each step

    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        def solve(gradient: Tensor, *_: Tensor) -> tuple[Tensor]:
            adjoint = TransposedSteps(self.steps, self.before, gradient)
            total, report = solve_recurrence(adjoint, self.settings, self.settings.damping)
            warn_unsolved(report, "Parallel()", report, "gradients of sequences", Parallel.unsolved)
            return (total,)

        return *opaque(solve, SECOND, gradient, z, operands[0]), *[None] * (len(operands) - 1)
