"""Diagnosis: the numbers that matter for a trained model, with one plain sentence each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.ernn import ERNN
from autapse.cells.inner_steps import rate_at
from autapse.diagnostics import arguments
from autapse.diagnostics.attractors import fixed_points
from autapse.diagnostics.contraction import step_norm
from autapse.diagnostics.deadline import OutOfTime, is_over, time_left, within
from autapse.diagnostics.flow import gradient_flow
from autapse.diagnostics.gates import dual_gates
from autapse.diagnostics.implicit import implicit_solves, implicit_spread
from autapse.diagnostics.lesions import lesion
from autapse.diagnostics.loss_gradients import loss_gradient
from autapse.diagnostics.lyapunov import lyapunov_exponents
from autapse.diagnostics.recall import linear_memory
from autapse.diagnostics.trajectories import (
    MOST_UNITS,
    TooLargeError,
    cell_of,
    layer_input,
    recurrent_of,
    trajectory,
)
from autapse.diagnostics.units import saturation
from autapse.models import SequenceModel
from autapse.solve import Newton

WORK = 4e11  # multiplications of the Jacobian products; for larger networks fewer sequences are used
RATE = 5e9  # multiplications per second that the number of sequences is chosen by
VECTORS = 8  # for the gradients of a network that is too large for Jacobians
ENTRIES = 1 << 20  # of the matrices whose norms are computed at a time
SHARE = 0.01  # of a gradient that still counts
STEPS = 16  # steps at which the contraction of an equilibrium is measured


@dataclass(frozen=True)
class Finding:
    """One number of a diagnosis."""

    name: str  # of the number
    value: float  # the number
    sentence: str  # what it means


@dataclass(frozen=True)
class Diagnosis:
    """The numbers that `diagnose` found, and the probes that it skipped."""

    findings: tuple[Finding, ...]  # the numbers, with a sentence each
    skipped: dict[str, str]  # probes that do not fit the network, or had no time, with the reason
    late: tuple[str, ...]  # those of the skipped probes that had no time
    too_large: tuple[str, ...]  # those that need matrices, for a network with too many units
    seconds: float  # time of all probes
    cut: dict[str, str]  # probes that the budget cut short, with what they had time for: "40 of 784 steps"

    def to_json(self) -> dict[str, Any]:
        """The content of a JSON file. A number that is not finite is null."""
        known = [
            {"name": f.name, "value": f.value if math.isfinite(f.value) else None, "sentence": f.sentence}
            for f in self.findings
        ]
        return {
            "findings": known,
            "skipped": self.skipped,
            "late": list(self.late),
            "too_large": list(self.too_large),
            "cut": self.cut,
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True, eq=False)
class _Subject:
    """A model with its data."""

    model: SequenceModel
    x: Tensor  # [B, T, D]
    lengths: Tensor | None
    loss: Callable[[Tensor], Tensor] | None
    score: Callable[[Tensor], Any] | None
    layer: int

    @property
    def given(self) -> dict[str, Any]:
        return {"lengths": self.lengths, "layer": self.layer}

    @property
    def units(self) -> int:
        """The units of the whole state of the layer."""
        return sum(cell_of(self.model, self.layer).carried_sizes)

    @property
    def few(self) -> tuple[Tensor, dict[str, Any]]:
        """As many sequences as the products of Jacobians are likely to have time for."""
        work = min(WORK, RATE * time_left())
        count = max(2, min(len(self.x), int(work / (self.x.shape[1] * self.units**3))))
        lengths = None if self.lengths is None else self.lengths[:count]
        return self.x[:count], {"lengths": lengths, "layer": self.layer}


@torch.no_grad()
def diagnose(
    model: SequenceModel,
    x: Any,
    lengths: Any = None,
    loss: Callable[[Tensor], Tensor] | None = None,
    score: Callable[[Tensor], Any] | None = None,
    layer: int = 0,
    budget: float = 60.0,
    notify: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Run the probes that fit a trained model, and say in one sentence each what they found.

    Args:
        model: a model that reads sequences.
        x: test data, [B, T, D]; a few dozen sequences are enough.
        lengths: [B], the length of each sequence, if they differ.
        loss: the loss as a function of the model's output; None leaves out the gradient of the loss.
        score: a score as a function of the output, such as a share of errors; None leaves out the lesions.
        layer: which layer of a stack.
        budget: seconds. A probe gets up to twice its even share of the time that is left. When that is over, it stops
            at the next step, and its sentences say how far it got.
        notify: is called with the name of each probe before it starts or is skipped.

    Returns:
        A `Diagnosis`.

    >>> model = autapse.models.Regressor("gru", 2, 1, hidden_size=8)
    >>> diagnosis = diagnose(model, torch.randn(8, 40, 2))
    >>> diagnosis.findings[0].name
    'gradient_gain'
    """
    budget = checks.number("budget", budget, low=0.0)
    for argument, value, of in (("loss", loss, "output"), ("score", score, "output"), ("notify", notify, "name")):
        if value is not None:
            arguments.function(argument, value, of)
    # Bad input is an error here, and not a probe that does not fit.
    if not isinstance(model, SequenceModel):
        checks.fail("model", "be a model with a recurrent layer", type(model).__name__, kind=checks.KindError)
    layer_input(model, x, lengths)
    checks.integer("layer", layer, minimum=0, maximum=recurrent_of(model).num_layers - 1)
    began = time.monotonic()
    known = None if lengths is None else torch.as_tensor(lengths)
    subject = _Subject(model, torch.as_tensor(x), known, loss, score, layer)
    findings: list[Finding] = []
    skipped: dict[str, str] = {}
    late: list[str] = []
    too_large: list[str] = []
    cut: dict[str, str] = {}
    for waiting, (name, probe) in zip(range(len(PROBES), 0, -1), PROBES.items(), strict=True):
        if notify is not None:
            notify(name)
        try:
            with within((began + budget - time.monotonic()) * 2 / (waiting + 1)) as deadline:
                is_over()
                measured = list(probe(subject))
            if deadline.cut:
                cut[name] = ", ".join(deadline.cut)
                note = f" (Cut short by the budget: {cut[name]}.)"
                measured = [replace(one, sentence=one.sentence + note) for one in measured]
            findings += measured
        except OutOfTime:
            skipped[name] = f"no time left of {budget:g} s"
            late.append(name)
        except checks.InputError as error:
            skipped[name] = str(error)
            if isinstance(error, TooLargeError):
                too_large.append(name)
    return Diagnosis(tuple(findings), skipped, tuple(late), tuple(too_large), time.monotonic() - began, cut)


