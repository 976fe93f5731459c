"""EquilibriumRule: a step that solves an equation for its state, h' = φ(h', h, x)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from autapse import checks, solve
from autapse.cells.base import Cell, Note, uniform_
from autapse.cells.inner_steps import InnerSteps
from autapse.cells.matrices import full_precision
from autapse.forms import Form, Leaky, State
from autapse.gradient import Gradient
from autapse.gradient.function import on_values, without_autocast
from autapse.gradient.implicit import DEFAULT
from autapse.gradient.step import DifferentiableStep, settle
from autapse.solve import Solver, SolveReport
from autapse.solve.direct import Direct
from autapse.solve.report import warn_unsolved

RTOL = {torch.float32: 1e-6, torch.float64: 1e-12}  # a few rounding errors: Newton's method doubles the digits


class EquilibriumRule(InnerSteps, Cell):
    """h' = φ(h', h, u), an equilibrium that is solved at each step

    ERNN paper, section 3.1. A subclass makes its parameters in `__init__`, returns those that φ uses from `prepare` (a
    tensor, or tuples, lists and dicts of tensors) and writes `phi`, which may use only its arguments. It usually also
    writes `drive`.

    The gradient is implicit: each step solves one linear system with (I − ∂φ/∂h')ᵀ at the solution. It does not depend
    on the solver, and there are derivatives of any order.

    With `inner_steps=K` no equation is solved. The network takes K learned steps from h towards the equilibrium, the
    paper's equation 9: h⁽ᵏ⁾ = (1 − η)·h⁽ᵏ⁻¹⁾ + η·φ(h⁽ᵏ⁻¹⁾, h, u). η starts at 10⁻²; `eta=1.0` is the recursion of
    equation 4.

    Args:
        solver: a solver of `autapse.solve`, "newton" or "inexact_newton". None: the rule's own method, which is
            Newton's method for most rules.
        rtol: relative residual to reach. None: 1e-6 in float32 and 1e-12 in float64.
        gradient: one of `autapse.gradient`. None: `Implicit()`.
        inner_steps: K, the number of learned steps. None: solve the equation.
        eta: with `inner_steps`, "shared" (one η), "per_position" (η_t for each position), "per_step" (η_t⁽ᵏ⁾ for each
            position and inner step), or a number that is not learned.
        max_length: with "per_position" and "per_step", the number of positions that have their own η; later ones use
            the last.

    >>> class Half(autapse.cells.EquilibriumRule):
    ...     def phi(self, h, previous, u, weights):
    ...         return torch.tanh(0.5 * h + 0.3 * previous + u)
    >>> layer = autapse.Equilibrium(Half, 4, 4)
    >>> output, h_n = layer(torch.ones(5, 2, 4))
    >>> layer.reports[0].all_converged
    True
    """

    stencil = (-1, 0)
    floor: float = 0.0  # smallest |1 − ∂φ/∂h'| that is divided by, if ∂φ/∂h' is diagonal

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        solver: Solver | str | None = None,
        rtol: float | None = None,
        gradient: Gradient | None = None,
        inner_steps: int | None = None,
        eta: str | float = "shared",
        max_length: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        if self.stencil != (-1, 0):
            checks.fail("stencil", "be (-1, 0) for an equilibrium rule", self.stencil)
        self.solver, self._solver = solver, _checked_solver(solver)
        self.factorises = solver in (None, "newton")  # I − ∂φ/∂h, so its condition costs little
        self.rtol = None if rtol is None else checks.number("rtol", rtol, low=0.0)
        if gradient is not None and not isinstance(gradient, Gradient):
            checks.fail("gradient", "be one of autapse.gradient, such as Phantom(5)", gradient, kind=checks.KindError)
        self.gradient = gradient
        of_steps: dict[str, Any] = {"eta": None if eta == "shared" else eta, "max_length": max_length}
        of_solver: dict[str, Any] = {"solver": solver, "rtol": rtol, "gradient": gradient}
        rule = "be used with inner_steps" if inner_steps is None else "be None with inner_steps, which solves nothing"
        for name, value in (of_steps if inner_steps is None else of_solver).items():
            if value is not None:
                checks.fail(name, rule, value)
        self._make_rate(inner_steps, eta, max_length)
        self._checked = False  # whether the result of `phi` has been checked

    # What a subclass writes -------------------------------------------------------------------------------------

    def phi(
        self,
        h: Tensor,  # [B, H], the unknown state after the step
        previous: Tensor,  # [B, H], the state before the step
        u: Tensor,  # [B, G], the drive at this step
        weights: Any,  # the result of prepare()
    ) -> Tensor:  # [B, H]
        """The right side of the equation."""
        raise NotImplementedError(f"{type(self).__name__} must define phi(h, previous, u, weights).")

    def feedback(self, h: Tensor, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """∂φ/∂h, [B, H, H], or [B, H] if it is diagonal. By default by automatic differentiation."""
        pull = torch.func.vjp(lambda at: self.phi(at, previous, u, weights), h)[1]
        each = torch.eye(h.shape[1], dtype=h.dtype, device=h.device)[:, None].expand(-1, len(h), -1)
        (rows,) = torch.func.vmap(pull)(each)
        return rows.transpose(0, 1)

    def start(self, previous: Tensor, u: Tensor, weights: Any) -> Tensor:
        """The first point of the solver: the state before the step, as in the paper's equation 4."""
        return previous

    def reset_parameters(self) -> None:
        """Draw the initial parameters again: by default uniform in ±1/√hidden_size, and η = 10⁻²."""
        uniform_(self.hidden_size, *(p for p in self.parameters() if p is not self._eta))
        self.reset_rate()

    def one_step(self, weights: Any) -> tuple[Tensor, str] | None:
        """R and the activation if φ(h, h, u) is act(u + R·h), so that one learned step is the leaky form. Or None."""
        return None

    # What every rule offers -------------------------------------------------------------------------------------

    def fused(self, weights: Any) -> Form | None:
        own = next(owner for owner in type(self).__mro__ if "one_step" in vars(owner) or "phi" in vars(owner))
        # A subclass that overrides φ must override `one_step` too.
        if self.inner_steps != 1 or "one_step" not in vars(own) or type(self).step is not EquilibriumRule.step:
            return None
        parts, eta = self.one_step(weights), self.rates()
        return None if parts is None else Leaky(*parts, alpha=eta, beta=1 - eta)

    def form(self) -> str | None:
        form = self.fused(self.prepare())
        return None if form is None else form.name

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        return self.varies or type(self).step is not EquilibriumRule.step

    def step(self, u: Tensor, state: State, weights: Any, t: int) -> State:
        if self.inner_steps is not None:
            (previous,) = state
            return (self.take_steps(lambda h: self.phi(h, previous, u, weights), previous, t),)
        with without_autocast(u.device.type):
            reports: list[SolveReport] = []
            state = self.solved_step(weights, reports.append, u, state, t)
        warn_unsolved(self, type(self).__name__, reports[0], "steps", "Their states are kept as they are.")
        return state

    @property
    def is_solved(self) -> bool:  # type: ignore[override]
        return self.inner_steps is None and type(self).step is EquilibriumRule.step

    def solved_step(self, weights: Any, note: Note, u: Tensor, state: State, t: int) -> State:
        (previous,) = state
        dtype = torch.promote_types(u.dtype, previous.dtype)
        wide = full_precision(dtype)  # half precision cannot reach the tolerance
        if wide != dtype:
            weights = pytree.tree_map_only(Tensor, lambda w: w.to(wide) if w.is_floating_point() else w, weights)
        h, report = self.settle(previous.to(wide), u.to(wide), weights)
        note(report)
        return (h.to(dtype),)

    def settle(self, previous: Tensor, u: Tensor, weights: Any) -> tuple[Tensor, SolveReport]:
        """The state after a step, with its gradient, and the report with one entry per row."""
        if previous.is_meta:
            return torch.empty_like(previous), SolveReport.empty("nothing", len(previous))
        rtol = self.tolerance(u)
        self._check_phi(previous, u, weights)
        with torch.no_grad():
            start = self.start(previous, u, weights)
        return settle(self, previous, u, weights, start, self._solver or newton(rtol), rtol, self.gradient or DEFAULT)

    def tolerance(self, like: Tensor) -> float:
        """The relative residual to reach."""
        return RTOL.get(like.dtype, 1e-2) if self.rtol is None else self.rtol

    def _check_phi(self, previous: Tensor, u: Tensor, weights: Any) -> None:
        if self._checked:
            return
        self._checked = True

        def look(*tensors: Tensor) -> Tensor:
            with torch.enable_grad():
                y = self.phi(tensors[0], *step.arguments(tensors))
            name = f"phi of {type(self).__name__}"
            if not isinstance(y, Tensor) or y.shape != tensors[0].shape:
                got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
                rule = f"return a tensor of the shape of h, {tuple(tensors[0].shape)}"
                checks.fail(name, rule, got, kind=checks.ShapeError)
            if y.requires_grad:
                remedy = "Return the parameters from prepare(); phi gets them as weights."
                checks.fail(name, "depend only on its arguments, or gradients are lost", "a graph", remedy)
            return torch.zeros(())

        step = DifferentiableStep(self, previous, u, weights)
        on_values(look, *step.operands)


class FunctionRule(EquilibriumRule):
    """h' = φ(h', h, x) with a given function or module phi(h, previous, x)."""

    def __init__(self, input_size: int, hidden_size: int, phi: Callable[..., Tensor], **keywords: Any) -> None:
        super().__init__(input_size, hidden_size, **keywords)
        if not callable(phi):
            checks.fail("phi", "be a function or module phi(h, previous, x)", phi, kind=checks.KindError)
        self.function = phi

    renamed: ClassVar[dict[str, str]] = {"phi": "function"}

    def reset_parameters(self) -> None:
        """Call `reset_parameters` of the module, if it has one."""
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


@cache
def newton(rtol: float) -> Solver:
    """The default solver of a rule."""
    atol = 0.1 * rtol  # cancellation: a state near zero that is a difference of large terms
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
