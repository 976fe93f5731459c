"""`autapse cells`: list the networks."""

from __future__ import annotations

from dataclasses import dataclass

from autapse.cli.listing import print_listing
from autapse.cli.parse import parse


@dataclass
class Cells:
    """List the networks with their equations, options and defaults."""


def main(words: list[str]) -> None:
    parse(Cells, "cells", words)
    from autapse.layers.registry import LAYERS, offered

    rows = []
    for name, layer in LAYERS.items():
        options = ", ".join(f"{option}={p.default}" for option, p in layer.named_options().items())
        equation = (layer.cell_type.__doc__ or "").splitlines()[0]
        rows.append((name, equation, f"options: {options}" if options else ""))
    rows += [(name, f"from another package: {point.value}", "") for name, point in offered().items()]
    print_listing(rows, "Example: autapse run adding --cell ernn:inner_steps=2:alignment=exact")
