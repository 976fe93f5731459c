"""TreeCell: the state of a node as a function of its input and of the states of its children."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.cells.base import uniform_
from autapse.forms import State

MOST_CHILDREN = 16  # of cells with matrices for each child, whose size grows with this number


@dataclass(frozen=True, slots=True)
class Children:
    """The children of n nodes, in the order of their parents."""

    states: State  # [m, S] each
    parent: Tensor  # [m] the number of the parent of each child, ascending
    position: Tensor  # [m] which child of its parent it is, from 0
    count: int  # n
    each: int  # children of every node, if they all have the same number; else 0

    def total(self, values: Tensor) -> Tensor:  # [m, S] -> [n, S]
        """The sum over the children of each node."""
        if self.each:
            return values.view(self.count, self.each, -1).sum(1)
        return values.new_zeros(self.count, values.shape[1]).index_add(0, self.parent, values)

    def beside(self, values: Tensor, arity: int) -> Tensor:  # [m, S] -> [n, arity·S]
        """The children of each node side by side, with zeros for those that it does not have."""
        if self.each == arity:
            return values.view(self.count, -1)
        rows = values.new_zeros(self.count * arity, values.shape[1])
        return rows.index_copy(0, self.parent * arity + self.position, values).view(self.count, -1)

    def of_parent(self, values: Tensor) -> Tensor:  # [n, S] -> [m, S]
        """The value of each child's parent."""
        return values.index_select(0, self.parent)


class TreeCell(nn.Module):
    """A local rule on a tree: the state of a node as a function of its input and of the states of its children.

    A subclass makes its parameters in `__init__` and writes `node`, which reads like the equation, and `compose`, which
    is the same for many nodes at once. The state is a tuple of tensors; its first one is the output.

    Args:
        input_size: features of a node's input.
        hidden_size: units.
        bias: whether the cell has biases.
        arity: the largest number of children of a node, for cells with matrices for each child; None: any number.
        device: where the parameters are.
        dtype: their type.

    >>> class Sum(autapse.cells.TreeCell):
    ...     def compose(self, u, children):
    ...         return (u,) if children is None else (u + children.total(children.states[0]),)
    >>> output, roots = autapse.Tree(Sum, 1, 1)(torch.tensor([[1.0], [2.0], [4.0]]), parents=[2, 2, -1])
    >>> roots.tolist()
    [[7.0]]
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        arity: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = checks.integer("input_size", input_size, minimum=1)
        self.hidden_size = checks.integer("hidden_size", hidden_size, minimum=1)
        self.bias = checks.boolean("bias", bias)
        self.arity = None if arity is None else checks.integer("arity", arity, minimum=1, maximum=MOST_CHILDREN)
        self._factory: dict[str, Any] = {"device": device, "dtype": dtype}

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.arity is None else f", arity={self.arity}")

    def _parameter(self, *shape: int) -> nn.Parameter:
        return nn.Parameter(torch.empty(shape, **self._factory))

    def affine(self) -> tuple[Tensor, Tensor | None] | None:
        """W and b if the drive is W·x + b, else None."""
        return None

    def drive(self, x: Tensor) -> Tensor:  # [N, D] -> [N, G]
        """The part that depends only on the input, for all nodes at once: W·x + b, or the input itself."""
        affine = self.affine()
        return x if affine is None else F.linear(x, *affine)

    def node(self, u: Tensor, children: list[State]) -> State:  # [G], [S] each
        """The state of one node; the reference that `compose` is compared with."""
        raise NotImplementedError(f"{type(self).__name__} has no node(u, children), which the reference needs.")

    def compose(self, u: Tensor, children: Children | None) -> State:  # [n, G] -> [n, S] each
        """The states of n nodes. `children` is None if the nodes are leaves."""
        raise NotImplementedError(f"{type(self).__name__} must define compose(u, children).")

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """One size per state tensor."""
        return (self.hidden_size,)

    def reset_parameters(self) -> None:
        """Draw the initial parameters again: by default uniform in ±1/√hidden_size."""
        uniform_(self.hidden_size, *self.parameters())


def padded(children: list[State], arity: int, like: Tensor) -> Tensor:  # [arity·S]
    """The first states of a node's children side by side, with zeros for those that it does not have."""
    return torch.cat([*(state[0] for state in children), *[torch.zeros_like(like)] * (arity - len(children))])
