"""Other initial weights of a layer, given as text: `weight=normal(0.1), bias=constant(1)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.solve.spectral_radius import spectral_radius

DEFAULT = "default"
PRESETS = {
    # Glorot & Bengio 2010; Saxe et al. 2013; for the matrix of all gates at once, as in the RIN paper's LSTM.
    "glorot-orthogonal": "weight_ih=glorot, weight_hh=orthogonal, bias=zero",
    # Sutskever et al. 2013, after Jaeger: 15 inputs per unit, spectral radius 1.2.
    "reservoir": "weight_hh=sparse(15) radius(1.2)",
    # Sutskever et al. 2013, table 4, for tasks with few inputs.
    "sutskever": "weight_ih=normal(0.001), weight_hh=sparse(15) radius(1.1), bias=zero",
}
WHOLE = ("glorot-orthogonal",)  # the presets that say something about every parameter


def _identity(weight: Tensor, deviation: float) -> None:
    nn.init.normal_(weight, std=deviation).diagonal().add_(1)


def _sparse(weight: Tensor, inputs: float) -> None:
    """Keep this many random entries of each row, normal with variance 1 / inputs."""
    count = checks.integer("value of sparse", int(inputs) if inputs == int(inputs) else inputs, minimum=1)
    keys = torch.rand(weight.shape, dtype=torch.float64)
    kept = torch.zeros(weight.shape, dtype=torch.bool)
    kept.scatter_(1, keys.topk(min(count, weight.shape[1]), dim=1).indices, value=True)
    nn.init.normal_(weight, std=count**-0.5).mul_(kept.to(weight))


def _radius(weight: Tensor, wanted: float) -> None:
    """Scale each square block of rows, one per gate, so that its spectral radius is this."""
    for block in weight.split(weight.shape[1]):
        radius = spectral_radius(block)
        if radius <= 1e-9 * float(block.norm()):
            rule = "leave eigenvalues that are not 0, if radius comes next"
            checks.fail("initialisation", rule, "a matrix whose eigenvalues are all 0")
        block.mul_(wanted / radius)


# Name -> (whether it takes a value, what it does to a parameter).
KINDS: dict[str, tuple[bool, Callable[..., object]]] = {
    "normal": (True, lambda weight, deviation: nn.init.normal_(weight, std=deviation)),
    "uniform": (True, lambda weight, bound: nn.init.uniform_(weight, -bound, bound)),
    "constant": (True, nn.init.constant_),
    "identity": (True, _identity),
    "zero": (False, nn.init.zeros_),
    "glorot": (False, nn.init.xavier_uniform_),
    "orthogonal": (False, nn.init.orthogonal_),
    "sparse": (True, _sparse),
    "radius": (True, _radius),
}
MATRICES = ("identity", "glorot", "orthogonal", "sparse", "radius")  # the kinds for parameters with two dimensions
RULE = re.compile(r"(\w+)=(\w+(?:\([^()]*\))?(?:\s+\w+(?:\([^()]*\))?)*)")
KIND = re.compile(r"(\w+)(?:\(([^()]*)\))?")
Kinds = list[tuple[str, float | None]]  # each with its value; applied one after the other


@torch.no_grad()
def initialise(layer: nn.Module, text: str) -> None:
    """Draw some of a layer's parameters again, in place.

    Args:
        layer: a recurrent layer.
        text: `default` keeps the layer's own initial weights. `glorot-orthogonal` is what the RIN paper uses for its
            LSTM: input weights uniform after Glorot, recurrent weights orthogonal, biases zero. Otherwise rules,
            separated by commas: `name=kind` is for every parameter whose name begins with `name`. The kinds are
            `normal(deviation)`, `uniform(bound)`, `constant(value)`, `identity(deviation)` (the identity plus normal
            noise), `zero`, `glorot`, `orthogonal`, `sparse(inputs)` (normal, with this many entries per row) and
            `radius(value)` (scaled so that each square block has this spectral radius). Kinds that are separated by
            spaces follow one another. The last rule for a parameter counts. `reservoir` is what the textbook proposes
            in section 10.7.1: `weight_hh=sparse(15) radius(1.2)`. `sutskever` is the start of Sutskever et al. (2013)
            for an RNN with few inputs: `weight_ih=normal(0.001), weight_hh=sparse(15) radius(1.1), bias=zero`.

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
            for kind, number in fitting[-1]:
                _apply(name, parameter, kind, number)
        elif text in WHOLE:
            rule = f"be default, or rules, for a layer with the parameter {name}; {text} is for rnn, lstm and gru"
            checks.fail("initialisation", rule, text)


def _rules(text: str) -> dict[str, Kinds]:
    """{beginning of a name: its kinds}, in the order of the text."""
    rules: dict[str, Kinds] = {}
    for part in text.split(","):
        match = RULE.fullmatch(part.strip())
        if not match:
            words = ", ".join([DEFAULT, *PRESETS])
            checks.fail("initialisation", f"be one of {words}, or rules such as weight=normal(0.1)", text)
        name, kinds = match.groups()
        rules[name] = [_kind(one[1], one[2], part.strip()) for one in KIND.finditer(kinds)]
    return rules


def _kind(kind: str, given: str | None, part: str) -> tuple[str, float | None]:
    takes_number, _ = KINDS[checks.one_of("kind of initialisation", kind, KINDS)]
    if takes_number != (given is not None):
        checks.fail("initialisation", f"give {kind} {'one value' if takes_number else 'no value'}", part)
    return kind, None if given is None else _number(kind, given)


def _number(kind: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        checks.fail("initialisation", f"give {kind} one value", text)
    return checks.number(f"value of {kind}", value, low=-math.inf if kind == "constant" else 0.0)


def _apply(name: str, parameter: Tensor, kind: str, number: float | None) -> None:
    square = {"identity": "square ", "radius": "square blocks of "}.get(kind, "")
    fits = parameter.dim() == 2 and (kind != "identity" or len(parameter) == parameter.shape[1])
    fits = fits and (kind != "radius" or len(parameter) % parameter.shape[1] == 0)
    if kind in MATRICES and not fits:
        rule = f"use {kind} for {square}matrices only"
        checks.fail("initialisation", f"{rule}; {name} has shape {tuple(parameter.shape)}", f"{name}={kind}")
    if not parameter.is_meta:  # a model without values, made to check a checkpoint
        KINDS[kind][1](parameter, *(() if number is None else (number,)))
