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
from autapse.sequences.steps import Track, add_steps, rows_of_steps, side_by_side


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
        own = torch.split(state[0], self.group_sizes, dim=1)
        weights = torch.split(self.weight_ih, self.group_sizes)
        biases: Sequence[Tensor | None] = [None] * len(own)
        if self.bias_h is not None:
            biases = torch.split(self.bias_h, self.group_sizes)
        matrices = [m.split(self.group_sizes[g:], dim=1) for g, m in enumerate(self._matrices())]
        tracks: list[Track] = []  # the states of the groups so far, the slowest last
        final: list[Tensor] = []
        read: list[list[Track]] = [[] for _ in own]  # the products with slower groups that each group still reads
        for g in reversed(range(len(own))):
            due = range(-start % self.periods[g], len(sizes), self.periods[g])
            counts = sizes[due.start :: due.step]
            u = _product(rows_of_steps(x, sizes, None, due, counts), weights[g], biases[g])
            for product in read[g]:
                u = add_steps(u, product, range(due.start - 1, due.stop - 1, due.step), counts)
            (h,), (h_n,) = parts.form(Leaky(matrices[g][0], self.nonlinearity), u, (own[g],), counts)
            tracks.insert(0, Track(h, own[g], due, counts))
            final.insert(0, h_n)
            for faster in range(g):
                read[faster] = _with_product(read[faster], tracks[0], matrices[faster][g - faster])
        return (side_by_side(tracks, sizes),), (torch.cat(final, dim=1),)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # [N, D], [S, D], [S] -> [N, S]
    """W·x + b, as `F.linear`. With few features and many rows the gradient of W is up to five times faster this way."""
    across = weight.t().contiguous()  # for a transposed view, autograd would multiply in the slower order
    return x @ across if bias is None else torch.addmm(bias, x, across)


def _with_product(read: list[Track], states: Track, matrix: Tensor) -> list[Track]:
    """These tracks and the states times a matrix: as one track where it changes whenever they do."""
    rows, before = F.linear(states.rows, matrix), F.linear(states.before, matrix)
    others = []
    for track in read:
        if not track.steps.step % states.steps.step:
            rows, before = add_steps(rows, track, states.steps, states.counts), before + track.before
        else:
            others.append(track)
    return [*others, states._replace(rows=rows, before=before)]
