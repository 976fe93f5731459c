"""SolveReport: how a batch of solves went, problem by problem, and why each of them ended."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor

NO_REASON = torch.empty(0)
ROUNDINGS = 64.0  # a relative residual of fewer roundings than this cannot be expected to fall further


class NotConvergedWarning(RuntimeWarning):
    """Some problems of a batch were not solved to the tolerance."""


class Reason(IntEnum):
    """Why the solve of a problem ended, from best to worst."""

    CONVERGED = 0
    STALLED = 1
    ITERATION_LIMIT = 2
    ILL_CONDITIONED = 3
    NOT_FINITE = 4

    @property
    def words(self) -> str:
        """The name in plain words."""
        return self.name.lower().replace("_", " ")

    @property
    def sentence(self) -> str:
        """What it means, and what to try."""
        return _SENTENCES[self]


_SENTENCES = {
    Reason.CONVERGED: "The residual is within the tolerance.",
    Reason.STALLED: (
        "The residual is as small as rounding allows, but above the tolerance: use a larger tolerance or float64."
    ),
    Reason.ITERATION_LIMIT: (
        "The solver reached its iteration limit above the tolerance: allow more iterations or try another solver."
    ),
    Reason.ILL_CONDITIONED: (
        "The equation is nearly singular, so that rounding may cost half of the digits of its solution: use float64 or "
        "smaller weights."
    ),
    Reason.NOT_FINITE: "The solver met numbers that are not finite: check the input and the weights.",
}


@dataclass(frozen=True)
class SolveReport:
    """What a solver says of each of B problems. Tensors are detached and on the CPU.

    `evaluations` are in units of one F over all unknowns of a problem; a product with F's Jacobian counts as one.
    Solvers make it with `SolveReport.make`; `merge` combines several.
    """

    converged: Tensor  # [B] bool
    residual: Tensor  # [B] float64, ‖F(z) − z‖ / ‖z‖ of what was returned
    iterations: Tensor  # [B] int64
    evaluations: Tensor  # [B] float64
    finished_by: tuple[str, ...]  # [B], the method that found what was returned
    flagged: Tensor | None = None  # [B] bool, problems at or near a singular point, where a method can tell
    reason: Tensor = NO_REASON  # [B] int64, codes of Reason; where it is left out, from the fields above

    def __post_init__(self) -> None:
        if self.reason is NO_REASON:
            object.__setattr__(self, "reason", _reasons(self.converged, self.residual))
        if torch._C._are_functorch_transforms_active():  # torch.func wraps all that is computed inside it
            for name in ("converged", "residual", "iterations", "evaluations", "reason", "flagged"):
                value = getattr(self, name)
                object.__setattr__(self, name, None if value is None else plain(value))

    @staticmethod
    def make(
        converged: Tensor,  # [B] bool
        residual: Tensor,  # [B]
        iterations: Tensor,  # [B]
        evaluations: Tensor,  # [B]
        name: str,  # the method
        eps: float = 0.0,  # of the unknowns' dtype, where a residual can be too small to fall further
        lost: Tensor | None = None,  # [B] bool, problems that met numbers that are not finite
        flagged: Tensor | None = None,  # [B] bool
    ) -> SolveReport:
        """A report, of tensors on any device and within any function transform."""
        converged, residual = plain(converged), plain(residual).double()
        return SolveReport(
            converged,
            residual,
            plain(iterations).long(),
            plain(evaluations).double(),
            (name,) * len(converged),
            None if flagged is None else plain(flagged),
            _reasons(converged, residual, None if lost is None else plain(lost), eps),
        )

    def ill_conditioned(self, ill: Tensor) -> SolveReport:  # [B] bool
        """The same with some problems flagged as ill-conditioned, which count as not converged."""
        ill = plain(ill)
        flagged = ill if self.flagged is None else self.flagged | ill
        if not bool(ill.any()):
            return replace(self, flagged=flagged)
        reason = torch.where(ill, int(Reason.ILL_CONDITIONED), self.reason)
        return replace(self, converged=self.converged & ~ill, flagged=flagged, reason=reason)

    def take(self, index: Tensor) -> SolveReport:
        """The report with its problems in another order, or of some of them."""
        index = index.cpu()
        return SolveReport(
            self.converged[index],
            self.residual[index],
            self.iterations[index],
            self.evaluations[index],
            tuple(self.finished_by[n] for n in index.tolist()),
            None if self.flagged is None else self.flagged[index],
            self.reason[index],
        )

    @staticmethod
    def empty(name: str, count: int = 0) -> SolveReport:
        """The report of `count` problems without unknowns, which any value solves."""
        zeros = torch.zeros(count, dtype=torch.float64)
        return SolveReport(zeros == 0, zeros, zeros.long(), zeros.clone(), (name,) * count)

    @property
    def all_converged(self) -> bool:
        return bool(self.converged.all())

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the solve of each problem ended."""
        return tuple(Reason(code) for code in self.reason.tolist())

    def words(self) -> str:
        """One line: how many failed and why, the worst residual, the mean cost."""
        failed, count = int((~self.converged).sum()), len(self.converged)
        worst = float(self.residual.max()) if count else 0.0
        cost = float(self.evaluations.mean()) if count else 0.0
        why = f" ({', '.join(reason.words for reason in self._failures())})" if failed else ""
        return (
            f"{failed} of {count} problems not converged{why}, worst residual {worst:.2g}, "
            f"{cost:.1f} evaluations on average"
        )

    def sentences(self) -> str:
        """What each reason means for which a problem was not solved."""
        return " ".join(reason.sentence for reason in self._failures())

    def _failures(self) -> list[Reason]:
        return [Reason(code) for code in self.reason[~self.converged].unique().tolist()]


