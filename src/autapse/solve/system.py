"""System: a batch of equations z = F(z), the interface between solvers and networks."""

from __future__ import annotations

import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.report import SolveReport


class Groups:
    """Which problem each row of the unknowns belongs to.

    Args:
        count: B, the number of problems.
        owner: [N], the problem of each row. None: row n belongs to problem n.

    >>> groups = autapse.solve.Groups(2, owner=torch.tensor([0, 1, 0]))
    >>> groups.sum(torch.tensor([[1.0], [10.0], [2.0]])).flatten()
    tensor([ 3., 10.])
    """

    def __init__(self, count: int, owner: Tensor | None = None) -> None:
        self.count, self.owner = count, owner

    def sum(self, rows: Tensor) -> Tensor:  # [N, ...] -> [B, ...]
        """The sum of the rows of each problem."""
        if self.owner is None:
            return rows
        return rows.new_zeros(self.count, *rows.shape[1:]).index_add_(0, self.owner, rows)

    def dot(self, a: Tensor, b: Tensor) -> Tensor:  # [N, ...] -> [B]
        """The inner product of two tensors, for each problem."""
        a, b = a.flatten(1), b.flatten(1)
        return self.sum(torch.linalg.vecdot(a, b))

    def norm(self, a: Tensor) -> Tensor:  # [N, ...] -> [B]
        """The Euclidean norm of each problem."""
        return self.dot(a, a).sqrt()

    def each_row(self, values: Tensor) -> Tensor:  # [B, ...] -> [N, ...]
        """The value of each problem, repeated for each of its rows."""
        return values if self.owner is None else values.index_select(0, self.owner)

    def spread(self, values: Tensor, like: Tensor) -> Tensor:  # [B] -> [N, 1, ...]
        """A value per problem, in a shape that can be multiplied with `like` [N, ...]."""
        rows = self.each_row(values)
        return rows.to(like.dtype if values.is_floating_point() else values.dtype).view(-1, *[1] * (like.dim() - 1))

    def merged(self, device: torch.device | None = None) -> Groups:
        """The same rows as a single problem. `device` is that of the rows, for groups without an owner."""
        if self.owner is not None:
            return Groups(1, torch.zeros_like(self.owner))
        return Groups(1, torch.zeros(self.count, dtype=torch.long, device=device))


