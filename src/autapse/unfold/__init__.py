"""How a cell becomes a sequence."""

from autapse.unfold.scan import scan_reference

__all__ = ["scan_reference"]
