"""Networks by name: `gru`, `ernn:inner_steps=2`, `my_module:MyCell:option=value`, and those of installed packages.

A network that is an option of another one is in brackets: `deep:cell=(ernn:inner_steps=2)`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from autapse import cells, checks, layers, plugins
from autapse.cells import Cell
from autapse.cells.base import cell_options
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.spec import inside, parse_options, words_of
from autapse.layers.recurrent import Layer, Recurrent

GROUP = "autapse.cells"  # the entry points of networks in other packages
LAYERS: dict[str, type[Layer]] = {
    layer.__name__.lower(): layer
    for layer in (
        layers.RNN,
        layers.IRNN,
        layers.RIN,
        layers.LSTM,
        layers.GRU,
        layers.UGRNN,
        layers.Intersection,
        layers.PhasedLSTM,
        layers.CFN,
        layers.GORU,
        layers.FastRNN,
        layers.FastGRNN,
        layers.Antisymmetric,
        layers.ERNN,
        layers.EquilibriumTanh,
        layers.EquilibriumLinear,
        layers.ImplicitMidpoint,
        layers.OrthogonalRNN,
        layers.KRU,
        layers.SpectralRNN,
        layers.LeakyRNN,
        layers.Deep,
        layers.Delayed,
        layers.Dilated,
        layers.SkipRNN,
        layers.Clockwork,
        layers.Memory,
        layers.Reservoir,
        layers.Liquid,
        layers.ImplicitGRU,
        layers.ImplicitLSTM,
        layers.Feedforward,
        layers.TimeDelay,
    )
}

NetworkClass = type[Layer] | type[Cell]


def make_layer(
    network: str | NetworkClass, input_size: int, hidden_size: int | list[int], **keywords: Any
) -> Recurrent:
    """Make the layer of a network.

    Args:
        network: a name with options, a layer class, or a cell class. `my_module:MyCell:option=value` names your own
            class, which is imported.
        input_size: features per step.
        hidden_size: units, or a list with the units of each layer.
        keywords: other arguments of the layer, such as `num_layers` or `batch_first`.

    Returns:
        The layer.

    >>> make_layer("ernn:inner_steps=2", 3, 8)
    ERNN(3, 8, inner_steps=2)
    >>> make_layer(autapse.cells.RIN, 3, 8)
    Recurrent(RIN, 3, 8)
    """
    kind, options = parse_network(network) if isinstance(network, str) else (_checked(network, "cell"), {})
    if issubclass(kind, Layer):
        return kind(input_size, hidden_size, **keywords, **options)
    if issubclass(kind, EquilibriumRule):
        return layers.Equilibrium(kind, input_size, hidden_size, **keywords, **options)
    return Recurrent(kind, input_size, hidden_size, **keywords, **options)


def parse_network(spec: str) -> tuple[NetworkClass, dict[str, Any]]:
    """The class and the options of `name:option=value:…` or `module:Class:option=value:…`."""
    name, *words = words_of(spec)
    if _names_a_class(name, words):
        name, kind, words = f"{name}:{words[0]}", _imported(name, words[0]), words[1:]
    else:
        kind = _named(name)
    return kind, parse_options("cell", spec, name, words, options_of(kind), _cell)


def _cell(spec: str) -> tuple[type[Cell], dict[str, Any]]:
    """The cell class and the options of a network that is an option of another one."""
    kind, options = parse_network(spec)
    return kind.cell_type if issubclass(kind, Layer) else kind, options


def looks_ahead(spec: str) -> bool:
    """Whether the state of this network at a position depends on later input."""
    return cells.base.looks_ahead(_cell(spec)[0])


def options_of(kind: NetworkClass) -> dict[str, inspect.Parameter]:
    """The options that can be part of a network's name."""
    return kind.named_options() if issubclass(kind, Layer) else cell_options(kind)


def spec_of(kind: NetworkClass) -> str:
    """The name of a class for `parse_network`: `module:Class` unless it is built in."""
    return next((name for name, layer in LAYERS.items() if layer is kind), f"{kind.__module__}:{kind.__qualname__}")


def foreign_module(spec: str) -> str | None:
    """A module that `parse_network` would import; None if there is none, or if all are imported already."""
    module, *words = words_of(spec)
    if _names_a_class(module, words) and module not in sys.modules:
        return module
    nested = (inside(word.partition("=")[2]) for word in words)
    return next((inner for text in nested if text and (inner := foreign_module(text))), None)


def _names_a_class(name: str, words: list[str]) -> bool:
    return bool(words) and "=" not in words[0] and name.lower() not in LAYERS


def offered() -> dict[str, EntryPoint]:
    """The entry points of networks in other installed packages, by name. They are not loaded."""
    return plugins.offered(GROUP, LAYERS)


def _named(name: str) -> NetworkClass:
    if name.lower() in LAYERS:
        return LAYERS[name.lower()]
    others = offered()
    if name not in others:
        known: Iterable[str] = [*LAYERS, *others]
        checks.one_of("cell", name.lower(), known)
    return _checked(plugins.load("cell", others[name]), f"entry point {name}")


def _imported(module: str, name: str) -> NetworkClass:
    try:
        with _importing_from_here():
            value: Any = import_module(module)
    except Exception as error:
        rule = f"name a module that can be imported ({type(error).__name__}: {error})"
        checks.fail("cell", rule, f"{module}:{name}", "Run from the folder of the module, or install it.")
    for part in name.split("."):
        if not hasattr(value, part):
            checks.fail("cell", f"name a class of the module {module}", name, checks.closest(part, vars(value)))
        value = getattr(value, part)
    return _checked(value, f"{module}:{name}")


@contextmanager
def _importing_from_here() -> Iterator[None]:
    """Import also from the working folder, as the last place. An installed program does not do that by default."""
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _checked(value: Any, what: str) -> NetworkClass:
    if not (isinstance(value, type) and issubclass(value, Layer | Cell)):
        remedy = "Pass the class itself." if isinstance(value, Cell) else "Write a subclass of autapse.Cell."
        checks.fail(what, "be a cell class or a layer class of autapse, or its name", value, remedy, checks.KindError)
    return value
