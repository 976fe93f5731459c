"""Reports: why a solve ended, and several reports as one."""

from __future__ import annotations

from typing import Any

import torch

from autapse.solve import Equations, FixedPoint, Newton, Reason, SolveReport
from autapse.solve.report import merge


def report(residual: list[float], name: str = "a", rtol: float = 1e-3, **keywords: Any) -> SolveReport:
    values = torch.tensor(residual, dtype=torch.float64)
    cost = torch.arange(1, len(residual) + 1)
    return SolveReport.make(values <= rtol, values, cost, 2 * cost, name, **keywords)


def test_reasons_follow_from_what_a_solver_knows() -> None:
    found = report([0.0, 1e-3, 1.0, torch.inf, 2.0, 1e-2], eps=1e-3, lost=torch.tensor([0, 0, 0, 0, 1, 0]).bool())
    names = ["CONVERGED", "CONVERGED", "ITERATION_LIMIT", "NOT_FINITE", "NOT_FINITE", "STALLED"]
    assert [reason.name for reason in found.reasons] == names
    by_hand = SolveReport(found.converged, found.residual, found.iterations, found.evaluations, found.finished_by)
    names[4:] = ["ITERATION_LIMIT", "ITERATION_LIMIT"]
    assert [reason.name for reason in by_hand.reasons] == names


def test_words_and_sentences_name_the_failures() -> None:
    found = report([0.0, 1.0, torch.inf])
    assert found.words().startswith("2 of 3 problems not converged (iteration limit, not finite), worst residual inf")
    assert found.sentences() == f"{Reason.ITERATION_LIMIT.sentence} {Reason.NOT_FINITE.sentence}"
    assert "not converged," in report([0.0]).words()


def test_ill_conditioned_problems_are_not_converged() -> None:
    found = report([0.0, 0.0, 1.0]).ill_conditioned(torch.tensor([True, False, True]))
    assert found.reasons == (Reason.ILL_CONDITIONED, Reason.CONVERGED, Reason.ILL_CONDITIONED)
    assert found.converged.tolist() == [False, True, False]
    assert found.flagged is not None
    assert found.flagged.tolist() == [True, False, True]


def test_the_best_of_several_solvers() -> None:
    first = report([0.0, 1.0, torch.inf, 0.5])
    second = report([2.0, 0.2, 0.0], "b", flagged=torch.tensor([False, True, False]))
    found = merge([first, second], 4, [torch.arange(4), torch.tensor([1, 2, 3])])
    assert found.residual.tolist() == [0.0, 1.0, 0.2, 0.0]
    assert found.converged.tolist() == [True, False, False, True]
    assert found.finished_by == ("a", "a", "b", "b")
    assert found.iterations.tolist() == [1, 2 + 1, 3 + 2, 4 + 3]
    assert found.evaluations.tolist() == [2, 4 + 2, 6 + 4, 8 + 6]
    assert found.flagged is not None
    assert found.flagged.tolist() == [False, False, True, False]
    assert [r.name for r in found.reasons] == ["CONVERGED", "ITERATION_LIMIT", "ITERATION_LIMIT", "CONVERGED"]


def test_nothing_finite_is_still_a_failure() -> None:
    first, second = report([torch.inf]), report([torch.inf], "b")
    for worst in (True, False):
        found = merge([first, second], 1, worst=worst)
        assert found.reasons == (Reason.NOT_FINITE,)
        assert found.converged.tolist() == [False]
        assert found.finished_by == ("a",)


def test_the_worst_of_several_steps() -> None:
    steps = [
        report([1e-4, 0.0, 0.0]),
        report([1e-5, 1.0], "b"),
        report([2.0], "c").ill_conditioned(torch.tensor([True])),
    ]
    found = merge(steps, 4, worst=True)
    assert found.residual.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert found.finished_by == ("c", "b", "a", "no step")
    assert found.iterations.tolist() == [3, 4, 3, 0]
    assert [r.name for r in found.reasons] == ["ILL_CONDITIONED", "ITERATION_LIMIT", "CONVERGED", "CONVERGED"]


def test_reports_are_plain_tensors_inside_torch_func() -> None:
    kept: list[SolveReport] = []

    def solved(b: torch.Tensor) -> torch.Tensor:
        z, found = Newton(rtol=1e-6).solve(Equations(lambda z, b: torch.cos(z) * b, b))
        kept.append(merge([found, found], 2).take(torch.tensor([1, 0])))
        return z.sum()

    torch.func.grad(solved)(torch.tensor([[0.5], [1.0]]))
    (found,) = kept
    tensors = (found.converged, found.residual, found.iterations, found.evaluations, found.reason)
    assert not any(torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors)


def test_a_problem_that_meets_nan_says_so_even_if_it_had_a_residual() -> None:
    """The square root of a number that becomes negative."""
    equations = Equations(lambda z, b: b - 3 * torch.sqrt(z), torch.tensor([[2.0]]), start=torch.tensor([[1.0]]))
    _, found = FixedPoint().solve(equations)
    assert found.residual.isfinite().all()
    assert found.reasons == (Reason.NOT_FINITE,)
