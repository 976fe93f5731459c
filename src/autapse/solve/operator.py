"""Operator: a batch of linear maps A, the interface between linear solvers and everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from autapse.solve.system import Blocks, Groups, Linear


class Operator(ABC):
    """The A of A·x = b, one per problem. The unknowns are the rows of one tensor, as in a `System`.

    A subclass sets `groups` and writes `mv`. Override `precondition` and `blocks` if they are available.

    >>> class Twice(autapse.solve.Operator):
    ...     groups = autapse.solve.Groups(3)
    ...     def mv(self, v):
    ...         return 2 * v
    >>> autapse.solve.GMRES().solve(Twice(), torch.ones(3, 1))[0].flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """

    groups: Groups
    """Which problem each row of the unknowns belongs to."""

    @abstractmethod
    def mv(self, v: Tensor) -> Tensor:
        """A·v, with the shape of v."""

    def precondition(self) -> Callable[[Tensor], Tensor] | None:
        """A cheap approximate inverse of A, or None."""
        return None

    def blocks(self) -> Blocks:
        """A as blocks on a line, for direct solvers. An operator without blocks raises NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks: use GMRES() or BiCGStab() instead.")


class Matrices(Operator):
    """Dense matrices, one per problem. Row b of the unknowns is problem b.

    Args:
        matrices: [B, n, n].

    >>> operator = autapse.solve.Matrices(2 * torch.eye(3).repeat(4, 1, 1))
    >>> operator.mv(torch.ones(4, 3))[0]
    tensor([2., 2., 2.])
    """

    def __init__(self, matrices: Tensor) -> None:  # [B, n, n]
        self.matrices, self.groups = matrices, Groups(len(matrices))

    def mv(self, v: Tensor) -> Tensor:  # [B, n]
        return torch.bmm(self.matrices, v.unsqueeze(2)).squeeze(2)


class Resolvent(Operator):
    """I − J of a system at a point, or its transpose: the operator of Newton steps and of adjoints.

    Args:
        jacobian: J, the derivative of the system.
        transposed: use I − Jᵀ.
        preconditioned: use the approximate inverse of J's system, if it has one.

    >>> system = autapse.solve.Equations(lambda z, b: b * z, torch.full((2, 1), 0.25))
    >>> _, jacobian = system.linearize(system.zero())
    >>> autapse.solve.Resolvent(jacobian).mv(torch.ones(2, 1)).flatten()
    tensor([0.7500, 0.7500])
    """

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