def _gradients(subject: _Subject) -> Iterator[Finding]:
    if subject.units > MOST_UNITS:
        flow = gradient_flow(subject.model, subject.x, **subject.given, vectors=VECTORS)
    else:
        x, given = subject.few
        flow = gradient_flow(subject.model, x, **given, spectra=0)
    lag = len(flow.gain) - 1
    size, reach = float(flow.typical[-1]), flow.reach(SHARE)
    change = "keep their size" if 0.5 < size < 2 else "shrink" if size < 1 else "grow"
    amount = f": the factor is {size:.2g}" if 0.5 < size < 2 else f" to {size:.2g} of their size"
    yield Finding("gradient_gain", size, f"Gradients over {lag} steps {change}{amount} ({flow.rate:.4f} per step).")
    whole = "all" if reach == lag else "only"
    yield Finding("gradient_reach", reach, f"Gradients keep 1 % of their size over {whole} {reach} steps.")


def _loss(subject: _Subject) -> Iterator[Finding]:
    if subject.loss is None:
        checks.fail("loss", "be given for the gradient of the loss", None)
    gradient = loss_gradient(subject.model, subject.x, subject.loss, subject.lengths)
    norm = gradient.norm[subject.layer * recurrent_of(subject.model).directions]
    per_step = norm.sum(1) / np.maximum(1, (np.arange(len(norm))[:, None] < gradient.lengths).sum(1))
    strongest = int(per_step.argmax())
    ratio = float(per_step[0] / per_step[strongest]) if per_step[strongest] else math.nan
    text = f"The gradient of the loss at the first state is {ratio:.2g} of the largest one, at step {strongest + 1}."
    text = text if strongest else "The gradient of the loss is largest at the first state."
    yield Finding("loss_gradient_at_start", ratio, text)


def _lyapunov(subject: _Subject) -> Iterator[Finding]:
    x, given = subject.few
    exponents = lyapunov_exponents(subject.model, x, **given, count=1)
    value, error = exponents.maximal, exponents.standard_error
    verb = "grow" if value > 0 else "shrink"
    text = f"Small differences of a state {verb} by the factor {math.exp(value):.4f} per step"
    yield Finding("lyapunov", value, f"{text} (exponent {value:.4f} ± {error:.4f}).")


def _memory(subject: _Subject) -> Iterator[Finding]:
    memory = linear_memory(subject.model, subject.x, **subject.given)
    reach, longest = memory.reach(), int(memory.lags[-1])
    text = f"Half of the variance of an input can be read from the state up to {_many(reach, 'step')} later"
    text = "A linear map reads only the present input from the state" if reach == 0 else text
    text = "A linear map cannot read the input from the state" if reach < 0 else text
    yield Finding("linear_memory", reach, f"{text} (lags up to {longest} were tried).")


