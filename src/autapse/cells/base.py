"""Cell: what one step of a network is."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.forms import Form, State


class Cell(nn.Module):
    """A local rule: the state at position t from the states on its stencil and the input there.

    A cell of your own subclasses this, makes its parameters in `__init__`, and writes `step`; usually also `drive`
    (all that depends on the input alone, for every step at once) and `prepare` (effective matrices, once per
    sequence). `state_sizes` has one size per state tensor. Options are kept as attributes under the names of the
    constructor's arguments.
    """

    stencil: ClassVar[tuple[int, ...]] = (-1,)
    depends_on_position: ClassVar[bool] = True  # whether `step` reads t; False lets Parallel take all positions at once
    renamed: ClassVar[dict[str, str]] = {}  # options kept under another attribute, since a method has their name

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = checks.integer("input_size", input_size, minimum=1)
        self.hidden_size = checks.integer("hidden_size", hidden_size, minimum=1)
        self.bias = checks.boolean("bias", bias)
        self._factory: dict[str, Any] = {"device": device, "dtype": dtype}

    # What a subclass writes -------------------------------------------------------------------------------------

    def drive(self, x: Tensor) -> Tensor:  # [..., D] -> [..., G]
        """Everything that depends on the input alone, for all steps at once."""
        return x

    def prepare(self) -> Any:
        """The effective matrices and coefficients, once per sequence; `step` gets them as `weights`."""
        return None

    def step(
        self,
        u: Tensor,  # [B, G], the drive at this step
        state: State,  # one [B, S] tensor per state
        weights: Any,  # what prepare() made
        t: int,  # position in the sequence, counted in processing order
    ) -> State:
        """One transition."""
        raise NotImplementedError(f"{type(self).__name__} must define step(u, state, weights, t).")

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """One size per state tensor."""
        return (self.hidden_size,)

    def output(self, state: State) -> Tensor:
        """What the next layer sees of a state: its first tensor unless a cell says otherwise."""
        return state[0]

    @property
    def output_size(self) -> int:
        return self.state_sizes[0]

    def form(self) -> str | None:
        """The name of the fused form that this cell parametrises, or None."""
        return None

    def reset_parameters(self) -> None:
        """Draw the initial parameters anew: uniform in ±1/√hidden_size unless a cell says otherwise."""
        uniform_(self.hidden_size, *self.parameters())

    # What every cell offers -------------------------------------------------------------------------------------

    def forward(
        self,
        x_t: Tensor,  # [B, D] or [D]
        state: Tensor | State | None = None,  # zeros by default
        t: int = 0,
    ) -> Tensor | State:
        """A single step: the new state, one tensor, or a tuple where the cell has several."""
        u, states, batched = self._single(x_t, state)
        new = self.checked(self.step(u, states, self.prepare(), t), u.shape[0])
        new = new if batched else tuple(s.squeeze(0) for s in new)
        return new[0] if len(new) == 1 else new

    def driver(self) -> Callable[[Tensor], Tensor]:
        """`drive` with its effective matrices built once, for callers who come back step by step."""
        return self.drive

    def jacobian(
        self,
        x_t: Tensor,  # [B, D] or [D]
        state: Tensor | State | None = None,
        t: int = 0,
    ) -> Tensor:  # [B, S, S] or [S, S], S the sizes of all states together
        """D state' / d state of one step, by automatic differentiation; built-in cells have it in closed form."""
        u, states, batched = self._single(x_t, state)
        total = self._jacobian(u, states, self.prepare(), t)
        return total if batched else total.squeeze(0)

    def _jacobian(self, u: Tensor, state: State, weights: Any, t: int) -> Tensor:
        sizes = [s.shape[-1] for s in state]

        def flat_step(flat: Tensor) -> Tensor:
            # Rows of a batch do not interact, so the sum over the batch has each row's own Jacobian.
            new = self.step(u, flat.split(sizes, dim=-1), weights, t)
            return torch.cat(self.checked(new, len(flat)), dim=-1).sum(0)

        flat = torch.cat(state, dim=-1)
        jacobian = torch.autograd.functional.jacobian(flat_step, flat, create_graph=torch.is_grad_enabled())
        return jacobian.transpose(0, 1)

    def zero_state(self, batch: int, like: Tensor) -> State:
        """States of zeros for `batch` sequences, of the device and dtype of `like`."""
        return tuple(like.new_zeros(batch, size) for size in self.state_sizes)

    def checked(self, state: Any, batch: int) -> State:
        """What `step` returned, if it is one tensor per state: a bare tensor would be taken apart along its batch."""
        expected = [(batch, size) for size in self.state_sizes]
        got = [tuple(s.shape) for s in state] if isinstance(state, tuple | list) else type(state).__name__
        if got != expected:
            rule = f"return a tuple with one tensor per state, of shapes {expected}"
            checks.fail(f"step of {type(self).__name__}", rule, got, kind=checks.ShapeError)
        return tuple(state)

    def _single(self, x_t: Tensor, state: Tensor | State | None) -> tuple[Tensor, State, bool]:
        if x_t.dim() not in (1, 2) or x_t.shape[-1] != self.input_size:
            rule = f"have shape (B, input_size) or (input_size,) with input_size = {self.input_size}"
            checks.fail("x_t", rule, tuple(x_t.shape), kind=checks.ShapeError)
        batched = x_t.dim() == 2
        x = x_t if batched else x_t.unsqueeze(0)
        u = self.drive(x)
        if state is None:
            return u, self.zero_state(x.shape[0], u), batched
        states = (state,) if isinstance(state, Tensor) else tuple(state)
        expected = [(*x_t.shape[:-1], size) for size in self.state_sizes]
        if [tuple(s.shape) for s in states] != expected:
            got = [tuple(s.shape) for s in states]
            checks.fail("state", f"have the shapes {expected}", got, "Pass None for zeros.", checks.ShapeError)
        return u, states if batched else tuple(s.unsqueeze(0) for s in states), batched

    def _parameter(self, *shape: int) -> nn.Parameter:
        return nn.Parameter(torch.empty(shape, **self._factory))

    def _bias(self, *shape: int) -> nn.Parameter | None:
        return self._parameter(*shape) if self.bias else None

    def extra_repr(self) -> str:
        return ", ".join([str(self.input_size), str(self.hidden_size), *option_words(self)])


