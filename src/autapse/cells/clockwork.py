"""Clockwork: groups of units that change at different rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells.base import Cell, Scans, uniform_, zeros_
from autapse.cells.groups import group_of
from autapse.forms import ACTIVATIONS, Leaky, State
from autapse.sequences.steps import add_steps, rows_of_steps


class Clockwork(Cell):
    """h'_g = act(W_g·x + b_g + Σ_{k ≥ g} R_gk·h_k) if t mod p_g = 0, else h_g

    The textbook's section 10.7.9 and figure 10.20 (El Hihi and Bengio 1996; Koutník et al. 2014). The units are in
    groups, each with a period p_g. A group changes only at positions t that are multiples of its period, and reads
    itself and the groups with longer periods. The groups are consecutive units of about equal number, the shortest
    period first. W and R start uniform in ±1/√n, b = 0.

    Positions count from `start` of a call, so that pieces of a sequence with carried state equal the whole. In the
    reverse direction they count from each sequence's own end.

    A group costs its own steps only. Slower groups do not depend on faster ones, so the compiled kernels run one group
    after the other, the slowest first, each over the steps at which it changes.

    Args:
        periods: the period of each group, in steps. In any order; equal ones are allowed.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        periods: Sequence[int] = (1, 2, 4, 8),
        nonlinearity: str = "tanh",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.periods = self._checked_periods(periods)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.group_sizes = torch.bincount(group_of(hidden_size, len(self.periods))).tolist()
        self.weight_ih = self._parameter(hidden_size, input_size)
        for g, (size, first) in enumerate(zip(self.group_sizes, self._firsts(), strict=True)):
            self.register_parameter(f"weight_hh_{g}", self._parameter(size, hidden_size - first))
        self.bias_h = self._bias(hidden_size)
        self.reset_parameters()

    def _checked_periods(self, periods: Any) -> tuple[int, ...]:
        if not isinstance(periods, Sequence) or isinstance(periods, str) or not periods:
            checks.fail("periods", "be a list of steps, as in (1, 2, 4, 8)", periods, kind=checks.KindError)
        if len(periods) > self.hidden_size:
            rule = f"be at most as many as units, {self.hidden_size}"
            checks.fail("periods", rule, tuple(periods))
        return tuple(sorted(checks.integer("periods", period, minimum=1) for period in periods))

    def _firsts(self) -> list[int]:
        """The first unit of each group."""
        return [sum(self.group_sizes[:g]) for g in range(len(self.group_sizes))]

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, *self._matrices())
        zeros_(self.bias_h)

    def _matrices(self) -> list[Tensor]:
        return [getattr(self, f"weight_hh_{g}") for g in range(len(self.periods))]

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    def prepare(self) -> list[Tensor]:
        """The matrix of each group: it reads its own units, then those of the slower groups."""
        return self._matrices()

    def step(self, u: Tensor, state: State, weights: list[Tensor], t: int) -> State:
        (h,) = state
        act, new = ACTIVATIONS[self.nonlinearity].apply, []
        for period, size, first, matrix in zip(self.periods, self.group_sizes, self._firsts(), weights, strict=True):
            own = slice(first, first + size)
            new.append(act(torch.addmm(u[:, own], h[:, first:], matrix.t())) if t % period == 0 else h[:, own])
        return (torch.cat(new, dim=1),)

    # One group after the other ----------------------------------------------------------------------------------

    @property
    def runs_in_parts(self) -> bool:  # type: ignore[override]
        return type(self).step is Clockwork.step and type(self).drive is Cell.drive

    def in_parts(self, x: Tensor, state: State, sizes: Sequence[int], start: int, parts: Scans) -> tuple[State, State]:
        groups = list(zip(self.periods, self.group_sizes, self._firsts(), self._matrices(), strict=True))
        held: list[Tensor] = []  # the states of the groups so far at every step, the slowest last
        final: list[Tensor] = []
        slower: list[_Group] = []
        for period, size, first, matrix in reversed(groups):
            due = [t for t in range(len(sizes)) if (start + t) % period == 0]
            counts = [sizes[t] for t in due]
            own = slice(first, first + size)
            bias = None if self.bias_h is None else self.bias_h[own]
            u = F.linear(rows_of_steps(x, sizes, None, due, counts), self.weight_ih[own], bias)
            column = size
            for other in reversed(slower):
                width = other.initial.shape[1]
                u = other.add_product(u, matrix[:, column : column + width], [t - 1 for t in due], counts)
                column += width
            initial = state[0][:, own]
            (h,), (h_n,) = parts.form(Leaky(matrix[:, :size], self.nonlinearity), u, (initial,), counts)
            group = _Group(h, initial, due, counts)
            slower.append(group)
            held.insert(0, group.at(range(len(sizes)), sizes))
            final.insert(0, h_n)
        return (torch.cat(held, dim=1),), (torch.cat(final, dim=1),)


class _Group:
    """The states of a group at the steps where it changes."""

    def __init__(self, states: Tensor, initial: Tensor, due: Sequence[int], counts: Sequence[int]) -> None:
        self.states, self.initial, self.due, self.counts = states, initial, due, counts

    def at(self, steps: Sequence[int], counts: Sequence[int]) -> Tensor:
        """The states after each of these steps, of as many sequences."""
        return rows_of_steps(self.states, self.counts, self.initial, self._last(steps), counts)

    def add_product(self, u: Tensor, matrix: Tensor, steps: Sequence[int], counts: Sequence[int]) -> Tensor:
        """u plus `at` times a matrix. A state that is read several times is multiplied once."""
        states, initial = F.linear(self.states, matrix), F.linear(self.initial, matrix)
        return add_steps(u, states, self.counts, initial, self._last(steps), counts)

    def _last(self, steps: Sequence[int]) -> list[int]:
        """The index of the last change at or before each step; -1 if there is none."""
        last, result = -1, []
        for step in steps:  # in increasing order
            while last + 1 < len(self.due) and self.due[last + 1] <= step:
                last += 1
            result.append(last)
        return result
