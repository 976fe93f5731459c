"""Trajectory: the states of one cell along a batch of sequences, and the Jacobians of its steps there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.diagnostics import arguments
from autapse.diagnostics.deadline import groups
from autapse.forms import Form, GlobalGates, State
from autapse.layers import Recurrent
from autapse.models import SequenceModel
from autapse.native.operands import KERNELS
from autapse.sequences.lengths import checked_lengths, running

Network = Recurrent | SequenceModel
CHUNK = 1 << 23  # numbers that are computed at a time, such as entries of Jacobians
MOST_UNITS = 1024  # the largest state whose Jacobians are built as matrices
TOO_LARGE = "Use gradient_flow(..., vectors=8), which needs no matrices."


class TooLargeError(checks.InputError):
    """The state of a network has too many units for matrices."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The steps of one cell on B sequences, in the order in which it reads them. A state is all its tensors in a row.

    The axes are T steps, B sequences, G features of the drive and S units of the whole state: of an LSTM h and c, of a
    cell that reads several earlier states all that it carries, latest first. Entries past an end have no meaning.
    """

    cell: Cell  # the cell whose steps these are
    inputs: Tensor  # [T, B, D], what the cell reads
    drive: Tensor  # [T, B, G]
    before: Tensor  # [T, B, S], the state before each step
    after: Tensor  # [T, B, S], the state after each step
    lengths: Tensor  # [B]

    @property
    def steps(self) -> int:
        """T, the length of the longest sequence."""
        return self.before.shape[0]

    @property
    def units(self) -> int:
        """S, the units of the whole state."""
        return self.before.shape[2]

    @cached_property
    def running(self) -> Tensor:  # [T, B] bool
        """Whether a sequence has this step."""
        return running(self.lengths, self.steps)

    def own(self, states: Tensor, part: int = 0) -> Tensor:  # [T, B, S] -> [T, B, size]
        """One tensor of the cell's state: 0 is h, 1 is c of an LSTM."""
        checks.integer("part", part, minimum=0, maximum=len(self.cell.state_sizes) - 1)
        return states.split(self.cell.carried_sizes, dim=-1)[part]

    @cached_property
    def _weights(self) -> Any:
        return self.cell.prepare()

    @cached_property
    def form(self) -> Form | None:
        """The built-in form whose step is the cell's, or None."""
        form = self.cell.fused(self._weights)
        return form if type(form) in (*KERNELS, GlobalGates) and self.cell.steps_back == 1 else None

    def step(self, steps: Tensor, sequences: Tensor, states: Tensor) -> Tensor:  # [n], [n], [n, S] -> [n, S]
        """The states after chosen steps of chosen sequences, from the given states before them."""

        def run(u: Tensor, state: State, t: Any) -> Tensor:
            new = self.form.step(u, state, t) if self.form else self.cell.advance(u, state, self._weights, t)
            return torch.cat(new, dim=-1)

        return self._each(run, steps, sequences, states)

    def jacobians(self, steps: Tensor, sequences: Tensor) -> Tensor:  # [n], [n] -> [n, S, S]
        """∂h_t/∂h_{t−1} at chosen steps of chosen sequences: in closed form if the cell has one."""

        def run(u: Tensor, state: State, t: Any) -> Tensor:
            return self.form.jacobian(u, state, t) if self.form else self.cell._jacobian(u, state, self._weights, t)

        with torch.no_grad():
            return self._each(run, steps, sequences, self.before[steps, sequences])

    def _each(self, run: Any, steps: Tensor, sequences: Tensor, states: Tensor) -> Tensor:
        u, sizes = self.drive[steps, sequences], self.cell.carried_sizes
        if self.form is not None:
            return run(u, states.split(sizes, dim=-1), steps)
        if not self.cell.depends_on_position:
            return run(u, states.split(sizes, dim=-1), 0)
        # A step that reads its position takes one position at a time.
        order = torch.argsort(steps, stable=True)
        positions, counts = torch.unique_consecutive(steps[order], return_counts=True)
        groups = order.split(counts.tolist())
        parts = [
            run(u[rows], states[rows].split(sizes, dim=-1), t)
            for t, rows in zip(positions.tolist(), groups, strict=True)
        ]
        result = torch.cat(parts)
        return torch.empty_like(result).index_copy(0, order, result)

    def check_dense(self, remedy: str = "") -> None:
        """Raise an error if the state is too large for matrices."""
        if self.units > MOST_UNITS:
            rule = f"have at most {MOST_UNITS} units in its state for a dense Jacobian"
            checks.fail("network", rule, self.units, remedy, TooLargeError)

    def forwards(self) -> Iterator[tuple[int, Tensor]]:
        """Each step with the Jacobians [B, S, S] of all sequences, several steps computed at a time."""
        yield from self._walk(lambda n: torch.full_like(self.lengths, n))

    def backwards(self) -> Iterator[tuple[int, Tensor]]:
        """The lags 0, 1, … with the Jacobians [B, S, S] of the step so far before each sequence's own end."""
        yield from self._walk(lambda n: (self.lengths - 1 - n).clamp(min=0))

    def _walk(self, steps_of: Any) -> Iterator[tuple[int, Tensor]]:
        count = len(self.lengths)
        sequences, at_once = torch.arange(count), max(1, CHUNK // (count * self.units**2))
        for first in range(0, self.steps, at_once):
            numbers = range(first, min(first + at_once, self.steps))
            steps = torch.cat([steps_of(n) for n in numbers])
            matrices = self.jacobians(steps, sequences.repeat(len(numbers)))
            yield from zip(numbers, matrices.split(count), strict=True)


@torch.no_grad()
def trajectory(network: Network, x: Any, lengths: Any = None, layer: int = 0, reverse: bool = False) -> Trajectory:
    """The states of one cell of a network along its input.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it: a tensor or an array.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        reverse: the cell of the reverse direction. Its first step is then the last one of each sequence.

    Returns:
        A `Trajectory`. Time: one forward pass.

    >>> path = trajectory(autapse.LSTM(3, 4), torch.randn(10, 2, 3), lengths=[10, 6])
    >>> path.after.shape, path.jacobians(torch.tensor([0, 5]), torch.tensor([0, 1])).shape
    (torch.Size([10, 2, 8]), torch.Size([2, 8, 8]))
    """
    checked_cell(recurrent_of(network), layer, reverse)
    return states_along(network, x, lengths, layer, reverse)


@torch.no_grad()
def states_along(network: Network, x: Any, lengths: Any = None, layer: int = 0, reverse: bool = False) -> Trajectory:
    """As `trajectory`, also for networks that look ahead. For those, use only the states: there are no steps."""
    run, x, lengths = layer_input(network, x, lengths)
    cell = _cell(run, layer, reverse)
    parts = [states_of(run, x[:, rows], lengths[rows]) for rows in groups(len(lengths))]
    states = [tuple(torch.cat(s, dim=1) for s in zip(*each, strict=True)) for each in zip(*parts, strict=True)]
    count = states[layer][0].shape[1]
    x, lengths = x[:, :count], lengths[:count]
    own = [s[:, :, int(reverse)] for s in states[layer]]
    inputs = x if layer == 0 else _outputs(run, layer - 1, states[layer - 1])
    if reverse:
        inputs, own = flipped(inputs, lengths), [flipped(s, lengths) for s in own]
    before, after = _carried(cell, own, inputs)
    if not bool((after.isfinite().all(-1) | ~running(lengths, len(after))).all()):
        checks.fail("x", "lead to finite states", "NaN or infinity", "Check the input and the weights.")
    return Trajectory(cell, inputs, cell.drive(inputs), before, after, lengths)


def states_of(run: Recurrent, x: Tensor, lengths: Tensor) -> list[tuple[Tensor, ...]]:
    """The states [T, B, directions, H] of every layer, one tensor for each part of a state."""
    was_training = run.training
    try:
        _, _, states = run.eval()(x.transpose(0, 1) if run.batch_first else x, lengths=lengths, return_states=True)
    finally:
        run.train(was_training)
    return [tuple(s.transpose(0, 1) if run.batch_first else s for s in each) for each in states]


def layer_input(network: Network, x: Any, lengths: Any = None) -> tuple[Recurrent, Tensor, Tensor]:
    """The recurrent layer of a network, its input [T, B, D], and the lengths [B]."""
    run = recurrent_of(network)
    x = arguments.tensor("x", x)
    if isinstance(network, SequenceModel):
        x, lengths = _seen(network, run, x, lengths)
    if x.dim() == 2:
        x = x.unsqueeze(1)
    elif run.batch_first and x.dim() == 3:
        x = x.transpose(0, 1)
    if x.dim() != 3 or x.shape[-1] != run.input_size:
        rule = f"have shape (T, B, D), (B, T, D) with batch_first, or (T, D), with D = {run.input_size}"
        checks.fail("x", rule, tuple(x.shape), kind=checks.ShapeError)
    known = checked_lengths(lengths, *x.shape[:2])
    if not int(known.sum()):
        checks.fail("x", "have at least one sequence with a step", tuple(x.shape))
    return run, x[: int(known.max())], known.cpu()


def _seen(model: SequenceModel, run: Recurrent, x: Tensor, lengths: Any) -> tuple[Tensor, Any]:
    """What the layer of a model reads in the first call of a forward pass, in the layer's own layout."""

    def stop(_: Any, args: Any, keywords: Any) -> None:
        raise _Reached(args[0], keywords.get("lengths"))

    handle = run.register_forward_pre_hook(stop, with_kwargs=True)
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval().carry(x, lengths)
    except _Reached as read:
        return read.args
    finally:
        handle.remove()
        model.train(was_training)
    return checks.fail("network", "read its input with a recurrent layer", type(model).__name__)


class _Reached(Exception):  # noqa: N818
    """The input of a layer, and the lengths. It ends a forward pass early: nothing else of it is needed."""


def recurrent_of(network: Any) -> Recurrent:
    """The layer of a network. An error for what is neither a layer nor a model with one, or has no recurrence."""
    run = network.layer if isinstance(network, SequenceModel) else network
    if not isinstance(run, Recurrent):
        rule = "be a recurrent layer of autapse, or a model with one"
        checks.fail("network", rule, type(network).__name__, kind=checks.KindError)
    if not run.reads_state:
        checks.fail("network", "have a recurrence: no state depends on another one", run.cell_class.__name__)
    return run


def cell_of(network: Any, layer: int = 0) -> Any:
    """A cell itself, or that of a layer of a network, forwards."""
    if not isinstance(network, Recurrent | SequenceModel):
        return network
    run = recurrent_of(network)
    checks.integer("layer", layer, minimum=0, maximum=run.num_layers - 1)
    return run.cells[f"l{layer}"]


def checked_cell(run: Recurrent, layer: int = 0, reverse: bool = False) -> Cell:
    """The cell of a layer and a direction. An error if its states are not steps from one to the next."""
    cell = _cell(run, layer, reverse)
    if run.looks_ahead:
        remedy = "Use implicit_spread and implicit_solves."
        checks.fail("network", "take steps from one state to the next", run.cell_class.__name__, remedy)
    return cell


def _cell(run: Recurrent, layer: int, reverse: bool) -> Cell:
    checks.integer("layer", layer, minimum=0, maximum=run.num_layers - 1)
    if checks.boolean("reverse", reverse) and not run.bidirectional:
        checks.fail("reverse", "be False for a network that reads in one direction", reverse)
    return run.cells[run._key(layer, int(reverse))]


def flipped(padded: Tensor, lengths: Tensor) -> Tensor:  # [T, B, ...]
    """Each sequence reversed within its own length."""
    steps = torch.arange(len(padded))[:, None].expand(-1, len(lengths))
    turned = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return padded[turned, torch.arange(len(lengths))]


def array(values: Tensor) -> np.ndarray:
    """A tensor as an array of float64; integers, bools and complex numbers keep their kind."""
    values = values.detach().cpu()
    return (values.double() if values.is_floating_point() else values).numpy()


def _outputs(run: Recurrent, layer: int, states: tuple[Tensor, ...]) -> Tensor:  # [T, B, directions·H]
    """The outputs of a layer, which the next one reads."""
    cells = [run.cells[run._key(layer, d)] for d in range(run.directions)]
    return torch.cat([cell.output(tuple(s[:, :, d] for s in states)) for d, cell in enumerate(cells)], dim=-1)


def _carried(cell: Cell, states: list[Tensor], like: Tensor) -> tuple[Tensor, Tensor]:  # [T, B, S] each
    """All that is carried before and after each step, from the states after each step."""
    back, count = cell.steps_back, len(cell.state_sizes)
    first = cell.initial_state(like.shape[1], like[0])
    oldest = [torch.cat(first[n * count : (n + 1) * count], dim=-1) for n in reversed(range(back))]
    history = torch.cat([torch.stack(oldest), torch.cat(states, dim=-1)])  # [back + T, B, S]
    steps = len(like)
    shifted = [history[back - 1 - n : back - 1 - n + steps] for n in range(back)]
    later = [history[back - n : back - n + steps] for n in range(back)]
    return torch.cat(shifted, dim=-1), torch.cat(later, dim=-1)
