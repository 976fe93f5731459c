"""Settings that break their rule are refused by name, with the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from lines import chain

from autapse.solve import (
    GMRES,
    Anderson,
    BiCGStab,
    BlockTridiagonal,
    Equations,
    FixedPoint,
    Groups,
    Newton,
    Paper,
    Stage,
    Sweeps,
    Tridiagonal,
)
from tolerance import close


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Newton(rtol=-1.0), "rtol must be a finite number at least 0; got -1.0."),
        (lambda: Newton(atol=float("inf")), "atol must be a finite number at least 0; got inf."),
        (lambda: Newton(max_iterations=-1), "max_iterations must be an integer of at least 0; got -1."),
        (lambda: Newton(max_iterations=2.0), "max_iterations must be an integer of at least 0; got 2.0."),
        (lambda: Newton(linear=Newton()), "linear must be a linear solver; got Newton("),
        (lambda: Newton(linear=GMRES), "As in Newton(linear=GMRES())."),
        (lambda: Newton(line_search=1), "line_search must be True or False; got 1."),
        (lambda: Newton(precondition="yes"), "precondition must be True or False; got 'yes'."),
        (
            lambda: Sweeps(order="red-blck"),
            "order must be one of symmetric, red-black; got 'red-blck'. Did you mean 'red",
        ),
        (lambda: FixedPoint(damping=0.0), "damping must be a finite number above 0 and at most 1; got 0.0."),
        (lambda: Anderson(window=-1), "window must be an integer of at least 0; got -1."),
        (lambda: Anderson(guard=0.0), "guard must be a finite number above 0; got 0.0."),
        (lambda: Tridiagonal(threshold=-1.0), "threshold must be a finite number above 0; got -1.0."),
        (lambda: Paper(inner_iterations=1.5), "inner_iterations must be an integer of at least 0; got 1.5."),
        (lambda: Paper(inner_rtol=float("nan")), "inner_rtol must be a finite number at least 0; got nan."),
        (lambda: Paper(seed="0"), "seed must be an integer; got '0'."),
        (lambda: GMRES(rtol=-1.0), "rtol must be a finite number at least 0; got -1.0."),
        (lambda: BiCGStab(shared=None), "shared must be True or False; got None."),
        (lambda: BlockTridiagonal(atol="0"), "atol must be a finite number at least 0; got '0'."),
        (lambda: Stage(Newton(), begin="last"), "begin must be one of best, zero; got 'last'."),
        (lambda: Equations(torch.cos), "start must be given if there are no operands; got None."),
        (lambda: Equations(torch.cos, torch.ones(3)), "start must have a row per problem, [B, ...]; got (3,)."),
        (lambda: Newton().solve(chain(), rtol=-1.0), "rtol must be a finite number at least 0; got -1.0."),
    ],
)
def test_settings(build: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        build()


def test_unknown_settings_and_positions() -> None:
    with pytest.raises(TypeError, match="tolerance"):
        Newton(tolerance=1e-3)
    with pytest.raises(TypeError, match="positional"):
        Newton(1e-3)


def test_a_solvers_own_tolerance_goes_before_the_callers() -> None:
    loose, tight = (Newton(rtol=rtol).solve(chain(), rtol=1e-5)[1].residual.max() for rtol in (1e-2, 1e-12))
    given = Newton().solve(chain(), rtol=1e-12)[1].residual.max()
    assert float(tight) <= 1e-12
    assert float(given) <= 1e-12
    assert float(loose) > 1e-12


@pytest.mark.parametrize("owner", [None, torch.tensor([2, 0, 2, 0])])
def test_groups(owner: torch.Tensor | None) -> None:
    groups = Groups(4 if owner is None else 3, owner)
    a, b = torch.randn(4, 2, 3, dtype=torch.float64), torch.randn(4, 2, 3, dtype=torch.float64)
    members = [[0], [1], [2], [3]] if owner is None else [[1, 3], [], [0, 2]]
    close(groups.dot(a, b), torch.stack([(a[rows] * b[rows]).sum() for rows in members]))
    close(groups.norm(a), torch.stack([a[rows].norm() for rows in members]))
    close(groups.sum(a), torch.stack([a[rows].sum(0) for rows in members]))
    values = torch.arange(groups.count, dtype=torch.float64)
    expected = [p for n in range(4) for p, rows in enumerate(members) if n in rows]
    spread = groups.spread(values, a.float())
    assert (spread.shape, spread.dtype) == ((4, 1, 1), torch.float32)
    assert spread.flatten().tolist() == expected
    assert groups.spread(values > 1, a).dtype == torch.bool
    close(groups.merged().norm(a), a.norm().unsqueeze(0))
