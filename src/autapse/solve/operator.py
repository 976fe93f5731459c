"""Operator: a batch of linear maps A, which is all that a linear solver knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from autapse.solve.system import Blocks, Groups, Linear


class Operator(ABC):
    """A of A·x = b, one per problem; the unknowns are the rows of one tensor, as a System's are."""

    groups: Groups

    @abstractmethod
    def mv(self, v: Tensor) -> Tensor:
        """A·v."""

    def precondition(self) -> Callable[[Tensor], Tensor] | None:
        """An approximate inverse of A, where there is one that costs little."""
        return None

    def blocks(self) -> Blocks:
        """A as blocks on a line, for direct solvers."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks: use GMRES() or BiCGStab() instead.")


class Matrices(Operator):
    """Dense matrices, one per problem: row b of the unknown is problem b.

    >>> from autapse import solve
    >>> x, report = solve.GMRES(rtol=1e-6).solve(solve.Matrices(2 * torch.eye(3).repeat(4, 1, 1)), torch.ones(4, 3))
    >>> x[0]
    tensor([0.5000, 0.5000, 0.5000])
    """

    def __init__(self, matrices: Tensor) -> None:  # [B, n, n]
        self.matrices, self.groups = matrices, Groups(len(matrices))

    def mv(self, v: Tensor) -> Tensor:  # [B, n]
        return torch.bmm(self.matrices, v.unsqueeze(2)).squeeze(2)


class Resolvent(Operator):
    """I − J of a system at a point, or its transpose: what Newton's step and the adjoint solve."""

    def __init__(self, jacobian: Linear, transposed: bool = False, preconditioned: bool = True) -> None:
        self.jacobian, self.transposed, self.groups = jacobian, transposed, jacobian.groups
        self.preconditioned = preconditioned

    def mv(self, v: Tensor) -> Tensor:
        return v - (self.jacobian.vjp(v) if self.transposed else self.jacobian.jvp(v))

    def precondition(self) -> Callable[[Tensor], Tensor] | None:
        return self.jacobian.precondition(self.transposed) if self.preconditioned else None

    def blocks(self) -> Blocks:
        blocks = self.jacobian.blocks()
        return blocks.transposed() if self.transposed else blocks
