"""GMRES and BiCGStab: Krylov methods that solve each problem of a batch as if it were alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.limits import Limits
from autapse.solve.operator import Operator
from autapse.solve.system import Groups

SMALL = 1e-300  # below any number that is divided by
NOISE = 8.0  # roundings of a product, below which what is left of it is nothing
DIVERGED = 1e6  # times the right side: a residual from which BiCGStab does not come back


@dataclass(frozen=True)
class LinearReport:
    """What a linear solver says of each of B problems. Tensors are detached and where the right side is."""

    converged: Tensor  # [B] bool
    residual: Tensor  # [B] float64, ‖b − A·x‖ / ‖b‖ as the method knows it
    iterations: Tensor  # [B] int64
    evaluations: Tensor  # [B] float64, products with A, or what costs as much


@dataclass(frozen=True, kw_only=True)
class LinearSolver(Limits, ABC):
    """A way to solve A·x = b: `x, report = solver.solve(operator, b)`.

    `rtol=None` leaves the tolerance to the caller, and is 1e-6 without one.
    """

    iterative: ClassVar[bool] = True
    """Whether it needs products with A alone; a direct solver needs its blocks."""
    default_iterations: ClassVar[int] = 40

    @abstractmethod
    @torch.no_grad()
    def solve(
        self,
        operator: Operator,
        b: Tensor,
        rtol: float | Tensor | None = None,  # one for all, or [B]; for a solver whose own rtol is None
        active: Tensor | None = None,  # [B] bool, the problems to solve; x is zero for the others
    ) -> tuple[Tensor, LinearReport]:
        """The solutions, from a start of zero, and how each problem went."""

    def _begin(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None, active: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:  # [B] each
        """‖b‖, the norms of the residuals that are to be reached, and which problems are asked for."""
        size = operator.groups.norm(b).double()
        wanted = torch.ones_like(size, dtype=torch.bool) if active is None else active
        return size, self._goal(size, rtol), wanted

    def _goal(self, size: Tensor, rtol: float | Tensor | None) -> Tensor:
        """The norm of the residual that each problem has to reach; `size` is ‖b‖."""
        own = self.rtol if self.rtol is not None else 1e-6 if rtol is None else rtol
        return own * size.double() + self.atol


def linear_report(
    found: Tensor,  # [B] the norms of the residuals, infinite where there is no solution
    goal: Tensor,
    size: Tensor,  # [B] ‖b‖
    wanted: Tensor,  # [B] bool
    iterations: Tensor,
    evaluations: Tensor,
) -> LinearReport:
    """The report; a problem that was not asked for has converged."""
    done = (found <= goal) & torch.isfinite(size)
    relative = torch.where(found == 0, 0.0, found / size).nan_to_num(nan=torch.inf, posinf=torch.inf)
    return LinearReport(done | ~wanted, relative, iterations, evaluations)


@dataclass(frozen=True, kw_only=True)
class GMRES(LinearSolver):
    """The least residual in the Krylov space of each problem, right-preconditioned, up to 40 iterations.

    No restarts: what the space of `max_iterations` vectors cannot do is left.
    """

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        limit = self._limit()
        size, goal, wanted = self._begin(operator, b, rtol, active)
        working = wanted & (size > goal) & torch.isfinite(size)
        space = _Space(operator, torch.where(operator.groups.spread(working, b), b, 0.0), size, limit)
        used, count = torch.zeros_like(size, dtype=torch.long), torch.zeros_like(size)
        residual = size.clone()
        for n in range(limit):
            if not bool(working.any()):
                break
            norm = space.extend(n)
            count += working
            working = working & torch.isfinite(norm)
            used, residual = used + working, torch.where(working, norm, residual)
            working = working & (norm > goal) & ~space.exhausted
        return space.combine(used), linear_report(residual, goal, size, wanted, count.long(), count)


@dataclass(frozen=True, kw_only=True)
class BiCGStab(LinearSolver):
    """Stabilised bi-conjugate gradients, right-preconditioned, up to 40 iterations of two products each.

    Needs little memory and no growing sums, but its residual goes up and down: the best iterate is what is returned. A
    problem that breaks down (a division by zero) stays at its best one.
    """

    shared: bool = False
    """One pair of step lengths for the whole batch, as if it were a single large system; for comparison with papers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.boolean("shared", self.shared)

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        limit = self._limit()
        size, goal, wanted = self._begin(operator, b, rtol, active)
        asked = wanted & (size > goal) & torch.isfinite(size)
        b = torch.where(operator.groups.spread(asked, b), b, 0.0)
        # Scalars are of each problem or, shared, of the one that has all rows.
        groups = operator.groups.merged(b.device) if self.shared else operator.groups
        target = torch.where(asked, goal, 0.0).square().sum().sqrt().unsqueeze(0) if self.shared else goal
        recurrence = _Recurrence(operator, groups, b, target)
        residual, count = size.clone(), torch.zeros_like(size)
        for _ in range(limit):
            if not bool(recurrence.working.any()):
                break
            count += asked & recurrence.working
            better, norm = recurrence.step()
            residual = torch.where(asked & better, norm, residual)
        return recurrence.best, linear_report(residual, goal, size, wanted, count.long(), 2 * count)


