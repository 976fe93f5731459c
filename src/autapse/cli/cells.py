"""`autapse cells`: what networks there are."""

from __future__ import annotations

from dataclasses import dataclass

from autapse.cli.parse import parse


@dataclass
class Cells:
    """List the networks: name, equation, options with their defaults."""


def main(words: list[str]) -> None:
    parse(Cells, "cells", words)
    from rich.console import Console

    from autapse.cells.base import cell_options
    from autapse.layers.names import LAYERS

    console = Console(highlight=False)
    width = max(map(len, LAYERS))
    for name, layer in LAYERS.items():
        equation = (layer.cell_type.__doc__ or "").splitlines()[0]
        console.print(f"[bold]{name:<{width}}[/]  {equation}", soft_wrap=True)
        options = [f"{option}={p.default}" for option, p in cell_options(layer.cell_type).items()]
        if options:
            console.print(f"{'':<{width}}  options: {', '.join(options)}", style="dim", soft_wrap=True, markup=False)
    console.print("\nUse: autapse run adding --cell ernn:inner_steps=2:alignment=exact", markup=False)
