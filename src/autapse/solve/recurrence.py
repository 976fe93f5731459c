"""Recurrence: h_t = f_t(h_{t−1}) at all steps as one system, and the steps and the adjoint that are such systems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor

from autapse.solve.line import Line

Position = Literal["of each row", "of one step", "any"]  # what a `Transition` takes as t
CHUNK = 1 << 22  # entries of a Jacobian that are computed at a time if only its diagonal is kept


class Recurrence(ABC):
    """h = f(h), where each row depends only on the row before it in its sequence."""

    groups: Line
    first: Tensor  # [B, S], the state before step 0

    @abstractmethod
    def evaluate(self, h: Tensor, before: Tensor) -> Tensor:  # [N, S] each -> [N, S]
        """f(h), given the rows and the row before each."""

    @abstractmethod
    def slope(self, before: Tensor) -> Tensor:  # [N, S] -> [N, S, S], or [N, S] for its diagonal
        """The derivative of each row by the row before it."""

    @abstractmethod
    def select(self, problems: Tensor) -> tuple[Self, Tensor]:  # [b]
        """The recurrence of some sequences, and the index of its rows in this one."""


class Transition(Protocol):
    """One step of any network, from the drive and the state before it."""

    def step(self, u: Tensor, state: tuple[Tensor, ...], t: Any) -> tuple[Tensor, ...]:
        """The new states, each [B, S]."""

    def jacobian(self, u: Tensor, state: tuple[Tensor, ...], t: Any) -> Tensor:
        """d step(u, state, t) / d state, [B, S, S], S the sizes of all states together."""


@dataclass(frozen=True)
class Steps(Recurrence):
    """The steps of a network, from each state to the next."""

    rule: Transition
    position: Position
    drive: Tensor  # [N, G]
    first: Tensor
    groups: Line
    start: int  # position of step 0
    dense: bool  # whether `slope` is a matrix or its diagonal
    sizes: tuple[int, ...]  # of the states

    def evaluate(self, h: Tensor, before: Tensor) -> Tensor:
        return self.step(before)

    def select(self, problems: Tensor) -> tuple[Steps, Tensor]:
        chosen = torch.zeros(self.groups.count, dtype=torch.bool, device=problems.device)
        groups, rows = self.groups.select(chosen.index_fill_(0, problems, True))
        return replace(self, drive=self.drive[rows], first=self.first[problems], groups=groups), rows

    def step(self, before: Tensor) -> Tensor:  # [N, S] -> [N, S]
        """The step of each row, from the state before it."""
        return self._each(lambda *at: torch.cat(self.rule.step(*at), dim=-1), before)

    def slope(self, before: Tensor) -> Tensor:
        if self.dense:
            return self._each(self.rule.jacobian, before)
        rows = max(1, CHUNK // before.shape[-1] ** 2)
        return self._each(lambda *at: self.rule.jacobian(*at).diagonal(dim1=-2, dim2=-1), before, rows)

    def _each(self, run: Callable[..., Tensor], before: Tensor, rows: int | None = None) -> Tensor:
        """`run` on all rows at once; position by position if the rule takes one position at a time."""
        parts = self._parts(rows or len(before))
        results = [run(self.drive[part], before[part].split(self.sizes, dim=-1), t) for part, t in parts]
        return results[0] if len(results) == 1 else torch.cat(results)

    def _parts(self, rows: int) -> list[tuple[slice, Any]]:
        """The rows of each call, and their position."""
        if self.position == "of one step":
            ends = torch.bincount(self.groups.step).cumsum(0).tolist()
            return [(slice(a, b), t) for t, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True), self.start)]
        parts = [slice(n, n + rows) for n in range(0, len(self.drive), rows)]
        each = self.position == "of each row"
        return [(part, self.groups.step[part] + self.start if each else self.start) for part in parts]


@dataclass(frozen=True)
class TransposedSteps(Recurrence):
    """v_t = g_t + J_{t+1}ᵀ·v_{t+1}: the adjoint of the steps at their solution."""

    steps: Steps
    before: Tensor  # [N, S], the state before each step
    gradient: Tensor  # [N, S], g

    @cached_property
    def groups(self) -> Line:  # type: ignore[override]
        return self.steps.groups.reversed()

    @cached_property
    def first(self) -> Tensor:  # type: ignore[override]
        return torch.zeros_like(self.steps.first)

    def evaluate(self, v: Tensor, before: Tensor) -> Tensor:
        product = (self._jacobian.mT @ v.unsqueeze(-1)).squeeze(-1) if self.steps.dense else self._pull(v)
        return self.gradient + self.groups.previous(product, self.first)

    def slope(self, before: Tensor) -> Tensor:
        return self._slope

    @cached_property
    def _slope(self) -> Tensor:
        slope = self._jacobian.mT if self.steps.dense else self._jacobian
        return self.groups.previous(slope, slope.new_zeros(self.groups.count, *slope.shape[1:]))

    def select(self, problems: Tensor) -> tuple[TransposedSteps, Tensor]:
        steps, rows = self.steps.select(problems)
        return TransposedSteps(steps, self.before[rows], self.gradient[rows]), rows

    @cached_property
    def _jacobian(self) -> Tensor:
        return self.steps.slope(self.before)

    @cached_property
    def _graph(self) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            before = self.before.detach().requires_grad_()
            return before, self.steps.step(before)

    def _pull(self, v: Tensor) -> Tensor:
        before, after = self._graph
        return torch.autograd.grad(after, before, v, retain_graph=True)[0]
