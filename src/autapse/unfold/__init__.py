"""How a cell becomes a sequence."""

from autapse.unfold.fused import scan_fused
from autapse.unfold.parallel import Parallel
from autapse.unfold.reference import scan_reference
from autapse.unfold.scan import scan

__all__ = ["Parallel", "scan", "scan_fused", "scan_reference"]
