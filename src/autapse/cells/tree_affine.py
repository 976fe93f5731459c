"""Composition by an affine map, and by a bilinear form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.cells.base import uniform_
from autapse.cells.tree import Children, TreeCell, padded
from autapse.forms import State

SPREAD = 0.1  # of the initial matrices around half the identity, relative to 1/√n


class TreeAffine(TreeCell):
    """h = tanh(W·x + U·[h₁; …; h_K] + b)

    The recursive network of the textbook's section 10.6 (Pollack 1990; Socher et al. 2011). h₁ … h_K are the states of
    the children, and zero for children that a node does not have. U starts near [½I … ½I], so that a state begins as
    the mean of its children; W is uniform in ±1/√n, b = 0.

    Args:
        input_size: features of a node's input.
        hidden_size: units n.
        bias: whether the cell has biases.
        arity: the largest number K of children of a node.

    >>> output, roots = autapse.Tree("affine", 3, 8)(torch.zeros(3, 3), parents=[2, 2, -1])
    >>> roots.shape
    torch.Size([1, 8])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, arity: int = 2, **factory: Any) -> None:
        super().__init__(input_size, hidden_size, bias, arity, **factory)
        self.most = arity
        self.weight_x = self._parameter(hidden_size, input_size)
        self.weight_h = self._parameter(hidden_size, arity * hidden_size)
        self.bias_h = self._parameter(hidden_size) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_x)
        bound = SPREAD / self.hidden_size**0.5
        self.weight_h.uniform_(-bound, bound)
        for block in self.weight_h.split(self.hidden_size, dim=1):
            block.diagonal().add_(1 / self.most)
        if self.bias_h is not None:
            self.bias_h.zero_()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_x, self.bias_h

    def node(self, u: Tensor, children: list[State]) -> State:
        below = padded(children, self.most, u)
        return (torch.tanh(u + self.weight_h @ below),)

    def compose(self, u: Tensor, children: Children | None) -> State:
        if children is None:
            return (torch.tanh(u),)
        below = children.beside(children.states[0], self.most)
        return (torch.tanh(u + F.linear(below, self.weight_h)),)


class TreeTensor(TreeAffine):
    """h_i = tanh((W·x + U·c + b)_i + cᵀ·V_i·c), c = [h₁; …; h_K]

    The recursive neural tensor network (Socher et al. 2013). Each unit has a bilinear form of the children, so that the
    meaning of one child can change that of another. V starts uniform in ±1/(4n), the rest as in `TreeAffine`.

    Args:
        input_size: features of a node's input.
        hidden_size: units n; V has n·(K·n)² entries.
        bias: whether the cell has biases.
        arity: the largest number K of children of a node.

    >>> output, roots = autapse.Tree("tensor", 3, 8)(torch.zeros(3, 3), parents=[2, 2, -1])
    >>> roots.shape
    torch.Size([1, 8])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, arity: int = 2, **factory: Any) -> None:
        super().__init__(input_size, hidden_size, bias, arity, **factory)
        self.weight_hh = self._parameter(hidden_size, arity * hidden_size, arity * hidden_size)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "weight_hh"):  # the base class resets its own parameters first
            self.weight_hh.uniform_(-0.25 / self.hidden_size, 0.25 / self.hidden_size)

    def node(self, u: Tensor, children: list[State]) -> State:
        below = padded(children, self.most, u)
        forms = torch.stack([below @ V @ below for V in self.weight_hh])
        return (torch.tanh(u + self.weight_h @ below + forms),)

    def compose(self, u: Tensor, children: Children | None) -> State:
        if children is None:
            return (torch.tanh(u),)
        c = children.beside(children.states[0], self.most)  # [n, K·H]
        once = (c @ self.weight_hh.movedim(0, 1).flatten(1)).view(len(c), self.hidden_size, -1)  # cᵀ·V_i
        forms = torch.bmm(once, c[:, :, None])[..., 0]
        return (torch.tanh(u + F.linear(c, self.weight_h) + forms),)
