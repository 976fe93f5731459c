"""The loss over two parameters of a network, and the path of gradient steps on it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autapse import checks
from autapse.diagnostics import arguments

Entry = tuple[Any, ...]  # the name of a parameter, then the indices of one entry: ("weight_hh_l0", 0, 0)


@dataclass(frozen=True, eq=False)
class LossSurface:
    """The loss on a grid of two parameters, from `loss_surface`."""

    first: np.ndarray  # [P], values of the first parameter
    second: np.ndarray  # [Q], values of the second parameter
    loss: np.ndarray  # [Q, P]
    names: tuple[str, str]  # the names of the two parameters


@torch.no_grad()
def loss_surface(
    module: nn.Module,
    loss: Callable[[Any], Tensor],
    first: Entry,
    second: Entry,
    first_range: tuple[float, float] = (-1.0, 1.0),
    second_range: tuple[float, float] = (-1.0, 1.0),
    points: int = 41,
) -> LossSurface:
    """The loss over two parameters of a small network, all others fixed (textbook, Fig. 10.19: the cliff).

    Args:
        module: a layer or a model. It is not changed.
        loss: the loss as a function of the module, a single number.
        first: one entry of a parameter: its name, then its indices, as `("weight_hh_l0", 0, 0)`.
        second: another entry.
        first_range: smallest and largest value of the first.
        second_range: the same of the second.
        points: number of values of each.

    Returns:
        A `LossSurface`. Time: points² evaluations of the loss.

    >>> layer, x = autapse.RNN(1, 1, bias=False), torch.ones(20, 1, 1)
    >>> entries = ("weight_ih_l0", 0, 0), ("weight_hh_l0", 0, 0)
    >>> loss_surface(layer, lambda layer: (layer(x)[1] - 0.5).square().sum(), *entries, points=5).loss.shape
    (5, 5)
    """
    arguments.module("module", module)
    arguments.function("loss", loss, "module")
    copied = copy.deepcopy(module)
    places = _place(copied, "first", first), _place(copied, "second", second)
    checks.integer("points", points, minimum=2)
    ranges = arguments.pair("first_range", first_range), arguments.pair("second_range", second_range)
    columns, rows = (np.linspace(*each, points) for each in ranges)
    values = np.empty((points, points))
    for q, b in enumerate(rows):
        for p, a in enumerate(columns):
            _set(places, (a, b))
            values[q, p] = float(_checked(loss(copied)))
    return LossSurface(columns, rows, values, (_name(first), _name(second)))


@dataclass(frozen=True, eq=False)
class GradientPath:
    """The way of two parameters under gradient steps, from `gradient_path`, over n steps."""

    points: np.ndarray  # [n + 1, 2], the two parameters
    loss: np.ndarray  # [n + 1]
    gradient: np.ndarray  # [n + 1], the norm of the gradient by the two parameters
    clip: float | None  # the largest norm of a gradient; None: gradients are not clipped


def gradient_path(
    module: nn.Module,
    loss: Callable[[Any], Tensor],
    first: Entry,
    second: Entry,
    start: tuple[float, float],
    rate: float = 0.1,
    steps: int = 50,
    clip: float | None = None,
) -> GradientPath:
    """Plain or clipped gradient steps on two parameters, all others fixed (textbook, section 10.7.7 and Fig. 10.19).

    Args:
        module: a layer or a model. It is not changed.
        loss: the loss as a function of the module, a single number.
        first: one entry of a parameter: its name, then its indices.
        second: another entry.
        start: the values that the two start from.
        rate: the learning rate.
        steps: number of steps.
        clip: gradients with a larger norm are scaled to this norm. None: never.

    Returns:
        A `GradientPath`. It stops being finite where the steps diverge. Time: one backward pass per step.

    >>> layer, x = autapse.RNN(1, 1, bias=False), torch.ones(20, 1, 1)
    >>> entries = ("weight_ih_l0", 0, 0), ("weight_hh_l0", 0, 0)
    >>> path = gradient_path(layer, lambda layer: (layer(x)[1] - 0.5).square().sum(), *entries, start=(1.0, 0.5))
    >>> bool(path.loss[-1] < path.loss[0])
    True
    """
    arguments.module("module", module)
    arguments.function("loss", loss, "module")
    copied = copy.deepcopy(module).requires_grad_(True)
    places = _place(copied, "first", first), _place(copied, "second", second)
    checks.number("rate", rate, above=0.0)
    checks.integer("steps", steps, minimum=0)
    largest = None if clip is None else checks.number("clip", clip, above=0.0)
    point = np.array(arguments.pair("start", start))
    points, values, norms = [point], [], []
    for n in range(steps + 1):
        gradient, value = _gradient(copied, loss, places, point)
        norm = float(np.linalg.norm(gradient))
        values.append(value)
        norms.append(norm)
        if n < steps:
            scale = 1.0 if largest is None or norm <= largest else largest / norm
            point = point - rate * scale * gradient
            points.append(point)
    return GradientPath(np.array(points), np.array(values), np.array(norms), largest)


Place = tuple[nn.Parameter, tuple[int, ...]]


def _place(module: nn.Module, argument: str, entry: Entry) -> Place:
    parameters = dict(module.named_parameters())
    name, *indices = entry if isinstance(entry, tuple) and entry else (entry,)
    checks.one_of(argument, name, parameters)
    shape = tuple(parameters[name].shape)
    fits = len(indices) == len(shape) and all(
        isinstance(i, int) and -n <= i < n for i, n in zip(indices, shape, strict=True)
    )
    if not fits:
        checks.fail(argument, f"have one index per dimension of {name}, which has shape {shape}", tuple(indices))
    return parameters[name], tuple(indices)


def _set(places: tuple[Place, Place], values: Any) -> None:
    with torch.no_grad():
        for (parameter, indices), value in zip(places, values, strict=True):
            parameter[indices] = float(value)


def _gradient(module: nn.Module, loss: Any, places: tuple[Place, Place], point: np.ndarray) -> tuple[np.ndarray, float]:
    _set(places, point)
    with torch.enable_grad():
        value = _checked(loss(module))
        wanted = list({id(parameter): parameter for parameter, _ in places}.values())
        gradients = dict(zip(map(id, wanted), torch.autograd.grad(value, wanted), strict=True))
    return np.array([float(gradients[id(parameter)][indices]) for parameter, indices in places]), float(value.detach())


def _checked(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.dim():
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        checks.fail("loss", "return a single number", got)
    return value


def _name(entry: Entry) -> str:
    return f"{entry[0]}[{', '.join(map(str, entry[1:]))}]" if len(entry) > 1 else str(entry[0])
