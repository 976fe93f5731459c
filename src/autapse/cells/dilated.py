"""Dilated: any cell with its recurrent connections over several steps, doubled from layer to layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import Scans
from autapse.cells.enclosing import Enclosing, total
from autapse.cells.named import CELLS
from autapse.forms import State
from autapse.sequences.lengths import running

MOST_STEPS = 1 << 14  # a sequence carries as many states


class Dilated(Enclosing):
    """h_t = step(x_t, h_{t−d}) with the step of another cell and d = 2^l in layer l = 0, 1, … of a stack

    Chang et al. 2017, "Dilated recurrent neural networks". A stack of L layers bridges T steps by T/2^(L−1) steps of
    its last layer, and the layers below fill in what is between. The parameters are those of the other cell.

    A sequence carries the states of the last d steps: these are h0 and h_n, the latest first. In a stack, layers with
    smaller d have fewer of them: the tensor of an older state has only the layers that reach back so far.

    The steps t, t + d, t + 2d, … are a sequence of their own for each t < d. So a batch of B sequences is computed as
    a batch of d·B shorter ones, by the kernels of the other cell.

    Args:
        dilation: d of the first layer, in steps.
        growth: factor of d from each layer to the next one. 1: the same d in all layers.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        cell: Any = "rnn",
        dilation: int = 1,
        growth: int = 2,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, cell, **factory)
        self.dilation = checks.integer("dilation", dilation, minimum=1, maximum=MOST_STEPS)
        self.growth = checks.integer("growth", growth, minimum=1)
        self.place(0, 1)

    def place(self, layer: int, layers: int) -> None:
        super().place(layer, layers)
        steps = self.dilation * self.growth**layer
        if steps > MOST_STEPS:
            checks.fail("growth", f"give at most {MOST_STEPS} steps, also in layer {layer}", self.growth)
        self.stencil = (-steps,)

    @property
    def depends_on_place(self) -> bool:  # type: ignore[override]
        return self.growth != 1

    def initial_state(self, batch: int, like: Tensor) -> State:
        return self.inner.initial_state(batch, like) * self.steps_back

    def log_probability(self, state: State) -> Tensor | None:
        return total([self.inner.log_probability(part) for part in self._parts(state)])

    def penalty(self, state: State) -> Tensor | None:
        return total([self.inner.penalty(part) for part in self._parts(state)])

    def _parts(self, state: State) -> list[State]:
        """The carried states of each of the d interleaved sequences."""
        count = len(self.state_sizes)
        return [state[n : n + count] for n in range(0, len(state), count)]

    def _jacobian(self, u: Tensor, state: State, weights: Any, t: int) -> Tensor:
        """The derivative of all carried states: a block companion matrix, whose last block is that of the cell."""
        count, back = len(self.state_sizes), self.steps_back
        own = self.inner._jacobian(u, state[-count:], weights, t)
        size = own.shape[-1]
        kept = torch.eye((back - 1) * size, back * size, dtype=own.dtype, device=own.device)
        new = torch.cat([own.new_zeros(len(own), size, (back - 1) * size), own], dim=2)
        return torch.cat([new, kept.expand(len(own), -1, -1)], dim=1)

    # Interleaved sequences --------------------------------------------------------------------------------------

    @property
    def runs_in_parts(self) -> bool:  # type: ignore[override]
        return (type(self).drive, type(self).step) == OWN and not self.depends_on_position

    def in_parts(self, x: Tensor, state: State, sizes: Sequence[int], start: int, parts: Scans) -> tuple[State, State]:
        count, back = len(self.state_sizes), self.steps_back
        order = _Interleaved(sizes, len(state[0]), back)
        # The sequence of the steps t, t + d, … starts from the state of step t − d. The oldest state is the last one.
        columns = [torch.cat(state[n::count][::-1]) for n in range(count)]
        states, final = parts.cell(
            self.inner, order.taken(x), tuple(order.sorted(column) for column in columns), order.sizes
        )
        last = [order.latest_first(part) for part in final]
        carried = tuple(part[n] for n in range(back) for part in last)
        return tuple(order.restored(part) for part in states), carried


class _Interleaved:
    """A batch of sequences as d times as many: number j of a sequence has its steps j, j + d, …

    Sequence j of the original sequence b has the index j·B + b. The kernels need the longest one first.
    """

    def __init__(self, sizes: Sequence[int], batch: int, back: int) -> None:
        self.batch, self.back = batch, back
        padded = torch.zeros(-(-len(sizes) // back) * back, dtype=torch.long)
        padded[: len(sizes)] = torch.tensor(sizes, dtype=torch.long)
        self.lengths = running(padded, batch).sum(1)  # [B]
        self.sizes = padded.view(-1, back).sum(1).tolist()
        # If all sequences have all steps, rows and sequences are in the right order as they are.
        self.order = self.places = None
        if not sizes or sizes[-1] < batch:
            own = -(-(self.lengths - torch.arange(back)[:, None]) // back)  # [d, B], lengths
            self.order = torch.argsort(own.flatten(), descending=True, stable=True)
            self.places = self._rows(padded)

    def _rows(self, padded: Tensor) -> Tensor:  # [N]
        """The original row of each row of the new batch."""
        first = padded.cumsum(0) - padded
        steps = [
            first[n * self.back + self.order[:size] // self.batch] + self.order[:size] % self.batch  # type: ignore[index]
            for n, size in enumerate(self.sizes)
        ]
        return torch.cat(steps) if steps else padded[:0]

    def taken(self, rows: Tensor) -> Tensor:
        """Rows in the order of the new batch."""
        return rows if self.places is None else rows.index_select(0, self.places.to(rows.device))

    def restored(self, rows: Tensor) -> Tensor:
        """Rows in the original order."""
        if self.places is None:
            return rows
        return rows.index_select(0, torch.argsort(self.places).to(rows.device))

    def sorted(self, states: Tensor) -> Tensor:  # [d·B, S]
        """States in the order of the new batch's sequences."""
        return states if self.order is None else states.index_select(0, self.order.to(states.device))

    def latest_first(self, states: Tensor) -> Tensor:  # [d·B, S] -> [d, B, S]
        """The states at the ends of the new sequences, as the last d states of each original one, the latest first."""
        if self.order is not None:
            states = states.index_select(0, torch.argsort(self.order).to(states.device))
        number = (self.lengths - 1 - torch.arange(self.back)[:, None]) % self.back  # [d, B]
        places = number * self.batch + torch.arange(self.batch)
        return states.index_select(0, places.flatten().to(states.device)).unflatten(0, (self.back, self.batch))


OWN = Dilated.drive, Dilated.step  # a subclass may have others, which the kernels of the inner cell do not know
CELLS[Dilated.__name__.lower()] = Dilated
