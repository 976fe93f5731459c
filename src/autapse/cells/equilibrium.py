"""EquilibriumRule: a step whose state has settled, h' = φ(h', h, x), solved and differentiated implicitly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from autapse import checks, solve
from autapse.cells.base import Cell
from autapse.cells.matrices import without_autocast
from autapse.forms import State
from autapse.solve import Groups, Linear, LinearReport, LinearSolver, NotConvergedWarning, Solver, SolveReport, System
from autapse.solve.operator import Operator

RTOL = {torch.float32: 1e-6, torch.float64: 1e-12}  # some roundings: Newton doubles the digits at each iteration
REMEDY = "Try solver=autapse.solve.Newton(max_iterations=100), a larger rtol, or smaller weights."


class EquilibriumRule(Cell):
    """h' = φ(h', h, u): the state at which the self-feedback of a step has settled.

    ERNN paper, section 3.1. A rule of your own makes its parameters in `__init__`, returns those that φ uses from
    `prepare` (a tensor, or tuples, lists and dicts of them) and writes `phi`, which may use its arguments only; usually
    also `drive`. `solver` is any of `autapse.solve`, "newton" or "inexact_newton"; None is the rule's own way, which is
    Newton's method unless it has a better one. `rtol` is the relative residual to reach, None a few roundings: 1e-6
    in float32, 1e-12 in float64. The gradient is implicit: at the solution one linear system with (I − ∂φ/∂h')ᵀ per
    step, whichever way it was found; derivatives of any order.
    """

    stencil: ClassVar[tuple[int, ...]] = (-1, 0)
    floor: float = 0.0  # of |1 − ∂φ/∂h'| where it is diagonal
    recorder: list[SolveReport] | None = None  # takes the reports of steps while a layer listens
    told: bool = False  # that a step did not converge

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        solver: Solver | str | None = None,
        rtol: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.solver = solver
        self._solver = _checked_solver(solver)
        self.rtol = None if rtol is None else checks.number("rtol", rtol, low=0.0)
        self._looked_at = False

    # What a subclass writes -------------------------------------------------------------------------------------

    def phi(
        self,
        h: Tensor,  # [B, H], the state that the step looks for
        previous: Tensor,  # [B, H], the state before the step
        u: Tensor,  # [B, G], the drive at this step
        weights: Any,  # what prepare() made
    ) -> Tensor:  # [B, H]
        """The right side of the equation."""
        raise NotImplementedError(f"{type(self).__name__} must define phi(h, previous, u, weights).")

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """∂φ/∂h, [B, H, H], or [B, H] where no unit feeds another; by automatic differentiation unless written."""
        pull = torch.func.vjp(lambda at: self.phi(at, previous, u, weights), h)[1]
        each = torch.eye(h.shape[1], dtype=h.dtype, device=h.device)[:, None].expand(-1, len(h), -1)
        (rows,) = torch.func.vmap(pull)(each)
        return rows.transpose(0, 1)

    def start(self, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """Where the solver starts: the state before the step, as in the paper's equation 4."""
        return previous

    # What every rule offers -------------------------------------------------------------------------------------

    def step(self, u: Tensor, state: State, weights: Any, t: int) -> State:
        (previous,) = state
        with without_autocast(previous.device.type):  # half precision cannot reach the tolerance
            dtype = torch.promote_types(u.dtype, previous.dtype)
            u, previous = u.to(dtype), previous.to(dtype)
            h, report = self.settle(previous, u, weights)
        if self.recorder is not None:
            self.recorder.append(report)
        else:
            self.tell(report, "step")
        return (h,)

    def settle(self, previous: Tensor, u: Tensor, weights: Any) -> tuple[Tensor, SolveReport]:
        """The state after a step, with its implicit gradient, and how the solve of each row went."""
        if previous.is_meta:
            return torch.empty_like(previous), SolveReport.empty("nothing", len(previous))
        leaves, tree = pytree.tree_flatten(weights)
        operands = [previous, u, *leaves]
        with torch.no_grad():
            constant = [o.detach() if isinstance(o, Tensor) else o for o in operands]
            given = (constant[0], constant[1], pytree.tree_unflatten(constant[2:], tree))
            self._look_at(*given)
            h, report = self.solve(*given)
            # Without a number to compare there is no best point: NaN, as any other network has.
            lost = ~report.residual.isfinite()
            if bool(lost.any()):
                h = h.masked_fill(lost.to(h.device)[:, None], torch.nan)
        if torch.is_grad_enabled() and any(isinstance(o, Tensor) and o.requires_grad for o in operands):
            h = _Settled.apply(h, self, tree, *operands)
        return h, report

    def solve(self, previous: Tensor, u: Tensor, weights: Any) -> tuple[Tensor, SolveReport]:
        """The solution of each row; no gradients."""
        rtol = self.tolerance(u)
        system = StepSystem(self, previous, u, weights, self.start(previous, u, weights))
        solver = newton(rtol) if self._solver is None else self._solver
        h, report = solver.solve(system, rtol=rtol)
        return h, self.flag(h, previous, u, weights, report)

    def tolerance(self, like: Tensor) -> float:
        """The relative residual to reach."""
        return RTOL.get(like.dtype, 1e-2) if self.rtol is None else self.rtol

    def flag(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any, report: SolveReport) -> SolveReport:
        """The report with the rows marked at which the floor acts."""
        if not self.floor:
            return report
        slack = (1 - self.feedback(h, previous, u, weights)).abs()
        return replace(report, flagged=(slack < self.floor).any(1).cpu())

    def tell(self, report: SolveReport, what: str) -> None:
        """Warn, the first time that not all has converged."""
        if report.all_converged or self.told:
            return
        self.told = True
        failed, count = int((~report.converged).sum()), len(report.converged)
        warnings.warn(
            f"{type(self).__name__}: {failed} of {count} {what}s did not converge, the worst residual is "
            f"{float(report.residual.max()):.2g}; their states are kept as they are. {REMEDY}",
            NotConvergedWarning,
            stacklevel=2,
        )

    def _look_at(self, previous: Tensor, u: Tensor, weights: Any) -> None:
        if self._looked_at:
            return
        self._looked_at = True
        with torch.enable_grad():
            y = self.phi(previous, previous, u, weights)
        name = f"phi of {type(self).__name__}"
        if not isinstance(y, Tensor) or y.shape != previous.shape:
            got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            checks.fail(
                name, f"return a tensor of the shape of h, {tuple(previous.shape)}", got, kind=checks.ShapeError
            )
        if y.requires_grad:
            remedy = "Return the parameters from prepare(); phi gets them as weights."
            checks.fail(name, "depend on its arguments only, or their gradients would be lost", "a graph", remedy)


class FunctionRule(EquilibriumRule):
    """h' = φ(h', h, x) with a function or module of yours, phi(h, previous, x)."""

    def __init__(self, input_size: int, hidden_size: int, phi: Callable[..., Tensor], **keywords: Any) -> None:
        super().__init__(input_size, hidden_size, **keywords)
        if not callable(phi):
            checks.fail("phi", "be a function or module phi(h, previous, x)", phi, kind=checks.KindError)
        self.function = phi

    renamed: ClassVar[dict[str, str]] = {"phi": "function"}

    def reset_parameters(self) -> None:
        """That of the module, where it has one."""
        reset = getattr(self.function, "reset_parameters", None)
        if reset is not None:
            reset()

    def prepare(self) -> Any:
        if not isinstance(self.function, nn.Module):
            return None
        return dict(self.function.named_parameters()) | dict(self.function.named_buffers())

    def phi(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        if weights is None:
            return self.function(h, previous, u)
        return functional_call(self.function, weights, (h, previous, u))  # type: ignore[arg-type]


class StepSystem(System):
    """h = φ(h, h_{t−1}, u_t) of one step, a problem per row."""

    def __init__(self, rule: EquilibriumRule, previous: Tensor, u: Tensor, weights: Any, start: Tensor) -> None:
        self.rule, self.previous, self.u, self.weights, self.start = rule, previous, u, weights, start
        self.groups = Groups(len(start))

    def evaluate(self, z: Tensor) -> Tensor:
        return self.rule.phi(z, self.previous, self.u, self.weights)

    def zero(self) -> Tensor:
        return self.start

    def select(self, problems: Tensor) -> tuple[StepSystem, Tensor]:
        previous, u, start = (rows.index_select(0, problems) for rows in (self.previous, self.u, self.start))
        return StepSystem(self.rule, previous, u, self.weights, start), problems

    def linearize(self, z: Tensor) -> tuple[Tensor, Linear]:
        with torch.no_grad():
            feedback = self.rule.feedback(z, self.previous, self.u, self.weights)
        return self.evaluate(z), Feedback(feedback, self.rule.floor)


class Feedback(Linear):
    """∂φ/∂h as matrices or diagonals, one per row; its `precondition` is the inverse of I − ∂φ/∂h itself."""

    def __init__(self, matrices: Tensor, floor: float = 0.0) -> None:  # [B, H, H] or [B, H]
        self.matrices, self.floor, self.groups = matrices, floor, Groups(len(matrices))

    def jvp(self, v: Tensor) -> Tensor:
        return self._times(self.matrices, v)

    def vjp(self, v: Tensor) -> Tensor:
        return self._times(self.matrices.mT if self.matrices.dim() == 3 else self.matrices, v)

    @staticmethod
    def _times(matrices: Tensor, v: Tensor) -> Tensor:
        return matrices * v if matrices.dim() == 2 else torch.bmm(matrices, v.unsqueeze(2)).squeeze(2)

    def precondition(self, transposed: bool = False) -> Callable[[Tensor], Tensor]:
        return lambda b: self.resolve(b, transposed)

    def resolve(self, b: Tensor, transposed: bool = False) -> Tensor:
        """(I − ∂φ/∂h)⁻¹·b, with the floor where it is diagonal; not a number where it is singular."""
        if self.matrices.dim() == 2:
            slack = 1 - self.matrices
            return b / torch.where(slack.abs() < self.floor, torch.full_like(slack, self.floor).copysign(slack), slack)
        identity = torch.eye(b.shape[1], dtype=b.dtype, device=b.device)
        matrices = identity - (self.matrices.mT if transposed else self.matrices)
        return torch.linalg.solve_ex(matrices, b.unsqueeze(2))[0].squeeze(2)


class _Settled(torch.autograd.Function):
    """The solution h of h = φ(h, *operands) as a function of the operands: dh = (I − ∂φ/∂h)⁻¹ · ∂φ/∂operand."""

    @staticmethod
    def forward(found: Tensor, rule: EquilibriumRule, tree: Any, *operands: Any) -> Tensor:
        return found.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.rule, ctx.tree, *operands = inputs
        ctx.others = [None if isinstance(o, Tensor) else o for o in operands]
        ctx.places = [n for n, o in enumerate(operands) if isinstance(o, Tensor)]
        ctx.save_for_backward(output, *(operands[n] for n in ctx.places))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        # Of saved tensors alone, the solution among them, so that autograd can differentiate it again.
        h, *tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad[3:]
        wanted = [n for n in ctx.places if needed[n]]
        operands = list(ctx.others)
        for n, tensor in zip(ctx.places, tensors, strict=True):
            operands[n] = tensor

        def phi(*values: Tensor) -> Tensor:
            filled = list(operands)
            for n, value in zip(wanted, values, strict=True):
                filled[n] = value
            return ctx.rule.phi(h, filled[0], filled[1], pytree.tree_unflatten(filled[2:], ctx.tree))

        with without_autocast(h.device.type):
            weights = pytree.tree_unflatten(operands[2:], ctx.tree)
            feedback = Feedback(ctx.rule.feedback(h, operands[0], operands[1], weights), ctx.rule.floor)
            pull = torch.func.vjp(phi, *(operands[n] for n in wanted))[1]
            found = dict(zip(wanted, pull(feedback.resolve(gradient, transposed=True)), strict=True))
        return (None, None, None, *(found.get(n) for n in range(len(operands))))


@dataclass(frozen=True, kw_only=True)
class Direct(LinearSolver):
    """The inverse itself, where the operator's approximate inverse is exact."""

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        inverse = operator.precondition()
        if inverse is None:
            raise NotImplementedError(f"{type(operator).__name__} has no inverse: use GMRES() or BiCGStab() instead.")
        count = operator.groups.count
        one = torch.ones(count, dtype=torch.long, device=b.device)
        report = LinearReport(one > 0, torch.zeros(count, dtype=torch.float64, device=b.device), one, one.double())
        return inverse(b), report


def newton(rtol: float) -> Solver:
    """What a rule without a better way is solved by."""
    atol = 0.1 * rtol  # where a state is near zero and what it is the difference of is not
    first = solve.Newton(linear=Direct(), line_search=True, max_iterations=40, atol=atol)
    return solve.Chain(first, solve.InexactNewton(atol=atol), rtol=rtol)


def _checked_solver(solver: Any) -> Solver | None:
    if solver is None or isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str):
        checks.fail("solver", "be one of autapse.solve, or its name", solver, kind=checks.KindError)
    known: dict[str, Solver] = {
        "newton": solve.Newton(linear=Direct(), line_search=True),
        "inexact_newton": solve.InexactNewton(),
    }
    return known[checks.one_of("solver", solver, known)]
