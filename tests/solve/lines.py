"""A small coupled chain as a System, ragged and in two colours, with dense matrices behind all that it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from autapse.solve import Blocks, Groups, Linear, Point, System


class Layout:
    """Rows by position, even positions first; at each position the longest problem first."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths, self.extent = list(lengths), max(lengths, default=0)
        order = sorted(range(len(lengths)), key=lambda p: -lengths[p])
        self.keys: list[tuple[int, int]] = []  # (problem, position) of each row
        self.slices: dict[int, slice] = {}
        for parity in (0, 1):
            for t in range(parity, self.extent, 2):
                here = [(p, t) for p in order if lengths[p] > t]
                self.slices[t] = slice(len(self.keys), len(self.keys) + len(here))
                self.keys += here
            if parity == 0:
                self.even = len(self.keys)
        self.row = {key: n for n, key in enumerate(self.keys)}
        self.owner = torch.tensor([p for p, _ in self.keys], dtype=torch.long)
        self.before, self.after = self._neighbours(-1), self._neighbours(1)

    def _neighbours(self, offset: int) -> Tensor:
        """The row at an offset from each; past the ends that of a zero after the last."""
        return torch.tensor([self.row.get((p, t + offset), len(self.keys)) for p, t in self.keys], dtype=torch.long)


class Chainlike(System):
    """h_t = a∘h_{t−1} + c∘h_{t+1} + φ(A·h_{t−1} + B·h_{t+1} + x_t), zero past the ends; φ is tanh or nothing."""

    def __init__(self, weights: tuple[Tensor, ...], x: Tensor, lengths: Sequence[int], linear: bool = False) -> None:
        self.weights, self.x, self.linear = weights, x, linear
        self.layout = Layout(lengths)
        self.groups = Groups(len(lengths), self.layout.owner)
        self.calls = 0

    @property
    def extent(self) -> int:
        return self.layout.extent

    def near(self, z: Tensor) -> tuple[Tensor, Tensor]:
        padded = torch.cat([z, z.new_zeros(1, z.shape[1])])
        return padded[self.layout.before], padded[self.layout.after]

    def evaluate(self, z: Tensor) -> Tensor:
        self.calls += 1
        a, c, A, B = self.weights
        before, after = self.near(z)
        inside = before @ A.T + after @ B.T + self.x
        return a * before + c * after + (inside if self.linear else inside.tanh())

    def zero(self) -> Tensor:
        return torch.zeros_like(self.x)

    def select(self, problems: Tensor) -> tuple[Chainlike, Tensor]:
        chosen = problems.tolist()
        layout = Layout([self.layout.lengths[p] for p in chosen])
        rows = torch.tensor([self.layout.row[chosen[p], t] for p, t in layout.keys], dtype=torch.long)
        return type(self)(self.weights, self.x[rows], layout.lengths, self.linear), rows

    def linearize(self, z: Tensor) -> tuple[Tensor, Slope]:
        a, c, A, B = self.weights
        before, after = self.near(z)
        inside = before @ A.T + after @ B.T + self.x
        slope = torch.ones_like(inside) if self.linear else 1 - inside.tanh() ** 2
        return self.evaluate(z), Slope(self, a.diag() + slope[:, :, None] * A, c.diag() + slope[:, :, None] * B)

    @property
    def free_groups(self) -> Groups:
        return Groups(self.groups.count, self.layout.owner[: self.layout.even])

    def free(self, z: Tensor) -> Tensor:
        return z[: self.layout.even]

    def select_free(self, rows: Tensor) -> Tensor:
        return rows[rows < self.layout.even]

    def relax(self, free: Tensor) -> Point:
        even = self.layout.even
        z = torch.cat([free, self.evaluate(torch.cat([free, self.x[even:]]))[even:]])
        residual = self.evaluate(z)[:even] - free
        solve = self.elementwise()
        return Point(z, residual, lambda r: solve(torch.cat([r, torch.zeros_like(self.x[even:])]))[:even])

    def elementwise(self, transposed: bool = False) -> Callable[[Tensor], Tensor]:
        """(I − T)⁻¹, T having a and c alone: one dense inverse per channel, problem by problem."""
        n, (a, c, _, _) = len(self.x), self.weights
        eye = torch.eye(n + 1, dtype=self.x.dtype)
        before, after = eye[self.layout.before][:, :n], eye[self.layout.after][:, :n]
        inverses = torch.linalg.inv(eye[:n, :n] - a[:, None, None] * before - c[:, None, None] * after)
        inverses = inverses.mT if transposed else inverses

        def apply(v: Tensor) -> Tensor:
            result = torch.zeros_like(v)
            for p in range(self.groups.count):
                rows = (self.layout.owner == p).nonzero()[:, 0]
                result[rows] = (inverses[:, rows][:, :, rows] @ v[rows].T.unsqueeze(2)).squeeze(2).T
            return result

        return apply

    def positions(self) -> Sequence[slice]:
        return [self.layout.slices[t] for t in range(self.extent)]

    def colours(self) -> Sequence[slice]:
        return [slice(0, self.layout.even), slice(self.layout.even, len(self.x))]


class Slope(Linear):
    def __init__(self, system: Chainlike, lower: Tensor, upper: Tensor) -> None:
        self.system, self.groups = system, system.groups
        before, after = ((rows < len(system.x))[:, None, None] for rows in (system.layout.before, system.layout.after))
        self.lower, self.upper = lower * before, upper * after

    def jvp(self, v: Tensor) -> Tensor:
        before, after = self.system.near(v)
        return (self.lower @ before.unsqueeze(2) + self.upper @ after.unsqueeze(2)).squeeze(2)

    def vjp(self, v: Tensor) -> Tensor:
        return (self.dense().T @ v.flatten()).view_as(v)

    def precondition(self, transposed: bool = False) -> Callable[[Tensor], Tensor]:
        return self.system.elementwise(transposed)

    def blocks(self) -> Blocks:
        slices = self.system.positions()
        return Blocks(self.lower, self.upper, [s.start for s in slices], [s.stop - s.start for s in slices])

    def dense(self) -> Tensor:
        """J as one matrix of all unknowns, put together from its definition."""
        n, k = self.system.x.shape
        J = self.system.x.new_zeros(n, k, n, k)
        for part, others in ((self.lower, self.system.layout.before), (self.upper, self.system.layout.after)):
            for row, other in enumerate(others.tolist()):
                if other < n:
                    J[row, :, other] += part[row]
        return J.view(n * k, n * k)


def chain(
    lengths: Sequence[int] = (3, 7, 1, 5),
    k: int = 3,
    strength: float = 0.14,  # the norm of A and of B
    through: float = 0.35,  # a and c are below it
    linear: bool = False,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Chainlike:
    """If 2·(strength + through) < 1, F is a contraction for every seed: it has one solution, and I − J is regular."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    matrix = lambda: (drawn := draw(k, k)) * (strength / torch.linalg.matrix_norm(drawn, 2))
    weights = (*(through * draw(k).sigmoid() for _ in range(2)), *(matrix() for _ in range(2)))
    return Chainlike(tuple(w.to(dtype) for w in weights), draw(sum(lengths), k).to(dtype), lengths, linear)


def truth(system: Chainlike) -> Tensor:
    """The solution of a linear chain by one dense factorisation."""
    _, slope = system.linearize(system.zero())
    J = slope.dense()
    b = system.evaluate(system.zero()).flatten()
    return torch.linalg.solve(torch.eye(len(J), dtype=J.dtype) - J, b).view_as(system.x)
