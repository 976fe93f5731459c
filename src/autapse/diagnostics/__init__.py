"""Diagnostics: probes compute values, plots draw values. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.diagnostics.contraction import Contraction
    from autapse.diagnostics.paths import ShortestPath, shortest_path

__all__ = ["Contraction", "ShortestPath", "shortest_path"]

__getattr__ = lazy(
    __name__,
    {
        "autapse.diagnostics.contraction": "Contraction",
        "autapse.diagnostics.paths": "ShortestPath shortest_path",
    },
)
