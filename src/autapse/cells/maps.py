"""Maps: the MLPs of a deep cell, with or without skip connections."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse.cells.base import zeros_
from autapse.forms import ACTIVATIONS

NOISE = 1e-3  # standard deviation around the identity or around zero, as RIN's


class Map(nn.Module):
    """y = act(V·g + b), or y = S·g + act(V·g + b) with a skip connection

    S is the identity if y has the size of g, and otherwise a learned matrix.

    At the start the map keeps the size of what it reads. With a skip connection V is normal with standard deviation
    10⁻³, and S, where it is learned, normal with variance 1/n for n inputs. Without one V is the identity plus normal
    noise of 10⁻³ if it is square, as in RIN-DT, and otherwise normal with variance 1/n, 2/n for ReLU. b = 0.

    Args:
        inputs: size of g.
        outputs: size of y.
        bias: whether there is b.
        activation: act, one of "tanh", "relu", "sigmoid" and "identity".
        skip: whether there is a skip connection.
        device, dtype: of the parameters.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool, activation: str, skip: bool, **factory: Any) -> None:
        super().__init__()
        self.activation, self.skip = activation, skip
        self.weight = nn.Parameter(torch.empty(outputs, inputs, **factory))
        self.bias = nn.Parameter(torch.empty(outputs, **factory)) if bias else None
        around = skip and inputs != outputs
        self.shortcut = nn.Parameter(torch.empty(outputs, inputs, **factory)) if around else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        outputs, inputs = self.weight.shape
        zeros_(self.bias)
        if self.skip or outputs == inputs:
            self.weight.normal_(std=NOISE)
            if not self.skip:
                self.weight.diagonal().add_(1)
        else:
            self.weight.normal_(std=math.sqrt((2 if self.activation == "relu" else 1) / inputs))
        if self.shortcut is not None:
            self.shortcut.normal_(std=1 / math.sqrt(inputs))

    def forward(self, g: Tensor) -> Tensor:  # [..., inputs] -> [..., outputs]
        y = ACTIVATIONS[self.activation].apply(F.linear(g, self.weight, self.bias))
        if not self.skip:
            return y
        return y + (g if self.shortcut is None else F.linear(g, self.shortcut))

    def extra_repr(self) -> str:
        outputs, inputs = self.weight.shape
        return f"{inputs}, {outputs}, {self.activation}{', skip=True' if self.skip else ''}"


class Maps(nn.ModuleList):
    """One map after the other; none is the identity. `sizes` are those before, between and after them."""

    def __init__(self, sizes: Sequence[int], *settings: Any, **factory: Any) -> None:
        super().__init__(Map(*pair, *settings, **factory) for pair in itertools.pairwise(sizes))

    def __iter__(self) -> Iterator[Map]:
        return super().__iter__()  # type: ignore[return-value]

    def forward(self, g: Tensor) -> Tensor:
        for one in self:
            g = one(g)
        return g

    def reset_parameters(self) -> None:
        for one in self:
            one.reset_parameters()
