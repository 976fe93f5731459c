"""GMRES and BiCGStab: Krylov methods that treat each problem of a batch separately."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from autapse import checks
from autapse.solve.linear import LinearReport, LinearSolver
from autapse.solve.operator import Operator
from autapse.solve.system import Groups

SMALL = 1e-300  # divisors below it count as zero
NOISE = 8.0  # what is left of a product counts as zero below this many rounding errors
DIVERGED = 1e6  # BiCGStab stops a problem whose residual exceeds this many times the right side


@dataclass(frozen=True, kw_only=True)
class GMRES(LinearSolver):
    """The smallest residual in the Krylov space of each problem, right-preconditioned, up to 40 iterations.

    There are no restarts: the method ends with a space of `max_iterations` vectors.

    >>> A = torch.tensor([[[2.0, 1.0], [1.0, 3.0]]])
    >>> x, report = autapse.solve.GMRES(rtol=1e-5).solve(autapse.solve.Matrices(A), torch.tensor([[3.0, 4.0]]))
    >>> x.round(decimals=3), report.iterations
    (tensor([[1., 1.]]), tensor([2]))
    """

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        limit = self._limit()
        request = self._request(operator, b, rtol, active)
        size, goal, working = request.size, request.goal, request.open
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
        return space.combine(used), request.report(residual, count.long(), count)


@dataclass(frozen=True, kw_only=True)
class BiCGStab(LinearSolver):
    """Stabilised bi-conjugate gradients, right-preconditioned, up to 40 iterations of two products each.

    The method needs little memory, and its cost per iteration does not grow. Its residual goes up and down, so it
    returns the best iterate. A problem that breaks down (a division by zero) stays at its best iterate.

    Args:
        shared: use one pair of step lengths for the whole batch, as if it were one large system; for comparison with
            papers.

    >>> A = torch.tensor([[[2.0, 1.0], [1.0, 3.0]]])
    >>> x, report = autapse.solve.BiCGStab(rtol=1e-5).solve(autapse.solve.Matrices(A), torch.tensor([[3.0, 4.0]]))
    >>> x.round(decimals=3), report.evaluations
    (tensor([[1., 1.]]), tensor([4.], dtype=torch.float64))
    """

    shared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.boolean("shared", self.shared)

    @torch.no_grad()
    def solve(
        self, operator: Operator, b: Tensor, rtol: float | Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, LinearReport]:
        limit = self._limit()
        request = self._request(operator, b, rtol, active)
        asked, goal = request.open, request.goal
        b = torch.where(operator.groups.spread(asked, b), b, 0.0)
        # One scalar per problem; if shared, one for all rows.
        groups = operator.groups.merged(b.device) if self.shared else operator.groups
        target = torch.where(asked, goal, 0.0).square().sum().sqrt().unsqueeze(0) if self.shared else goal
        recurrence = _Recurrence(operator, groups, b, target)
        residual, count = request.size.clone(), torch.zeros_like(goal)
        for _ in range(limit):
            if not bool(recurrence.working.any()):
                break
            count += asked & recurrence.working
            better, norm = recurrence.step()
            residual = torch.where(asked & better, norm, residual)
        return recurrence.best, request.report(residual, count.long(), 2 * count)


class _Recurrence:
    """The vectors and scalars of BiCGStab. Those of a finished problem are zero, and stay zero."""

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
        """One iteration. Returns whether the residual is the smallest so far, and its norm, [B] each."""
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
        # If a scalar is zero, the recurrence has broken down: it would make no progress.
        self.working = self.working & (beta != 0) & torch.isfinite(beta)
        self.rho, self.r = rho, self._kept(r)
        self.p = self._kept(r + spread(beta, v) * (self.p - spread(omega, v) * v))
        return better, self.operator.groups.norm(r).double()

    def _judge(self, r: Tensor) -> Tensor:
        norm = self._dot(r, r).sqrt()
        # In a null space x may grow without limit, and the residual does not show it.
        better = self.working & (norm < self.least) & torch.isfinite(self._dot(self.x, self.x))
        self.best = torch.where(self.groups.spread(better, self.x), self.x, self.best)
        self.least = torch.where(better, norm, self.least)
        self.working = self.working & (norm > self.goal) & (norm < DIVERGED * self.size)
        return better

    def _kept(self, rows: Tensor) -> Tensor:
        return torch.where(self.groups.spread(self.working, rows), rows, 0.0)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 if b is 0."""
    return torch.where(b.abs() > SMALL, a / b, 0.0)


