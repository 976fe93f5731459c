"""How a solution is differentiated: by its own equation, or through some steps towards it."""

from autapse.gradient.base import Gradient, Solved
from autapse.gradient.implicit import Implicit
from autapse.gradient.unrolled import Phantom, Unrolled

__all__ = ["Gradient", "Implicit", "Phantom", "Solved", "Unrolled"]
