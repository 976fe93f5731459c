"""How a solution is differentiated: by its equation, or through some steps at the solution."""

from autapse.gradient.base import Adjoint, Gradient, Solved
from autapse.gradient.implicit import Implicit
from autapse.gradient.phantom import Phantom
from autapse.gradient.unrolled import Unrolled

__all__ = ["Adjoint", "Gradient", "Implicit", "Phantom", "Solved", "Unrolled"]
