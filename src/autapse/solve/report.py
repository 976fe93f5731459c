"""SolveReport: how a batch of solves went, problem by problem, and why each of them ended."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

NO_REASON = torch.empty(0)
ROUNDINGS = 64.0  # a relative residual below this many rounding errors cannot be expected to fall further


class NotConvergedWarning(RuntimeWarning):
    """Some problems of a batch were not solved to the tolerance.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", autapse.solve.NotConvergedWarning)  # raise it; "ignore" hides it
    """


class Reason(IntEnum):
    """Why the solve of a problem ended, from best to worst.

    >>> autapse.solve.Reason.ITERATION_LIMIT.words
    'iteration limit'
    """

    CONVERGED = 0
    STALLED = 1
    ITERATION_LIMIT = 2
    ILL_CONDITIONED = 3
    NOT_FINITE = 4

    @property
    def words(self) -> str:
        """The name in lower case, with spaces."""
        return self.name.lower().replace("_", " ")

    @property
    def sentence(self) -> str:
        """What the reason means, and what to try."""
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
    """How a solver did on each of B problems. Tensors are detached and on the CPU.

    Solvers make reports with `SolveReport.make`; `merge` combines several reports.

    Attributes:
        converged: [B] bool, whether the tolerance was reached.
        residual: [B] float64, ‖F(z) − z‖ / ‖z‖ at the returned point.
        iterations: [B] int64.
        evaluations: [B] float64, the cost, in evaluations of F for a whole problem. A Jacobian product counts 1.
        finished_by: [B], the name of the solver that found the returned point.
        flagged: [B] bool, problems at or near a singular point. None if the method cannot detect these.
        reason: [B] int64, codes of `Reason`. By default they follow from the other fields.

    >>> cosine = autapse.solve.Equations(torch.cos, start=torch.zeros(1, 1))
    >>> _, report = autapse.solve.FixedPoint(max_iterations=3).solve(cosine)
    >>> report.words()
    '1 of 1 problems not converged (iteration limit), worst residual 0.46, 3.0 evaluations on average'
    """

    converged: Tensor
    residual: Tensor
    iterations: Tensor
    evaluations: Tensor
    finished_by: tuple[str, ...]
    flagged: Tensor | None = None
    reason: Tensor = NO_REASON

    def __post_init__(self) -> None:
        if self.reason is NO_REASON:
            object.__setattr__(self, "reason", _reasons(self.converged, self.residual))
        if torch._C._are_functorch_transforms_active():  # torch.func wraps all tensors that are computed inside it
            for name in ("converged", "residual", "iterations", "evaluations", "reason", "flagged"):
                value = getattr(self, name)
                object.__setattr__(self, name, None if value is None else plain(value))

    @staticmethod
    def make(
        converged: Tensor,  # [B] bool
        residual: Tensor,  # [B]
        iterations: Tensor,  # [B]
        evaluations: Tensor,  # [B]
        name: str,  # of the solver
        eps: float = 0.0,  # rounding of the unknowns, if it can stall the method
        lost: Tensor | None = None,  # [B] bool, problems that met values that are not finite
        flagged: Tensor | None = None,  # [B] bool
    ) -> SolveReport:
        """Make a report from tensors on any device and inside any function transform."""
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

    @staticmethod
    def empty(name: str, count: int = 0) -> SolveReport:
        """The report of `count` problems without unknowns, which are always solved."""
        zeros = torch.zeros(count)
        return SolveReport.make(zeros == 0, zeros, zeros, zeros, name)

    def ill_conditioned(self, ill: Tensor) -> SolveReport:  # [B] bool
        """The report with some problems flagged as ill-conditioned. These count as not converged."""
        ill = plain(ill)
        flagged = ill if self.flagged is None else self.flagged | ill
        if not bool(ill.any()):
            return replace(self, flagged=flagged)
        reason = torch.where(ill, int(Reason.ILL_CONDITIONED), self.reason)
        return replace(self, converged=self.converged & ~ill, flagged=flagged, reason=reason)

    def take(self, index: Tensor) -> SolveReport:
        """The report of some problems, in the order of `index`."""
        index = index.cpu()

        def chosen(value: Any) -> Any:
            return tuple(value[n] for n in index.tolist()) if isinstance(value, tuple) else value[index]

        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: chosen(part) for name, part in parts.items() if part is not None})

    @property
    def all_converged(self) -> bool:
        return bool(self.converged.all())

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the solve of each problem ended."""
        return tuple(Reason(code) for code in self.reason.tolist())

    def words(self) -> str:
        """One line: how many problems failed and why, the worst residual, and the mean cost."""
        failed, count = int((~self.converged).sum()), len(self.converged)
        worst = float(self.residual.max()) if count else 0.0
        cost = float(self.evaluations.mean()) if count else 0.0
        why = f" ({', '.join(reason.words for reason in self._failures())})" if failed else ""
        return (
            f"{failed} of {count} problems not converged{why}, worst residual {worst:.2g}, "
            f"{cost:.1f} evaluations on average"
        )

    def sentences(self) -> str:
        """What each reason for a failure means, and what to try."""
        return " ".join(reason.sentence for reason in self._failures())

    def _failures(self) -> list[Reason]:
        return [Reason(code) for code in self.reason[~self.converged].unique().tolist()]


