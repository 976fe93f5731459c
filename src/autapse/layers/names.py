"""Layers by name, as the command line and the recipes spell them: `gru`, `ernn:inner_steps=2:eta=per_step`."""

from __future__ import annotations

import ast
from typing import Any

from autapse import checks, layers
from autapse.layers.recurrent import Layer

LAYERS: dict[str, type[Layer]] = {
    layer.__name__.lower(): layer
    for layer in (
        layers.RNN,
        layers.IRNN,
        layers.RIN,
        layers.LSTM,
        layers.GRU,
        layers.UGRNN,
        layers.FastRNN,
        layers.FastGRNN,
        layers.Antisymmetric,
        layers.ERNN,
        layers.EquilibriumTanh,
        layers.EquilibriumLinear,
        layers.ImplicitMidpoint,
        layers.OrthogonalRNN,
        layers.SpectralRNN,
        layers.LeakyRNN,
        layers.ImplicitGRU,
        layers.ImplicitLSTM,
    )
}


def parse_cell(spec: str) -> tuple[type[Layer], dict[str, Any]]:
    """The layer class and the options that `name:option=value:…` stands for."""
    name, *words = spec.split(":")
    layer = LAYERS[checks.one_of("cell", name.lower(), LAYERS)]
    known = layer.named_options()
    options = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or option not in known:
            rule = f"be {name} with options from: {', '.join(known) or 'none'}, as in {name}:option=value"
            checks.fail("cell", rule, spec, checks.closest(option, known))
        if option in options:
            checks.fail("cell", f"name each option once, {option} among them", spec)
        # A word stays a word where one is expected: alignment=none is not None.
        options[option] = value if isinstance(known[option].default, str) else _value(value)
    return layer, options


def make_layer(spec: str, input_size: int, hidden_size: int | list[int], **keywords: Any) -> Layer:
    """The layer that a spec names.

    >>> make_layer("ernn:inner_steps=2", 3, 8)
    ERNN(3, 8, inner_steps=2)
    """
    layer, options = parse_cell(spec)
    return layer(input_size, hidden_size, **keywords, **options)


def _value(text: str) -> Any:
    if text.lower() in ("true", "false", "none"):
        text = text.capitalize()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
