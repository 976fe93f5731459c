"""Parallel: all steps of a recurrent network at once, by Newton's method with an associative scan."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.forms import Form, Leaky, State
from autapse.gradient.base import Adjoint, attach
from autapse.gradient.function import is_tracked, opaque, reverse_mode_only, without_autocast
from autapse.native.operands import KERNELS
from autapse.sequences.batch import SequenceBatch
from autapse.sequences.line import Line
from autapse.solve.limits import Limits
from autapse.solve.linear_scan import linear_scan
from autapse.solve.loop import Goal, Iteration, Visit, iterate
from autapse.solve.report import SolveReport, merge, warn_unsolved
from autapse.solve.system import Groups
from autapse.unfold.base import Unfold, Unfolded, name_of

DENSE_UP_TO = 64  # the largest state size, all state tensors together, for which `jacobian="auto"` is dense
CHUNK = 1 << 22  # entries of a Jacobian that are computed at a time if only its diagonal is kept
LEAP = 8.0  # a correction of more than this many times the largest state of its sequence is not plausible
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

    >>> layer = autapse.GRU(3, 4, unfold=autapse.unfold.Parallel())
    >>> output, h_n = layer(torch.randn(100, 2, 3))
    >>> layer.reports[0].all_converged
    True
    """

    rtol: float | None = None
    """Tolerance of ‖r_t‖ relative to the larger of ‖h_t‖ and ‖h_{t−1}‖, at every t. None: 1e-12 in float64 and 2e-6 in
    float32. At least 4ε."""
    atol: float = 0.0
    """Absolute tolerance, added to the relative one."""
    max_iterations: int | None = None
    """Largest number of iterations. None: the length of the longest sequence plus one, which is always enough."""
    jacobian: str = "auto"
    """How J is stored. "dense": all T·B·S² entries. "diagonal": only the diagonal, T·B·S entries, with more iterations.
    "auto": dense up to a state size S of 64."""
    damping: float = 0.0
    """J is multiplied by 1 − damping, for networks where Newton's method overshoots. Corrections that are not finite or
    very large are never used, with or without damping."""

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
        reverse_mode_only("Parallel()", (rows, *initial, *cell.parameters()), SCAN)
        with without_autocast(rows.device.type):  # half precision is too coarse for a residual
            first = torch.cat(initial, dim=-1).to(_dtype(cell, rows))
            x = (batch.reverse(rows) if reverse else rows).to(first.dtype)
            line = Line.packed(batch.sizes, rows.device)
            dense = self.jacobian == "dense" or (self.jacobian == "auto" and first.shape[-1] <= DENSE_UP_TO)
            sizes, weights, drive = cell.state_sizes, cell.prepare(), cell.drive(x)
            steps = _Steps(cell, weights, drive, first[: line.count], line, start, dense, sizes)
            h, report = self._differentiable(steps)
            final = torch.cat([first, h]).index_select(0, line.last(batch.count)).split(sizes, dim=-1)
        states = tuple(batch.reverse(part) if reverse else part for part in h.split(sizes, dim=-1))
        # Sequences without steps come last, and the report of the solver does not have them.
        every = merge([SolveReport.empty("parallel", batch.count), report], batch.count, worst=True)
        return Unfolded(states, final, every)

    def _differentiable(self, steps: _Steps) -> tuple[Tensor, SolveReport]:
        # A form caches what it computes from its matrices. Here that has no graph, below it has one: so use a copy.
        plain = (
            dataclasses.replace(steps, weights=copy.copy(steps.weights)) if isinstance(steps.weights, Form) else steps
        )
        h, report = self._solve(plain, steps.first[steps.line.owner])
        # Autograd sees one more step of each state by itself. The adjoint adds the dependence between the steps.
        before = steps.line.previous(h, steps.first)
        value = steps.step(before)
        if not is_tracked((value,)):
            return value, report
        return attach(_Recurrence(self, plain, before.detach(), value), value.detach()), report

    @torch.no_grad()
    def _solve(self, system: _System, like: Tensor) -> tuple[Tensor, SolveReport]:  # [N, S]
        """The rows that solve h = f(h), and the report."""
        iteration = _NewtonScan(Goal(self._tolerance(like.dtype), self.atol), self.damping)
        return iterate("parallel", iteration, system, torch.zeros_like(like), self._limit(system.line.length + 1))

    def _tolerance(self, dtype: torch.dtype) -> float:
        least = 4 * torch.finfo(dtype).eps
        return max(RTOL.get(dtype, least) if self.rtol is None else self.rtol, least)


