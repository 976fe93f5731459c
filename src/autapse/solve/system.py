"""System: a batch of equations z = F(z), which is all that a solver knows of a network."""

from __future__ import annotations

import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.report import SolveReport


class Groups:
    """Which problem each row of the unknowns belongs to: sums, norms and scales by problem."""

    def __init__(self, count: int, owner: Tensor | None = None) -> None:
        """`count` problems; row n belongs to problem `owner[n]`, or to problem n where there is no owner."""
        self.count, self.owner = count, owner

    def sum(self, rows: Tensor) -> Tensor:  # [N, ...] -> [B, ...]
        """The sum over the rows of each problem."""
        if self.owner is None:
            return rows
        return rows.new_zeros(self.count, *rows.shape[1:]).index_add_(0, self.owner, rows)

    def dot(self, a: Tensor, b: Tensor) -> Tensor:  # [N, ...] -> [B]
        a, b = a.flatten(1), b.flatten(1)
        return self.sum(torch.linalg.vecdot(a, b))

    def norm(self, a: Tensor) -> Tensor:  # [N, ...] -> [B]
        return self.dot(a, a).sqrt()

    def each_row(self, values: Tensor) -> Tensor:  # [B, ...] -> [N, ...]
        """What each problem has, for each of its rows."""
        return values if self.owner is None else values.index_select(0, self.owner)

    def spread(self, values: Tensor, like: Tensor) -> Tensor:  # [B] -> [N, 1, ...]
        """A value per problem as a factor of the rows of `like`."""
        rows = self.each_row(values)
        return rows.to(like.dtype if values.is_floating_point() else values.dtype).view(-1, *[1] * (like.dim() - 1))

    def rows(self, problems: Tensor) -> Tensor:  # [b] -> [n]
        """The rows of some problems; for groups without an owner."""
        if self.owner is not None:
            raise NotImplementedError("A system whose problems have several rows selects them itself.")
        return problems

    def merged(self, device: torch.device | None = None) -> Groups:
        """The same rows as one single problem; `device` is where they are, for groups without an owner."""
        if self.owner is not None:
            return Groups(1, torch.zeros_like(self.owner))
        return Groups(1, torch.zeros(self.count, dtype=torch.long, device=device))


class Linear(ABC):
    """The derivative J of a system at one point."""

    groups: Groups

    @abstractmethod
    def jvp(self, v: Tensor) -> Tensor:
        """J·v, of the shape of the unknowns."""

    @abstractmethod
    def vjp(self, v: Tensor) -> Tensor:
        """Jᵀ·v, of the shape of the unknowns."""

    def precondition(self, transposed: bool = False) -> Callable[[Tensor], Tensor] | None:
        """An approximate (I − J)⁻¹ or (I − J)⁻ᵀ without matrix products, where the system has one."""
        return None

    def blocks(self) -> Blocks:
        """J as blocks on a line, for direct solvers."""
        raise NotImplementedError(f"{type(self).__name__} has no blocks: use GMRES() or BiCGStab() instead.")


class Blocks(NamedTuple):
    """A block-tridiagonal I − J: at each position t of a line, y_t − L_t·y_{t−1} − U_t·y_{t+1}."""

    lower: Tensor  # [N, k, k], L_t; zero at the first position of a problem
    upper: Tensor  # [N, k, k], U_t; zero at the last position
    first: Sequence[int]  # [n], the row at which each position begins
    sizes: Sequence[int]  # [n], rows at each position, never more than before; row j belongs to the same problem at all

    def transposed(self) -> Blocks:
        """The transpose: what t has of t + 1 is what t + 1 had of t."""
        lower, upper = torch.zeros_like(self.lower), torch.zeros_like(self.upper)
        for t in range(1, len(self.sizes)):
            size = self.sizes[t]
            here, there = slice(self.first[t], self.first[t] + size), slice(self.first[t - 1], self.first[t - 1] + size)
            lower[here] = self.upper[there].transpose(1, 2)
            upper[there] = self.lower[here].transpose(1, 2)
        return Blocks(lower, upper, self.first, self.sizes)


class Point(NamedTuple):
    """What one evaluation tells at a point."""

    z: Tensor  # the whole unknown
    residual: Tensor  # F(z) − z on the free rows; zero on the others
    correct: Callable[[Tensor], Tensor]  # approximately (I − J)⁻¹ on the free rows


