"""BlockTridiagonal: a direct solver for linear systems on a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from autapse.solve.krylov import LinearReport, LinearSolver, linear_report
from autapse.solve.operator import Operator
from autapse.solve.system import Blocks

ELIMINATION = 1.07  # evaluations per unknown of a position: forming and eliminating blocks of k × k, as measured


@dataclass(frozen=True, kw_only=True)
class BlockTridiagonal(LinearSolver):
    """Block elimination along the line: exact but for rounding, one iteration whatever `max_iterations` says.

    It takes the operator's blocks in place of products, and costs about as much as k of them for blocks of k × k, which
    is what the report has as evaluations, with the one product that tells the residual: for small blocks, and for what
    Krylov methods cannot do. There is no pivoting between positions; where a pivot block is singular, x is zero and the
    problem has not converged.
    """

    iterative: ClassVar[bool] = False

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        groups = operator.groups
        size = groups.norm(b).double()
        goal = self._goal(size, rtol)
        wanted = torch.ones_like(size, dtype=torch.bool) if active is None else active
        x = _eliminate(operator.blocks(), b)
        broken = ~torch.isfinite(x).flatten(1).all(1)
        solved = wanted & (groups.sum(broken.double()) == 0)
        x = torch.where(groups.spread(solved, x), x, 0.0)
        found = torch.where(solved, groups.norm(b - operator.mv(x)).double(), torch.inf)
        cost = wanted.double() * (ELIMINATION * b.shape[1] + 1.0)
        return x, linear_report(found, goal, size, wanted, wanted.long(), cost)


def _eliminate(blocks: Blocks, b: Tensor) -> Tensor:  # [N, k] -> [N, k]
    """The solution; a problem with a singular pivot has numbers that are not finite."""
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
        solved, _ = torch.linalg.solve_ex(pivot, sides)  # divides by the zero of a singular pivot, and does not raise
        upward[here], right[here] = solved[..., :-1], solved[..., -1]
    for t in range(len(blocks.sizes) - 2, -1, -1):
        size = blocks.sizes[t + 1]
        here = slice(blocks.first[t], blocks.first[t] + size)
        after = slice(blocks.first[t + 1], blocks.first[t + 1] + size)
        right[here] += (upward[here] @ right[after].unsqueeze(2)).squeeze(2)
    return right