class _Recurrence:
    """The vectors and scalars of BiCGStab; those of a problem that is done are zero, and stay so."""

    def __init__(self, operator: Operator, groups: Groups, b: Tensor, goal: Tensor) -> None:
        self.operator, self.groups, self.goal = operator, groups, goal
        self.precondition = operator.precondition() or (lambda v: v)
        self.x = self.best = torch.zeros_like(b)
        self.r = self.p = self.shadow = b
        self.rho = self._dot(b, b)
        self.size = self.least = self.rho.sqrt()
        self.working = self.size > 0

    def _dot(self, a: Tensor, b: Tensor) -> Tensor:
        return self.groups.dot(a, b).double()

    def step(self) -> tuple[Tensor, Tensor]:
        """One iteration: whether its residual was the least so far, and the norm of each problem's residual."""
        spread = self.groups.spread
        image = self.precondition(self.p)
        v = self.operator.mv(image)
        alpha = _ratio(self.rho, self._dot(self.shadow, v))
        s = self.r - spread(alpha, v) * v
        stable = self.precondition(s)
        t = self.operator.mv(stable)
        omega = _ratio(self._dot(t, s), self._dot(t, t))
        self.x = self.x + spread(alpha, v) * image + spread(omega, v) * stable
        r = s - spread(omega, v) * t
        better = self._judge(r)
        rho = self._dot(self.shadow, r)
        beta = _ratio(rho, self.rho) * _ratio(alpha, omega)
        # Where a scalar is zero the recurrence has broken down: it would stay where it is.
        self.working = self.working & (beta != 0) & torch.isfinite(beta)
        self.rho, self.r = rho, self._kept(r)
        self.p = self._kept(r + spread(beta, v) * (self.p - spread(omega, v) * v))
        return better, self.operator.groups.norm(r).double()

    def _judge(self, r: Tensor) -> Tensor:
        norm = self._dot(r, r).sqrt()
        # In a null space x may grow without end while the residual does not tell.
        better = self.working & (norm < self.least) & torch.isfinite(self._dot(self.x, self.x))
        self.best = torch.where(self.groups.spread(better, self.x), self.x, self.best)
        self.least = torch.where(better, norm, self.least)
        self.working = self.working & (norm > self.goal) & (norm < DIVERGED * self.size)
        return better

    def _kept(self, rows: Tensor) -> Tensor:
        return torch.where(self.groups.spread(self.working, rows), rows, 0.0)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """The quotient, and 0 where b is."""
    return torch.where(b.abs() > SMALL, a / b, 0.0)