def _units(subject: _Subject) -> Iterator[Finding]:
    units = saturation(subject.model, subject.x, **subject.given)
    dead, count = int(units.dead.sum()), len(units.dead)
    text = f"{dead} of {count} units are dead: they hardly vary" if dead else f"All {count} units vary: none is dead"
    yield Finding("dead_units", dead, f"{text} on these data.")
    if units.flat is not None:
        flat = float(units.flat.mean())
        yield Finding("flat_activations", flat, f"Activations are flat at {flat:.0%} of all steps and units.")


def _gates(subject: _Subject) -> Iterator[Finding]:
    gates = dual_gates(subject.model, subject.x, **subject.given)
    exists = np.arange(len(gates.carry))[:, None] < gates.lengths
    carry = float(gates.carry[exists].mean())
    text = "The network carries nothing over by itself: it has no carry gate"
    text = f"A step carries {carry:.3f} of the old state over, on average" if carry else text
    yield Finding("carry", carry, f"{text}.")


def _lesions(subject: _Subject) -> Iterator[Finding]:
    if subject.score is None:
        checks.fail("score", "be given for lesions", None)
    lesions = lesion(subject.model, subject.x, subject.score, subject.lengths)
    worst = int(np.argmax(lesions.change))
    value, step = float(lesions.change[worst]), int(lesions.steps[worst]) + 1
    text = f"Without one step the score becomes worse by {value:.3g} at most, at step {step}"
    text = text if value > 0 else "The score does not become worse if one step is left out"
    yield Finding("lesion", value, f"{text} (intact: {lesions.intact:.3g}).")


def _fixed(subject: _Subject) -> Iterator[Finding]:
    points = fixed_points(subject.model, subject.x, **subject.given, starts=32)
    kinds = points.kinds
    stable = sum(kind == "attractor" for kind, fixed in zip(kinds, points.fixed, strict=True) if fixed)
    others, slow = int(points.fixed.sum()) - stable, int((~points.fixed).sum())
    counts = [_many(stable, "attractor"), _many(others, "other fixed point"), _many(slow, "slow point")]
    yield Finding("attractors", stable, f"At the mean input the network has {', '.join(counts)}.")


def _many(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _contraction(subject: _Subject) -> Iterator[Finding]:
    path = trajectory(subject.model, subject.x, **subject.given)
    cell = path.cell
    if not isinstance(cell, EquilibriumRule | ERNN):
        checks.fail("network", "have equilibria, as ERNN", type(cell).__name__)
    learned, weights, holds = cell.inner_steps is not None, cell.prepare(), []
    steps = range(0, path.steps, -(-path.steps // STEPS))
    together = max(1, ENTRIES // path.units**2)
    parts = [(t, rows) for t in steps for rows in path.running[t].nonzero()[:, 0].split(together)]
    for n, (t, rows) in enumerate(parts):
        if is_over(n, len(parts), "groups of states"):
            break
        eta = rate_at(cell.rates(), t, 0) if learned else 1.0
        z = (path.before if learned else path.after)[t, rows]
        holds.append(step_norm(cell, z, path.before[t, rows], path.drive[t, rows], weights, eta) < 1)
    share = float(torch.cat(holds).double().mean())
    where = "at the first inner step" if learned else "at the equilibrium, with η = 1,"
    text = f"The condition of the ERNN paper's Theorem 1 holds {where} of {share:.0%} of the steps."
    yield Finding("contraction", share, text)


def _implicit(subject: _Subject) -> Iterator[Finding]:
    solves = implicit_solves(subject.model, subject.x, subject.lengths, {"newton": Newton()}, iterations=1)
    cost = float(solves.evaluations.mean())
    yield Finding("evaluations", cost, f"Newton's method solves a sequence with {cost:.1f} evaluations on average.")
    left, right = implicit_spread(subject.model, subject.x, None, subject.lengths).reach()
    text = (
        f"A change of one input is felt {left} steps to the left and {right} to the right (1 % of its largest effect)."
    )
    yield Finding("spread", left + right, text)


PROBES: dict[str, Callable[[_Subject], Iterator[Finding]]] = {
    "gradient flow": _gradients,
    "gradient of the loss": _loss,
    "Lyapunov exponent": _lyapunov,
    "linear memory": _memory,
    "units": _units,
    "gates": _gates,
    "lesions": _lesions,
    "fixed points": _fixed,
    "contraction": _contraction,
    "implicit solves": _implicit,
}