class _Space:
    """The Krylov spaces of a batch. Givens rotations solve the least-squares problems in them."""

    def __init__(self, operator: Operator, b: Tensor, size: Tensor, limit: int) -> None:
        self.operator, self.groups, self.shape = operator, operator.groups, b.shape
        self.precondition = operator.precondition()
        self.basis = [self._scaled(b.flatten(1), size)]
        self.images: list[Tensor] = []  # the preconditioner applied to the basis
        count = len(size)
        self.triangle = size.new_zeros(count, limit + 1, limit)
        self.cosines, self.sines = size.new_zeros(count, limit), size.new_zeros(count, limit)
        self.right = size.new_zeros(count, limit + 1)
        self.right[:, 0] = size
        self.exhausted = torch.zeros_like(size, dtype=torch.bool)  # A maps the space to itself

    def _scaled(self, rows: Tensor, norm: Tensor) -> Tensor:
        return rows * self.groups.spread(1 / norm.clamp_min(SMALL), rows).nan_to_num(0.0, 0.0, 0.0)

    def extend(self, n: int) -> Tensor:  # [B]
        """Add a vector, by one product with A. Returns the smallest norm of the residual in the larger space."""
        v = self.basis[n].view(self.shape)
        image = v if self.precondition is None else self.precondition(v)
        self.images.append(image.flatten(1))
        w = self.operator.mv(image).flatten(1)
        w, column = self._orthogonal(w)
        norm = self.groups.norm(w).double()
        # If the product is in the space, what is left of it is rounding error and not a new direction.
        noise = NOISE * torch.finfo(w.dtype).eps * torch.hypot(torch.linalg.vector_norm(column, dim=1), norm)
        norm = torch.where(norm <= noise, 0.0, norm)
        self.exhausted |= norm == 0
        self.basis.append(self._scaled(w, norm))
        residual = self._rotate(torch.cat([column, norm.unsqueeze(1)], 1), n, noise)
        if not bool(torch.isfinite(residual).all()):
            self._forget(torch.isfinite(residual))
        return residual

    def _forget(self, fine: Tensor) -> None:
        """Set vectors that are not finite to zero: a weight of zero would not remove them."""
        for vectors in (self.basis, self.images):
            vectors[-1] = torch.where(self.groups.spread(fine, vectors[-1]), vectors[-1], 0.0)

    def _orthogonal(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """`w` without its components along the basis, and the components. Done twice: once is inexact in float32."""
        basis = torch.stack(self.basis, 1)  # [N, n + 1, k]
        total = torch.zeros((), dtype=torch.float64, device=w.device)
        for _ in range(2):
            parts = self.groups.sum(torch.bmm(basis, w.unsqueeze(2)).squeeze(2))  # [B, n + 1]
            rows = self.groups.each_row(parts)
            w = w - torch.bmm(rows.unsqueeze(1), basis).squeeze(1)
            total = total + parts.double()
        return w, total

    def _rotate(self, column: Tensor, n: int, noise: Tensor) -> Tensor:
        """Make the new column of the Hessenberg matrix triangular. Returns the norm of the residual."""
        for i in range(n):
            c, s, a, b = self.cosines[:, i], self.sines[:, i], column[:, i].clone(), column[:, i + 1].clone()
            column[:, i], column[:, i + 1] = c * a + s * b, c * b - s * a
        length = torch.hypot(column[:, n], column[:, n + 1])
        # A zero column means that the matrix is singular: it must not look like a solution.
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
        """The solution of each problem in the space of its first `count` vectors."""
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
