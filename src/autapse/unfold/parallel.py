"""Parallel: all steps of a recurrent network at once, by Newton's method with an associative scan."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from autapse.solve.loop import Goal, iterate
from autapse.solve.newton_scan import NewtonScan, Recurrence
from autapse.solve.report import SolveReport, merge, warn_unsolved
from autapse.unfold.base import Unfold, Unfolded, name_of

DENSE_UP_TO = 64  # the largest state size, all state tensors together, for which `jacobian="auto"` is dense
CHUNK = 1 << 22  # entries of a Jacobian that are computed at a time if only its diagonal is kept
RTOL = {torch.float64: 1e-12, torch.float32: 2e-6}
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
            line = Line.packed(batch.sizes, rows.device)
            dense = self.jacobian == "dense" or (self.jacobian == "auto" and first.shape[-1] <= DENSE_UP_TO)
            sizes, weights, drive = cell.state_sizes, cell.prepare(), cell.drive(x)
            form = cell.fused(weights)
            form = form if type(form) in KERNELS else None  # a subclass of a form may have another step
            steps = _Steps(cell, weights, form, drive, first[: line.count], line, start, dense, sizes)
            h, report = self._differentiable(steps)
            final = torch.cat([first, h]).index_select(0, line.last(batch.count)).split(sizes, dim=-1)
        states = tuple(batch.reverse(part) if reverse else part for part in h.split(sizes, dim=-1))
        if line.count < batch.count:  # sequences without steps come last, and the solver does not see them
            report = merge([SolveReport.empty("parallel", batch.count), report], batch.count, worst=True)
        return Unfolded(states, final, report)

    def _differentiable(self, steps: _Steps) -> tuple[Tensor, SolveReport]:
        plain = dataclasses.replace(steps, weights=_copied(steps.weights), form=_copied(steps.form))
        h, report = self._solve(plain, steps.first[steps.groups.owner])
        # Autograd sees one more step of each state by itself. The adjoint adds the dependence between the steps.
        before = steps.groups.previous(h, steps.first)
        value = steps.step(before)
        operands = (value, *steps.cell.parameters(), *steps.cell.buffers())
        return attach(_Recurrence(operands, self, plain, before.detach()), value.detach()), report

    @torch.no_grad()
    def _solve(self, system: Recurrence, like: Tensor) -> tuple[Tensor, SolveReport]:  # [N, S]
        """The rows that solve h = f(h), and the report."""
        iteration = NewtonScan(Goal(self._tolerance(like.dtype), self.atol), self.damping)
        return iterate("parallel", iteration, system, torch.zeros_like(like), self._limit(system.groups.length + 1))

    def _tolerance(self, dtype: torch.dtype) -> float:
        least = 4 * torch.finfo(dtype).eps
        return max(RTOL.get(dtype, least) if self.rtol is None else self.rtol, least)


# What is solved -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Steps(Recurrence):
    """The steps of a cell, from each state to the next."""

    cell: Cell
    weights: Any  # the result of cell.prepare()
    form: Form | None  # a built-in form with the step of the cell
    drive: Tensor  # [N, G]
    first: Tensor
    groups: Line
    start: int  # position of step 0
    dense: bool
    sizes: tuple[int, ...]  # of the cell's states

    def evaluate(self, h: Tensor, before: Tensor) -> Tensor:
        return self.step(before)

    def select(self, problems: Tensor) -> tuple[_Steps, Tensor]:
        chosen = torch.zeros(self.groups.count, dtype=torch.bool, device=problems.device)
        groups, rows = self.groups.select(chosen.index_fill_(0, problems, True))
        return dataclasses.replace(self, drive=self.drive[rows], first=self.first[problems], groups=groups), rows

    def step(self, before: Tensor) -> Tensor:  # [N, S] -> [N, S]
        """The step of each row, from the state before it."""

        def run(u: Tensor, state: State, t: Any) -> Tensor:
            form, cell = self.form, self.cell
            new = cell.advance(u, state, self.weights, t) if form is None else form.step(u, state, t)
            return torch.cat(new, dim=-1)

        return self._each(run, before)

    def slope(self, before: Tensor) -> Tensor:
        def run(u: Tensor, state: State, t: Any) -> Tensor:
            form, cell = self.form, self.cell
            matrix = cell._jacobian(u, state, self.weights, t) if form is None else form.jacobian(u, state, t)
            return matrix if self.dense else matrix.diagonal(dim1=-2, dim2=-1)

        return self._each(run, before, None if self.dense else max(1, CHUNK // before.shape[-1] ** 2))

    def _each(self, run: Callable[..., Tensor], before: Tensor, rows: int | None = None) -> Tensor:
        """`run` on all rows at once; position by position if the cell depends on the position."""
        parts = self._parts(rows or len(before))
        results = [run(self.drive[part], before[part].split(self.sizes, dim=-1), t) for part, t in parts]
        return results[0] if len(results) == 1 else torch.cat(results)

    def _parts(self, rows: int) -> list[tuple[slice, Any]]:
        """The rows of each call, and their position: one for all, or for a form one per row."""
        if self.form is None and self.cell.depends_on_position:
            ends = torch.bincount(self.groups.step).cumsum(0).tolist()
            return [(slice(a, b), t) for t, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True), self.start)]
        parts = [slice(n, n + rows) for n in range(0, len(self.drive), rows)]
        return [(part, self.start if self.form is None else self.groups.step[part] + self.start) for part in parts]


def _copied(part: Any) -> Any:
    """A copy of a form. A form caches what it computes from its matrices, and the values of a solver have no graph."""
    return copy.copy(part) if isinstance(part, Form) else part


@dataclass(frozen=True)
class _Transposed(Recurrence):
    """v_t = g_t + J_{t+1}ᵀ·v_{t+1}: the adjoint of the steps at their solution."""

    steps: _Steps
    before: Tensor  # [N, S], the state before each step
    gradient: Tensor  # [N, S], g

    @cached_property
    def groups(self) -> Line:  # type: ignore[override]
        return self.steps.groups.reversed()

    @cached_property
    def first(self) -> Tensor:  # type: ignore[override]
        return torch.zeros_like(self.steps.first)

    def evaluate(self, v: Tensor, before: Tensor) -> Tensor:
        product = (self._jacobian.mT @ v.unsqueeze(-1)).squeeze(-1) if self.steps.dense else self._pull(v)
        return self.gradient + self.groups.previous(product, self.first)

    def slope(self, before: Tensor) -> Tensor:
        return self._slope

    @cached_property
    def _slope(self) -> Tensor:
        slope = self._jacobian.mT if self.steps.dense else self._jacobian
        return self.groups.previous(slope, slope.new_zeros(self.groups.count, *slope.shape[1:]))

    def select(self, problems: Tensor) -> tuple[_Transposed, Tensor]:
        steps, rows = self.steps.select(problems)
        return _Transposed(steps, self.before[rows], self.gradient[rows]), rows

    @cached_property
    def _jacobian(self) -> Tensor:
        return self.steps.slope(self.before)

    @cached_property
    def _graph(self) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            before = self.before.detach().requires_grad_()
            return before, self.steps.step(before)

    def _pull(self, v: Tensor) -> Tensor:
        before, after = self._graph
        return torch.autograd.grad(after, before, v, retain_graph=True)[0]


@dataclass(eq=False)
class _Recurrence(Adjoint):
    """The gradient of each state, with those of all later steps added by the adjoint recurrence."""

    remedy = SCAN

    operands: tuple[Tensor, ...]  # the step of each state, and the tensors that are read again
    settings: Parallel
    steps: _Steps
    before: Tensor  # [N, S], the state before each step

    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        def solve(gradient: Tensor, *_: Tensor) -> tuple[Tensor]:
            total, report = self.settings._solve(_Transposed(self.steps, self.before, gradient), gradient)
            warn_unsolved(report, "Parallel()", report, "gradients of sequences", Parallel.unsolved)
            return (total,)

        return *opaque(solve, SECOND, gradient, z, operands[0]), *[None] * (len(operands) - 1)
