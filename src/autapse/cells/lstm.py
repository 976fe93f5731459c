"""The long short-term memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell, both
from autapse.cells.chrono import checked_longest, log_uniform_times_
from autapse.forms import Form, LongShortTerm


class LSTM(FormCell):
    """i, f, o = σ(W·x + b_ih + R·h + b_hh), g = tanh(…); c' = f ∘ c + i ∘ g; h' = o ∘ tanh(c')

    torch.nn.LSTM's equations, parameters, names and initialisation; the textbook's equations 10.8–10.11.

    Args:
        peepholes: True: add p_i ∘ c and p_f ∘ c to the gates i and f, and p_o ∘ c' to o (Gers and Schmidhuber 2000).
            "old": add p_o ∘ c to o instead, so that all three gates see the same cell (the textbook's section 10.7.4
            and figure 10.17).
        forget_bias: initial input bias of the forget gate, whose recurrent bias is then 0; the AntisymmetricRNN paper
            uses 1. None: as torch.nn.LSTM.
        proj_size: size to which h' is projected, as in torch.nn.LSTM; 0: no projection.
        longest: the longest dependency to be learned, T steps. The forget gate's input bias then starts as log u with u
            uniform in [1, T − 1], that of the input gate as −log u, and their recurrent biases at 0, so that the units
            start with memories of up to T steps (Tallec and Ollivier 2018). None: as torch.nn.LSTM.
    """

    form_class = LongShortTerm
    unit_matrices = ("weight_hh",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        peepholes: bool | str = False,
        forget_bias: float | None = None,
        proj_size: int = 0,
        longest: int | None = None,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        if not isinstance(peepholes, bool) and peepholes != "old":
            checks.fail("peepholes", "be True, False or 'old'", peepholes)
        self.peepholes = peepholes
        self.forget_bias = None if forget_bias is None else checks.number("forget_bias", forget_bias)
        if forget_bias is not None and not bias:
            checks.fail("forget_bias", "be used with bias=True", forget_bias, "Omit one of the two.")
        self.longest = checked_longest(longest, bias)
        if longest is not None and forget_bias is not None:
            checks.fail("longest", "be used without forget_bias: both set the same bias", longest)
        self.proj_size = checks.integer("proj_size", proj_size, minimum=0)
        if proj_size >= hidden_size:
            checks.fail("proj_size", f"be smaller than hidden_size = {hidden_size}", proj_size)
        self.weight_ih = self._parameter(4 * hidden_size, input_size)
        self.weight_hh = self._parameter(4 * hidden_size, self.output_size)
        self.bias_ih = self._bias(4 * hidden_size)
        self.bias_hh = self._bias(4 * hidden_size)
        self.weight_hr = self._parameter(proj_size, hidden_size) if proj_size else None
        self.weight_peephole = self._parameter(3, hidden_size) if peepholes else None
        self.reset_parameters()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.bias_ih is None or self.bias_hh is None:
            return
        (i, f, *_), (i_hh, f_hh, *_) = self.bias_ih.chunk(4), self.bias_hh.chunk(4)
        if self.forget_bias is not None:
            f.fill_(self.forget_bias)
            f_hh.zero_()
        if self.longest is not None:
            i.copy_(-log_uniform_times_(f, self.longest))
            i_hh.zero_()
            f_hh.zero_()

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, both(self.bias_ih, self.bias_hh)

    def prepare(self) -> Form:
        return LongShortTerm(self.weight_hh, self._peepholes(), self.weight_hr)

    def _peepholes(self) -> Tensor | None:  # [4, H]
        """The weights of the old cell in i, f and o, and of the new cell in o."""
        if self.weight_peephole is None:
            return None
        none = torch.zeros_like(self.weight_peephole[:1])
        if self.peepholes == "old":
            return torch.cat([self.weight_peephole, none])
        return torch.cat([self.weight_peephole[:2], none, self.weight_peephole[2:]])
