"""Cell: one step of a network."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.forms import Form, State
from autapse.forms.implicit import AnyRule, Rule
from autapse.solve import SolveReport

Note = Callable[[SolveReport], None]  # called with the report of a step that is solved


class Scans(Protocol):
    """The scans that a cell can use to compute all its steps: see `Cell.in_parts`.

    Each returns the states after each step, and those at the ends of the sequences.
    """

    def form(self, form: Form, drive: Tensor, state: State, sizes: Sequence[int]) -> tuple[State, State]:
        """The scan of a form that has a kernel."""
        ...

    def cell(self, cell: Cell, x: Tensor, state: State, sizes: Sequence[int]) -> tuple[State, State]:
        """The scan of another cell."""
        ...


class Cell(nn.Module):
    """A local rule: the state at position t as a function of the states on its stencil and of the input at t.

    A subclass makes its parameters in `__init__` and writes `step`. It usually also writes `drive` or `affine` (the
    part that depends only on the input, for all steps at once) and `prepare` (effective matrices, once per call). It
    keeps its options as attributes with the names of the constructor's arguments.

    `stencil` has the offsets of the states that `step` reads. With (-1, -5), for example, `step` gets the state of the
    step before and the state of five steps before, in this order. The layer then carries five states from call to call.
    With () the state depends on the input alone, and all steps are computed at once.
    `depends_on_position` says whether `step` reads t. If it does not, set it to False: all positions can then be
    computed at once, and a text can be read in pieces.

    Args:
        input_size: features per step.
        hidden_size: units.
        bias: whether the cell has a bias.
        device: where the parameters are.
        dtype: type of the parameters.

    >>> class Delayed(autapse.Cell):
    ...     stencil = (-1, -3)
    ...
    ...     def step(self, u, state, weights, t):
    ...         before, earlier = state
    ...         return (torch.tanh(0.5 * before + 0.4 * earlier + u),)
    >>> output, h_n = autapse.Recurrent(Delayed, 2, 2)(torch.ones(7, 1, 2))
    >>> len(h_n), h_n[0].shape  # the last three states, the latest first
    (3, torch.Size([1, 1, 2]))
    """

    stencil: tuple[int, ...] = (-1,)
    depends_on_position: bool = True
    renamed: ClassVar[dict[str, str]] = {}  # options with another attribute name, because a method has their name
    unit_matrices: tuple[str, ...] = ()
    """The parameters [..., k·H, H] through which units read one another, if these are all; for groups of units."""

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
        if dtype is not None and dtype.is_complex:
            checks.fail("dtype", REAL, dtype, COMPLEX)
        self._factory: dict[str, Any] = {"device": device, "dtype": dtype}

    def __setattr__(self, name: str, value: Any) -> None:
        held = None if hasattr(nn.Module, name) else getattr(type(self), name, None)
        is_weight = isinstance(value, Tensor | nn.Module)
        # Otherwise a value would replace a method, and torch would hide a module behind it.
        if (callable(held) and (is_weight or not callable(value))) or (isinstance(held, property) and is_weight):
            rule = f"be the method or property of {type(self).__name__}"
            checks.fail(name, rule, type(value).__name__, f"The name {name} is reserved: choose another.")
        super().__setattr__(name, value)

    # What a subclass writes -------------------------------------------------------------------------------------

    def affine(self) -> tuple[Tensor, Tensor | None] | None:
        """W and b if the drive is W·x + b, else None."""
        return None

    def drive(self, x: Tensor) -> Tensor:  # [..., D] -> [..., G]
        """The part that depends only on the input, for all steps at once: W·x + b, or the input itself."""
        affine = self.affine()
        return x if affine is None else F.linear(x, *affine)

    def prepare(self) -> Any:
        """The effective matrices and coefficients, once per sequence; `step` gets them as `weights`."""
        return None

    def step(
        self,
        u: Tensor,  # [B, G], the drive at this step
        state: State,  # one [B, S] tensor per state and offset of the stencil
        weights: Any,  # the result of prepare()
        t: int,  # position in the sequence, counted in processing order
    ) -> State:
        """One transition: the new states, one tensor per entry of `state_sizes`."""
        raise NotImplementedError(f"{type(self).__name__} must define step(u, state, weights, t).")

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """One size per state tensor."""
        return (self.hidden_size,)

    def output(self, state: State) -> Tensor:
        """The output for the next layer: by default the first tensor of the state."""
        return state[0]

    @property
    def output_size(self) -> int:
        """Features of the output."""
        return self.state_sizes[0]

    @property
    def outputs_state(self) -> bool:
        """Whether the output is the first tensor of the state."""
        return type(self).output is Cell.output

    @property
    def output_reads_all(self) -> bool:
        """Whether `output` may read other tensors of the state than the first."""
        return not self.outputs_state

    def form(self) -> str | None:
        """The name of the form whose kernel runs this cell, or None."""
        return None

    def fused(self, weights: Any) -> Form | None:
        """The form with the same step, given the result of `prepare`, so that a kernel can replace `step`. Or None."""
        return None

    def windowed(self, drive: Tensor, carried: State, sizes: Sequence[int]) -> tuple[Tensor, State]:
        """For a cell with the stencil () whose step reads earlier inputs too: what `step` gets at each step.

        Args:
            drive: [N, G], the drive of each input.
            carried: what the sequences carry.
            sizes: number of sequences at each step.

        Returns:
            [N, ...] for the steps, and what the sequences carry at their ends beside the states.
        """
        return drive, ()

    runs_in_parts: bool = False
    """Whether `in_parts` gives the same as steps, one after the other."""

    def in_parts(self, x: Tensor, state: State, sizes: Sequence[int], start: int, parts: Scans) -> tuple[State, State]:
        """All steps of a batch, in a few scans that have a kernel.

        Args:
            x: [N, D], the steps of all sequences.
            state: what the sequences carry.
            sizes: number of sequences at each step.
            start: position of the first step.
            parts: the scans that it can use.

        Returns:
            The states after each step, and those that the sequences carry at their ends.
        """
        raise NotImplementedError(f"{type(self).__name__} has no parts.")

    def place(self, layer: int, layers: int) -> None:
        """Called once by a layer with several cells on top of one another: where this one is, counted from 0."""

    depends_on_place: bool = False
    """Whether `place` changes the cell. Then, inside another cell, it can be in one layer only."""

    passed_features: int = 0
    """How many of the last features of the output are inputs that the next layer gets unchanged, such as the time."""

    def rule(self, weights: Any) -> Rule:
        """For a cell that looks ahead: h_t as a function of the drive and of the states on the stencil.

        By default this is `step`, which must not read t, with automatic derivatives.
        """

        def step(u: Tensor, *near: Tensor) -> Tensor:
            states = [part for states in near for part in states.split(self.state_sizes, dim=1)]
            return torch.cat(self.checked(self.step(u, tuple(states), weights, 0), len(u)), dim=1)

        return AnyRule(step, self.stencil, tuple(self.parameters()))

    def initial_state(self, batch: int, like: Tensor) -> State:
        """The states of `batch` sequences before the first step, like `like` in device and dtype: by default zeros."""
        return tuple(like.new_zeros(batch, size) for size in self.carried_sizes)

    def log_probability(self, state: State) -> Tensor | None:  # [B]
        """The log-probability of all draws that led to a state, to train by REINFORCE; None: nothing to train so."""
        return None

    def recurrent_matrices(self) -> list[Tensor]:  # [H, H] each
        """The matrices by which units read one another, one per gate; none if they are not free."""
        weights = [getattr(self, name) for name in self.unit_matrices]
        return [part for w in weights if w is not None for part in w.flatten(0, -2).split(self.hidden_size)]

    def penalty(self, state: State) -> Tensor | None:  # [B]
        """What the training loss adds for each sequence, from the states at its end; None: nothing.

        The loss adds the mean over the sequences. A cell that counts something carries the count as a state.
        """
        return None

    def reset_parameters(self) -> None:
        """Draw the initial parameters again: by default uniform in ±1/√hidden_size."""
        uniform_(self.hidden_size, *self.parameters())

    # What every cell offers -------------------------------------------------------------------------------------

    def forward(
        self,
        x_t: Tensor,  # [B, D] or [D]
        state: Tensor | State | None = None,  # by default the initial state, which is zero for most cells
        t: int = 0,
    ) -> Tensor | State:
        """A single step. Returns the new state: one tensor, or a tuple if the cell carries several."""
        u, states, batched = self._single(x_t, state)
        new = self.advance(u, states, self.prepare(), t)
        new = new if batched else tuple(s.squeeze(0) for s in new)
        return new[0] if len(new) == 1 else new

    def driver(self) -> Callable[[Tensor], Tensor]:
        """`drive` with its effective matrices built once, for calls step by step."""
        if type(self).drive is not Cell.drive:
            return self.drive
        affine = self.affine()
        return (lambda x: x) if affine is None else lambda x: F.linear(x, *affine)

    @property
    def steps_back(self) -> int:
        """How far back the stencil reaches: the number of past states that a sequence carries."""
        # A cell that looks ahead is solved over whole sequences and carries nothing from step to step.
        return 1 if looks_ahead(type(self)) else max(1, -min(self.stencil, default=0))

    @property
    def carried_sizes(self) -> tuple[int, ...]:
        """The sizes of the tensors that a sequence carries: the states of the last `steps_back` steps, latest first."""
        return self.state_sizes * self.steps_back

    def advance(self, u: Tensor, carried: State, weights: Any, t: int, check: bool = True) -> State:
        """`step` with the states on the stencil. Returns the new states, then the older ones that are carried."""
        if self.steps_back == 1:
            new = self.step(u, carried if self.stencil else (), weights, t)
            return self.checked(new, len(u)) if check else new
        count = len(self.state_sizes)
        read = [s for offset in self.stencil if offset < 0 for s in carried[count * (-offset - 1) : count * -offset]]
        return (*self.checked(self.step(u, tuple(read), weights, t), len(u)), *carried[:-count])

    draws: bool = False
    """Whether a step draws random numbers, so that computing it twice gives two results."""

    is_solved: bool = False
    """Whether each step solves an equation, and has a report. Such a cell has `solved_step`."""

    def solved_step(self, weights: Any, note: Note, u: Tensor, state: State, t: int) -> State:
        """`step`; `note` gets its report, with one entry per row. The caller disables autocast, which is too coarse."""
        raise NotImplementedError(f"{type(self).__name__} solves no equation.")

    def jacobian(
        self,
        x_t: Tensor,  # [B, D] or [D]
        state: Tensor | State | None = None,
        t: int = 0,
    ) -> Tensor:  # [B, S, S] or [S, S], S the sizes of all states together
        """d state' / d state of one step: in closed form for cells with a form, else by automatic differentiation."""
        u, states, batched = self._single(x_t, state)
        total = self._jacobian(u, states, self.prepare(), t)
        return total if batched else total.squeeze(0)

    def _jacobian(self, u: Tensor, state: State, weights: Any, t: int) -> Tensor:
        form, sizes = self.fused(weights), [s.shape[-1] for s in state]
        if form is not None:
            return form.jacobian(u, state, t)

        def flat_step(flat: Tensor) -> Tensor:
            # Rows of a batch do not interact, so the sum over the batch has each row's own Jacobian.
            return torch.cat(self.advance(u, flat.split(sizes, dim=-1), weights, t), dim=-1).sum(0)

        flat = torch.cat(state, dim=-1)
        jacobian = torch.autograd.functional.jacobian(flat_step, flat, create_graph=torch.is_grad_enabled())
        return jacobian.transpose(0, 1)

    def checked(self, state: Any, batch: int) -> State:
        """Check the result of `step`: a bare tensor would be split along its batch."""
        expected = [(batch, size) for size in self.state_sizes]
        got = [tuple(s.shape) for s in state] if isinstance(state, tuple | list) else type(state).__name__
        if got != expected:
            rule = f"return a tuple with one tensor per state, of shapes {expected}"
            checks.fail(f"step of {type(self).__name__}", rule, got, kind=checks.ShapeError)
        return tuple(state)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        refuse_complex(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _single(self, x_t: Tensor, state: Tensor | State | None) -> tuple[Tensor, State, bool]:
        if x_t.dim() not in (1, 2) or x_t.shape[-1] != self.input_size:
            rule = f"have shape (B, input_size) or (input_size,) with input_size = {self.input_size}"
            checks.fail("x_t", rule, tuple(x_t.shape), kind=checks.ShapeError)
        states = () if state is None else (state,) if isinstance(state, Tensor) else tuple(state)
        refuse_complex({"x_t": x_t} | {f"state[{n}]": s for n, s in enumerate(states)})
        batched = x_t.dim() == 2
        x = x_t if batched else x_t.unsqueeze(0)
        u = self.drive(x)
        if state is None:
            return u, self.initial_state(x.shape[0], u), batched
        expected = [(*x_t.shape[:-1], size) for size in self.carried_sizes]
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

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        """False, unless a subclass overrides `step`, which may read t."""
        return type(self).step is not FormCell.step

    def affine(self) -> tuple[Tensor, Tensor | None]:
        """The effective W and b of the drive W·x + b."""
        return self.weight_ih, self.bias_h

    def prepare(self) -> Form:
        raise NotImplementedError

    def form(self) -> str:
        return self.form_class.name

    def fused(self, weights: Form) -> Form | None:
        return weights if type(self).step is FormCell.step else None

    def step(self, u: Tensor, state: State, weights: Form, t: int) -> State:
        return weights.step(u, state, t)


def looks_ahead(cell: type[Cell] | Cell) -> bool:
    """Whether the state at a position depends on later ones."""
    return max(cell.stencil, default=0) > 0


REAL = "be real: complex units are pairs of real numbers"
COMPLEX = 'For complex units, use OrthogonalRNN or KRU with field="complex".'


def refuse_complex(tensors: Mapping[str, Any], prefix: str = "") -> None:
    """Raise an error if a tensor whose name begins with the prefix is complex: torch would drop its imaginary part."""
    for name, value in tensors.items():
        if name.startswith(prefix) and isinstance(value, Tensor) and value.is_complex():
            checks.fail(name, REAL, value.dtype, COMPLEX)


COMMON = ("bias", "device", "dtype")  # arguments of all cells, apart from the sizes


def constructor_arguments(cell_class: type[Cell]) -> dict[str, inspect.Parameter]:
    """The arguments of a cell's constructor except the sizes, with those that **keywords passes to base classes."""
    arguments: dict[str, inspect.Parameter] = {}
    for owner in cell_class.__mro__:
        if "__init__" not in vars(owner):
            continue
        parameters = list(inspect.signature(vars(owner)["__init__"]).parameters.values())[1:]
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        new = [p for p in named if p.name not in arguments and p.name not in ("input_size", "hidden_size")]
        arguments |= {p.name: p for p in new}
        if owner is Cell or not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return arguments


def cell_options(cell_class: type[Cell]) -> dict[str, inspect.Parameter]:
    """The options of a cell: the arguments of its constructor that not every cell has."""
    return {name: p for name, p in constructor_arguments(cell_class).items() if name not in COMMON}


def option_words(cell: Cell) -> list[str]:
    """name=value for each option of a cell that differs from its default."""
    words = [] if cell.bias else ["bias=False"]
    for name, parameter in cell_options(type(cell)).items():
        value = getattr(cell, cell.renamed.get(name, name), parameter.default)
        if isinstance(value, Tensor) or (value is not parameter.default and value != parameter.default):
            words.append(f"{name}={tuple(value.shape) if isinstance(value, Tensor) else repr(value)}")
    return words


def make_cell(
    cell_class: type[Cell], input_size: int, hidden_size: int, common: dict[str, Any], options: dict[str, Any]
) -> Cell:
    """A cell with what its constructor takes; a user's cell need not know of device and dtype, or of bias."""
    taken = constructor_arguments(cell_class)
    if not common["bias"] and "bias" not in taken:
        checks.fail("bias", f"be True for {cell_class.__name__}, whose constructor takes no bias", False)
    cell = cell_class(input_size, hidden_size, **{n: common[n] for n in COMMON if n in taken}, **options)
    placement = {n: common[n] for n in ("device", "dtype") if n not in taken and common[n] is not None}
    return cell.to(**placement) if placement else cell


def borrow(template: Cell, parameters: dict[str, Any], **attributes: Any) -> Cell:
    """A cell like the template with other parameters, without copies of anything else."""
    cell = template.__class__.__new__(template.__class__)
    held = template.__dict__ | attributes
    held["_parameters"] = parameters
    object.__setattr__(cell, "__dict__", held)
    return cell


def both(bias_ih: Tensor | None, bias_hh: Tensor | None) -> Tensor | None:
    """The sum of torch.nn's two biases, or None if a cell has none."""
    return None if bias_ih is None or bias_hh is None else bias_ih + bias_hh


@torch.no_grad()
def uniform_(hidden_size: int, *parameters: Tensor) -> None:
    """U(−1/√H, 1/√H), torch.nn's initialisation of recurrent layers."""
    bound = 1 / math.sqrt(hidden_size)
    for parameter in parameters:
        parameter.uniform_(-bound, bound)


@torch.no_grad()
def zeros_(*parameters: Tensor | None) -> None:
    """Set parameters to zero. None stands for a parameter that a cell does not have."""
    for parameter in parameters:
        if parameter is not None:
            parameter.zero_()