# What is solved -----------------------------------------------------------------------------------------------------


class _System(ABC):
    """h = f(h), where each row depends only on the row before it in its sequence."""

    line: Line
    first: Tensor  # [B, S], the state before step 0

    @property
    def groups(self) -> Groups:
        return Groups(self.line.count, self.line.owner)

    @abstractmethod
    def evaluate(self, h: Tensor) -> Tensor:  # [N, S] -> [N, S]
        """f(h)."""

    @abstractmethod
    def slope(self, h: Tensor) -> Tensor:  # [N, S] -> [N, S, S], or [N, S] for its diagonal
        """The derivative of each row by the row before it."""

    @abstractmethod
    def select(self, problems: Tensor) -> tuple[Self, Tensor]:  # [b]
        """The system of some sequences, and the index of its rows in this one."""


@dataclass(frozen=True)
class _Steps(_System):
    """The steps of a cell, from each state to the next."""

    cell: Cell
    weights: Any  # the result of cell.prepare()
    drive: Tensor  # [N, G]
    first: Tensor
    line: Line
    start: int  # position of step 0
    dense: bool
    sizes: tuple[int, ...]  # of the cell's states

    def evaluate(self, h: Tensor) -> Tensor:
        return self.step(self.line.previous(h, self.first))

    def slope(self, h: Tensor) -> Tensor:
        return self.jacobian(self.line.previous(h, self.first))

    def select(self, problems: Tensor) -> tuple[_Steps, Tensor]:
        chosen = torch.zeros(self.line.count, dtype=torch.bool, device=problems.device)
        line, rows = self.line.select(chosen.index_fill_(0, problems, True))
        return dataclasses.replace(self, drive=self.drive[rows], first=self.first[problems], line=line), rows

    def step(self, before: Tensor) -> Tensor:  # [N, S] -> [N, S]
        """The step of each row, from the state before it."""

        def run(u: Tensor, state: State, weights: Any, t: int) -> Tensor:
            new = weights.step(u, state, t) if self._has_form else self.cell.advance(u, state, weights, t)
            return torch.cat(new, dim=-1)

        return self._each(run, before)

    def jacobian(self, before: Tensor) -> Tensor:
        """The derivative of the step of each row by the state before it, or its diagonal."""

        def run(u: Tensor, state: State, weights: Any, t: int) -> Tensor:
            matrix = weights.jacobian(u, state, t) if self._has_form else self.cell._jacobian(u, state, weights, t)
            return matrix if self.dense else matrix.diagonal(dim1=-2, dim2=-1)

        return self._each(run, before, None if self.dense else max(1, CHUNK // before.shape[-1] ** 2))

    def _each(self, run: Callable[..., Tensor], before: Tensor, rows: int | None = None) -> Tensor:
        """`run` on all rows at once; position by position if the cell depends on the position."""
        parts = [(part, t + self.start) for part, t in self._parts(rows or len(before))]
        results = [run(self.drive[p], before[p].split(self.sizes, dim=-1), self._weights(p), t) for p, t in parts]
        return results[0] if len(results) == 1 else torch.cat(results)

    def _parts(self, rows: int) -> list[tuple[slice, int]]:
        if self._together:
            return [(slice(n, n + rows), 0) for n in range(0, len(self.drive), rows)]
        ends = torch.bincount(self.line.step).cumsum(0).tolist()
        return [(slice(a, b), t) for t, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True))]

    @cached_property
    def _has_form(self) -> bool:
        """Whether the step of the cell is that of a built-in form."""
        own = type(self.cell)._jacobian is not Cell._jacobian
        return not own and type(self.weights) in KERNELS and self.cell.fused(self.weights) is self.weights

    @cached_property
    def _together(self) -> bool:
        """Whether rows of different positions can share a call. Those of built-in forms can."""
        return self._has_form or not self.cell.depends_on_position

    def _weights(self, part: slice) -> Any:
        if self._together and type(self.weights) is Leaky:
            return _leaky_rows(self.weights, self.line.step[part] + self.start)
        return self.weights


