"""The solvers that layers use by default."""

from __future__ import annotations

from functools import cache

from autapse.solve.chain import Chain, Stage
from autapse.solve.fixed_point import Anderson, FixedPoint
from autapse.solve.krylov import GMRES
from autapse.solve.newton import Newton
from autapse.solve.sweeps import Sweeps
from autapse.solve.tridiagonal import Tridiagonal


@cache
def recommended() -> Chain:
    """The default solver for systems with elementwise couplings on a line.

    Two opposite cases are difficult. Near a fold the plain iteration converges, but Newton's method with a line search
    and early acceleration stall. If some modes of J exceed 1, the plain iteration cycles, but acceleration or full
    Newton steps converge. So each stage after the first solves what the others cannot.

    Returns:
        A chain of `Tridiagonal`, `Newton`, two more variants of `Tridiagonal`, and `Sweeps` with `Newton`.

    >>> layer = autapse.ImplicitGRU(3, 4, solver=autapse.solve.recommended())
    >>> output, h_n = layer(torch.randn(5, 2, 3))
    >>> layer.reports[0].finished_by
    ('tridiagonal', 'tridiagonal')
    """
    newton = Newton(linear=GMRES(max_iterations=40), max_iterations=12)
    return Chain(
        Tridiagonal(),
        newton,
        Stage(Tridiagonal(threshold=float("inf"), max_iterations=100), begin="zero"),
        Stage(Tridiagonal(window=0, max_iterations=300), begin="zero"),
        Stage(Chain(Sweeps(max_iterations=40), newton), begin="zero"),
    )


@cache
def general() -> Chain:
    """The default solver for any other system.

    Returns:
        A chain of `Anderson`, `Newton`, a damped `FixedPoint`, and `Newton` with a line search.

    >>> cosine = autapse.solve.Equations(torch.cos, start=torch.zeros(1, 1))
    >>> z, report = autapse.solve.general().solve(cosine, rtol=1e-6)
    >>> round(float(z), 4)
    0.7391
    """
    return Chain(
        Anderson(max_iterations=60),
        Newton(linear=GMRES(max_iterations=40)),
        Stage(FixedPoint(damping=0.5, max_iterations=300), begin="zero"),
        Newton(linear=GMRES(max_iterations=100), line_search=True, max_iterations=40),
    )
