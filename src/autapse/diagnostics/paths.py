"""How many nonlinear maps are between an input and a later output: the length of the shortest path through a network.

Distances are computed like states. A step with distances in the place of values adds 1 at each activation, takes the
least of what a sum adds up, and lets a matrix pass the least of what each row reads.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell, Clockwork, Deep, Dilated, TimeDelay
from autapse.cells.deep_step import DeepStep
from autapse.cells.maps import Maps
from autapse.forms import (
    ChaosFree,
    ComplexModulus,
    Delays,
    GatedRecurrent,
    Leaky,
    LongShortTerm,
    PreActivation,
    SharedGate,
    State,
    Transitions,
    UpdateGate,
)
from autapse.layers import Recurrent

FAR = math.inf  # the distance of what the input does not reach
# The ops that count as a nonlinear map where a cell has no built-in form, by the names of their autograd nodes.
NONLINEAR = (
    *("Tanh", "Sigmoid", "Relu", "Gelu", "Silu", "Elu", "LeakyRelu", "Prelu", "Softplus", "Mish", "Hardtanh"),
    *("Hardsigmoid", "Hardswish", "LogSigmoid", "Softmax", "LogSoftmax", "Exp", "Expm1", "Log", "Log1P", "Sin", "Cos"),
    *("Abs", "Sqrt", "Rsqrt", "Pow", "Clamp", "ClampMin", "ClampMax", "Erf", "Atan", "Sinh", "Cosh", "Reciprocal"),
)
NO_GRADIENT = ("Sign", "Sgn", "Round", "Floor", "Ceil")  # constant between jumps


class ShortestPath(NamedTuple):
    """The result of `shortest_path`.

    Attributes:
        maps: number of nonlinear maps on the path; None if there is no path.
        per_step: how many of them each step adds, on average over the second half of the lag, where the path is under
            way; None without a path, or for a lag of 0.
    """

    maps: int | None
    per_step: float | None


@torch.no_grad()
def shortest_path(layer: Recurrent, lag: int) -> ShortestPath:
    """The number of nonlinear maps on the shortest path from the input of step t to the output of step t + lag.

    An activation (tanh, σ, ReLU, …) is a nonlinear map. Sums, matrices and products with gates are not, so gates and
    leaky units pass a state on at no cost. An entry of a matrix that is exactly zero is not a connection: the result is
    for the present weights. A cell without a built-in form is counted on the graph of one step, with all units of a
    state together.

    Args:
        layer: a layer that takes steps: its cells neither look ahead nor solve an equation.
        lag: number of steps. Layers with two directions also have paths for negative lags.

    Returns:
        A `ShortestPath`: the number of maps, and how many of them each step of the lag adds.

    >>> shortest_path(autapse.RNN(3, 4), lag=10)
    ShortestPath(maps=11, per_step=1.0)
    >>> shortest_path(autapse.Deep(3, 4, transition_depth=2), lag=10).per_step
    3.0
    >>> shortest_path(autapse.Deep(3, 4, transition_depth=2, skip=True), lag=10).per_step
    1.0
    >>> shortest_path(autapse.LSTM(3, 4), lag=10)
    ShortestPath(maps=2, per_step=0.0)
    """
    _check(layer)
    lag = checks.integer("lag", lag)
    beyond = sum(max(layer.cells[key].steps_back for key in keys) for keys in layer._keys)  # a path may overshoot
    before, after = beyond + max(0, -lag), beyond + max(0, lag)
    rows = [torch.full((layer.input_size,), FAR) for _ in range(before + 1 + after)]
    rows[before].zero_()
    for keys in layer._keys:
        starts = (-before, -after)  # the input is at position 0, where every group of a clockwork network changes
        outputs = [_scan(layer.cells[key], rows, starts[n], reverse=n == 1) for n, key in enumerate(keys)]
        rows = [torch.cat(parts) for parts in zip(*outputs, strict=True)]
    sign = 1 if lag >= 0 else -1
    lengths = [float(rows[before + sign * step].amin()) for step in range(abs(lag) + 1)]
    if lengths[-1] == FAR:
        return ShortestPath(None, None)
    start = next(step for step, length in enumerate(lengths) if length < FAR and step >= abs(lag) // 2)
    steps = abs(lag) - start
    return ShortestPath(int(lengths[-1]), (lengths[-1] - lengths[start]) / steps if steps else None)


def _check(layer: Any) -> None:
    if not isinstance(layer, Recurrent):
        checks.fail("layer", "be a layer", type(layer).__name__, kind=checks.KindError)
    if layer.looks_ahead or any(cell.is_solved for cell in layer.cells.values()):
        rule = "take steps: a path through the solution of an equation has no number of maps"
        checks.fail("layer", rule, layer.cell_class.__name__)


def _scan(cell: Cell, rows: Sequence[Tensor], start: int, reverse: bool) -> list[Tensor]:
    """The distance of the output at each position."""
    weights, count = cell.prepare(), len(cell.state_sizes)
    carried = tuple(torch.full((size,), FAR) for size in cell.carried_sizes)
    outputs = []
    for t, row in enumerate(reversed(rows) if reverse else rows, start):
        u = _driven(cell, row)
        if isinstance(cell, TimeDelay):
            carried = _after_window(cell, u, carried[1])
        else:
            read = [s for offset in cell.stencil for s in carried[count * (-offset - 1) : count * -offset]]
            carried = (*_after(cell, weights, u, tuple(read), t), *carried)[: len(carried)]
        outputs.append(_output(cell, carried[:count]))
    return outputs[::-1] if reverse else outputs


# A cell, with distances in the place of values ------------------------------------------------------------------------


def _driven(cell: Cell, x: Tensor) -> Tensor:
    if isinstance(cell, Dilated):
        return _driven(cell.inner, x)
    if isinstance(cell, Deep):
        return _driven(cell.restricted_inner(), _mapped(cell.input_maps, x))
    if type(cell).drive is not Cell.drive:
        return _on_graph(cell, cell.drive, [x])[0]
    affine = cell.affine()
    return x if affine is None else _through(affine[0], x)


def _after(cell: Cell, weights: Any, u: Tensor, read: State, t: int) -> State:
    """The states after the step at position t."""
    if isinstance(cell, Dilated):
        return _after(cell.inner, weights, u, read, t)
    if type(cell) is Clockwork:
        return _after_clockwork(cell, weights, u, read[0], t)
    form = cell.fused(weights)
    if type(form) in _step.registry:
        return _step(form, u, read)
    return _on_graph(cell, lambda drive, *states: cell.step(drive, states, weights, t), [u, *read])


def _after_clockwork(cell: Clockwork, weights: Sequence[Tensor], u: Tensor, h: Tensor, t: int) -> State:
    parts, first = [], 0
    for period, size, matrix in zip(cell.periods, cell.group_sizes, weights, strict=True):
        own = slice(first, first + size)
        read = _least(u[own], _through(matrix, h[first:])) + _cost(cell.nonlinearity)
        parts.append(h[own] if t % period else read)
        first += size
    return (torch.cat(parts),)


def _after_window(cell: TimeDelay, u: Tensor, ahead: Tensor) -> State:
    size = cell.hidden_size
    h = _mapped(cell.maps, _least(u[:size], ahead[:size]) + _cost(cell.nonlinearity))
    return h, _least(u[size:], torch.cat([ahead[size:], torch.full((size,), FAR)]))


def _output(cell: Cell, state: State) -> Tensor:
    if isinstance(cell, Dilated):
        return _output(cell.inner, state)
    if isinstance(cell, Deep):
        return _mapped(cell.output_maps, _output(cell.inner, state)[cell.first_output :])
    return state[0] if cell.outputs_state else _on_graph(cell, lambda *s: cell.output(s), state)[0]


def _mapped(maps: Maps, g: Tensor) -> Tensor:
    for one in maps:
        y = _through(one.weight, g) + _cost(one.activation)
        g = y if not one.skip else _least(y, g if one.shortcut is None else _through(one.shortcut, g))
    return g


def _least(*distances: Tensor) -> Tensor:
    return functools.reduce(torch.minimum, distances)


def _through(matrix: Tensor, distance: Tensor) -> Tensor:
    """Each row passes on the least distance of what it reads."""
    return torch.where(matrix.cpu() != 0, distance, FAR).amin(-1)


def _cost(activation: str) -> int:
    return 0 if activation == "identity" else 1


def _kept(coefficient: float | Tensor, distance: Tensor) -> Tensor:
    """What a product with a coefficient passes on: nothing if it is zero."""
    value = torch.as_tensor(coefficient).cpu()
    return torch.where(value != 0 if value.dim() == 1 else (value != 0).any(), distance, FAR)


# The forms: each reads like its equation ------------------------------------------------------------------------------


@functools.singledispatch
def _step(form: Any, u: Tensor, state: State) -> State:
    raise NotImplementedError(f"no rule for {type(form).__name__}")


@_step.register
def _(form: Leaky, u: Tensor, state: State) -> State:
    (h,) = state
    for _ in range(form.inner_steps):
        y = _least(u, _through(form.matrix, h)) + _cost(form.activation)
        h = _least(_kept(form.alpha, y), _kept(form.beta, h))
    return (h,)


@_step.register
def _(form: PreActivation, u: Tensor, state: State) -> State:
    (s,) = state
    y = s + _cost(form.activation)
    return (_least(_kept(form.alpha, _least(u, _through(form.matrix, y))), _kept(form.beta, s)),)


@_step.register
def _(form: Transitions, u: Tensor, state: State) -> State:
    (g,) = state
    cost = _cost(form.activation)
    for i, matrix in enumerate(form.matrices):
        y = _through(matrix, g) + cost
        g = _least(u + cost, y) if i == 0 else _least(y, g) if form.skip else y
    return (g,)


@_step.register
def _(form: SharedGate, u: Tensor, state: State) -> State:
    (h,) = state
    gates = _least(*u.chunk(2), _through(form.matrix, h)) + 1
    carried = _least(*(_kept(q, h) for q in form.carry))
    return (_least(gates, carried),)


@_step.register(UpdateGate)
@_step.register(GatedRecurrent)
def _(form: UpdateGate | GatedRecurrent, u: Tensor, state: State) -> State:
    (h,) = state
    gates = _least(u, _through(form.matrix, h)).chunk(form.gates)  # through the reset gate a path is never shorter
    return (_least(h, _least(*gates) + 1),)


@_step.register
def _(form: ChaosFree, u: Tensor, state: State) -> State:
    (h,) = state
    theta, eta = _through(form.matrix, h).chunk(2)
    return (_least(h, theta, eta, *u.chunk(3)) + 1,)


@_step.register
def _(form: ComplexModulus, u: Tensor, state: State) -> State:
    parts = _least(u, _through(form.matrix, state[0])).chunk(2)  # modReLU mixes real and imaginary part
    return (_least(*parts).repeat(2) + 1,)


@_step.register
def _(form: LongShortTerm, u: Tensor, state: State) -> State:
    h, c = state
    i, f, g, o = (part + 1 for part in _least(u, _through(form.matrix, h)).chunk(4))
    if form.peepholes is not None:
        i, f, o = (_least(gate, _kept(p, c) + 1) for gate, p in zip((i, f, o), form.peepholes[:3], strict=True))
    c = _least(c, i, f, g)
    if form.peepholes is not None:
        o = _least(o, _kept(form.peepholes[3], c) + 1)
    h = _least(o, c + 1)
    return (h if form.projection is None else _through(form.projection, h), c)


@_step.register
def _(form: Delays, u: Tensor, state: State) -> State:
    h, *earlier = state
    read = [_through(matrix, past) for matrix, past in zip(form.matrices, earlier, strict=True)]
    return _step(form.base, _least(u, *read), (h,))


@_step.register
def _(form: DeepStep, u: Tensor, state: State) -> State:
    h, *others = _after(form.cell, form.weights, u, state, 0)
    for matrix in form.matrices:
        y = _through(matrix, h) + _cost(form.activation)
        h = _least(y, h) if form.skip else y
    return (h, *others)


# Other cells: the graph of one step -----------------------------------------------------------------------------------


def _on_graph(cell: Cell, function: Callable[..., Any], distances: Sequence[Tensor]) -> State:
    """The distances of what a function of rows returns: the least over the inputs, all entries of a tensor together."""
    like = next(cell.parameters(), torch.empty(0))
    with torch.enable_grad():
        leaves = [like.new_full((1, len(d)), 0.5, requires_grad=True) for d in distances]
        results = function(*leaves)
    results = results if isinstance(results, tuple | list) else (results,)
    return tuple(_from_leaves(result, leaves, distances) for result in results)


def _from_leaves(result: Tensor, leaves: Sequence[Tensor], distances: Sequence[Tensor]) -> Tensor:
    least = FAR
    for leaf, distance in zip(leaves, distances, strict=True):
        least = min(least, _maps_between(result.grad_fn, leaf) + float(distance.amin()))
    return torch.full((result.shape[-1],), least)


def _maps_between(end: Any, leaf: Tensor) -> float:
    """The least number of nonlinear nodes between a node of autograd's graph and a leaf."""
    queue: list[tuple[int, int, Any]] = [] if end is None else [(0, 0, end)]
    seen: set[Any] = set()
    count = 0  # breaks ties, since nodes have no order
    while queue:
        length, _, node = heapq.heappop(queue)
        if node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is leaf:
            return length
        name = node.name().rpartition("Backward")[0]
        if name in NO_GRADIENT:
            continue
        for before, _ in node.next_functions:
            if before is not None:
                count += 1
                heapq.heappush(queue, (length + (name in NONLINEAR), count, before))
    return FAR
