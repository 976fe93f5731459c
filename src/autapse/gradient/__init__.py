"""How a solution is differentiated: by its equation, or through some steps at the solution."""

from autapse.gradient.base import Adjoint, Gradient, Solved
from autapse.gradient.implicit import Implicit
from autapse.gradient.unrolled import Phantom, Unrolled

__all__ = ["Adjoint", "Gradient", "Implicit", "Phantom", "Solved", "Unrolled"]
