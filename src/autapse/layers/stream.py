"""Stream: a layer that reads one step at a time, for devices and live signals."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from autapse import checks
from autapse.sequences.batch import SequenceBatch, check_input
from autapse.unfold.stream import make_stepper

if TYPE_CHECKING:
    from autapse.layers.recurrent import Recurrent


class Stream:
    """y_t = stream(x_t): the layer's output at one step after the other, without gradients and without dropout.

    The weights are prepared once, and the states are kept in the stream. `stream.state` is h_n after the steps so far,
    and `stream.position` is their number. `stream.reset(h0)` starts again with these states, or with zeros, and with
    the present weights of the layer. On a CPU a step runs in the native library; `stream(x_t, out=y)` writes into a
    given tensor, so that no memory is allocated.

    Args:
        layer: a layer with one direction that does not look ahead.
        batch_size: number of sequences.

    >>> stream = autapse.GRU(3, 4).stream()
    >>> stream(torch.zeros(3)).shape, stream(torch.zeros(3)).shape, stream.position
    (torch.Size([4]), torch.Size([4]), 2)
    """

    def __init__(self, layer: Recurrent, batch_size: int = 1) -> None:
        if layer.bidirectional:
            remedy = "The reverse direction needs the end of the sequence first."
            checks.fail("layer", "be unidirectional to stream", "bidirectional=True", remedy)
        self.batch_size = checks.integer("batch_size", batch_size, minimum=1)
        self._layer = layer
        self.reset()

    @torch.no_grad()
    def reset(self, h0: Any = None, position: int = 0) -> None:
        """Return to the start, or to another position, with zero states or `h0` in the format of the layer's h0.

        Args:
            h0: the states; None for zeros.
            position: the position of the next step, for networks that depend on it.
        """
        position = checks.integer("position", position, minimum=0)
        self._layer._check_parameters()
        # A copy: after a training step in place, a stream must not have some old weights and some new ones.
        cells = {key: copy.deepcopy(cell).eval() for key, cell in self._layer.cells.items()}
        self._keys = list(cells)
        weight = self._layer._first_weight()
        like = torch.empty(0) if weight is None else weight
        self._batch = SequenceBatch(like.new_zeros(0, self._layer.input_size), [], self.batch_size)
        states = self._layer._initial(h0, self._batch)
        self._steppers = [make_stepper(cell, states[key], self._batch.rows) for key, cell in cells.items()]
        self.position = position

    @property
    def state(self) -> Any:
        """h_n after the steps so far, in the layer's format."""
        states = {key: stepper.states for key, stepper in zip(self._keys, self._steppers, strict=True)}
        return self._layer._gather(states, self._batch)

    @torch.no_grad()
    def __call__(
        self,
        x_t: Tensor,  # [batch_size, D], or [D] if batch_size is 1
        out: Tensor | None = None,  # where the output is written; None: a new tensor
    ) -> Tensor:
        x = x_t.unsqueeze(0) if x_t.dim() == 1 and self.batch_size == 1 else x_t
        if tuple(x.shape) != (self.batch_size, self._layer.input_size):
            rule = f"have shape (batch_size, input_size) = {(self.batch_size, self._layer.input_size)}"
            checks.fail("x_t", rule, tuple(x_t.shape), kind=checks.ShapeError)
        like = self._batch.rows
        if x.device != like.device:
            checks.fail("x_t", f"be on the layer's device, {like.device}", x.device, "Move it with .to().")
        if x.dtype != like.dtype:
            check_input(x, 2, self._layer.input_size, self._layer._dtype)
        for stepper in self._steppers:
            x = stepper(x, self.position)
        self.position += 1
        y = x.squeeze(0) if x_t.dim() == 1 else x
        if out is None:
            return y.clone()
        if out.shape != y.shape:
            checks.fail("out", f"have the output's shape, {tuple(y.shape)}", tuple(out.shape), kind=checks.ShapeError)
        return out.copy_(y)

    @torch.no_grad()
    def peek(self, x_t: Tensor) -> Tensor:  # [batch_size, D], or [D] if batch_size is 1
        """The output that a step with this input would have. The stream stays where it is."""
        states = [[state.clone() for state in stepper.states] for stepper in self._steppers]
        output = self(x_t)
        for stepper, kept in zip(self._steppers, states, strict=True):
            for state, value in zip(stepper.states, kept, strict=True):
                state.copy_(value)
        self.position -= 1
        return output

    @torch.no_grad()
    def select(self, index: Tensor) -> None:  # [batch_size]
        """Continue with other sequences of the batch in the place of each one.

        Args:
            index: for each place, the number of the sequence whose states it gets. One may occur several times.
        """
        if tuple(index.shape) != (self.batch_size,):
            rule = f"have one number per sequence, {self.batch_size} in all"
            checks.fail("index", rule, tuple(index.shape), kind=checks.ShapeError)
        for stepper in self._steppers:
            stepper.select(index.to(stepper.states[0].device))