def merge(
    reports: Sequence[SolveReport],
    count: int,
    problems: Sequence[Tensor] | None = None,  # of each report, which of the `count` problems it is about, [b]
    worst: bool = False,
) -> SolveReport:
    """One report of all problems from several: the sums of the costs, all flags, and the best or worst verdict.

    Where a problem is in several reports, the best has converged or has the least residual, and the worst has the worst
    reason and then the largest residual; the first one where these are equal. By default row j is about problem j.
    """
    if len(reports) == 1 and problems is None and len(reports[0].converged) == count:
        return reports[0]
    reports = [SolveReport.empty("no step", count), *reports]  # first, for problems that are in no other
    rows = [torch.arange(len(report.converged)) for report in reports]
    problem = torch.cat(
        [rows[0], *(rows[1:] if problems is None else problems)]
    )  # [N], of all reports, as what follows
    part = torch.repeat_interleave(torch.tensor([len(row) for row in rows]))
    converged, residual, iterations, evaluations, reason = (
        torch.cat([getattr(report, name) for report in reports])
        for name in ("converged", "residual", "iterations", "evaluations", "reason")
    )
    names = [name for report in reports for name in report.finished_by]
    flags = [row.bool() & False if r.flagged is None else r.flagged for r, row in zip(reports, rows, strict=True)]
    rank = reason + residual / (1 + residual) if worst else -torch.where(converged, -1.0, residual)
    rank = rank.nan_to_num(nan=1.0 + Reason.NOT_FINITE, neginf=torch.finfo(rank.dtype).min)
    rank[:count] = -torch.inf

    def table(values: Tensor, empty: float) -> Tensor:  # [N] -> [reports, count]
        return values.new_full((len(reports), count), empty).index_put((part, problem), values)

    def total(values: Tensor) -> Tensor:  # [N] -> [count]
        return values.new_zeros(count).index_add(0, problem, values)

    chosen = table(torch.arange(len(rank)), 0).gather(0, table(rank, -torch.inf).argmax(0, keepdim=True))[0]
    return SolveReport(
        converged[chosen],
        residual[chosen],
        total(iterations),
        total(evaluations),
        tuple(names[n] for n in chosen.tolist()),
        total(torch.cat(flags).long()) > 0 if any(r.flagged is not None for r in reports) else None,
        reason[chosen],
    )


def _reasons(converged: Tensor, residual: Tensor, lost: Tensor | None = None, eps: float = 0.0) -> Tensor:
    if bool(converged.all()):
        return torch.zeros(len(converged), dtype=torch.long)
    reason = torch.full_like(residual, Reason.ITERATION_LIMIT, dtype=torch.long)
    reason[residual <= ROUNDINGS * eps] = Reason.STALLED
    reason[~residual.isfinite() if lost is None else lost | ~residual.isfinite()] = Reason.NOT_FINITE
    reason[converged] = Reason.CONVERGED
    return reason


def plain(tensor: Tensor) -> Tensor:
    """The values of a tensor, detached and on the CPU, also inside torch.func.grad and jvp.

    A wrapper of theirs that is kept is useless after the transform, and cannot be copied.
    """
    tensor = tensor.detach().cpu()
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


_WARNED: weakref.WeakSet[object] = weakref.WeakSet()


def warn_once(owner: object, text: str, stacklevel: int = 2) -> None:
    """A NotConvergedWarning, the first time for each owner."""
    if owner not in _WARNED:
        _WARNED.add(owner)
        warnings.warn(text, NotConvergedWarning, stacklevel=stacklevel + 1)


def warn_unsolved(
    owner: object, name: str, report: SolveReport, what: str = "sequences", consequence: str = "", stacklevel: int = 2
) -> None:
    """The one warning about problems that were not solved, the first time for each owner."""
    if report.all_converged:
        return
    failed, count = int((~report.converged).sum()), len(report.converged)
    worst = float(report.residual.max())
    text = f"{name}: {failed} of {count} {what} did not converge, the worst residual is {worst:.2g}."
    warn_once(owner, " ".join(part for part in (text, consequence, report.sentences()) if part), stacklevel + 1)
