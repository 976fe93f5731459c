"""The paper's solver: two starts, one BiCGStab for all, and its counts."""

from __future__ import annotations

import pytest
import torch
from lines import Chainlike, chain, truth
from torch import Tensor

from autapse.solve import Equations, Newton, Paper
from tolerance import close


class Guessing(Chainlike):
    """A chain whose guess is its solution, for its linear form."""

    def guess(self) -> Tensor:
        return truth(self)


@pytest.mark.parametrize("lengths", [(3, 7, 1, 5), (4,), (2, 2, 2)])
def test_chains_are_solved(lengths: tuple[int, ...]) -> None:
    system = chain(lengths, linear=True)
    z, report = Paper(rtol=1e-9).solve(system)
    assert report.all_converged
    assert float((z - truth(system)).abs().max()) < 1e-7
    close(report.residual, system.groups.norm(system.evaluate(z) - z) / system.groups.norm(z))


def test_a_start_that_is_a_solution_ends_both() -> None:
    base = chain(linear=True)
    system = Guessing(base.weights, base.x, base.layout.lengths, linear=True)
    z, report, statistics = Paper(rtol=1e-9).solve_with_statistics(system)
    close(z, truth(base))
    assert statistics.newton_iterations.tolist() == [0] * 4
    assert statistics.linear_solves == 0
    close(report.evaluations, torch.full((4,), 2 + 2.2, dtype=torch.float64))
    _, report = Paper(rtol=1e-9).solve(system, truth(base))
    assert report.evaluations.tolist() == [2.0] * 4  # no guess was made


def test_the_copy_that_converges_is_taken() -> None:
    """I − J = 0 at the start, where the first copy never moves, and I − J = 1 at every random start, from −1 to 1."""
    system = Equations(lambda z, b: z - (z - b).clamp(-1.6, 1.4), torch.full((6, 1), 0.5, dtype=torch.float64))
    start = torch.full((6, 1), 2.0, dtype=torch.float64)
    _, alone = Newton(rtol=1e-6).solve(system, start)
    assert not bool(alone.converged.any())
    z, report = Paper(rtol=1e-6, atol=1e-6).solve(system, start)
    assert report.all_converged
    close(z, torch.full((6, 1), 0.5, dtype=torch.float64))


def test_seeds() -> None:
    system = chain(strength=0.9, seed=3)
    far = 50 * torch.ones_like(system.x)
    first, again, other = (Paper(seed=seed, max_iterations=1, rtol=0.0).solve(system, far)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    state = torch.random.get_rng_state()
    Paper().solve(system)
    assert torch.equal(state, torch.random.get_rng_state())


def test_statistics() -> None:
    system = chain((12, 20, 16), strength=0.39, through=0.1)
    _, report, statistics = Paper(rtol=1e-8).solve_with_statistics(system)
    assert report.all_converged
    assert statistics.newton_iterations.tolist() == report.iterations.tolist()
    assert statistics.linear_solves == len(statistics.inner_iterations) == int(report.iterations.max())
    assert statistics.inner_limit_hits == 0
    assert all(0 < count < 40 for count in statistics.inner_iterations)
    _, report, short = Paper(rtol=1e-8, inner_iterations=2).solve_with_statistics(system)
    assert short.inner_limit_hits > 0
    assert max(short.inner_iterations) == 2
    longest = int(report.iterations.argmax())
    # Both copies: an F each at the start and per step, and two products per inner iteration.
    spent = 2 * (1 + len(short.inner_iterations) + 2 * sum(short.inner_iterations)) + 2.2
    assert float(report.evaluations[longest]) == pytest.approx(spent)


def test_it_costs_more_than_newton() -> None:
    system = chain((12, 20, 16), strength=0.39, through=0.1)
    _, paper = Paper(rtol=1e-6).solve(system)
    _, newton = Newton(rtol=1e-6).solve(system)
    assert bool((paper.evaluations > 2 * newton.evaluations).all())
