"""The gated recurrent unit."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell
from autapse.cells.chrono import checked_longest, log_uniform_times_
from autapse.forms import Form, GatedRecurrent, GlobalGates

Rows = TypeVar("Rows", Tensor, Tensor | None)


class GRU(FormCell):
    """r, z = σ(W·x + b_ih + R·h + b_hh); n = tanh(W_n·x + b_in + r ∘ (R_n·h + b_hn)); h' = (1 − z) ∘ n + z ∘ h

    torch.nn.GRU's equations, parameters, names and initialisation. With `reset="before"`, n = tanh(W_n·x + b_in + b_hn
    + R_n·(r ∘ h)), as in the textbook's equations 10.12–10.14 and in Cho et al. 2014.

    Args:
        reset: where the reset gate r acts: "after" the product with R_n, or "before" it.
        gates: "local": each unit has a gate r and a gate z. "shared-reset": one gate r for all units.
            "global-local": r and z are products of a gate of each unit and one gate for all units. The last two are
            variants that the textbook names in section 10.7.4.
        longest: the longest dependency to be learned, T steps. The input bias of z then starts as log u with u uniform
            in [1, T − 1], and its recurrent bias at 0, so that the units start with memories of up to T steps (Tallec
            and Ollivier 2018). None: as torch.nn.GRU.
    """

    form_class = GatedRecurrent

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        reset: str = "after",
        gates: str = "local",
        longest: int | None = None,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.reset = checks.one_of("reset", reset, ("after", "before"))
        self.gates = checks.one_of("gates", gates, ("local", "shared-reset", "global-local"))
        self.longest = checked_longest(longest, bias)
        if longest is not None and gates == "global-local":
            checks.fail("longest", "be None for global-local gates, which shorten one another's memory", longest)
        self.unit_matrices = ("weight_hh",) if gates == "local" else ()
        # Rows: the global r and z, if there are some; r (one if it is shared), z, n.
        rows = {"local": 3, "shared-reset": 2, "global-local": 3}[gates] * hidden_size
        rows += {"local": 0, "shared-reset": 1, "global-local": 2}[gates]
        self.weight_ih = self._parameter(rows, input_size)
        self.weight_hh = self._parameter(rows, hidden_size)
        self.bias_ih = self._bias(rows)
        self.bias_hh = self._bias(rows)
        self.reset_parameters()

    def recurrent_matrices(self) -> list[Tensor]:
        rows = self.weight_hh[len(self.weight_hh) % self.hidden_size :]  # gates for all units have a row each
        return list(rows.split(self.hidden_size))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.longest is not None and self.bias_ih is not None and self.bias_hh is not None:
            z = slice(-2 * self.hidden_size, -self.hidden_size)
            log_uniform_times_(self.bias_ih[z], self.longest)
            self.bias_hh[z] = 0.0

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self._per_unit(self.weight_ih), self._per_unit(self.bias_ih)

    def _per_unit(self, rows: Rows) -> Rows:
        """The rows of a matrix or of a bias, with a shared reset gate repeated for every unit."""
        if self.gates != "shared-reset" or rows is None:
            return rows
        return torch.cat([rows[:1].expand(self.hidden_size, *rows.shape[1:]), rows[1:]])

    def prepare(self) -> Form:
        after, matrix, bias = self.reset == "after", self.weight_hh, self.bias_hh
        if self.gates != "global-local":
            return GatedRecurrent(self._per_unit(matrix), self._per_unit(bias), after)
        for_all, own = (None, None) if bias is None else (bias[:2], bias[2:])
        return GlobalGates(matrix[2:], own, after, overall=matrix[:2], overall_bias=for_all)

    def form(self) -> str:
        return GlobalGates.name if self.gates == "global-local" else GatedRecurrent.name
