"""TimeDelay: a network that reads a window of the last inputs and no state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import Cell, uniform_, zeros_
from autapse.cells.maps import Maps
from autapse.forms import ACTIVATIONS, State
from autapse.sequences.lengths import running


class TimeDelay(Cell):
    """h_t = MLP(x_t, x_{t−1}, …, x_{t−d+1}), whose first map is act(Σ_k W_k·x_{t−k} + b)

    The time-delay network of the textbook's section 10.7.2 (Lang and Hinton 1988), a one-dimensional convolution over
    the past. It has no recurrence: an input is forgotten after d steps, and all steps are computed at once. Inputs
    before the first step count as zero. The MLP's further maps have hidden_size units each, and start near the identity
    as those of `Deep`. W starts uniform in ±1/√(d·D) for D features; b = 0.

    What a sequence carries from call to call is h, which is not read, and the sums Σ_k W_k·x of the last d − 1 inputs
    for each of the next d − 1 steps. So pieces of a sequence and streams are exact.

    Args:
        window: d, the number of inputs that a step reads, its own included.
        depth: number of maps of the MLP.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
    """

    stencil = ()
    depends_on_position = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        window: int = 8,
        depth: int = 1,
        nonlinearity: str = "tanh",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.window = checks.integer("window", window, minimum=2, remedy="For a window of 1, use feedforward.")
        self.depth = checks.integer("depth", depth, minimum=1)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.weight_ih = self._parameter(window * hidden_size, input_size)  # W_0, then W_1, …
        self.bias_h = self._bias(hidden_size)
        self._reset_first()
        self.maps = Maps([hidden_size] * depth, self.bias, self.nonlinearity, False, **self._factory)

    def _reset_first(self) -> None:
        uniform_(self.window * self.input_size, self.weight_ih)
        zeros_(self.bias_h)

    def reset_parameters(self) -> None:
        self._reset_first()
        self.maps.reset_parameters()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        """W_0 … W_{d−1} below one another. The bias belongs to the first one."""
        if self.bias_h is None:
            return self.weight_ih, None
        return self.weight_ih, torch.cat([self.bias_h, self.bias_h.new_zeros((self.window - 1) * self.hidden_size)])

    def step(self, u: Tensor, state: State, weights: Any, t: int) -> State:
        return (self.maps(ACTIVATIONS[self.nonlinearity].apply(u)),)

    # The window -------------------------------------------------------------------------------------------------

    @property
    def carried_sizes(self) -> tuple[int, ...]:
        return self.hidden_size, (self.window - 1) * self.hidden_size

    def advance(self, u: Tensor, carried: State, weights: Any, t: int, check: bool = True) -> State:
        _, ahead = carried
        own, later = u.tensor_split([self.hidden_size], dim=1)
        due, rest = ahead.tensor_split([self.hidden_size], dim=1)
        new = self.step(own + due, (), weights, t)
        return *self.checked(new, len(u)), later + torch.cat([rest, torch.zeros_like(due)], dim=1)

    def windowed(self, drive: Tensor, carried: State, sizes: Sequence[int]) -> tuple[Tensor, State]:
        ahead = carried[1].unflatten(1, (self.window - 1, self.hidden_size))
        window = _Window(drive.unflatten(1, (self.window, self.hidden_size)), ahead, sizes)
        return window.all(), (window.after().flatten(1),)


class _Window:
    """What the inputs of a batch contribute to the steps of their windows."""

    def __init__(self, parts: Tensor, ahead: Tensor, sizes: Sequence[int]) -> None:
        self.parts = parts  # [N, d, H], of each input to its own step and to the next ones
        self.ahead = ahead  # [B, d - 1, H], of the inputs before the first step
        self.sizes = torch.tensor(sizes, dtype=torch.long)
        self.first = self.sizes.cumsum(0) - self.sizes  # row of each step
        self.lengths = running(self.sizes, len(ahead)).sum(1)

    def all(self) -> Tensor:  # [N, H]
        """The sum at every step."""
        steps = len(self.sizes)
        if steps and self.sizes[0] == self.sizes[-1] == len(self.ahead):
            return self._even(steps)
        step = torch.arange(steps).repeat_interleave(self.sizes)
        return self._at(torch.arange(len(step)) - self.first[step], step)

    def after(self) -> Tensor:  # [B, d - 1, H]
        """The sums of the steps after each sequence's own end."""
        count, more = self.ahead.shape[:2]
        sequence = torch.arange(count).repeat_interleave(more)
        step = (self.lengths[:, None] + torch.arange(more)).flatten()
        return self._at(sequence, step).view_as(self.ahead)

    def _even(self, steps: int) -> Tensor:
        """Whole steps, for sequences of one length: many times faster."""
        parts = self.parts.unflatten(0, (steps, -1)).unbind(2)  # d of [T, B, H]
        past = self.ahead.transpose(0, 1)[:steps]
        total = parts[0] + torch.cat([past, parts[0].new_zeros(steps - len(past), *past.shape[1:])])
        for delay, part in enumerate(parts[1:steps], 1):
            total = total + torch.cat([part.new_zeros(delay, *part.shape[1:]), part[: steps - delay]])
        return total.flatten(0, 1)

    def _at(self, sequence: Tensor, step: Tensor) -> Tensor:  # [M], [M] -> [M, H]
        """The sum at a step of a sequence, for each of M pairs."""
        more = self.ahead.shape[1]
        table = torch.cat([self.ahead.flatten(0, 1), self.ahead.new_zeros(1, self.ahead.shape[2])])
        total = table[torch.where(step < more, sequence * more + step, len(table) - 1).to(table.device)]
        nothing = self.parts.new_zeros(1, self.parts.shape[2])
        for delay, part in enumerate(self.parts.unbind(1)):
            source = step - delay
            known = (source >= 0) & (source < self.lengths[sequence])
            last = max(len(self.first) - 1, 0)
            row = self.first[source.clamp(0, last)] + sequence if len(self.first) else sequence
            total = total + torch.cat([part, nothing])[torch.where(known, row, len(part)).to(part.device)]
        return total
