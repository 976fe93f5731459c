"""Leaky units: a linear self-connection with a time constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, uniform_, zeros_
from autapse.cells.groups import group_of
from autapse.forms import ACTIVATIONS, Form, Leaky, PreActivation, State

FORMS = ("state", "pre-activation", "sum")
LEARNED = "Learned time constants start above 1."


class LeakyRNN(FormCell):
    """h' = (1 − 1/τ) ∘ h + (1/τ) ∘ act(W·x + R·h + b)

    The textbook's equation 10.7, 1 ≤ τ < ∞. W and R start uniform in ±1/√n, b = 0. Section 10.7.3 has two more ways to
    write a leaky unit, which `form` selects. With "pre-activation" the state s is what the nonlinearity reads, and the
    output is act(s): s' = (1 − 1/τ) ∘ s + (1/τ) ∘ (W·x + R·act(s) + b). With "sum" the new value has no factor 1/τ, so
    that a unit of large τ adds up the past instead of averaging it: h' = (1 − 1/τ) ∘ h + act(W·x + R·h + b).

    Units in groups with time constants of their own are a hierarchy of time scales (section 10.7.9; Mozer 1992).

    Args:
        tau: τ: a number for all units; a tensor with a value per unit; a pair (low, high), from which each unit draws
            its own once, uniformly in log τ; or three or more values, one for each of as many groups of units.
        learn_tau: make τ a parameter, as 1/τ = σ(p), which keeps τ above 1.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
        form: where the leak is: "state", "pre-activation" or "sum".
        groups: number of groups of units, with a pair (low, high) as `tau`: their time constants are then fixed, with
            equal ratios from low to high. None: each unit draws its own. Groups are consecutive units of about equal
            number.
    """

    form_class = Leaky
    unit_matrices = ("weight_hh",)
    renamed: ClassVar[dict[str, str]] = {"form": "writing"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        tau: float | Sequence[float] | Tensor = 10.0,
        learn_tau: bool = False,
        nonlinearity: str = "tanh",
        form: str = "state",
        groups: int | None = None,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.learn_tau = checks.boolean("learn_tau", learn_tau)
        self.tau = self._checked_tau(tau)
        self.groups = self._checked_groups(groups)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.writing = checks.one_of("form", form, FORMS)
        self.weight_ih = self._parameter(hidden_size, input_size)
        self.weight_hh = self._parameter(hidden_size, hidden_size)
        self.bias_h = self._bias(hidden_size)
        rate = self._parameter(hidden_size)  # p if learned, 1/τ otherwise
        if learn_tau:
            self.rate = rate
        else:
            self.register_buffer("rate", rate.data)
        self.reset_parameters()

    def _checked_tau(self, tau: Any) -> float | tuple[float, ...] | Tensor:
        if isinstance(tau, Tensor):
            if tuple(tau.shape) != (self.hidden_size,):
                rule = f"have one value per unit, shape ({self.hidden_size},)"
                checks.fail("tau", rule, tuple(tau.shape), kind=checks.ShapeError)
            for extreme in (tau.min().item(), tau.max().item()):
                self._checked_number(extreme)
            return tau
        if not isinstance(tau, tuple | list):
            return self._checked_number(tau)
        values = tuple(self._checked_number(value) for value in tau)
        if len(values) < 2 or (len(values) == 2 and values[0] > values[1]):
            rule = "be a number, a tensor, a pair (low, high) with low ≤ high, or one value for each of several groups"
            checks.fail("tau", rule, tau)
        if len(values) > max(2, self.hidden_size):
            checks.fail("tau", f"have at most one value per unit, {self.hidden_size} in all", tau)
        return values

    def _checked_number(self, tau: Any) -> float:
        above, remedy = (1.0, LEARNED) if self.learn_tau else (None, "")
        return checks.number("tau", tau, low=1.0, above=above, remedy=remedy)

    def _checked_groups(self, groups: int | None) -> int | None:
        if groups is None:
            return None
        if not (isinstance(self.tau, tuple) and len(self.tau) == 2):
            checks.fail("groups", "be None unless tau is a pair (low, high)", groups)
        if checks.integer("groups", groups, minimum=2) > self.hidden_size:
            checks.fail("groups", f"be at most hidden_size = {self.hidden_size}", groups)
        return groups

    @torch.no_grad()
    def reset_parameters(self) -> None:
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        zeros_(self.bias_h)
        if isinstance(self.tau, tuple) and len(self.tau) == 2 and self.groups is None:
            low, high = (math.log(bound) for bound in self.tau)
            self.rate.uniform_(low, high).neg_().exp_()
        else:
            self.rate.copy_(1 / self._fixed().to(self.rate.dtype))
        if self.learn_tau:
            self.rate.logit_()

    def _fixed(self) -> Tensor:  # [] or [H]
        """The time constants that are not drawn."""
        if not isinstance(self.tau, tuple):
            return torch.as_tensor(self.tau)
        values = torch.tensor(self.tau, dtype=torch.float64)
        if self.groups is not None:
            low, high = values.log10().tolist()
            values = torch.logspace(low, high, self.groups, dtype=torch.float64)
        return values[group_of(self.hidden_size, len(values))]

    def time_constants(self) -> Tensor:
        """τ of each unit, [H]."""
        return 1 / self._rates()

    def _rates(self) -> Tensor:
        return torch.sigmoid(self.rate) if self.learn_tau else self.rate

    def prepare(self) -> Form:
        rates = self._rates()
        if self.writing == "pre-activation":
            return PreActivation(self.weight_hh, self.nonlinearity, alpha=rates, beta=1 - rates)
        alpha = rates if self.writing == "state" else torch.ones_like(rates)
        return Leaky(self.weight_hh, self.nonlinearity, alpha=alpha, beta=1 - rates)

    def form(self) -> str:
        return (PreActivation if self.writing == "pre-activation" else Leaky).name

    def output(self, state: State) -> Tensor:
        return ACTIVATIONS[self.nonlinearity].apply(state[0]) if self.writing == "pre-activation" else state[0]

    @property
    def outputs_state(self) -> bool:
        return self.writing != "pre-activation"

    @property
    def output_reads_all(self) -> bool:
        return False  # there is only one state
