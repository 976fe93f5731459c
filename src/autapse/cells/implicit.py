"""Cells that look ahead: the state at t depends on states before and after it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.cells.base import Cell, uniform_, zeros_
from autapse.forms.implicit import AnyRule, Rule
from autapse.forms.implicit_gru import ImplicitGRURule
from autapse.forms.implicit_lstm import ImplicitLSTMRule

Boundary = Literal["zero", "learned"]


class ImplicitCell(Cell):
    """The base of implicit cells, which have a rule instead of a step. Not for direct use.

    Args:
        stencil: offsets of the neighbours, each once and not 0.
        boundary: the states before and after each sequence, "zero" or "learned".
        recurrent_scale: recurrent matrices start uniform in ±recurrent_scale/√hidden_size. With 0.5 instead of 1 the
            first solves cost half as much.
    """

    stencil: tuple[int, ...] = (-1, 1)
    depends_on_position = False
    parts: int  # number of products with ĥ

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        stencil: Sequence[int] = (-1, 1),
        boundary: Boundary = "zero",
        recurrent_scale: float = 0.5,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.stencil = checked_stencil(stencil)
        self.boundary: str = checks.one_of("boundary", boundary, get_args(Boundary))
        self.recurrent_scale = checks.number("recurrent_scale", recurrent_scale, low=0.0)
        width = (len(self.stencil) + self.parts) * self.hidden_size
        self.weight_ih = self._parameter(width, self.input_size)
        self.weight_hh = self._parameter(width, self.hidden_size)
        self.bias_h = self._bias(width)
        self.edges = self._parameter(2, sum(self.state_sizes)) if boundary == "learned" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±1/√hidden_size, recurrent matrices times `recurrent_scale`; biases and boundary states zero."""
        uniform_(self.hidden_size, self.weight_ih, self.weight_hh)
        with torch.no_grad():
            self.weight_hh.mul_(self.recurrent_scale)
        zeros_(self.bias_h, self.edges)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    @abstractmethod
    def prepare(self) -> Rule:
        """The rule with its matrices."""

    def rule(self, weights: Rule) -> Rule:
        return weights

    def step(self, u: Tensor, state: Any, weights: Any, t: int) -> Any:
        words = f"{type(self).__name__} has no single step: its states depend on later ones."
        raise NotImplementedError(f"{words} Use the layer autapse.{type(self).__name__} on whole sequences.")

    def _switches(self) -> tuple[Tensor, Tensor]:
        """U_j of each offset, [J, H, H], and the other matrices."""
        size, count = self.hidden_size, len(self.stencil)
        return self.weight_hh[: count * size].view(count, size, size), self.weight_hh[count * size :]


class ImplicitGRU(ImplicitCell):
    """h_t = (1−z)∘ĥ + z∘tanh(W·x + U·(r∘ĥ) + b),  ĥ = s∘h_{t−1} + (1−s)∘h_{t+1},  s = s_p/(s_p+s_n),

    s_p = σ(W_p·x + U_p·h_{t−1} + b_p), s_n = σ(W_n·x + U_n·h_{t+1} + b_n), z = σ(W_z·x + U_z·ĥ + b_z),
    r = σ(W_r·x + U_r·ĥ + b_r). On a wider stencil every neighbour has its own s_j = σ_j / Σσ.
    """

    parts = 3  # z, r, candidate

    def prepare(self) -> ImplicitGRURule:
        switches, rest = self._switches()
        return ImplicitGRURule(self.stencil, switches, rest[: 2 * self.hidden_size], rest[2 * self.hidden_size :])

    def form(self) -> str:
        return "implicit_gru"


class ImplicitLSTM(ImplicitCell):
    """c_t = f∘ĉ + i∘g,  h_t = o∘tanh(c_t),  ĥ = s∘h_{t−1} + (1−s)∘h_{t+1},  ĉ = s∘c_{t−1} + (1−s)∘c_{t+1},

    s = s_p/(s_p+s_n), s_p = σ(W_p·x + U_p·h_{t−1} + b_p), s_n = σ(W_n·x + U_n·h_{t+1} + b_n);
    i, f, o = σ(W·x + U·ĥ + b), g = tanh(W_g·x + U_g·ĥ + b_g). On a wider stencil s_j = σ_j / Σσ.
    """

    parts = 4  # i, f, g, o

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size)

    @property
    def output_size(self) -> int:
        return self.hidden_size

    def prepare(self) -> ImplicitLSTMRule:
        return ImplicitLSTMRule(self.stencil, *self._switches())

    def form(self) -> str:
        return "implicit_lstm"


class ImplicitFunction(Cell):
    """h_t = rule(x_t, h_{t+j} for j in stencil), with a given function or module."""

    stencil: tuple[int, ...] = (-1, 1)
    depends_on_position = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        function: Callable[..., Tensor],
        stencil: Sequence[int] = (-1, 1),
        boundary: Boundary = "zero",
        **keywords: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, **keywords)
        self.function = function
        self.stencil = checked_stencil(stencil)
        self.boundary: str = checks.one_of("boundary", boundary, get_args(Boundary))
        self.edges = self._parameter(2, self.hidden_size) if boundary == "learned" else None
        zeros_(self.edges)

    def reset_parameters(self) -> None:
        """Call that of the module, if it has one; boundary states are zero."""
        getattr(self.function, "reset_parameters", lambda: None)()
        zeros_(self.edges)

    def rule(self, weights: Any) -> AnyRule:
        """The function with its present weights. In the backward pass, functional_call has restored older ones."""
        function = self.function
        if not isinstance(function, nn.Module):
            return AnyRule(lambda *args: _checked_value(function(*args), args[1]), self.stencil)
        parameters = dict(function.named_parameters())
        tensors = parameters | dict(function.named_buffers())
        return AnyRule(
            lambda *args: _checked_value(torch.func.functional_call(function, tensors, args), args[1]),
            self.stencil,
            tuple(parameters.values()),
        )

    def drive(self, x: Tensor) -> Tensor:
        self._check_graph(x)
        return x

    def _check_graph(self, x: Tensor) -> None:
        """Raise an error if a function uses parameters, which would silently get no gradient."""
        if isinstance(self.function, nn.Module) or not torch.is_grad_enabled() or not len(x):
            return
        row = x[:1].detach()
        near = (row.new_zeros(1, self.hidden_size),) * len(self.stencil)
        if self.rule(None).evaluate(row, near).requires_grad:
            remedy = "Make it a torch.nn.Module that contains them."
            checks.fail("rule", "use only its arguments", "a function that uses parameters", remedy)


def _checked_value(value: Any, neighbour: Tensor) -> Tensor:
    if not isinstance(value, Tensor) or value.shape != neighbour.shape:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        rule = f"return a tensor of the shape of its neighbours, {tuple(neighbour.shape)}"
        checks.fail("rule", rule, got, kind=checks.ShapeError)
    return value


def checked_stencil(stencil: Any) -> tuple[int, ...]:
    """A valid stencil of an implicit network: each offset once, and not 0."""
    if not isinstance(stencil, Sequence) or isinstance(stencil, str) or not stencil:
        checks.fail("stencil", "be offsets such as (-1, 1)", stencil, kind=checks.KindError)
    offsets = tuple(checks.integer("stencil", offset) for offset in stencil)
    if 0 in offsets or len(set(offsets)) != len(offsets):
        remedy = "A rule that needs h_t itself is an autapse.Equilibrium."
        checks.fail("stencil", "name each offset once, and not 0", offsets, remedy)
    return offsets
