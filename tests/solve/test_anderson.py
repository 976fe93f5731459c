"""Acceleration: what it gains, when it backs off, and that each problem has its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from autapse.solve import Anderson, Equations, FixedPoint
from autapse.solve.acceleration import Correction, Damped, Guard, History, Rows
from autapse.solve.loop import Goal, Visit


def contraction(count: int = 3, n: int = 3, radius: float = 0.95) -> tuple[Equations, Tensor]:
    """z = M·z + b with eigenvalues up to `radius`, and its solutions."""
    Q = torch.linalg.qr(torch.randn(count, n, n, dtype=torch.float64))[0]
    M = Q @ torch.diag_embed(radius * torch.rand(count, n, dtype=torch.float64).fill_(1).cumsum(1) / n) @ Q.mT
    b = torch.randn(count, n, dtype=torch.float64)
    system = Equations(lambda z, M, b: (M @ z.unsqueeze(2)).squeeze(2) + b, M, b, start=torch.zeros_like(b))
    return system, torch.linalg.solve(torch.eye(n, dtype=torch.float64) - M, b.unsqueeze(2)).squeeze(2)


def test_linear_problems_end_like_krylov_methods() -> None:
    """With a window of n and exact arithmetic, n + 1 residuals determine the solution of n unknowns."""
    system, expected = contraction()
    z, report = Anderson(rtol=1e-7, guard=float("inf")).solve(system)
    _, plain = FixedPoint(rtol=1e-7).solve(system)
    assert report.all_converged
    assert int(report.iterations.max()) <= 6
    assert int(plain.iterations.min()) > 50
    assert float((z - expected).abs().max()) < 1e-4


def test_the_second_step_is_the_secant_method() -> None:
    """One unknown, window 1: z₂ is where the line through the first two residuals is zero."""
    f = torch.cos
    system = Equations(f, start=torch.full((1, 1), 0.2, dtype=torch.float64))
    z, _ = Anderson(window=1, max_iterations=3, rtol=0.0).solve(system)
    z0 = system.start
    z1 = f(z0)
    r0, r1 = f(z0) - z0, f(z1) - z1
    assert float(z) == pytest.approx(float(z1 - r1 * (z1 - z0) / (r1 - r0)), rel=1e-8)


def test_damping() -> None:
    """F(z) = 3 − 2z: the error of plain steps doubles, that of steps of 0.4 goes to a fifth, with the other sign."""
    system = Equations(lambda z, b: -2 * z + b, torch.full((1, 1), 3.0, dtype=torch.float64))
    _, plain = FixedPoint().solve(system)
    assert not plain.all_converged
    for n in range(1, 6):
        z, _ = FixedPoint(damping=0.4, max_iterations=n, rtol=0.0).solve(system)
        assert float(z) == pytest.approx(1 - (-0.2) ** (n - 1))


class Problems:
    """Two problems that are accelerated step by step, from random points with given residuals."""

    def __init__(self) -> None:
        self.iteration = Damped(Goal(0.0, 0.0), window=3, guard=0.9)
        self.history, self.guard = History(), Guard.new(2, torch.device("cpu"))

    def rested(self, residual: list[float]) -> list[bool]:
        """Whether each problem's step was a plain one."""
        z, r = torch.randn(2, 2, 3, dtype=torch.float64)
        no = torch.zeros(2, dtype=torch.bool)
        rows = Rows(z, r, Correction(lambda r: r, torch.arange(2), 2), self.history)
        visit = Visit(z, torch.tensor(residual, dtype=torch.float64), no, no, 1.0, rows, self.guard)
        new = self.iteration.step(Equations(torch.cos, start=z), visit, ~no)
        self.history, self.guard = new.rows.history, new.problems
        return (new.z == z + r).all(1).tolist()


def test_a_bad_accelerated_step_sends_its_problem_alone_back_to_plain_ones() -> None:
    rested = Problems().rested
    assert rested([1.0, 1.0]) == [True, True]  # nothing to extrapolate from
    assert rested([0.9, 0.9]) == [False, False]
    assert rested([0.89, 0.5]) == [True, False]  # 0.89 is more than 0.9 of 0.9
    good = 0.4
    for _ in range(3):
        assert rested([0.8, good]) == [True, False]
        good *= 0.8
    assert rested([0.8, good]) == [False, False]
    good *= 0.8
    steps = 0
    while rested([0.8 if steps else 0.79, good]) == [True, False]:
        steps, good = steps + 1, good * 0.8
    assert steps == 8  # twice as many as before


def test_acceleration_waits_for_the_threshold() -> None:
    system, _ = contraction()
    always, waits, never = (
        Anderson(rtol=1e-7, threshold=threshold).solve(system)[1].iterations
        for threshold in (float("inf"), 1e-3, 1e-30)
    )
    plain = FixedPoint(rtol=1e-7).solve(system)[1].iterations
    assert bool((always < waits).all())
    assert bool((waits < never).all())
    assert never.tolist() == plain.tolist()


def test_the_guard_tends_to_the_plain_method() -> None:
    """A guard that nothing passes: 1 accelerated step, then 4, 8, 16, … plain ones between two of them."""
    system, expected = contraction(radius=0.5)
    z, report = Anderson(rtol=1e-10, guard=1e-12).solve(system)
    _, plain = FixedPoint(rtol=1e-10).solve(system)
    assert report.all_converged
    assert bool((report.iterations <= 2 * plain.iterations).all())
    assert float((z - expected).abs().max()) < 1e-8
