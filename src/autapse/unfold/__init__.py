"""How a cell is run over sequences: one strategy per file."""

from __future__ import annotations

import inspect

from autapse.cells import Cell
from autapse.cells.base import looks_ahead
from autapse.unfold.base import Unfold, Unfolded
from autapse.unfold.fused import scan_fused
from autapse.unfold.implicit import Solve
from autapse.unfold.parallel import Parallel
from autapse.unfold.pointwise import Pointwise
from autapse.unfold.reference import scan_reference
from autapse.unfold.scan import Scan

__all__ = ["Parallel", "Pointwise", "Scan", "Solve", "Unfold", "Unfolded", "scan_fused", "scan_reference"]


def strategy_class(cell: type[Cell]) -> type[Unfold]:
    """The default strategy of a cell: a solve of the whole sequence if it looks ahead, a scan if it looks back."""
    return Solve if looks_ahead(cell) else Scan if cell.stencil else Pointwise


def strategy_settings(cell: type[Cell]) -> dict[str, inspect.Parameter]:
    """The settings of a cell's default strategy, by name."""
    return dict(inspect.signature(strategy_class(cell)).parameters)