def merge(
    reports: Sequence[SolveReport],
    count: int,
    problems: Sequence[Tensor] | None = None,  # for each report the index of its problems, [b]; None: 0, 1, 2, …
    worst: bool = False,
) -> SolveReport:
    """Combine reports into one report of `count` problems: the sum of the costs, all flags, and the best or worst end.

    If a problem is in several reports, the best one has converged or has the smallest residual. The worst one has the
    worst reason, and among equal reasons the largest residual. If reports are equal, the first one counts.
    """
    if len(reports) == 1 and problems is None and len(reports[0].converged) == count:
        return reports[0]
    reports = [SolveReport.empty("no step", count), *reports]  # for problems that are in no other report
    rows = [torch.arange(len(report.converged)) for report in reports]
    problem = torch.cat([rows[0], *(rows[1:] if problems is None else problems)])  # [N] the problem of each entry
    part = torch.repeat_interleave(torch.tensor([len(row) for row in rows]))  # [N] the report of each entry
    every = _concatenated(reports)
    residual = every.residual
    rank = every.reason + residual / (1 + residual) if worst else -torch.where(every.converged, -1.0, residual)
    rank = rank.nan_to_num(nan=1.0 + Reason.NOT_FINITE, neginf=torch.finfo(rank.dtype).min)
    rank[:count] = -torch.inf

    def table(values: Tensor, empty: float) -> Tensor:  # [N] -> [reports, count]
        return values.new_full((len(reports), count), empty).index_put((part, problem), values)

    def total(values: Tensor) -> Tensor:  # [N] -> [count]
        return values.new_zeros(count).index_add(0, problem, values)

    chosen = table(torch.arange(len(rank)), 0).gather(0, table(rank, -torch.inf).argmax(0, keepdim=True))[0]
    flagged = None if every.flagged is None else total(every.flagged.long()) > 0
    iterations, evaluations = total(every.iterations), total(every.evaluations)
    return replace(every.take(chosen), iterations=iterations, evaluations=evaluations, flagged=flagged)


def _concatenated(reports: Sequence[SolveReport]) -> SolveReport:
    """The entries of all reports, one after the other."""
    columns = {
        name: torch.cat([getattr(report, name) for report in reports])
        for name in ("converged", "residual", "iterations", "evaluations", "reason")
    }
    if any(report.flagged is not None for report in reports):
        flags = (torch.zeros_like(r.converged) if r.flagged is None else r.flagged for r in reports)
        columns["flagged"] = torch.cat(list(flags))
    return SolveReport(finished_by=tuple(name for report in reports for name in report.finished_by), **columns)


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

    Their wrapped tensors cannot be copied or used after the transform.
    """
    tensor = tensor.detach().cpu()
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


_WARNED: weakref.WeakSet[object] = weakref.WeakSet()


def warn_unsolved(
    owner: object, name: str, report: SolveReport, what: str = "sequences", consequence: str = "", stacklevel: int = 2
) -> None:
    """The one warning about problems that were not solved, the first time for each owner."""
    if report.all_converged or owner in _WARNED:
        return
    _WARNED.add(owner)
    failed, count = int((~report.converged).sum()), len(report.converged)
    worst = float(report.residual.max())
    text = f"{name}: {failed} of {count} {what} did not converge, the worst residual is {worst:.2g}."
    text = " ".join(part for part in (text, consequence, report.sentences()) if part)
    warnings.warn(text, NotConvergedWarning, stacklevel=stacklevel + 1)
