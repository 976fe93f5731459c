"""SolveReport: how a batch of solves went, problem by problem, and why each of them ended."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor

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
    Solvers make it with `SolveReport.make`; `merge` combines two.
    """

    converged: Tensor  # [B] bool
    residual: Tensor  # [B] float64, ‖F(z) − z‖ / ‖z‖ of what was returned
    iterations: Tensor  # [B] int64
    evaluations: Tensor  # [B] float64
    finished_by: tuple[str, ...]  # [B], the method that found what was returned
    flagged: Tensor | None = None  # [B] bool, problems at or near a singular point, where a method can tell
    reason: Tensor = None  # type: ignore[assignment]  # [B] int64, codes of Reason; by default from the fields above

    def __post_init__(self) -> None:
        if self.reason is None:
            object.__setattr__(self, "reason", _reasons(self.converged, self.residual, ~self.residual.isfinite(), 0.0))

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
        broken = ~residual.isfinite() if lost is None else plain(lost) | ~residual.isfinite()
        return SolveReport(
            converged,
            residual,
            plain(iterations).long(),
            plain(evaluations).double(),
            (name,) * len(converged),
            None if flagged is None else plain(flagged),
            _reasons(converged, residual, broken, eps),
        )

    def ill_conditioned(self, ill: Tensor) -> SolveReport:  # [B] bool
        """The same with some problems flagged as ill-conditioned, which count as not converged."""
        ill = plain(ill)
        return replace(
            self,
            converged=self.converged & ~ill,
            flagged=ill if self.flagged is None else self.flagged | ill,
            reason=torch.where(ill, int(Reason.ILL_CONDITIONED), self.reason),
        )

    def merge(self, other: SolveReport, index: Tensor, chosen: Tensor) -> SolveReport:  # [b], [b] bool
        """The report with what `other` says of its problems `index`.

        Iterations and evaluations add up, and flags stay. Where `chosen`, the rest is the other's.
        """
        iterations, evaluations = self.iterations.clone(), self.evaluations.clone()
        iterations[index] += other.iterations
        evaluations[index] += other.evaluations
        converged, residual, reason = (
            mine.index_copy(0, index, torch.where(chosen, theirs, mine[index]))
            for mine, theirs in (
                (self.converged, other.converged),
                (self.residual, other.residual),
                (self.reason, other.reason),
            )
        )
        names = list(self.finished_by)
        for n in chosen.nonzero()[:, 0].tolist():
            names[int(index[n])] = other.finished_by[n]
        flagged = self.flagged
        if other.flagged is not None:
            flagged = torch.zeros_like(self.converged) if flagged is None else flagged.clone()
            flagged[index] |= other.flagged
        return SolveReport(converged, residual, iterations, evaluations, tuple(names), flagged, reason)

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


def _reasons(converged: Tensor, residual: Tensor, broken: Tensor, eps: float) -> Tensor:
    reason = torch.full_like(residual, Reason.ITERATION_LIMIT, dtype=torch.long)
    reason[residual <= ROUNDINGS * eps] = Reason.STALLED
    reason[broken] = Reason.NOT_FINITE
    reason[converged] = Reason.CONVERGED
    return reason


def worst_of(reports: Sequence[SolveReport], count: int) -> SolveReport:
    """One report of `count` problems from the reports of their parts: the worst verdict, and the sum of the costs.

    Row j of each part belongs to problem j; a part may have fewer rows than there are problems.
    """
    if len(reports) == 1 and len(reports[0].converged) == count:
        return reports[0]
    total, seen = SolveReport.empty("no step", count), 0
    for report in reports:
        n = len(report.converged)
        worse = (report.reason > total.reason[:n]) | (report.residual > total.residual[:n])
        worse &= report.reason >= total.reason[:n]
        worse |= torch.arange(n) >= seen
        total, seen = total.merge(report, torch.arange(n), worse), max(seen, n)
    return total


def plain(tensor: Tensor) -> Tensor:
    """The values of a tensor, detached and on the CPU, also inside torch.func.grad and jvp.

    A wrapper of theirs that is kept is useless after the transform, and cannot be copied.
    """
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.detach().cpu()


_WARNED: weakref.WeakSet[object] = weakref.WeakSet()


def warn_once(owner: object, text: str, stacklevel: int = 2) -> None:
    """A NotConvergedWarning, the first time for each owner."""
    if owner not in _WARNED:
        _WARNED.add(owner)
        warnings.warn(text, NotConvergedWarning, stacklevel=stacklevel + 1)
