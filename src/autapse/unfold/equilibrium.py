"""The scan of an equilibrium rule: each step is solved after the one before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from autapse.cells.equilibrium import EquilibriumRule
from autapse.forms import State
from autapse.solve import SolveReport
from autapse.solve.report import merge
from autapse.unfold.reference import walk
from autapse.unfold.scan import in_pieces, is_whole


def scan_equilibrium(
    rule: EquilibriumRule,
    x: Tensor,  # [N, D], the steps of all sequences: first step of all, second step of those that have one, ...
    state: State,  # each [B, S], longest sequence first
    sizes: Sequence[int],  # how many sequences are running at each step; never grows; sums to N
    start: int = 0,  # position of the first step
    turn: Callable[[Tensor], Tensor] | None = None,  # puts rows into the reverse order and back
    checkpoint_every: int | None = None,
) -> tuple[State, State, SolveReport]:
    """What `scan` gives, and how each sequence went: the worst of its steps, and the sum of their costs."""
    count, weights = len(state[0]), rule.prepare()
    rows = turn(x) if turn else x
    if is_whole(checkpoint_every, sizes):
        states, final, reports = _solved_walk(rule, rows, state, sizes, start, True, weights)
    else:
        every = checkpoint_every or 1
        states, final, parts = in_pieces(_solved_walk, rule, rows, state, sizes, start, True, weights, every)
        reports = [report for part in parts for report in part[0]]
    states = tuple(turn(part) for part in states) if turn else states
    return states, final, merge(reports, count, worst=True)


def _solved_walk(
    rule: EquilibriumRule, x: Tensor, state: State, sizes: Sequence[int], start: int, keep: bool, weights: Any
) -> tuple[State, State, list[SolveReport]]:
    reports: list[SolveReport] = []

    def step(u: Tensor, state: State, t: int) -> State:
        new, report = rule.solved_step(u, state, weights)
        reports.append(report)
        return new

    states, final = walk(step, rule.drive(x), state, sizes, start)
    return states, final, reports
