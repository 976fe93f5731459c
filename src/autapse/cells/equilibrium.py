"""EquilibriumRule: a step whose state has settled, h' = φ(h', h, x), solved and differentiated implicitly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from autapse import checks, solve
from autapse.cells.base import Cell
from autapse.cells.matrices import full_precision, without_autocast
from autapse.forms import State
from autapse.gradient.function import Function, is_tracked, without_saved_tensor_hooks
from autapse.solve import Groups, Linear, LinearReport, LinearSolver, Solver, SolveReport, System
from autapse.solve.operator import Operator
from autapse.solve.report import merge, warn_once

RTOL = {torch.float32: 1e-6, torch.float64: 1e-12}  # some roundings: Newton doubles the digits at each iteration
CONTRACTS = 0.9  # a feedback of a norm below this is well-conditioned
ROUNDS = 4  # of the power iteration that estimates a norm


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
        self._factorises = solver in (None, "newton")  # I − ∂φ/∂h, so that its condition is within reach
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
        state, report = self.solved_step(u, state, weights)
        self.warn_if_unsolved(report, "step")
        return state

    def solved_step(self, u: Tensor, state: State, weights: Any) -> tuple[State, SolveReport]:
        """`step`, and how the solve of each row went."""
        (previous,) = state
        with without_autocast(previous.device.type):  # half precision cannot reach the tolerance
            dtype = torch.promote_types(u.dtype, previous.dtype)
            wide = full_precision(dtype)
            if wide != dtype:
                weights = pytree.tree_map_only(Tensor, lambda w: w.to(wide) if w.is_floating_point() else w, weights)
            h, report = self.settle(previous.to(wide), u.to(wide), weights)
        return (h.to(dtype),), report

    def settle(self, previous: Tensor, u: Tensor, weights: Any) -> tuple[Tensor, SolveReport]:
        """The state after a step, with its implicit gradient, and how the solve of each row went."""
        if previous.is_meta:
            return torch.empty_like(previous), SolveReport.empty("nothing", len(previous))
        leaves, tree = pytree.tree_flatten(weights)
        operands = (previous, u, *leaves)
        reports: list[SolveReport] = []
        run = _Settled.apply if is_tracked(operands) else _Settled.forward
        h = run(self, tree, reports.append, *operands)
        return h, merge(reports, len(previous), worst=True)  # there are several under vmap

    @torch.no_grad()
    def solve_finite(self, previous: Tensor, u: Tensor, weights: Any) -> tuple[Tensor, SolveReport]:
        """`solve`, with NaN for rows whose residual is not finite, as any other network has it."""
        with without_saved_tensor_hooks():
            self._look_at(previous, u, weights)
            h, report = self.solve(previous, u, weights)
        lost = ~report.residual.isfinite()
        if bool(lost.any()):
            h = h.masked_fill(lost.to(h.device)[:, None], torch.nan)
        return h, report

    def solve(self, previous: Tensor, u: Tensor, weights: Any) -> tuple[Tensor, SolveReport]:
        """The solution of each row; no gradients."""
        rtol = self.tolerance(u)
        system = StepSystem(self, previous, u, weights, self.start(previous, u, weights))
        solver = newton(rtol) if self._solver is None else self._solver
        h, report = solver.solve(system, rtol=rtol)
        return h, self.flag(h, previous, u, weights, report)

    def flag(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any, report: SolveReport) -> SolveReport:
        """The report with the rows flagged that are at or near a singular point, where that costs little to know."""
        if not (self.floor or self._factorises):
            return report
        feedback = Feedback(self.feedback(h, previous, u, weights), self.floor)
        if self.floor:
            report = replace(report, flagged=feedback.at_floor().cpu())
        return report.ill_conditioned(loses_half(feedback.amplification(), h.dtype))

    def tolerance(self, like: Tensor) -> float:
        """The relative residual to reach."""
        return RTOL.get(like.dtype, 1e-2) if self.rtol is None else self.rtol

    def warn_if_unsolved(self, report: SolveReport, what: str) -> None:
        """Warn, the first time that not all has converged."""
        if report.all_converged:
            return
        failed, count = int((~report.converged).sum()), len(report.converged)
        warn_once(
            self,
            f"{type(self).__name__}: {failed} of {count} {what}s did not converge, the worst residual is "
            f"{float(report.residual.max()):.2g}; their states are kept as they are. {report.sentences()}",
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

    def at_floor(self) -> Tensor:  # [B] bool
        """The rows where the floor acts."""
        return ((1 - self.matrices).abs() < self.floor).any(1)

    def amplification(self) -> Tensor:  # [B]
        """‖(I − ∂φ/∂h)⁻¹‖·(1 + ‖∂φ/∂h‖): how much a rounding error of φ may grow in h."""
        if self.matrices.dim() == 2:
            return (1 + self.matrices.abs().amax(1)) / (1 - self.matrices).abs().amin(1)
        bound = self.matrices.flatten(1).norm(dim=1)
        if bool((bound < CONTRACTS).all()):
            return (1 + bound) / (1 - bound)
        identity = torch.eye(self.matrices.shape[2], dtype=bound.dtype, device=bound.device)
        return amplification(self.matrices, *torch.linalg.lu_factor_ex(identity - self.matrices)[:2])


def amplification(feedback: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:  # [..., H, H], ..., [..., H] -> [...]
    """An estimate of ‖(I − J)⁻¹‖·(1 + ‖J‖) in the spectral norm; LU and pivots are the factors of I − J."""

    def solve_both(v: Tensor) -> Tensor:
        return torch.linalg.lu_solve(LU, pivots, torch.linalg.lu_solve(LU, pivots, v), adjoint=True)

    inverse = _spectral_norm(solve_both, feedback)
    # A singular matrix gives zeros to divide by; what follows from them is not finite.
    inverse = torch.where(inverse.isnan() & feedback.isfinite().all(-1).all(-1), torch.inf, inverse)
    return inverse * (1 + _spectral_norm(lambda v: feedback.mT @ (feedback @ v), feedback))


def _spectral_norm(square: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """‖A‖ by a few rounds of the power iteration, given v -> AᵀA·v."""
    n = like.shape[-1]
    # No two entries alike, so that no matrix of a simple pattern is orthogonal to it.
    v = torch.cos(torch.arange(n, dtype=like.dtype, device=like.device) * 1.7 + 0.3).expand(like.shape[:-1])
    v, size = v.unsqueeze(-1), torch.ones(like.shape[:-2], dtype=like.dtype, device=like.device)
    for _ in range(ROUNDS):
        v = square(v / v.norm(dim=-2, keepdim=True).clamp_min(torch.finfo(like.dtype).tiny))
        size = v.norm(dim=(-2, -1))
    return size.sqrt()


def loses_half(amplification: Tensor, dtype: torch.dtype) -> Tensor:
    """Whether rounding, grown by that much, may reach half of the digits."""
    return amplification * torch.finfo(dtype).eps ** 0.5 > 1


class _Settled(Function):
    """The solution h of h = φ(h, *operands) as a function of the operands: dh = (I − ∂φ/∂h)⁻¹ · ∂φ/∂operand.

    Its derivatives use saved tensors alone, the solution among them, so that they can be differentiated again.
    """

    @staticmethod
    def forward(rule: EquilibriumRule, tree: Any, note: Callable[[SolveReport], None], *operands: Any) -> Tensor:
        constant = [o.detach() if isinstance(o, Tensor) else o for o in operands]
        h, report = rule.solve_finite(constant[0], constant[1], pytree.tree_unflatten(constant[2:], tree))
        note(report)
        return h

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.rule, ctx.tree, _, *operands = inputs
        ctx.others = [None if isinstance(o, Tensor) else o for o in operands]
        ctx.places = [n for n, o in enumerate(operands) if isinstance(o, Tensor)]
        ctx.save_for_backward(output, *(operands[n] for n in ctx.places))
        ctx.save_for_forward(output, *(operands[n] for n in ctx.places))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        needed = ctx.needs_input_grad[3:]
        wanted = [n for n in ctx.places if needed[n]]
        with without_autocast(gradient.device.type):
            phi, values, feedback = _Settled._at_solution(ctx, wanted)
            pull = torch.func.vjp(phi, *values)[1]
            found = dict(zip(wanted, pull(feedback.resolve(gradient, transposed=True)), strict=True))
        return (None, None, None, *(found.get(n) for n in range(len(ctx.others))))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        given = {n: tangent for n, tangent in enumerate(tangents[3:]) if tangent is not None}
        with without_autocast(ctx.saved_tensors[0].device.type):
            phi, values, feedback = _Settled._at_solution(ctx, list(given))
            return feedback.resolve(_pushed(phi, values, tuple(given.values())))

    @staticmethod
    def _at_solution(ctx: Any, wanted: list[int]) -> tuple[Callable[..., Tensor], tuple[Tensor, ...], Feedback]:
        """φ at the solution as a function of the wanted operands, the values of these, and ∂φ/∂h."""
        h, *tensors = ctx.saved_tensors
        operands = list(ctx.others)
        for n, tensor in zip(ctx.places, tensors, strict=True):
            operands[n] = tensor

        def arguments(filled: list[Any]) -> tuple[Any, ...]:
            return h, filled[0], filled[1], pytree.tree_unflatten(filled[2:], ctx.tree)

        def phi(*values: Tensor) -> Tensor:
            filled = list(operands)
            for n, value in zip(wanted, values, strict=True):
                filled[n] = value
            return ctx.rule.phi(*arguments(filled))

        feedback = Feedback(ctx.rule.feedback(*arguments(operands)), ctx.rule.floor)
        return phi, tuple(operands[n] for n in wanted), feedback


def _pushed(function: Callable[..., Tensor], values: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Tensor:
    """The derivative along tangents, by reverse mode twice: forward mode cannot be nested inside dual tensors."""
    value, pull = torch.func.vjp(function, *values)[:2]
    (pushed,) = torch.func.vjp(pull, torch.zeros_like(value))[1](tangents)
    return pushed


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
