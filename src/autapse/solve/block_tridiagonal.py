"""BlockTridiagonal: a direct solver for linear systems on a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from autapse.solve.linear import LinearReport, LinearSolver
from autapse.solve.operator import Operator
from autapse.solve.system import Blocks

ELIMINATION = 1.07  # measured cost per unknown of a position, in evaluations: forming and eliminating blocks of k × k


@dataclass(frozen=True, kw_only=True)
class BlockTridiagonal(LinearSolver):
    """Block elimination along a line: exact up to rounding, in one iteration, whatever `max_iterations` is.

    The solver needs the blocks of the operator instead of products. It costs about as much as k products for blocks of
    k × k, plus one product for the residual; the report counts this as evaluations. Use it for small blocks, and for
    problems that Krylov methods cannot solve. There is no pivoting between positions: if a pivot block is singular, x
    is zero and the problem has not converged.

    >>> layer = autapse.ImplicitGRU(3, 4, solver=autapse.solve.Newton(linear=autapse.solve.BlockTridiagonal()))
    >>> output, h_n = layer(torch.randn(5, 2, 3))
    >>> layer.reports[0].all_converged
    True
    """

    iterative: ClassVar[bool] = False

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        request, groups = self._request(operator, b, rtol, active), operator.groups
        wanted = request.wanted
        x = _eliminate(operator.blocks(), b)
        broken = ~torch.isfinite(x).flatten(1).all(1)
        solved = wanted & (groups.sum(broken.double()) == 0)
        x = torch.where(groups.spread(solved, x), x, 0.0)
        residual = torch.where(solved, groups.norm(b - operator.mv(x)).double(), torch.inf)
        cost = wanted.double() * (ELIMINATION * b.shape[1] + 1.0)
        return x, request.report(residual, wanted.long(), cost)


def _eliminate(blocks: Blocks, b: Tensor) -> Tensor:  # [N, k] -> [N, k]
    """The solution. That of a problem with a singular pivot is not finite."""
    k = b.shape[1]
    identity = torch.eye(k, dtype=b.dtype, device=b.device)
    upward, right = torch.zeros_like(blocks.upper), b.clone()  # y_t = right_t + upward_t·y_{t+1}
    for t, size in enumerate(blocks.sizes):
        here = slice(blocks.first[t], blocks.first[t] + size)
        sides = torch.cat([blocks.upper[here], right[here].unsqueeze(2)], 2)
        pivot = identity.expand(size, k, k)
        if t > 0:
            before, lower = slice(blocks.first[t - 1], blocks.first[t - 1] + size), blocks.lower[here]
            pivot = identity - lower @ upward[before]
            sides[..., -1:] += lower @ right[before].unsqueeze(2)
        solved, _ = torch.linalg.solve_ex(pivot, sides)  # a singular pivot gives inf or NaN, and no error
        upward[here], right[here] = solved[..., :-1], solved[..., -1]
    for t in range(len(blocks.sizes) - 2, -1, -1):
        size = blocks.sizes[t + 1]
        here = slice(blocks.first[t], blocks.first[t] + size)
        after = slice(blocks.first[t + 1], blocks.first[t + 1] + size)
        right[here] += (upward[here] @ right[after].unsqueeze(2)).squeeze(2)
    return right