@dataclass(frozen=True)
class _LeakyRows(Leaky):
    """The leaky form with coefficients [N, K] per row instead of per position."""

    @staticmethod
    def _at(values: Any, t: int, k: int) -> float | Tensor:
        return values[:, k, None] if isinstance(values, Tensor) and values.dim() == 2 else values

    @property
    def _alphas(self) -> float | Tensor:
        return self.alpha

    @property
    def _betas(self) -> float | Tensor:
        return self.beta


def _leaky_rows(form: Leaky, positions: Tensor) -> Leaky:
    """The form for rows of different positions."""

    def of_rows(value: float | Tensor) -> float | Tensor:
        if not isinstance(value, Tensor) or value.dim() != 2:
            return value
        return value.index_select(0, positions.clamp(max=len(value) - 1))

    alpha, beta = of_rows(form.alpha), of_rows(form.beta)
    if alpha is form.alpha and beta is form.beta:
        return form
    return _LeakyRows(form.matrix, form.activation, alpha, beta, form.inner_steps, form.threshold)


@dataclass(frozen=True)
class _Transposed(_System):
    """v_t = g_t + J_{t+1}ᵀ·v_{t+1}: the adjoint of the steps at their solution."""

    steps: _Steps
    before: Tensor  # [N, S], the state before each step
    gradient: Tensor  # [N, S], g

    @cached_property
    def line(self) -> Line:  # type: ignore[override]
        return self.steps.line.reversed()

    @cached_property
    def first(self) -> Tensor:  # type: ignore[override]
        return torch.zeros_like(self.steps.first)

    def evaluate(self, v: Tensor) -> Tensor:
        product = (self._jacobian.mT @ v.unsqueeze(-1)).squeeze(-1) if self.steps.dense else self._pull(v)
        return self.gradient + self.line.previous(product, self.first)

    def slope(self, v: Tensor) -> Tensor:
        slope = self._jacobian.mT if self.steps.dense else self._jacobian
        return self.line.previous(slope, slope.new_zeros(self.line.count, *slope.shape[1:]))

    def select(self, problems: Tensor) -> tuple[_Transposed, Tensor]:
        steps, rows = self.steps.select(problems)
        return _Transposed(steps, self.before[rows], self.gradient[rows]), rows

    @cached_property
    def _jacobian(self) -> Tensor:
        return self.steps.jacobian(self.before)

    @cached_property
    def _graph(self) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            before = self.before.detach().requires_grad_()
            return before, self.steps.step(before)

    def _pull(self, v: Tensor) -> Tensor:
        before, after = self._graph
        return torch.autograd.grad(after, before, v, retain_graph=True)[0]


class _Recurrence(Adjoint):
    """The gradient of each state, with those of all later steps added by the adjoint recurrence."""

    remedy = SCAN

    def __init__(self, settings: Parallel, steps: _Steps, before: Tensor, value: Tensor) -> None:
        self.settings, self.steps, self.before = settings, steps, before
        self.operands = (value, *steps.cell.parameters(), *steps.cell.buffers())  # the parameters are read again

    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        def solve(gradient: Tensor, *_: Tensor) -> tuple[Tensor]:
            total, report = self.settings._solve(_Transposed(self.steps, self.before, gradient), gradient)
            warn_unsolved(report, "Parallel()", report, "gradients of sequences", Parallel.unsolved)
            return (total,)

        return *opaque(solve, SECOND, gradient, z, operands[0]), *[None] * (len(operands) - 1)