class FormCell(Cell):
    """A cell whose step is one of the forms: `prepare` builds the form, and the form has step and Jacobian."""

    form_class: ClassVar[type[Form]]
    weight_ih: nn.Parameter
    bias_h: nn.Parameter | None

    def affine(self) -> tuple[Tensor, Tensor | None]:
        """The effective W and b of the drive W·x + b."""
        return self.weight_ih, self.bias_h

    def drive(self, x: Tensor) -> Tensor:
        return F.linear(x, *self.affine())

    def driver(self) -> Callable[[Tensor], Tensor]:
        weight, bias = self.affine()
        return lambda x: F.linear(x, weight, bias)

    def prepare(self) -> Form:
        raise NotImplementedError

    def form(self) -> str:
        return self.form_class.name

    def step(self, u: Tensor, state: State, weights: Form, t: int) -> State:
        return weights.step(u, state, t)

    def _jacobian(self, u: Tensor, state: State, weights: Form, t: int) -> Tensor:
        return weights.jacobian(u, state, t)


COMMON = ("bias", "device", "dtype")  # what every cell may take beside its sizes


def constructor_arguments(cell_class: type[Cell]) -> dict[str, inspect.Parameter]:
    """What a cell's constructor takes beyond its sizes, also through **keywords that it hands to its base class."""
    found: dict[str, inspect.Parameter] = {}
    for owner in cell_class.__mro__:
        if "__init__" not in vars(owner):
            continue
        parameters = list(inspect.signature(vars(owner)["__init__"]).parameters.values())[1:]
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        found |= {p.name: p for p in named if p.name not in found and p.name not in ("input_size", "hidden_size")}
        if owner is Cell or not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return found


def cell_options(cell_class: type[Cell]) -> dict[str, inspect.Parameter]:
    """The options of a cell's own: what its constructor takes beyond the arguments of every cell."""
    return {name: p for name, p in constructor_arguments(cell_class).items() if name not in COMMON}


def option_words(cell: Cell) -> list[str]:
    """name=value for each option of a cell that differs from its default."""
    words = [] if cell.bias else ["bias=False"]
    for name, parameter in cell_options(type(cell)).items():
        value = getattr(cell, cell.renamed.get(name, name), parameter.default)
        if isinstance(value, Tensor) or (value is not parameter.default and value != parameter.default):
            words.append(f"{name}={tuple(value.shape) if isinstance(value, Tensor) else repr(value)}")
    return words


def both(bias_ih: Tensor | None, bias_hh: Tensor | None) -> Tensor | None:
    """The sum of torch.nn's two biases, where a cell has them."""
    return None if bias_ih is None or bias_hh is None else bias_ih + bias_hh


@torch.no_grad()
def uniform_(hidden_size: int, *parameters: Tensor) -> None:
    """U(−1/√H, 1/√H), torch.nn's initialisation of recurrent layers."""
    bound = 1 / math.sqrt(hidden_size)
    for parameter in parameters:
        parameter.uniform_(-bound, bound)


@torch.no_grad()
def zeros_(*parameters: Tensor | None) -> None:
    """Zero, for the parameters that a layer has: a layer without bias passes None."""
    for parameter in parameters:
        if parameter is not None:
            parameter.zero_()
