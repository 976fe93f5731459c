"""The coupled system: its solution position by position, its Jacobian and adjoint against dense matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autapse.forms.coupled import AnyRule
from autapse.forms.coupled_gru import CoupledGRU
from autapse.forms.coupled_lstm import CoupledLSTM
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
from autapse.unfold.coupled import Coupled
from autapse.unfold.lattice import Lattice
from tolerance import close

LENGTHS = [7, 4, 1, 0]
H = 3


def system(
    kind: Any = CoupledGRU, stencil: tuple[int, ...] = (-1, 1), edges: bool = False, scale: float = 0.6
) -> Coupled:
    count, double = len(stencil), torch.float64

    def random(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, dtype=double)

    if kind is CoupledGRU:
        rule: Any = CoupledGRU(stencil, random(count, H, H), random(2 * H, H), random(H, H))
        width, size = (count + 3) * H, H
    else:
        rule, width, size = CoupledLSTM(stencil, random(count, H, H), random(4 * H, H)), (count + 4) * H, 2 * H
    lattice = Lattice(torch.tensor(LENGTHS), stencil, torch.device("cpu"), edges)
    past = torch.randn(2 * len(LENGTHS), size, dtype=double) if edges else torch.zeros(1, size, dtype=double)
    return Coupled(rule, torch.randn(lattice.total, width, dtype=double), lattice, past)


def by_positions(coupled: Coupled, z: Tensor) -> Tensor:
    """F(z) with one call of the rule for each position, neighbours looked up by hand."""
    lattice, found = coupled.lattice, torch.empty_like(z)
    for b, n in enumerate(LENGTHS):
        rows = lattice.rows_of(b)
        for t in range(n):
            near = []
            for offset in coupled.rule.offsets:
                if 0 <= t + offset < n:
                    near.append(z[rows[t + offset]][None])
                elif lattice.edges:
                    near.append(coupled.edges[(b if t + offset < 0 else len(LENGTHS) + b)][None])
                else:
                    near.append(torch.zeros(1, z.shape[1], dtype=z.dtype))
            found[rows[t]] = coupled.rule.evaluate(coupled.u[rows[t]][None], tuple(near))[0]
    return found


every_kind = pytest.mark.parametrize("kind", [CoupledGRU, CoupledLSTM], ids=lambda kind: kind.__name__)
every_stencil = pytest.mark.parametrize("stencil", [(-1, 1), (-2, -1, 1, 2), (-3, 1), (-1,), (-1, 2)], ids=str)


@every_kind
@every_stencil
@pytest.mark.parametrize("edges", [False, True])
def test_evaluation_position_by_position(kind: Any, stencil: tuple[int, ...], edges: bool) -> None:
    coupled = system(kind, stencil, edges)
    z = torch.randn_like(coupled.zero())
    expected = by_positions(coupled, z)
    close(coupled.evaluate(z), expected)
    close(coupled.linearize(z)[0], expected)
    for rows in coupled.positions():
        close(coupled.evaluate_rows(z, rows), expected[rows])
    if coupled.lattice.two_colours:
        for rows in coupled.colours():
            close(coupled.evaluate_rows(z, rows), expected[rows])


def jacobian(coupled: Coupled, z: Tensor) -> Tensor:
    found = torch.autograd.functional.jacobian(coupled.evaluate, z)
    return found.reshape(z.numel(), z.numel())


@every_kind
@every_stencil
def test_products_are_those_of_the_dense_jacobian(kind: Any, stencil: tuple[int, ...]) -> None:
    coupled = system(kind, stencil)
    z, v = torch.randn_like(coupled.zero()), torch.randn_like(coupled.zero())
    dense, (_, slope) = jacobian(coupled, z), coupled.linearize(z)
    close(slope.jvp(v).flatten(), dense @ v.flatten())
    close(slope.vjp(v).flatten(), dense.t() @ v.flatten())


@every_kind
def test_blocks_are_those_of_the_dense_jacobian(kind: Any) -> None:
    coupled = system(kind)
    z, b = torch.randn_like(coupled.zero()), torch.randn_like(coupled.zero())
    dense, (_, slope) = jacobian(coupled, z), coupled.linearize(z)
    for transposed in (False, True):
        x, report = BlockTridiagonal(rtol=1e-8).solve(Resolvent(slope, transposed), b)
        matrix = torch.eye(z.numel(), dtype=torch.float64) - (dense.t() if transposed else dense)
        close(x.flatten(), torch.linalg.solve(matrix, b.flatten()))
        assert bool(report.converged.all())


def test_a_wide_stencil_has_no_tridiagonal_blocks() -> None:
    coupled = system(stencil=(-2, 1))
    with pytest.raises(NotImplementedError, match=r"\(-2, 1\).*GMRES"):
        coupled.linearize(coupled.zero())[1].blocks()


@every_kind
@every_stencil
@pytest.mark.parametrize("solver", [GMRES(max_iterations=60), BiCGStab(max_iterations=200)], ids=["gmres", "bicgstab"])
def test_adjoint_against_a_dense_solve(kind: Any, stencil: tuple[int, ...], solver: Any) -> None:
    coupled = system(kind, stencil)
    z, g = torch.randn_like(coupled.zero()), torch.randn_like(coupled.zero())
    dense, (_, slope) = jacobian(coupled, z), coupled.linearize(z)
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
    coupled = system(kind, scale=0.4)
    with torch.no_grad():
        z = coupled.zero()
        for _ in range(30):
            step = torch.eye(z.numel(), dtype=torch.float64) - jacobian(coupled, z)
            z = z + torch.linalg.solve(step, (by_positions(coupled, z) - z).flatten()).view_as(z)
        found, report = SOLVERS[name].solve(coupled, rtol=1e-11)
    assert report.all_converged, report
    torch.testing.assert_close(found, z, rtol=1e-7, atol=1e-8)
    assert float(report.residual.max()) <= 1e-11


def test_wide_stencils_are_solved() -> None:
    coupled = system(stencil=(-2, -1, 1, 2), edges=True)
    with torch.no_grad():
        z, report = recommended().solve(coupled, rtol=1e-11)
        assert report.all_converged
        torch.testing.assert_close(z, by_positions(coupled, z), rtol=1e-8, atol=1e-10)


def test_the_quasi_newton_step_solves_a_system_without_products_at_once() -> None:
    """Without recurrent matrices the bands are the whole Jacobian of ĥ, which does not depend on the states."""
    coupled = system()
    for matrix in coupled.rule.operands:
        matrix.zero_()
    with torch.no_grad():
        _, report = Tridiagonal().solve(coupled, rtol=1e-12)
    assert report.iterations.max() == 2  # one step, and the look that finds it done


def test_the_guess_is_the_papers() -> None:
    """h = f(forward GRU before it, backward GRU after it), each GRU having its own last state for ĥ."""
    coupled = system()
    rule: Any = coupled.rule
    with torch.no_grad():
        found = coupled.guess()
        rows = coupled.lattice.rows_of(0)
        u = coupled.u[rows]

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
    lattice = Lattice(torch.tensor([3]), (-1, 1), torch.device("cpu"), False)
    coupled = Coupled(AnyRule(lambda u, p, n: u, (-1, 1)), torch.ones(3, 2), lattice, torch.zeros(1, 2))
    with pytest.raises(NotImplementedError, match="Anderson"):
        Tridiagonal().solve(coupled)
