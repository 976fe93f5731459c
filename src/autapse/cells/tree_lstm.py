"""The LSTM on trees: with the sum of the children, or with matrices for each child."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.cells.tree import Children, TreeCell, padded
from autapse.forms import State


class _WithCells(TreeCell):
    """What both Tree-LSTMs share: h and c, a drive with four gates, and the bias of the forget gate."""

    forget_bias: float
    weight_x: nn.Parameter
    bias_h: nn.Parameter | None

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.bias_h is not None:
            self.bias_h.zero_()
            self.bias_h[3 * self.hidden_size :] = self.forget_bias

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_x, self.bias_h


class TreeLSTM(_WithCells):
    """i, o = σ(W·x + R·Σh_k + b), g = tanh(…), f_k = σ(W_f·x + R_f·h_k + b_f); c = i∘g + Σf_k∘c_k; h = o∘tanh(c)

    The child-sum Tree-LSTM (Tai et al. 2015, equations 2–8). Each child has its own forget gate. The order of the
    children does not matter, and a node may have any number of them.

    Args:
        input_size: features of a node's input.
        hidden_size: units.
        bias: whether the cell has biases.
        forget_bias: initial bias of the forget gates.

    >>> output, roots = autapse.Tree("tree-lstm", 3, 8)(torch.zeros(4, 3), parents=[3, 3, 3, -1])
    >>> roots.shape
    torch.Size([1, 8])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, forget_bias: float = 1.0, **factory: Any
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **factory)
        self.forget_bias = checks.number("forget_bias", forget_bias)
        self.weight_x = self._parameter(4 * hidden_size, input_size)  # i, o, g, f
        self.weight_h = self._parameter(3 * hidden_size, hidden_size)  # i, o, g
        self.weight_f = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._parameter(4 * hidden_size) if bias else None
        self.reset_parameters()

    def node(self, u: Tensor, children: list[State]) -> State:
        *gates, u_f = u.split(self.hidden_size)
        total = sum((h for h, _ in children), torch.zeros_like(u_f))
        i, o, g = torch.cat(gates).add(self.weight_h @ total).split(self.hidden_size)
        c = torch.sigmoid(i) * torch.tanh(g)
        for h_k, c_k in children:
            c = c + torch.sigmoid(u_f + self.weight_f @ h_k) * c_k
        return torch.sigmoid(o) * torch.tanh(c), c

    def compose(self, u: Tensor, children: Children | None) -> State:
        size = self.hidden_size
        if children is None:
            return _opened(u[:, : 3 * size])
        h, c = children.states
        gates = torch.addmm(u[:, : 3 * size], children.total(h), self.weight_h.t())
        forget = torch.sigmoid(torch.addmm(children.of_parent(u[:, 3 * size :]), h, self.weight_f.t()))
        return _opened(gates, children.total(forget * c))


class NaryTreeLSTM(_WithCells):
    """i, o = σ(W·x + R·[h₁; …; h_K] + b), g = tanh(…), f_k = σ(W_f·x + R_k·[h₁; …; h_K] + b_f); c, h as TreeLSTM

    The N-ary Tree-LSTM (Tai et al. 2015, equations 9–14). Each child has its own matrices, and the forget gate of a
    child reads its siblings too. With K = 2 it is the binary Tree-LSTM, for parsed sentences.

    Args:
        input_size: features of a node's input.
        hidden_size: units.
        bias: whether the cell has biases.
        arity: the largest number K of children of a node.
        forget_bias: initial bias of the forget gates.

    >>> output, roots = autapse.Tree("n-ary-lstm", 3, 8, arity=3)(torch.zeros(4, 3), parents=[3, 3, 3, -1])
    >>> roots.shape
    torch.Size([1, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        arity: int = 2,
        forget_bias: float = 1.0,
        **factory: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, arity, **factory)
        self.most = arity
        self.forget_bias = checks.number("forget_bias", forget_bias)
        self.weight_x = self._parameter(4 * hidden_size, input_size)  # i, o, g, f
        self.weight_h = self._parameter((3 + arity) * hidden_size, arity * hidden_size)  # i, o, g, f₁ … f_K
        self.bias_h = self._parameter(4 * hidden_size) if bias else None
        self.reset_parameters()

    def node(self, u: Tensor, children: list[State]) -> State:
        *gates, u_f = u.split(self.hidden_size)
        i, o, g, *forget = (self.weight_h @ padded(children, self.most, u_f)).split(self.hidden_size)
        c = torch.sigmoid(gates[0] + i) * torch.tanh(gates[2] + g)
        for f_k, (_, c_k) in zip(forget, children, strict=False):  # a node may have fewer children
            c = c + torch.sigmoid(u_f + f_k) * c_k
        return torch.sigmoid(gates[1] + o) * torch.tanh(c), c

    def compose(self, u: Tensor, children: Children | None) -> State:
        size = self.hidden_size
        if children is None:
            return _opened(u[:, : 3 * size])
        below, cells = (children.beside(state, self.most) for state in children.states)
        gates = F.linear(below, self.weight_h)
        forget = torch.sigmoid(gates[:, 3 * size :].unflatten(1, (-1, size)) + u[:, None, 3 * size :])
        kept = (forget * cells.unflatten(1, (-1, size))).sum(1)
        return _opened(u[:, : 3 * size] + gates[:, : 3 * size], kept)


def _opened(gates: Tensor, kept: Tensor | None = None) -> State:  # [n, 3·S], [n, S]
    """h and c from the gates i, o, g before their nonlinearities and from what the children keep."""
    i, o, g = gates.chunk(3, dim=1)
    new = torch.sigmoid(i) * torch.tanh(g)
    c = new if kept is None else new + kept
    return torch.sigmoid(o) * torch.tanh(c), c
