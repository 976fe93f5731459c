"""Draws the picture of docs/cells/deep.md: the length of the shortest path over the lag.

.venv/bin/python docs/pictures/paths.py
"""

from __future__ import annotations

from pathlib import Path

import autapse
from autapse.diagnostics import shortest_path
from autapse.diagnostics.plots import Panel, draw_svg

HERE = Path(__file__).resolve().parent
LAGS = range(21)


def main() -> None:
    panels = []
    for cell, name in (("rnn", "RNN"), ("gru", "GRU")):
        layers = {
            name: getattr(autapse, name)(3, 4),
            "transition_depth=2": autapse.Deep(3, 4, cell=cell, transition_depth=2),
            "transition_depth=2, skip": autapse.Deep(3, 4, cell=cell, transition_depth=2, skip=True),
        }
        curves = {label: [(lag, shortest_path(layer, lag).maps) for lag in LAGS] for label, layer in layers.items()}
        panels.append(Panel(name, "lag", "nonlinear maps on the shortest path", False, curves))
    (HERE / "paths.svg").write_bytes(draw_svg(panels))


if __name__ == "__main__":
    main()