class Relaxing(NamedTuple):
    """The settings of the tridiagonal iteration, for a system that has its own way to run it."""

    rtol: float
    atol: float
    max_iterations: int
    window: int
    threshold: float
    guard: float


class System(ABC):
    """z = F(z) for a batch of independent problems, whose unknowns are the rows of one tensor.

    `evaluate` and `groups` are needed; the rest is what some solvers can make use of.
    """

    groups: Groups

    @abstractmethod
    def evaluate(self, z: Tensor) -> Tensor:
        """F(z)."""

    @abstractmethod
    def zero(self) -> Tensor:
        """Where a solver starts without a better idea."""

    @abstractmethod
    def select(self, problems: Tensor) -> tuple[System, Tensor]:  # [b], ascending, repeated or not
        """The system of some of the problems, and the rows that it has of this one's."""

    @abstractmethod
    def linearize(self, z: Tensor) -> tuple[Tensor, Linear]:
        """F(z), and its derivative there."""

    @property
    def extent(self) -> int:
        """Positions of the longest problem: more of them may need more iterations."""
        return 1

    # For systems on a line -------------------------------------------------------------------------------------

    @property
    def free_groups(self) -> Groups:
        """The groups of the rows that `relax` leaves free."""
        return self.groups

    def free(self, z: Tensor) -> Tensor:
        """The rows of the unknown that `relax` iterates on."""
        return z

    def relax(self, free: Tensor) -> Point:
        """One evaluation: the other rows exactly from the free ones, the residual there, and a correction."""
        raise NotImplementedError(f"{type(self).__name__} has no elementwise couplings: use Anderson() or Newton().")

    def relaxed(self, start: Tensor, settings: Relaxing) -> tuple[Tensor, SolveReport] | None:
        """The whole iteration of `Tridiagonal`, where the system has a faster way to do the same; else None."""
        return None

    def select_free(self, rows: Tensor) -> Tensor:
        """Of the rows that `select` gave, which of the free ones they are."""
        return rows

    def positions(self) -> Sequence[slice]:
        """The rows of each position of a line, in order; rows of one position do not depend on one another."""
        raise NotImplementedError(f"{type(self).__name__} is on no line: sweeps go along one. Use Anderson().")

    def colours(self) -> Sequence[slice]:
        """The rows of each colour; rows of one colour do not depend on one another."""
        raise NotImplementedError(f"{type(self).__name__} has no colours to sweep over. Use Anderson().")

    def evaluate_rows(self, z: Tensor, rows: slice) -> Tensor:
        """F(z) on some rows, at the cost of these."""
        return self.evaluate(z)[rows]

    def guess(self) -> Tensor:
        """A first guess that knows the network, at the cost of about two evaluations."""
        return self.zero()


class Equations(System):
    """z = f(z, *operands) with a plain function: row b of z and of each operand is problem b.

    >>> from autapse import solve
    >>> equations = Equations(lambda z, b: torch.cos(z) * b, torch.tensor([[0.5], [1.0]]))
    >>> z, report = solve.Newton(rtol=1e-6).solve(equations)
    >>> [round(value, 4) for value in z.flatten().tolist()]
    [0.4502, 0.7391]
    """

    def __init__(self, function: Callable[..., Tensor], *operands: Tensor, start: Tensor | None = None) -> None:
        """`start` has the shape of z; by default z starts as zeros like the first operand."""
        if start is None and not operands:
            checks.fail("start", "be given where there are no operands", start, "It has the shape of z.")
        self.function, self.operands = function, operands
        self.start = torch.zeros_like(operands[0]) if start is None else start
        if self.start.dim() < 2:
            remedy = "Unsqueeze one of shape [B], whose problems have one unknown each."
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
    """J of any function, by automatic differentiation."""

    def __init__(self, function: Callable[[Tensor], Tensor], z: Tensor, groups: Groups) -> None:
        self.function, self.z, self.groups = function, z, groups
        self.value, self._pull = torch.func.vjp(function, z)[:2]

    def jvp(self, v: Tensor) -> Tensor:
        return push(self.function, (self.z,), (v,))

    def vjp(self, v: Tensor) -> Tensor:
        (result,) = self._pull(v)
        return result


def push(function: Callable[..., Tensor], at: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Tensor:
    """The derivative of a function along tangents."""
    _load_forward_mode()
    return torch.func.jvp(function, at, tangents)[1]


@functools.cache
def _load_forward_mode() -> None:
    """Torch compiles its forward derivatives at their first use, and warns there of its own deprecated compiler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(()),), (torch.zeros(()),))
