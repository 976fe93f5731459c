"""The implicit system: its solution position by position, its Jacobian and adjoint against dense matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autapse.forms.implicit import AnyRule
from autapse.forms.implicit_gru import ImplicitGRURule
from autapse.forms.implicit_lstm import ImplicitLSTMRule
from autapse.sequences.red_black import RedBlack
from autapse.solve import (
    GMRES,
    Anderson,
    BiCGStab,
    BlockTridiagonal,
    FixedPoint,
    Newton,
    Paper,
    Resolvent,
    Solver,
    Sweeps,
    Tridiagonal,
    recommended,
)
from autapse.unfold.implicit_system import ImplicitSystem
from tolerance import close

LENGTHS = [7, 4, 1, 0]
H = 3


def system(
    kind: Any = ImplicitGRURule, stencil: tuple[int, ...] = (-1, 1), edges: bool = False, scale: float = 0.6
) -> ImplicitSystem:
    count, double = len(stencil), torch.float64

    def random(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, dtype=double)

    if kind is ImplicitGRURule:
        rule: Any = ImplicitGRURule(stencil, random(count, H, H), random(2 * H, H), random(H, H))
        width, size = (count + 3) * H, H
    else:
        rule, width, size = ImplicitLSTMRule(stencil, random(count, H, H), random(4 * H, H)), (count + 4) * H, 2 * H
    layout = RedBlack(torch.tensor(LENGTHS), stencil, torch.device("cpu"), edges)
    past = torch.randn(2 * len(LENGTHS), size, dtype=double) if edges else torch.zeros(1, size, dtype=double)
    return ImplicitSystem(rule, torch.randn(layout.total, width, dtype=double), layout, past)


def by_positions(implicit: ImplicitSystem, z: Tensor) -> Tensor:
    """F(z) with one call of the rule for each position, neighbours looked up by hand."""
    layout, found = implicit.layout, torch.empty_like(z)
    for b, n in enumerate(LENGTHS):
        rows = layout.rows_of(b)
        for t in range(n):
            near = []
            for offset in implicit.rule.offsets:
                if 0 <= t + offset < n:
                    near.append(z[rows[t + offset]][None])
                elif layout.edges:
                    near.append(implicit.edges[(b if t + offset < 0 else len(LENGTHS) + b)][None])
                else:
                    near.append(torch.zeros(1, z.shape[1], dtype=z.dtype))
            found[rows[t]] = implicit.rule.evaluate(implicit.u[rows[t]][None], tuple(near))[0]
    return found


every_kind = pytest.mark.parametrize("kind", [ImplicitGRURule, ImplicitLSTMRule], ids=lambda kind: kind.__name__)
every_stencil = pytest.mark.parametrize("stencil", [(-1, 1), (-2, -1, 1, 2), (-3, 1), (-1,), (-1, 2)], ids=str)


@every_kind
@every_stencil
@pytest.mark.parametrize("edges", [False, True])
def test_evaluation_position_by_position(kind: Any, stencil: tuple[int, ...], edges: bool) -> None:
    implicit = system(kind, stencil, edges)
    z = torch.randn_like(implicit.zero())
    expected = by_positions(implicit, z)
    close(implicit.evaluate(z), expected)
    close(implicit.linearize(z)[0], expected)
    for rows in implicit.positions():
        close(implicit.evaluate_rows(z, rows), expected[rows])
    if implicit.layout.two_colours:
        for rows in implicit.colours():
            close(implicit.evaluate_rows(z, rows), expected[rows])


def jacobian(implicit: ImplicitSystem, z: Tensor) -> Tensor:
    found = torch.autograd.functional.jacobian(implicit.evaluate, z)
    return found.reshape(z.numel(), z.numel())


@every_kind
@every_stencil
def test_products_are_those_of_the_dense_jacobian(kind: Any, stencil: tuple[int, ...]) -> None:
    implicit = system(kind, stencil)
    z, v = torch.randn_like(implicit.zero()), torch.randn_like(implicit.zero())
    dense, (_, slope) = jacobian(implicit, z), implicit.linearize(z)
    close(slope.jvp(v).flatten(), dense @ v.flatten())
    close(slope.vjp(v).flatten(), dense.t() @ v.flatten())


@every_kind
def test_blocks_are_those_of_the_dense_jacobian(kind: Any) -> None:
    implicit = system(kind)
    z, b = torch.randn_like(implicit.zero()), torch.randn_like(implicit.zero())
    dense, (_, slope) = jacobian(implicit, z), implicit.linearize(z)
    for transposed in (False, True):
        x, report = BlockTridiagonal(rtol=1e-8).solve(Resolvent(slope, transposed), b)
        matrix = torch.eye(z.numel(), dtype=torch.float64) - (dense.t() if transposed else dense)
        close(x.flatten(), torch.linalg.solve(matrix, b.flatten()))
        assert bool(report.converged.all())


def test_a_wide_stencil_has_no_tridiagonal_blocks() -> None:
    implicit = system(stencil=(-2, 1))
    with pytest.raises(NotImplementedError, match=r"\(-2, 1\).*GMRES"):
        implicit.linearize(implicit.zero())[1].blocks()


@every_kind
@every_stencil
@pytest.mark.parametrize("solver", [GMRES(max_iterations=60), BiCGStab(max_iterations=200)], ids=["gmres", "bicgstab"])
def test_adjoint_against_a_dense_solve(kind: Any, stencil: tuple[int, ...], solver: Any) -> None:
    implicit = system(kind, stencil)
    z, g = torch.randn_like(implicit.zero()), torch.randn_like(implicit.zero())
    dense, (_, slope) = jacobian(implicit, z), implicit.linearize(z)
    v, report = slope.adjoint(g, solver, 1e-13)
    expected = torch.linalg.solve(torch.eye(z.numel(), dtype=torch.float64) - dense.t(), g.flatten())
    torch.testing.assert_close(v.flatten(), expected, rtol=1e-8, atol=1e-10)
    assert bool(report.converged.all())


SOLVERS: dict[str, Solver] = {
    "recommended": recommended(),
    "tridiagonal": Tridiagonal(max_iterations=500),
    "plain": Tridiagonal(window=0, max_iterations=500),
    "anderson": Anderson(max_iterations=500),
    "fixed point": FixedPoint(damping=0.7, max_iterations=2000),
    "symmetric": Sweeps(max_iterations=500),
    "red-black": Sweeps(order="red-black", max_iterations=1000),
    "newton": Newton(max_iterations=30),
    "direct newton": Newton(linear=BlockTridiagonal()),
    "paper": Paper(),
}


@every_kind
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_finds_the_same_states(kind: Any, name: str) -> None:
    """The truth is Newton with dense matrices."""
    implicit = system(kind, scale=0.4)
    with torch.no_grad():
        z = implicit.zero()
        for _ in range(30):
            step = torch.eye(z.numel(), dtype=torch.float64) - jacobian(implicit, z)
            z = z + torch.linalg.solve(step, (by_positions(implicit, z) - z).flatten()).view_as(z)
        found, report = SOLVERS[name].solve(implicit, rtol=1e-11)
    assert report.all_converged, report
    torch.testing.assert_close(found, z, rtol=1e-7, atol=1e-8)
    assert float(report.residual.max()) <= 1e-11


def test_wide_stencils_are_solved() -> None:
    implicit = system(stencil=(-2, -1, 1, 2), edges=True)
    with torch.no_grad():
        z, report = recommended().solve(implicit, rtol=1e-11)
        assert report.all_converged
        torch.testing.assert_close(z, by_positions(implicit, z), rtol=1e-8, atol=1e-10)


def test_the_quasi_newton_step_solves_a_system_without_products_at_once() -> None:
    """Without recurrent matrices the bands are the whole Jacobian of ĥ, which does not depend on the states."""
    implicit = system()
    for matrix in implicit.rule.operands:
        matrix.zero_()
    with torch.no_grad():
        _, report = Tridiagonal().solve(implicit, rtol=1e-12)
    assert report.iterations.max() == 2  # one step, and the look that finds it done


def test_the_guess_is_the_papers() -> None:
    """h = f(forward GRU before it, backward GRU after it), each GRU having its own last state for ĥ."""
    implicit = system()
    rule: Any = implicit.rule
    with torch.no_grad():
        found = implicit.guess()
        rows = implicit.layout.rows_of(0)
        u = implicit.u[rows]

        def gru(u: Tensor, h: Tensor) -> Tensor:
            z, r = torch.sigmoid(u[2 * H : 4 * H] + rule.gates @ h).split(H)
            return (1 - z) * h + z * torch.tanh(u[4 * H :] + rule.candidate @ (r * h))

        zero = torch.zeros(H, dtype=torch.float64)
        ahead, back = [zero], [zero]
        for t in range(LENGTHS[0]):
            ahead.append(gru(u[t], ahead[-1]))
            back.append(gru(u[LENGTHS[0] - 1 - t], back[-1]))
        for t in range(LENGTHS[0]):
            near = (ahead[t][None], back[LENGTHS[0] - 1 - t][None])
            close(found[rows[t]], rule.evaluate(u[t][None], near)[0])


def test_rules_without_couplings_refuse_to_relax() -> None:
    layout = RedBlack(torch.tensor([3]), (-1, 1), torch.device("cpu"), False)
    implicit = ImplicitSystem(AnyRule(lambda u, p, n: u, (-1, 1)), torch.ones(3, 2), layout, torch.zeros(1, 2))
    with pytest.raises(NotImplementedError, match="Anderson"):
        Tridiagonal().solve(implicit)
