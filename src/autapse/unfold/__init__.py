"""How a cell is run over sequences: one strategy per file."""

from __future__ import annotations

import inspect

from autapse.cells import Cell
from autapse.unfold.base import Unfold, Unfolded
from autapse.unfold.fused import scan_fused
from autapse.unfold.implicit import Solve
from autapse.unfold.parallel import Parallel
from autapse.unfold.reference import scan_reference
from autapse.unfold.scan import Scan

__all__ = ["Parallel", "Scan", "Solve", "Unfold", "Unfolded", "scan_fused", "scan_reference"]


def strategy_class(cell: type[Cell]) -> type[Unfold]:
    """The default strategy of a cell: a solve of the whole sequence if it looks ahead, else a scan."""
    return Solve if max(cell.stencil) > 0 else Scan


def strategy_settings(cell: type[Cell]) -> dict[str, inspect.Parameter]:
    """The settings of a cell's default strategy, by name."""
    return dict(inspect.signature(strategy_class(cell)).parameters)
