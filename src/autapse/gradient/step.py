"""DifferentiableStep: the equations of one step, with derivatives of any order in every mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from autapse.gradient.base import ClosedForm, Gradient
from autapse.gradient.function import is_tracked, on_values, without_autocast, without_saved_tensor_hooks
from autapse.solve import Solver, SolveReport
from autapse.solve.report import merge
from autapse.solve.step_system import Feedback, StepRule, StepSystem


def settle(
    rule: StepRule,
    previous: Tensor,  # [B, H]
    u: Tensor,  # [B, G]
    weights: Any,
    start: Tensor,  # [B, H], the first point of the solver
    solver: Solver,
    rtol: float,
    gradient: Gradient,
) -> tuple[Tensor, SolveReport]:
    """The state that solves h = φ(h, previous, u), as a function of all tensors, and the report of the rows."""
    step = DifferentiableStep(rule, previous, u, weights)

    def solve(start: Tensor, *tensors: Tensor) -> tuple[Tensor, SolveReport]:
        with without_saved_tensor_hooks():
            return StepSystem(rule, *step.arguments(tensors), start).solve(solver, rtol)

    h, report = solved_on_values(solve, len(previous), start, *step.operands)
    if is_tracked(step.operands):
        h = gradient.attach(step, h, None, rtol, lambda report: None)
    return h, report


def solved_on_values(
    solve: Callable[..., tuple[Tensor, SolveReport]], count: int, *tensors: Tensor | None
) -> tuple[Tensor, SolveReport]:
    """`solve(*tensors)` with plain values: the solution of `count` problems without a graph, and the report."""
    reports: list[SolveReport] = []

    def compute(*values: Tensor) -> Tensor:
        h, report = solve(*values)
        reports.append(report)
        return h

    h = on_values(compute, *tensors)
    # Under vmap there is one report per sample.
    return h, reports[0] if len(reports) == 1 else merge(reports, count, worst=True)


class DifferentiableStep(ClosedForm):
    """h = φ(h, previous, u) as a function of its operands: `previous`, `u` and every tensor of `weights`.

    dh = (I − ∂φ/∂h)⁻¹·∂φ/∂operand is a function of the solution and the operands that can be differentiated again.
    """

    def __init__(self, rule: StepRule, previous: Tensor, u: Tensor, weights: Any) -> None:
        self.rule = rule
        leaves, self._tree = pytree.tree_flatten((previous, u, weights))
        self.operands = tuple(leaf for leaf in leaves if isinstance(leaf, Tensor))
        self._constants = [None if isinstance(leaf, Tensor) else (leaf,) for leaf in leaves]

    def arguments(self, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor, Any]:
        """`previous`, `u` and `weights` with these tensors in place of the operands."""
        rest = iter(tensors)
        leaves = [next(rest) if constant is None else constant[0] for constant in self._constants]
        return pytree.tree_unflatten(leaves, self._tree)

    def evaluate(self, z: Tensor) -> Tensor:
        return self.rule.phi(z, *self.arguments(self.operands))

    def pull(
        self, z: Tensor, operands: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        wanted = [n for n, need in enumerate(needed) if need]
        with without_autocast(gradient.device.type):
            phi, values, feedback = self._at(z, operands, wanted)
            pulled = torch.func.vjp(phi, *values)[1](feedback.resolve(gradient, transposed=True))
        gradients = dict(zip(wanted, pulled, strict=True))
        return [gradients.get(n) for n in range(len(needed))]

    def push(self, z: Tensor, operands: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Tensor:
        given = {n: tangent for n, tangent in enumerate(tangents) if tangent is not None}
        with without_autocast(z.device.type):
            phi, values, feedback = self._at(z, operands, list(given))
            # By reverse mode twice: forward mode cannot be nested inside dual tensors.
            value, pull = torch.func.vjp(phi, *values)[:2]
            (pushed,) = torch.func.vjp(pull, torch.zeros_like(value))[1](tuple(given.values()))
            return feedback.resolve(pushed)

    def _at(
        self, z: Tensor, operands: Sequence[Tensor], wanted: Sequence[int]
    ) -> tuple[Callable[..., Tensor], tuple[Tensor, ...], Feedback]:
        """φ at the solution as a function of the operands with index `wanted`, their values, and ∂φ/∂h."""
        rule = self.rule

        def phi(*values: Tensor) -> Tensor:
            filled = list(operands)
            for n, value in zip(wanted, values, strict=True):
                filled[n] = value
            return rule.phi(z, *self.arguments(filled))

        feedback = Feedback(rule.feedback(z, *self.arguments(operands)), rule.floor)
        return phi, tuple(operands[n] for n in wanted), feedback
