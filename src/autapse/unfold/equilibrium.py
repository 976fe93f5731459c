"""What the solves of an equilibrium rule's steps say of whole sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from autapse.cells.equilibrium import EquilibriumRule
from autapse.solve import SolveReport


@contextmanager
def recorded(cells: Mapping[str, EquilibriumRule]) -> Iterator[dict[str, list[SolveReport]]]:
    """The reports of each cell's steps while the block runs, in the order of the steps."""
    reports: dict[str, list[SolveReport]] = {key: [] for key in cells}
    for key, cell in cells.items():
        cell.recorder = reports[key]
    try:
        yield reports
    finally:
        for cell in cells.values():
            cell.recorder = None  # steps that a backward pass computes anew are none of the call's


def over_steps(steps: Sequence[SolveReport], count: int) -> SolveReport:
    """One report per sequence: the worst residual of its steps, the sum of their cost, whether all converged.

    Row j of each step is sequence j, longest sequence first. A sequence is finished by what finished its worst step.
    """
    total = SolveReport.empty("no step", count)
    flagged = torch.zeros(count, dtype=torch.bool)
    any_flag = False
    names = list(total.finished_by)
    worst = torch.full((count,), -1.0, dtype=torch.float64)
    for step in steps:
        n = len(step.converged)
        total.converged[:n] &= step.converged
        total.iterations[:n] += step.iterations
        total.evaluations[:n] += step.evaluations
        for j in (step.residual > worst[:n]).nonzero()[:, 0].tolist():
            names[j] = step.finished_by[j]
        worst[:n] = torch.maximum(worst[:n], step.residual)
        if step.flagged is not None:
            any_flag = True
            flagged[:n] |= step.flagged
    return SolveReport(
        total.converged,
        worst.clamp_min(0.0),
        total.iterations,
        total.evaluations,
        tuple(names),
        flagged if any_flag else None,
    )
