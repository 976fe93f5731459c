"""The Phased LSTM: units that are open for a part of their own period of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell
from autapse.cells.lstm import LSTM
from autapse.forms import Form, LongShortTerm, State


@dataclass(frozen=True)
class Rhythm(Form):
    """c̃, h̃ by the LSTM's step; c' = k ∘ c̃ + (1 − k) ∘ c, h' = k ∘ h̃ + (1 − k) ∘ h, with k at the time of the step"""

    name = "phased"

    base: LongShortTerm
    period: Tensor  # τ, [H]
    shift: Tensor  # s, [H]
    open_ratio: Tensor  # r, [H]
    leak: float  # α
    stamped: bool  # whether the time is the last column of the drive, and the last state; otherwise it is t

    def openness(self, time: Tensor | float) -> Tensor:  # [B, 1] -> [B, H]
        """k: up to 1 and down again in the first part r of each period, α·φ in the rest."""
        phase = torch.remainder(time - self.shift, self.period) / self.period
        rise, ratio = 2 * phase / self.open_ratio, self.open_ratio
        return torch.where(phase < ratio, torch.where(phase < ratio / 2, rise, 2 - rise), self.leak * phase)

    def _timed(self, u: Tensor, t: int) -> tuple[Tensor, Tensor, State]:
        """The drive of the LSTM, k, and the state with the time, if there is one."""
        if not self.stamped:
            return u, self.openness(float(t)).expand(len(u), -1), ()
        u, time = u.tensor_split([u.shape[-1] - 1], dim=-1)
        return u, self.openness(time), (time,)

    def step(self, u: Tensor, state: State, t: int) -> State:
        u, k, times = self._timed(u, t)
        new = self.base.step(u, state[:2], t)
        return *(k * after + (1 - k) * before for after, before in zip(new, state, strict=False)), *times

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        u, k, times = self._timed(u, t)
        k = torch.cat([k, k], dim=-1)
        total = k.unsqueeze(-1) * self.base.jacobian(u, state[:2], t) + torch.diag_embed(1 - k)
        return torch.nn.functional.pad(total, (0, len(times), 0, len(times)))  # no step reads the last time


class PhasedLSTM(FormCell):
    """c̃, h̃ = LSTM(x, h, c); c' = k ∘ c̃ + (1 − k) ∘ c; h' = k ∘ h̃ + (1 − k) ∘ h, where at the time t

    φ = ((t − s) mod τ) / τ, and k = 2φ/r for φ < r/2, 2 − 2φ/r for r/2 ≤ φ < r, α·φ otherwise.

    Neil, Pfeiffer and Liu 2016, equations 2–10. Each unit is open in a part r of its period τ, and nearly keeps its
    state in the rest. So it reads few of many inputs, at its own rate, and times between inputs may differ. τ, s and r
    are learned. The LSTM has peepholes, to the new cell in its output gate.

    τ starts log-uniform over `periods` and s uniform in [0, τ]; r starts at `open_ratio` (0.05 in the paper). τ is kept
    as its logarithm and r as its logit, so that both stay valid (ours). The LSTM starts as torch.nn.LSTM (ours). The
    paper sets α = 0 after training. Here it stays, unless you set the attribute `leak` of the cells.

    Args:
        periods: the shortest and the longest period at the start, in the unit of the time stamps. The paper chooses
            them for each task. `autapse run my.csv` scales all columns, also the time, unless `--scaling none`.
        open_ratio: r at the start.
        leak: α, the slope of k while a unit is closed, so that gradients pass.
        time: "position": t is the number of the step. "input": t is the last feature of the input, in any unit. The
            rest of the network does not read it. In a stack the layers pass it on, so that all read the same time. Then
            the last state of h0 and h_n is the time of the last step.
        peepholes: as in LSTM.
    """

    form_class = Rhythm

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        periods: Sequence[float] = (1.0, 1000.0),
        open_ratio: float = 0.05,
        leak: float = 1e-3,
        time: str = "position",
        peepholes: bool | str = True,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.periods = _checked_periods(periods)
        self.open_ratio = checks.number("open_ratio", open_ratio, above=0.0, high=1.0)
        if self.open_ratio == 1:
            checks.fail("open_ratio", "be below 1", open_ratio)
        self.leak = checks.number("leak", leak, low=0.0, high=1.0)
        self.time = checks.one_of("time", time, ("position", "input"))
        self.peepholes = peepholes
        features = input_size - (time == "input")
        if not features:
            checks.fail("input_size", "be at least 2 if the last feature is the time", input_size)
        self.inner = LSTM(features, hidden_size, bias, peepholes=peepholes, **self._factory)
        self.log_period, self.shift, self.logit_ratio = (self._parameter(hidden_size) for _ in range(3))
        self.passes_time = False
        self._reset_rhythm()

    @torch.no_grad()
    def _reset_rhythm(self) -> None:
        self.log_period.uniform_(*(math.log(period) for period in self.periods))
        self.shift.uniform_().mul_(self.log_period.exp())
        self.logit_ratio.fill_(math.log(self.open_ratio / (1 - self.open_ratio)))

    def reset_parameters(self) -> None:
        self.inner.reset_parameters()
        self._reset_rhythm()

    def recurrent_matrices(self) -> list[Tensor]:
        return self.inner.recurrent_matrices()

    @property
    def stamped(self) -> bool:
        """Whether the time is a feature of the input."""
        return self.time == "input"

    def place(self, layer: int, layers: int) -> None:
        self.passes_time = self.stamped and layer < layers - 1

    @property
    def depends_on_place(self) -> bool:  # type: ignore[override]
        return self.stamped

    @property
    def passed_features(self) -> int:  # type: ignore[override]
        return int(self.passes_time)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size, *([1] if self.stamped else []))

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        return not self.stamped or type(self).step is not FormCell.step

    def affine(self) -> Any:
        """That of the LSTM; None if a part of the drive is the time."""
        return None if self.stamped else self.inner.affine()

    def drive(self, x: Tensor) -> Tensor:
        if not self.stamped:
            return self.inner.drive(x)
        return torch.cat([self.inner.drive(x[..., :-1]), x[..., -1:]], dim=-1)

    def prepare(self) -> Form:
        rhythm = self.log_period.exp(), self.shift, torch.sigmoid(self.logit_ratio)
        return Rhythm(self.inner.prepare(), *rhythm, self.leak, self.stamped)  # type: ignore[arg-type]

    def output(self, state: State) -> Tensor:
        return torch.cat([state[0], state[2]], dim=-1) if self.passes_time else state[0]

    @property
    def outputs_state(self) -> bool:
        return not self.passes_time

    @property
    def output_size(self) -> int:
        return self.hidden_size + self.passes_time


def _checked_periods(periods: Any) -> tuple[float, float]:
    if not isinstance(periods, Sequence) or isinstance(periods, str) or len(periods) != 2:
        rule = "be two numbers, the shortest and the longest one"
        checks.fail("periods", rule, periods, "An example: (1.0, 1000.0).", checks.KindError)
    low, high = (checks.number("periods", period, above=0.0) for period in periods)
    if low > high:
        checks.fail("periods", "have the shortest one first", tuple(periods))
    return low, high