# How it is solved ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _NewtonScan(Iteration):
    """Newton's method, with one linear recurrence per iteration.

    The front of a sequence is its first step that is not within the tolerance. Steps before the front are kept. The new
    state at the front is f of the state before it, which is exact. So every iteration moves the front, even if the
    derivatives of later steps are useless. `Visit.rows` is f(h), `Visit.problems` has the fronts.
    """

    counts_start: ClassVar[bool] = False
    always_advances: ClassVar[bool] = True

    damping: float

    def start(self, system: _System, z: Tensor) -> Visit:
        return self._visit(system, z, 1.0)

    def step(self, system: _System, visit: Visit, active: Tensor) -> Visit:
        h = self._improve(system, visit.z, visit.rows, visit.problems)
        return self._visit(system, h, 2.0)  # f and its derivative

    def _visit(self, system: _System, h: Tensor, cost: float) -> Visit:
        line, f = system.line, system.evaluate(h)
        norm, scale = _size(f - h), _scale(system, h)
        front = line.first(~(norm <= self.goal.rtol * scale + self.goal.atol))
        front_of_row = front[line.owner]
        # No iteration can change what follows from an exact state that is not finite.
        lost = line.any((line.step == front_of_row) & ~_finite(f))
        h = torch.where((lost[line.owner] & (line.step >= front_of_row))[:, None], torch.nan, h)
        residual = line.largest((norm / scale).double().nan_to_num(nan=torch.inf, posinf=torch.inf))
        return Visit(h, residual, front == line.length, lost, cost, rows=f, problems=front)

    def _improve(self, system: _System, h: Tensor, f: Tensor, front: Tensor) -> Tensor:
        """The states after Newton's correction, or f if the correction is not plausible."""
        line, slope, front_of_row = system.line, system.slope(h), front[system.line.owner]
        shape = (-1, *[1] * (slope.dim() - 1))
        sound = _finite(f) & _finite(slope.flatten(1))
        past = sound & (line.step > front_of_row)
        f = torch.where(sound[:, None], f, 0.0)
        slope = torch.where(past.view(shape), slope * (1 - self.damping), 0.0)
        step = line.unpad(linear_scan(line.pad(slope), line.pad(f - h)))
        largest = line.largest(torch.maximum(_size(f), _size(h)))[line.owner]
        plausible = past & _finite(step) & (_size(step) <= LEAP * largest)
        new = torch.where(plausible[:, None], h + step, f)
        return torch.where((line.step < front_of_row)[:, None], h, new)


def _scale(system: _System, h: Tensor) -> Tensor:  # [n]
    """The size to which the residual of a row is compared: that of its state and of the state before."""
    line, size = system.line, _size(h)
    local = torch.maximum(size, line.previous(size, _size(system.first)))
    info = torch.finfo(size.dtype)
    # The digits of vanishing states are noise. Later states do not count: they may still be far from the solution.
    return torch.maximum(local, line.largest_so_far(size) * info.eps**2 + info.tiny / info.eps)


def _size(rows: Tensor) -> Tensor:  # [N, S] -> [N]
    return torch.linalg.vector_norm(rows, ord=torch.inf, dim=-1)  # squares would overflow


def _finite(rows: Tensor) -> Tensor:  # [N, S] -> [N]
    return rows.isfinite().all(dim=-1)


def _dtype(cell: Cell, x: Tensor) -> torch.dtype:
    weight = next(cell.parameters(), None)
    return x.dtype if weight is None else weight.dtype
