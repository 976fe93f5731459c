"""Block elimination against dense factorisations and SciPy's banded one."""

from __future__ import annotations

import pytest
import scipy.linalg
import torch
from lines import chain

from autapse.solve import Blocks, BlockTridiagonal, Groups, Matrices, Newton, Operator, Resolvent
from tolerance import close


class FromBlocks(Operator):
    def __init__(self, blocks: Blocks, groups: Groups) -> None:
        self._blocks, self.groups = blocks, groups

    def blocks(self) -> Blocks:
        return self._blocks

    def mv(self, v: torch.Tensor) -> torch.Tensor:
        result = v.clone()
        lower, upper, first, sizes = self._blocks
        for t in range(len(sizes)):
            for j in range(sizes[t]):
                if t > 0:
                    result[first[t] + j] -= lower[first[t] + j] @ v[first[t - 1] + j]
                if t + 1 < len(sizes) and j < sizes[t + 1]:
                    result[first[t] + j] -= upper[first[t] + j] @ v[first[t + 1] + j]
        return result


def line(lower: list[float], upper: list[float]) -> FromBlocks:
    """One problem of one unknown per position."""
    n = len(lower)
    parts = (torch.tensor(values, dtype=torch.float64).view(n, 1, 1) for values in (lower, upper))
    return FromBlocks(Blocks(*parts, range(n), [1] * n), Groups(1, torch.zeros(n, dtype=torch.long)))


@pytest.mark.parametrize("lengths", [(3, 7, 1, 5), (4,), (1, 1), (6, 6, 6), (2, 0, 3), ()])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_a_dense_factorisation(lengths: tuple[int, ...], transposed: bool, dtype: torch.dtype) -> None:
    system = chain(lengths, dtype=dtype)
    z = torch.randn_like(system.x)
    _, slope = system.linearize(z)
    A = torch.eye(z.numel(), dtype=dtype) - slope.dense()
    b = torch.randn_like(z)
    x, report = BlockTridiagonal(rtol=1e-5).solve(Resolvent(slope, transposed), b)
    close(x.flatten(), torch.linalg.solve(A.T if transposed else A, b.flatten()))
    assert bool(report.converged.all())
    assert report.iterations.tolist() == [1] * len(lengths)


def test_transposed_blocks_are_those_of_the_transposed_matrix() -> None:
    system = chain()
    _, slope = system.linearize(torch.randn_like(system.x))
    operator = FromBlocks(slope.blocks().transposed(), slope.groups)
    v = torch.randn_like(system.x)
    A = torch.eye(v.numel(), dtype=v.dtype) - slope.dense()
    close(operator.mv(v).flatten(), A.T @ v.flatten())


def test_blocks_of_one_are_scipys_bands() -> None:
    lower, upper = torch.rand(9, dtype=torch.float64), torch.rand(9, dtype=torch.float64)
    lower[0] = upper[-1] = 0
    b = torch.randn(9, 1, dtype=torch.float64)
    x, _ = BlockTridiagonal().solve(line(lower.tolist(), upper.tolist()), b)
    bands = torch.stack([-upper.roll(1), torch.ones(9, dtype=torch.float64), -lower.roll(-1)])
    close(x[:, 0], torch.from_numpy(scipy.linalg.solve_banded((1, 1), bands.numpy(), b[:, 0].numpy())))


def test_a_singular_pivot_is_told_and_disturbs_no_other() -> None:
    """1 − L₁·U₀ = 0 in the second problem only."""
    lower = torch.tensor([0.0, 0.0, 0.5, 2.0], dtype=torch.float64).view(4, 1, 1)
    upper = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64).view(4, 1, 1)
    operator = FromBlocks(Blocks(lower, upper, [0, 2], [2, 2]), Groups(2, torch.tensor([0, 1, 0, 1])))
    x, report = BlockTridiagonal().solve(operator, torch.ones(4, 1, dtype=torch.float64))
    assert report.converged.tolist() == [True, False]
    assert float(report.residual[1]) == float("inf")
    close(x[:, 0], torch.tensor([2.0, 0.0, 2.0, 0.0], dtype=torch.float64))


def test_numbers_that_are_none_stay_with_their_problem() -> None:
    system = chain()
    _, slope = system.linearize(torch.randn_like(system.x))
    b = torch.randn_like(system.x)
    expected, _ = BlockTridiagonal().solve(Resolvent(slope), b)
    mine = system.groups.owner == 1
    b[mine] = torch.nan
    x, report = BlockTridiagonal().solve(Resolvent(slope), b)
    close(x[~mine], expected[~mine])
    assert x[mine].abs().max() == 0
    assert report.converged.tolist() == [True, False, True, True]


def test_problems_that_are_not_asked_for_stay_zero() -> None:
    system = chain()
    _, slope = system.linearize(torch.randn_like(system.x))
    active = torch.tensor([True, False, True, True])
    x, report = BlockTridiagonal().solve(Resolvent(slope), torch.randn_like(system.x), active=active)
    assert x[system.groups.owner == 1].abs().max() == 0
    assert x[system.groups.owner == 0].abs().min() > 0
    assert report.iterations.tolist() == [1, 0, 1, 1]
    assert float(report.evaluations[1]) == 0


def test_the_price_grows_with_the_block() -> None:
    for k in (2, 5):
        system = chain(k=k)
        _, slope = system.linearize(system.zero())
        _, report = BlockTridiagonal().solve(Resolvent(slope), system.x)
        close(report.evaluations, torch.full((4,), 1.07 * k + 1, dtype=torch.float64))


def test_newton_with_it_squares_the_error() -> None:
    system = chain(strength=0.39, through=0.1)
    z, report = Newton(linear=BlockTridiagonal(), rtol=1e-13).solve(system)
    assert report.all_converged
    assert int(report.iterations.max()) <= 6
    close(system.evaluate(z), z)
    steps = report.iterations.double()
    close(report.evaluations, 1 + steps * (1.07 * 3 + 2))


def test_an_operator_without_blocks_says_what_to_use() -> None:
    with pytest.raises(NotImplementedError, match=r"Matrices has no blocks: use GMRES\(\) or BiCGStab\(\) instead"):
        BlockTridiagonal().solve(Matrices(torch.eye(2).unsqueeze(0)), torch.ones(1, 2))