class _Space:
    """The Krylov spaces of a batch, and the least-squares problems in them by Givens rotations."""

    def __init__(self, operator: Operator, b: Tensor, size: Tensor, limit: int) -> None:
        self.operator, self.groups, self.shape = operator, operator.groups, b.shape
        self.precondition = operator.precondition()
        self.basis = [self._scaled(b.flatten(1), size)]
        self.images: list[Tensor] = []  # of the basis under the preconditioner
        count = len(size)
        self.triangle = size.new_zeros(count, limit + 1, limit)
        self.cosines, self.sines = size.new_zeros(count, limit), size.new_zeros(count, limit)
        self.right = size.new_zeros(count, limit + 1)
        self.right[:, 0] = size
        self.exhausted = torch.zeros_like(size, dtype=torch.bool)  # the space holds all that A makes of it

    def _scaled(self, rows: Tensor, norm: Tensor) -> Tensor:
        return rows * self.groups.spread(1 / norm.clamp_min(SMALL), rows).nan_to_num(0.0, 0.0, 0.0)

    def extend(self, n: int) -> Tensor:  # [B]
        """One product with A; the norm of the residual that the larger space allows."""
        v = self.basis[n].view(self.shape)
        image = v if self.precondition is None else self.precondition(v)
        self.images.append(image.flatten(1))
        w = self.operator.mv(image).flatten(1)
        w, column = self._orthogonal(w)
        norm = self.groups.norm(w).double()
        # What is left of a product that lies in the space is rounding, and no new direction.
        noise = NOISE * torch.finfo(w.dtype).eps * torch.hypot(torch.linalg.vector_norm(column, dim=1), norm)
        norm = torch.where(norm <= noise, 0.0, norm)
        self.exhausted |= norm == 0
        self.basis.append(self._scaled(w, norm))
        found = self._rotate(torch.cat([column, norm.unsqueeze(1)], 1), n, noise)
        if not bool(torch.isfinite(found).all()):
            self._forget(torch.isfinite(found))
        return found

    def _forget(self, fine: Tensor) -> None:
        """Zero what is not a number: times a weight of zero it would not be zero."""
        for vectors in (self.basis, self.images):
            vectors[-1] = torch.where(self.groups.spread(fine, vectors[-1]), vectors[-1], 0.0)

    def _orthogonal(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """`w` without its parts along the basis, and these; twice, since once loses digits in float32."""
        basis = torch.stack(self.basis, 1)  # [N, n + 1, k]
        total = torch.zeros((), dtype=torch.float64, device=w.device)
        for _ in range(2):
            parts = self.groups.sum(torch.bmm(basis, w.unsqueeze(2)).squeeze(2))  # [B, n + 1]
            rows = self.groups.each_row(parts)
            w = w - torch.bmm(rows.unsqueeze(1), basis).squeeze(1)
            total = total + parts.double()
        return w, total

    def _rotate(self, column: Tensor, n: int, noise: Tensor) -> Tensor:
        """The new column of the Hessenberg matrix made triangular; the norm of the residual that it leaves."""
        for i in range(n):
            c, s, a, b = self.cosines[:, i], self.sines[:, i], column[:, i].clone(), column[:, i + 1].clone()
            column[:, i], column[:, i + 1] = c * a + s * b, c * b - s * a
        length = torch.hypot(column[:, n], column[:, n + 1])
        # A column of nothing is that of a singular matrix: it must not pass for one that solves the system.
        singular = length <= noise
        length = torch.where(singular, 1.0, length)
        c, s = torch.where(singular, 0.0, column[:, n] / length), torch.where(singular, 1.0, column[:, n + 1] / length)
        self.cosines[:, n], self.sines[:, n] = c, s
        column[:, n], column[:, n + 1] = length, 0.0
        self.triangle[:, : n + 2, n] = column
        last = self.right[:, n].clone()
        self.right[:, n], self.right[:, n + 1] = c * last, -s * last
        return self.right[:, n + 1].abs()

    def combine(self, count: Tensor) -> Tensor:
        """The solution of each problem in the space of its own `count` vectors."""
        size = len(self.images)
        if size == 0:
            return torch.zeros_like(self.basis[0]).view(self.shape)
        unused = torch.arange(size, device=count.device) >= count[:, None]
        triangle = self.triangle[:, :size, :size].masked_fill(unused[:, None, :] | unused[:, :, None], 0.0)
        triangle = triangle + torch.diag_embed(unused.double())
        right = self.right[:, :size].masked_fill(unused, 0.0)
        weights = torch.linalg.solve_triangular(triangle, right.unsqueeze(2), upper=True).squeeze(2)
        weights = weights.nan_to_num(0.0, 0.0, 0.0).to(self.basis[0].dtype)
        rows = self.groups.each_row(weights)
        return torch.bmm(rows.unsqueeze(1), torch.stack(self.images, 1)).view(self.shape)