class Linear(ABC):
    """The derivative J of a system at one point.

    A subclass sets `groups` and writes `jvp` and `vjp`. Override `precondition` and `blocks` if they are available.

    >>> class Half(autapse.solve.Linear):
    ...     groups = autapse.solve.Groups(3)
    ...     def jvp(self, v):
    ...         return v / 2
    ...     vjp = jvp
    >>> autapse.solve.Resolvent(Half()).mv(torch.ones(3, 1)).flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """

    groups: Groups
    """Which problem each row belongs to."""

    @abstractmethod
    def jvp(self, v: Tensor) -> Tensor:
        """J·v, with the shape of the unknowns."""

    @abstractmethod
    def vjp(self, v: Tensor) -> Tensor:
        """Jᵀ·v, with the shape of the unknowns."""

    def precondition(self, transposed: bool = False) -> Callable[[Tensor], Tensor] | None:
        """A cheap approximate (I − J)⁻¹ or (I − J)⁻ᵀ, or None if the system has none."""
        return None

    def blocks(self) -> Blocks:
        """I − J as blocks on a line, for direct solvers. Raises NotImplementedError if there are none."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks: use GMRES() or BiCGStab() instead.")


class Blocks(NamedTuple):
    """A block-tridiagonal I − J: (I − J)·y is y_t − L_t·y_{t−1} − U_t·y_{t+1} at each position t of a line.

    The rows of a position are next to each other; row j of every position belongs to the same problem.

    Attributes:
        lower: [N, k, k], L_t, zero at the first position of a problem.
        upper: [N, k, k], U_t, zero at the last position of a problem.
        first: [n], the first row of each position.
        sizes: [n], the number of rows of each position, never more than at the position before.

    >>> lower, upper = torch.tensor([[[0.0]], [[2.0]]]), torch.tensor([[[3.0]], [[0.0]]])
    >>> autapse.solve.Blocks(lower, upper, first=[0, 1], sizes=[1, 1]).transposed().lower.flatten()
    tensor([0., 3.])
    """

    lower: Tensor
    upper: Tensor
    first: Sequence[int]
    sizes: Sequence[int]

    def transposed(self) -> Blocks:
        """The transpose of I − J: L_{t+1} and U_t change places."""
        lower, upper = torch.zeros_like(self.lower), torch.zeros_like(self.upper)
        for t in range(1, len(self.sizes)):
            size = self.sizes[t]
            here, there = slice(self.first[t], self.first[t] + size), slice(self.first[t - 1], self.first[t - 1] + size)
            lower[here] = self.upper[there].transpose(1, 2)
            upper[there] = self.lower[here].transpose(1, 2)
        return Blocks(lower, upper, self.first, self.sizes)


class Point(NamedTuple):
    """The result of `System.relax`.

    Attributes:
        z: [N, ...], all rows of the unknowns.
        residual: F(z) − z on the free rows. It is zero on the others.
        correct: applies an approximate (I − J)⁻¹ to the free rows.

    >>> z = torch.zeros(2, 1)
    >>> point = autapse.solve.Point(z, torch.cos(z) - z, correct=lambda residual: residual)
    >>> point.residual.flatten()
    tensor([1., 1.])
    """

    z: Tensor
    residual: Tensor
    correct: Callable[[Tensor], Tensor]


class Relaxing(NamedTuple):
    """The settings of `Tridiagonal`, for a system that runs the iteration itself (`System.relaxed`).

    Attributes:
        rtol: relative tolerance.
        atol: absolute tolerance.
        max_iterations: largest number of iterations.
        window: how many steps are remembered for the acceleration.
        threshold: relative residual below which steps are accelerated.
        guard: the largest factor of the residual after an accelerated step.

    >>> autapse.solve.Relaxing(1e-4, 0.0, max_iterations=30, window=8, threshold=0.3, guard=1.2).window
    8
    """

    rtol: float
    atol: float
    max_iterations: int
    window: int
    threshold: float
    guard: float


class System(ABC):
    """z = F(z) for a batch of independent problems. The unknowns are the rows of one tensor.

    A subclass sets `groups` and writes `evaluate`, `zero`, `select` and `linearize`. The other methods are for solvers
    that need a line. If a system lacks what a solver needs, the method raises NotImplementedError.

    >>> class Halves(autapse.solve.System):
    ...     def __init__(self, b):
    ...         self.b, self.groups = b, autapse.solve.Groups(len(b))
    ...     def evaluate(self, z):
    ...         return z / 2 + self.b
    ...     def zero(self):
    ...         return torch.zeros_like(self.b)
    ...     def select(self, problems):
    ...         return Halves(self.b[problems]), problems
    ...     def linearize(self, z):
    ...         derivative = autapse.solve.Derivative(self.evaluate, z, self.groups)
    ...         return derivative.value, derivative
    >>> autapse.solve.Newton().solve(Halves(torch.tensor([[1.0], [2.0]])))[0].flatten()
    tensor([2., 4.])
    """

    groups: Groups
    """Which problem each row belongs to."""

    @abstractmethod
    def evaluate(self, z: Tensor) -> Tensor:
        """F(z)."""

    @abstractmethod
    def zero(self) -> Tensor:
        """The default first point of solvers."""

    @abstractmethod
    def select(self, problems: Tensor) -> tuple[Self, Tensor]:  # [b], ascending; an index may be repeated
        """The system of some problems, and the index of its rows in this system."""

    @abstractmethod
    def linearize(self, z: Tensor) -> tuple[Tensor, Linear]:
        """F(z), and the derivative of F at z."""

    extent: int = 1
    """The number of positions of the longest problem, from which solvers choose their iteration limit."""

    # For systems on a line -------------------------------------------------------------------------------------

    @property
    def free_groups(self) -> Groups:
        """The groups of the rows that `relax` iterates on."""
        return self.groups

    def free(self, z: Tensor) -> Tensor:
        """The rows of z that `relax` iterates on."""
        return z

    def relax(self, free: Tensor) -> Point:
        """One evaluation: the other rows, computed exactly from the free ones, the residual, and a correction."""
        raise NotImplementedError(f"{type(self).__name__} has no elementwise couplings: use Anderson() or Newton().")

    def relaxed(self, start: Tensor | None, settings: Relaxing) -> tuple[Tensor, SolveReport] | None:
        """Run all of `Tridiagonal`, from zero by default, if the system has a faster implementation. Otherwise None."""
        return None

    def select_free(self, rows: Tensor) -> Tensor:
        """The index among the free rows of those of the rows that `select` returned."""
        return rows

    def positions(self) -> Sequence[slice]:
        """The rows of each position of a line, in order. Rows of one position do not depend on each other."""
        raise NotImplementedError(f"{type(self).__name__} has no line of positions, which sweeps need. Use Anderson().")

    def colours(self) -> Sequence[slice]:
        """The rows of each colour. Rows of one colour do not depend on each other."""
        raise NotImplementedError(f"{type(self).__name__} has no colours to sweep over. Use Anderson().")

    def evaluate_rows(self, z: Tensor, rows: slice) -> Tensor:
        """F(z) on some rows only."""
        return self.evaluate(z)[rows]

    def guess(self) -> Tensor:
        """A better first point than `zero`, at the cost of about two evaluations."""
        return self.zero()


class Equations(System):
    """z = f(z, *operands) with a plain function. Row b of z and of each operand is problem b.

    Args:
        function: f, which returns a tensor of the shape of z.
        operands: tensors with B rows each.
        start: the default first point, with the shape of z; zeros like the first operand by default.

    >>> equations = autapse.solve.Equations(lambda z, b: torch.cos(z) * b, torch.tensor([[0.5], [1.0]]))
    >>> z, report = autapse.solve.Newton(rtol=1e-6).solve(equations)
    >>> [round(value, 4) for value in z.flatten().tolist()]
    [0.4502, 0.7391]
    """

    def __init__(self, function: Callable[..., Tensor], *operands: Tensor, start: Tensor | None = None) -> None:
        if start is None and not operands:
            checks.fail("start", "be given if there are no operands", start, "It has the shape of z.")
        self.function, self.operands = function, operands
        self.start = torch.zeros_like(operands[0]) if start is None else start
        if self.start.dim() < 2:
            remedy = "If each problem has one unknown, use start.unsqueeze(1)."
            checks.fail("start", "have a row per problem, [B, ...]", tuple(self.start.shape), remedy, checks.ShapeError)
        self.groups = Groups(len(self.start))

    def evaluate(self, z: Tensor) -> Tensor:
        return self.function(z, *self.operands)

    def zero(self) -> Tensor:
        return self.start

    def select(self, problems: Tensor) -> tuple[Equations, Tensor]:
        chosen = (operand.index_select(0, problems) for operand in self.operands)
        return Equations(self.function, *chosen, start=self.start.index_select(0, problems)), problems

    def linearize(self, z: Tensor) -> tuple[Tensor, Linear]:
        derivative = Derivative(self.evaluate, z, self.groups)
        return derivative.value, derivative


class Derivative(Linear):
    """J of any function, by automatic differentiation.

    Args:
        function: F, a function of z.
        z: the point.
        groups: which problem each row of z belongs to.

    `value` is F(z).

    >>> derivative = autapse.solve.Derivative(torch.square, torch.tensor([[3.0]]), autapse.solve.Groups(1))
    >>> derivative.value, derivative.jvp(torch.ones(1, 1))
    (tensor([[9.]]), tensor([[6.]]))
    """

    def __init__(self, function: Callable[[Tensor], Tensor], z: Tensor, groups: Groups) -> None:
        self.function, self.z, self.groups = function, z, groups
        self.value, self._pull = torch.func.vjp(function, z)[:2]

    def jvp(self, v: Tensor) -> Tensor:
        return push(self.function, (self.z,), (v,))

    def vjp(self, v: Tensor) -> Tensor:
        (result,) = self._pull(v)
        return result


def push(function: Callable[..., Tensor], at: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Tensor:
    """The derivative of a function at a point along tangents."""
    _load_forward_mode()
    return torch.func.jvp(function, at, tangents)[1]


@functools.cache
def _load_forward_mode() -> None:
    """Torch compiles its forward derivatives at their first use, and then warns that its compiler is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(()),), (torch.zeros(()),))
