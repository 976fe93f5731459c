"""Other initial weights of a layer, given as text: `weight=normal(0.1), bias=constant(1)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from autapse import checks

DEFAULT = "default"
PRESETS = {
    # Glorot & Bengio 2010; Saxe et al. 2013; for the matrix of all gates at once, as in the RIN paper's LSTM.
    "glorot-orthogonal": "weight_ih=glorot, weight_hh=orthogonal, bias=zero",
}


def _identity(weight: Tensor, deviation: float) -> None:
    nn.init.normal_(weight, std=deviation).diagonal().add_(1)


# Name -> (whether it takes a value, what it does to a parameter).
KINDS: dict[str, tuple[bool, Callable[..., object]]] = {
    "normal": (True, lambda weight, deviation: nn.init.normal_(weight, std=deviation)),
    "uniform": (True, lambda weight, bound: nn.init.uniform_(weight, -bound, bound)),
    "constant": (True, nn.init.constant_),
    "identity": (True, _identity),
    "zero": (False, nn.init.zeros_),
    "glorot": (False, nn.init.xavier_uniform_),
    "orthogonal": (False, nn.init.orthogonal_),
}
MATRICES = ("identity", "glorot", "orthogonal")  # the kinds for parameters with two dimensions
RULE = re.compile(r"(\w+)=(\w+)(?:\(([^()]*)\))?")


@torch.no_grad()
def initialise(layer: nn.Module, text: str) -> None:
    """Draw some of a layer's parameters again, in place.

    Args:
        layer: a recurrent layer.
        text: `default` keeps the layer's own initial weights. `glorot-orthogonal` is what the RIN paper uses for its
            LSTM: input weights uniform after Glorot, recurrent weights orthogonal, biases zero. Otherwise rules,
            separated by commas: `name=kind` is for every parameter whose name begins with `name`. The kinds are
            `normal(deviation)`, `uniform(bound)`, `constant(value)`, `identity(deviation)` (the identity plus normal
            noise), `zero`, `glorot` and `orthogonal`. The last rule for a parameter counts.

    >>> layer = autapse.RNN(1, 2)
    >>> initialise(layer, "weight=zero, weight_hh=identity(0), bias=constant(0.5)")
    >>> layer.weight_hh_l0.tolist(), layer.bias_ih_l0.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])
    """
    if text == DEFAULT:
        return
    named = [(full.rpartition(".")[2], parameter) for full, parameter in layer.named_parameters()]
    rules = _rules(PRESETS.get(text, text))
    for name in rules:
        if not any(other.startswith(name) for other, _ in named):
            known = ", ".join(dict.fromkeys(re.sub(r"_l\d+(_reverse)?$", "", other) for other, _ in named))
            checks.fail("initialisation", f"name parameters of the layer ({known})", name)
    for name, parameter in named:
        fitting = [rule for beginning, rule in rules.items() if name.startswith(beginning)]
        if fitting:
            _apply(name, parameter, *fitting[-1])
        elif text in PRESETS:
            rule = f"be default, or rules, for a layer with the parameter {name}; {text} is for rnn, lstm and gru"
            checks.fail("initialisation", rule, text)


def _rules(text: str) -> dict[str, tuple[str, float | None]]:
    """{beginning of a name: (kind, number)}, in the order of the text."""
    rules = {}
    for part in text.split(","):
        match = RULE.fullmatch(part.strip())
        if not match:
            words = ", ".join([DEFAULT, *PRESETS])
            checks.fail("initialisation", f"be one of {words}, or rules such as weight=normal(0.1)", text)
        name, kind, given = match.groups()
        takes_number, _ = KINDS[checks.one_of("kind of initialisation", kind, KINDS)]
        if takes_number != (given is not None):
            checks.fail("initialisation", f"give {kind} {'one value' if takes_number else 'no value'}", part.strip())
        rules[name] = kind, None if given is None else _number(kind, given)
    return rules


def _number(kind: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        checks.fail("initialisation", f"give {kind} one value", text)
    return checks.number(f"value of {kind}", value, low=-math.inf if kind == "constant" else 0.0)


def _apply(name: str, parameter: Tensor, kind: str, number: float | None) -> None:
    if kind in MATRICES and (parameter.dim() != 2 or (kind == "identity" and len(parameter) != parameter.shape[1])):
        rule = f"use {kind} for {'square ' if kind == 'identity' else ''}matrices only"
        checks.fail("initialisation", f"{rule}; {name} has shape {tuple(parameter.shape)}", f"{name}={kind}")
    KINDS[kind][1](parameter, *(() if number is None else (number,)))
