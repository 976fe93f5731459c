"""Gauss–Seidel sweeps against their definition, position by position."""

from __future__ import annotations

import pytest
import torch
from lines import chain, truth
from torch import Tensor

from autapse.solve import Equations, FixedPoint, Sweeps, Tridiagonal
from tolerance import close


def by_hand(system, z: Tensor, positions: list[int]) -> Tensor:
    """Each position of each problem in turn, by whole evaluations."""
    z = z.clone()
    for t in positions:
        rows = [n for n, (_, position) in enumerate(system.layout.keys) if position == t]
        z[rows] = system.evaluate(z)[rows]
    return z


def test_one_symmetric_iteration() -> None:
    system = chain()
    z, report = Sweeps(max_iterations=1, rtol=0.0).solve(system)
    expected = by_hand(system, system.zero(), [*range(7), *range(6, -1, -1)])
    close(z, expected)
    norms = system.groups.norm(system.evaluate(expected) - expected) / system.groups.norm(expected)
    close(report.residual, norms)


def test_red_black_iterations() -> None:
    """The second iteration's point; its residual is had without an evaluation of all rows."""
    system = chain()
    z, report = Sweeps(order="red-black", max_iterations=2, rtol=0.0).solve(system)
    expected = by_hand(system, system.zero(), [1, 3, 5, 0, 2, 4, 6, 1, 3, 5])
    close(z, expected)
    norms = system.groups.norm(system.evaluate(expected) - expected) / system.groups.norm(expected)
    close(report.residual, norms)


@pytest.mark.parametrize(("order", "cost"), [("symmetric", 3), ("red-black", 1)])
def test_what_is_charged_is_what_rows_were_evaluated(order: str, cost: int) -> None:
    system = chain((30,), linear=True, strength=0.1)
    rows = []
    part, whole = system.evaluate_rows, system.evaluate
    system.evaluate_rows = lambda z, s: (rows.append(s.stop - s.start), whole(z)[s])[1]
    system.evaluate = lambda z: (rows.append(len(z)), whole(z))[1]
    _, report = Sweeps(order=order).solve(system)
    assert part is not None
    assert report.all_converged
    assert float(report.evaluations[0]) == cost * int(report.iterations[0])
    assert sum(rows) / 30 == pytest.approx(float(report.evaluations[0]), rel=0.02)  # the turning points are not counted


@pytest.mark.parametrize("order", ["symmetric", "red-black"])
def test_sweeps_need_fewer_iterations_than_steps(order: str) -> None:
    system = chain((12, 9), linear=True, strength=0.09, through=0.4)
    z, report = Sweeps(order=order, rtol=1e-9).solve(system)
    _, plain = FixedPoint(rtol=1e-9).solve(system)
    assert report.all_converged
    assert bool((report.iterations < 0.7 * plain.iterations).all())
    assert float((z - truth(system)).abs().max()) < 1e-7


def test_tridiagonal_is_exact_where_couplings_are_elementwise() -> None:
    """Without A and B the elementwise tridiagonal is the whole Jacobian: one step from anywhere."""
    system = chain(linear=True, strength=0.0, through=0.49)
    z, report = Tridiagonal(rtol=1e-11).solve(system, torch.randn_like(system.x))
    assert report.iterations.tolist() == [2] * 4  # the step, and the evaluation that finds it done
    close(z, truth(system))


def test_systems_that_are_on_no_line_say_so() -> None:
    system = Equations(torch.cos, start=torch.zeros(2, 1))
    with pytest.raises(NotImplementedError, match="Equations has no line of positions"):
        Sweeps().solve(system)
    with pytest.raises(NotImplementedError, match="Equations has no colours"):
        Sweeps(order="red-black").solve(system)
    with pytest.raises(NotImplementedError, match="Equations has no elementwise couplings"):
        Tridiagonal().solve(system)
