"""Parallel: all steps of an explicit network at once, by Newton's method with an associative scan."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.cells.base import FormCell
from autapse.forms import Form, Leaky, State
from autapse.gradient.function import Function, opaque, reverse_mode_only
from autapse.native.operands import KERNELS
from autapse.sequences.batch import SequenceBatch
from autapse.sequences.line import Line
from autapse.solve.base import Limits
from autapse.solve.report import NotConvergedWarning, SolveReport, merge
from autapse.unfold.base import Unfold, Unfolded
from autapse.unfold.unchanged import Unchanged

DENSE_UP_TO = 64  # states, all tensors together, for which `jacobian="auto"` keeps whole matrices
CHUNK = 1 << 22  # numbers of a Jacobian at a time, where only its diagonal is kept
LEAP = 8.0  # a correction of more times a sequence's largest state is not believed
RTOL = {torch.float64: 1e-12, torch.float32: 2e-6}
SCAN = "Leave unfold out: the scan has derivatives of any order, in every mode."
SECOND = f"Parallel() has first derivatives only. {SCAN}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Parallel(Limits, Unfold):
    """h_t = f_t(h_{t−1}) for all t at once: Newton's method, each iteration a linear recurrence solved by a scan.

    An iteration takes the derivative J_t of every step at the present guess and solves δ_t = J_t·δ_{t−1} + r_t, where
    r_t = f_t(h_{t−1}) − h_t, in about 2·log₂ T rounds of an associative scan. It makes at least one more state of each
    sequence exact, so T iterations always suffice; well-behaved networks need a handful. The gradient solves the
    adjoint recurrence in the same way. The results are the scan's to the tolerance.
    """

    rtol: float | None = None
    """‖r_t‖ relative to ‖h_t‖ or ‖h_{t−1}‖ at every t; None is 1e-12 in float64 and 2e-6 in float32. 4ε at least."""
    atol: float = 0.0
    """Absolute tolerance, added to the relative one."""
    max_iterations: int | None = None
    """Iterations at most; None is the length of the longest sequence and one, which always suffices."""
    jacobian: str = "auto"
    """What is kept of J: "dense", all of it, T·B·S² numbers; "diagonal", T·B·S of them, for more iterations; or "auto",
    dense up to a state size S of 64."""
    damping: float = 0.0
    """J is scaled by 1 − damping, for networks whose states Newton's method throws far off. Corrections that are not
    finite or very large are never taken, with damping or without."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("jacobian", self.jacobian, ("auto", "dense", "diagonal"))
        checks.number("damping", self.damping, low=0.0, high=1.0)

    def __repr__(self) -> str:
        changed = [f for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        return f"Parallel({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"

    unsolved: ClassVar[str] = (
        "Leave max_iterations out, which suffices where all numbers are finite; else leave unfold out, for the scan."
    )

    def check(self, cell: type[Cell]) -> None:
        if cell.stencil != (-1,):
            rule = f"be left out: {cell.__name__} has the stencil {cell.stencil}, and Parallel() serves (-1) only"
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
        turn = batch.reverse if reverse else None
        return Unfolded(*self.scan(cell, rows, initial, batch.sizes, start, turn))

    def scan(
        self,
        cell: Cell,
        x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
        state: State,  # each [B, S], longest sequence first
        sizes: Sequence[int],  # how many sequences are running at each step; never grows; sums to N
        start: int = 0,  # position of the first step
        turn: Callable[[Tensor], Tensor] | None = None,  # puts rows into the reverse order and back
    ) -> tuple[State, State, SolveReport]:
        """What `scan` gives, the states after each step and at each sequence's own end; and how the solves went."""
        if not sizes:
            return tuple(s[:0] for s in state), state, SolveReport.empty("parallel", len(state[0]))
        reverse_mode_only("Parallel()", (x, *state, *cell.parameters()), SCAN)
        with torch.autocast(x.device.type, enabled=False):  # a residual in half precision says little
            initial = torch.cat(state, dim=-1).to(_dtype(cell, x))
            rows = (turn(x) if turn else x).to(initial.dtype)
            line = Line.packed(sizes, x.device)
            dense = self.jacobian == "dense" or (self.jacobian == "auto" and initial.shape[-1] <= DENSE_UP_TO)
            steps = _Steps(cell, cell.prepare(), cell.drive(rows), initial[: line.count], line, start, dense)
            states, report = self._differentiable(steps)
            final = torch.cat([initial, states]).index_select(0, line.last(len(initial)))
        trace = tuple(turn(part) if turn else part for part in states.split(cell.state_sizes, dim=-1))
        return trace, final.split(cell.state_sizes, dim=-1), _with_the_empty(report, len(initial))

    def _differentiable(self, steps: _Steps) -> tuple[Tensor, SolveReport]:
        # A form keeps what it derives from its matrices; without gradients here, with them below.
        plain = (
            dataclasses.replace(steps, weights=copy.copy(steps.weights)) if isinstance(steps.weights, Form) else steps
        )
        h, report = self._solve(plain, steps.first[steps.line.owner])
        # One step more, of each state by itself: what autograd sees. _Adjoint brings in what is between the steps.
        before = steps.line.previous(h, steps.first)
        unchanged = Unchanged([*steps.cell.parameters(), *steps.cell.buffers()])
        return _Adjoint.apply(steps.step(before), plain, before.detach(), self, unchanged), report

    @torch.no_grad()
    def _solve(self, system: _System, like: Tensor) -> tuple[Tensor, SolveReport]:  # [N, S]
        """The rows that solve h = f(h), and how it went for each sequence."""
        work = _Work(system, like, self)
        limit = self._limit(system.line.length + 1)
        while work.look() and work.round < limit:
            work.improve()
        return work.finish()

    def _tolerance(self, dtype: torch.dtype) -> float:
        least = 4 * torch.finfo(dtype).eps
        return max(RTOL.get(dtype, least) if self.rtol is None else self.rtol, least)


def warn_if_unsolved(reports: Sequence[SolveReport], what: str = "states") -> None:
    """One warning for all that did not converge."""
    failed = [report for report in reports if not report.all_converged]
    if failed:
        remedy = "Leave max_iterations out, which suffices where all numbers are finite; else leave unfold out: a scan."
        words = "; ".join(report.words() for report in failed)
        warnings.warn(f"Parallel() did not find all {what}: {words}. {remedy}", NotConvergedWarning, stacklevel=3)


# What is solved -----------------------------------------------------------------------------------------------------


class _System(ABC):
    """h = f(h), row t of a sequence depending on row t − 1 alone."""

    line: Line
    first: Tensor  # [B, S], what stands before step 0

    @abstractmethod
    def evaluate(self, h: Tensor) -> Tensor:  # [N, S] -> [N, S]
        """f(h)."""

    @abstractmethod
    def slope(self, h: Tensor) -> Tensor:  # [N, S] -> [N, S, S], or [N, S] for its diagonal
        """The derivative of each row by the row before it."""

    @abstractmethod
    def select(self, sequences: Tensor) -> tuple[_System, Tensor]:  # [B] bool
        """The system of some of the sequences, and which rows of this one it has."""


@dataclass(frozen=True)
class _Steps(_System):
    """The steps of a cell."""

    cell: Cell
    weights: Any  # what cell.prepare() gives
    drive: Tensor  # [N, G]
    first: Tensor
    line: Line
    start: int  # position of step 0
    dense: bool

    def evaluate(self, h: Tensor) -> Tensor:
        return self.step(self.line.previous(h, self.first))

    def slope(self, h: Tensor) -> Tensor:
        return self.jacobian(self.line.previous(h, self.first))

    def select(self, sequences: Tensor) -> tuple[_Steps, Tensor]:
        line, rows = self.line.select(sequences)
        return dataclasses.replace(self, drive=self.drive[rows], first=self.first[sequences], line=line), rows

    def step(self, before: Tensor) -> Tensor:  # [N, S] -> [N, S]
        """Each row's step from the state before it."""

        def run(u: Tensor, state: State, weights: Any, t: int) -> Tensor:
            return torch.cat(self.cell.checked(self.cell.step(u, state, weights, t), len(u)), dim=-1)

        return self._each(run, before)

    def jacobian(self, before: Tensor) -> Tensor:
        """The derivative of each row's step by the state before it, or its diagonal."""
        if self.dense:
            return self._each(self.cell._jacobian, before)

        def diagonal(u: Tensor, state: State, weights: Any, t: int) -> Tensor:
            return self.cell._jacobian(u, state, weights, t).diagonal(dim1=-2, dim2=-1)

        return self._each(diagonal, before, max(1, CHUNK // before.shape[-1] ** 2))

    def _each(self, run: Callable[..., Tensor], before: Tensor, rows: int | None = None) -> Tensor:
        """`run` on all rows at once, or on as many as have the same position, where a cell depends on it."""
        parts = [(part, t + self.start) for part, t in self._parts(rows or len(before))]
        sizes = self.cell.state_sizes
        results = [run(self.drive[p], before[p].split(sizes, dim=-1), self._weights(p), t) for p, t in parts]
        return results[0] if len(results) == 1 else torch.cat(results)

    def _parts(self, rows: int) -> list[tuple[slice, int]]:
        if self._together:
            return [(slice(n, n + rows), 0) for n in range(0, len(self.drive), rows)]
        ends = torch.bincount(self.line.step).cumsum(0).tolist()
        return [(slice(a, b), t) for t, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True))]

    @cached_property
    def _together(self) -> bool:
        """Whether rows of different positions can share a call: our forms' can; of a user's step its author knows."""
        ours = (
            isinstance(self.cell, FormCell) and type(self.cell).step is FormCell.step and type(self.weights) in KERNELS
        )
        return ours or not self.cell.depends_on_position

    def _weights(self, part: slice) -> Any:
        if self._together and type(self.weights) is Leaky:
            return _leaky_rows(self.weights, self.line.step[part] + self.start)
        return self.weights


@dataclass(frozen=True)
class _LeakyRows(Leaky):
    """The leaky form with coefficients [N, K] of the rows of a batch, instead of the positions."""

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
    """The form for rows of several positions at once."""

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

    def select(self, sequences: Tensor) -> tuple[_Transposed, Tensor]:
        steps, rows = self.steps.select(sequences)
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


class _Adjoint(Function):
    """The steps' results as they are; a gradient first goes through all later steps, by the adjoint recurrence."""

    remedy = SCAN

    @staticmethod
    def forward(states: Tensor, steps: _Steps, before: Tensor, settings: Parallel, unchanged: Unchanged) -> Tensor:
        return states.view_as(states)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # apart, for torch.func
        states, ctx.steps, ctx.before, ctx.settings, ctx.unchanged = inputs
        ctx.save_for_backward(states)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        ctx.unchanged.check()

        def solve(gradient: Tensor, states: Tensor) -> tuple[Tensor]:
            total, report = ctx.settings._solve(_Transposed(ctx.steps, ctx.before, gradient), gradient)
            warn_if_unsolved([report], "gradients")
            return (total,)

        return *opaque(solve, SECOND, gradient, *ctx.saved_tensors), None, None, None, None


# How it is solved ---------------------------------------------------------------------------------------------------


class _Work:
    """Newton's method on the sequences that are not solved yet.

    The first step of a sequence that is not within the tolerance is its front. All before it is left alone, and the
    front itself becomes f of what is before it, which is exact: so whatever the derivatives say of later steps, an
    iteration moves the front.
    """

    def __init__(self, system: _System, like: Tensor, settings: Parallel) -> None:
        self.system, self.settings = system, settings
        self.rtol, self.round = settings._tolerance(like.dtype), 0
        self.h, self.solution = torch.zeros_like(like), torch.zeros_like(like)
        count, device = system.line.count, like.device
        self.rows = torch.arange(len(like), device=device)  # of those at work, which they are of all
        self.sequences = torch.arange(count, device=device)
        self.residual = torch.zeros(count, dtype=torch.float64, device=device)  # of all, as what follows
        self.converged, self.lost = (torch.zeros(count, dtype=torch.bool, device=device) for _ in range(2))
        self.iterations = torch.zeros(count, dtype=torch.long, device=device)

    def look(self) -> bool:
        """Evaluate, note who is done and drop them; whether any sequence is still at work."""
        line, h = self.system.line, self.h
        self.f = self.system.evaluate(h)
        norm = _size(self.f - h)
        scale = self._scale()
        self.front = line.first(~(norm <= self.rtol * scale + self.settings.atol))
        solved = self.front == line.length
        # What follows from a state that is exact and not finite no iteration can change.
        lost = line.any((line.step == self.front[line.owner]) & ~_finite(self.f))
        self.h = torch.where((lost[line.owner] & (line.step >= self.front[line.owner]))[:, None], torch.nan, h)
        self.residual[self.sequences] = line.largest(
            (norm / scale).double().nan_to_num(nan=torch.inf, posinf=torch.inf)
        )
        self.converged[self.sequences], self.lost[self.sequences] = solved, lost
        self.iterations[self.sequences] = self.round
        return self._keep(~(solved | lost))

    def improve(self) -> None:
        """One iteration: the correction where it can be believed, f elsewhere."""
        line, slope = self.system.line, self.system.slope(self.h)
        shape = (-1, *[1] * (slope.dim() - 1))
        sound = _finite(self.f) & _finite(slope.flatten(1))
        past = sound & (line.step > self.front[line.owner])
        f = torch.where(sound[:, None], self.f, 0.0)
        slope = torch.where(past.view(shape), slope * (1 - self.settings.damping), 0.0)
        step = line.solve(slope, f - self.h)
        # f needs no trust in derivatives, and is what an iteration without them would take.
        largest = line.largest(torch.maximum(_size(f), _size(self.h)))[line.owner]
        believed = past & _finite(step) & (_size(step) <= LEAP * largest)
        new = torch.where(believed[:, None], self.h + step, f)
        self.h = torch.where((line.step < self.front[line.owner])[:, None], self.h, new)
        self.round += 1

    def finish(self) -> tuple[Tensor, SolveReport]:
        self._write()
        evaluations = 2.0 * self.iterations + 1  # a step, and but for the last time its derivative
        verdict = (self.converged, self.residual, self.iterations, evaluations)
        return self.solution, SolveReport.make(*verdict, "parallel", lost=self.lost)

    def _scale(self) -> Tensor:  # [N]
        """What the residual of a row is measured against: its state and the one before."""
        line, size = self.system.line, _size(self.h)
        local = torch.maximum(size, line.previous(size, _size(self.system.first)))
        info = torch.finfo(size.dtype)
        # Of numbers that vanish, digits are noise. What comes later must not count: it may be far off as yet.
        return torch.maximum(local, line.largest_so_far(size) * info.eps**2 + info.tiny / info.eps)

    def _keep(self, working: Tensor) -> bool:
        """Go on with some of the sequences."""
        if bool(working.all()):
            return True
        self._write()
        if not bool(working.any()):
            return False
        self.system, rows = self.system.select(working)
        self.rows, self.sequences = self.rows[rows], self.sequences[working]
        self.h, self.f, self.front = self.h[rows], self.f[rows], self.front[working]
        return True

    def _write(self) -> None:
        self.solution[self.rows] = self.h


def _size(rows: Tensor) -> Tensor:  # [N, S] -> [N]
    return torch.linalg.vector_norm(rows, ord=torch.inf, dim=-1)  # squares would overflow


def _finite(rows: Tensor) -> Tensor:  # [N, S] -> [N]
    return rows.isfinite().all(dim=-1)


def _dtype(cell: Cell, x: Tensor) -> torch.dtype:
    weight = next(cell.parameters(), None)
    return x.dtype if weight is None else weight.dtype


def _with_the_empty(report: SolveReport, count: int) -> SolveReport:
    """The report of all sequences, those without steps at the end."""
    return merge([SolveReport.empty("parallel", count), report], count, worst=True)
