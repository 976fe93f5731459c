"""How a cell becomes a sequence: one strategy per file."""

from __future__ import annotations

import inspect
from typing import Any

from autapse.cells import Cell
from autapse.unfold.base import Unfold, Unfolded
from autapse.unfold.fused import scan_fused
from autapse.unfold.implicit import Solve
from autapse.unfold.parallel import Parallel
from autapse.unfold.reference import scan_reference
from autapse.unfold.scan import Scan

__all__ = [
    "Parallel",
    "Scan",
    "Solve",
    "Unfold",
    "Unfolded",
    "default_strategy",
    "scan_fused",
    "scan_reference",
    "strategy_settings",
]


def _strategy_class(cell: type[Cell]) -> type[Unfold]:
    return Solve if max(cell.stencil) > 0 else Scan


def default_strategy(cell: type[Cell], **settings: Any) -> Unfold:
    """The strategy that a cell's stencil asks for: a solve of the whole sequence if it looks ahead, else a scan."""
    return _strategy_class(cell)(**settings)


def strategy_settings(cell: type[Cell]) -> dict[str, inspect.Parameter]:
    """The settings of a cell's default strategy, by name."""
    return dict(inspect.signature(_strategy_class(cell)).parameters)
