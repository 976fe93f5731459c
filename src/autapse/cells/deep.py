"""Deep: any cell with further maps before, inside and after its step, and with groups of units."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.parametrize import is_parametrized

from autapse import checks
from autapse.cells.antisymmetric import Antisymmetric
from autapse.cells.base import Cell, FormCell, borrow, cell_options, make_cell
from autapse.cells.equilibrium_linear import EquilibriumLinear
from autapse.cells.equilibrium_tanh import EquilibriumTanh
from autapse.cells.ernn import ERNN
from autapse.cells.fast import FastGRNN, FastRNN
from autapse.cells.groups import group_mask, group_of, restrict
from autapse.cells.gru import GRU
from autapse.cells.implicit import ImplicitGRU, ImplicitLSTM
from autapse.cells.implicit_midpoint import ImplicitMidpoint
from autapse.cells.leaky import LeakyRNN
from autapse.cells.lstm import LSTM
from autapse.cells.maps import Maps
from autapse.cells.orthogonal import OrthogonalRNN, SpectralRNN
from autapse.cells.rin import RIN
from autapse.cells.rnn import IRNN, RNN
from autapse.cells.spec import inside, parse_options, words_of
from autapse.cells.ugrnn import UGRNN
from autapse.forms import ACTIVATIONS, Form, Leaky, State, Transitions
from autapse.forms.base import rows
from autapse.solve import SolveReport

INPUT, OUTPUT = ("all", "first"), ("all", "last")  # groups that read the input, and groups that are the output


class Deep(FormCell):
    """g₀ = step(MLP(x), h), gᵢ = act(Vᵢ·gᵢ₋₁ + bᵢ) for i = 1…n, h' = gₙ; the output is MLP(h')

    The textbook's section 10.5 (Pascanu et al. 2014). step is that of another cell, whose h0, h_n and options stay as
    they are. Where a cell has several states, as the LSTM, the maps act on the first one, h. An MLP of depth n is n
    maps act(V·g + b). With `skip` each map adds what it reads, gᵢ = gᵢ₋₁ + act(Vᵢ·gᵢ₋₁ + bᵢ), so the shortest path from
    step to step has no more nonlinear maps than that of the other cell alone.

    At the start every map keeps the size of what it reads: V is the identity plus normal noise of 10⁻³ (with `skip` the
    noise alone), or normal with variance 1/n where its n inputs have another size than its outputs (2/n for ReLU).
    b = 0. RIN-DT is `cell="rin"`, the Vᵢ being RIN's U₂ + I.

    The compiled kernels run the recurrence if the cell has one and `transition_depth` is 0. They also run the
    transitions of RNN, IRNN, RIN, OrthogonalRNN and SpectralRNN, whose step is one map, if all maps have the same
    activation: that is the chain form. Other transitions run in plain PyTorch, step by step.

    With `groups` the units are in groups of equal size. A group reads the states of the step before of itself and of
    the groups below it. All other entries of the recurrent matrix and of the Vᵢ are exactly zero.

    Args:
        cell: the other cell: a name with options, as in "gru" or "ernn:inner_steps=2", a class, or a pair of a class
            and a dict with its options. It must not look ahead. On the command line a name with options is in brackets,
            as in deep:cell=(ernn:inner_steps=2).
        input_depth: number of maps between the input and the step.
        transition_depth: number of maps inside the step, after that of the cell: n.
        output_depth: number of maps between the state and the output.
        skip: add what a map reads to its result, in all three places. If the sizes differ, a learned matrix is between.
        width: units of the maps at the input and at the output; None: hidden_size.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity". None: that of the cell, if it has one, else
            tanh.
        groups: number of groups; 1: no restriction.
        group_input: which groups read the input, "all" or "first".
        group_output: which groups are the output, "all" or "last".
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        cell: Any = "rnn",
        input_depth: int = 0,
        transition_depth: int = 1,
        output_depth: int = 0,
        skip: bool = False,
        width: int | None = None,
        nonlinearity: str | None = None,
        groups: int = 1,
        group_input: str = "all",
        group_output: str = "all",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        kind, options = cell_class(cell)
        self.cell = spec_of(kind, options)
        self.input_depth = checks.integer("input_depth", input_depth, minimum=0)
        self.transition_depth = checks.integer("transition_depth", transition_depth, minimum=0)
        self.output_depth = checks.integer("output_depth", output_depth, minimum=0)
        self.skip = checks.boolean("skip", skip)
        self.width = None if width is None else checks.integer("width", width, minimum=1)
        self.groups = checks.integer("groups", groups, minimum=1)
        self.group_input = checks.one_of("group_input", group_input, INPUT)
        self.group_output = checks.one_of("group_output", group_output, OUTPUT)
        self._check_used(nonlinearity)

        common = {"bias": bias, **self._factory}
        wide = self.width or hidden_size
        self.inner = make_cell(kind, wide if input_depth else input_size, hidden_size, common, options)
        self.stencil = self.inner.stencil
        self._check_groups()
        self.nonlinearity = nonlinearity
        self._activation = _activation(self.inner) if nonlinearity is None else nonlinearity
        state = self.inner.state_sizes[0]
        self.input_maps = self._maps(input_size, wide, input_depth)
        self.transition_maps = self._maps(state, state, transition_depth)
        self.output_maps = self._maps(self._read.stop - self._read.start, wide, output_depth)
        self._clear_unused()

    # Options ----------------------------------------------------------------------------------------------------

    def _check_used(self, nonlinearity: str | None) -> None:
        """Every option must have something to act on."""
        if nonlinearity is not None:
            checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        ends = self.input_depth + self.output_depth
        depth = ends + self.transition_depth
        if not depth and self.groups == 1:
            rule = "be at least 1 in one place, or groups at least 2"
            checks.fail("input_depth, transition_depth or output_depth", rule, 0, f"Or use {self.cell} itself.")
        if self.width is not None and not ends:
            checks.fail("width", "be used with input_depth or output_depth", self.width)
        for name, value in (("skip", self.skip), ("nonlinearity", nonlinearity)):
            if value and not depth:
                checks.fail(name, "be used with a depth above 0", value)
        for name in ("group_input", "group_output"):
            if getattr(self, name) != "all" and self.groups == 1:
                checks.fail(name, 'be "all" without groups', getattr(self, name))

    def _check_groups(self) -> None:
        if self.groups == 1:
            return
        if self.groups > self.hidden_size:
            checks.fail("groups", f"be at most hidden_size = {self.hidden_size}", self.groups)
        weights = [getattr(self.inner, name) for name in self.inner.unit_matrices]
        if not weights or any(w.shape[-1] != self.hidden_size for w in weights if w is not None):
            rule = f"be 1 for {self.cell}: its units are not connected by one full matrix"
            checks.fail("groups", rule, self.groups, "RNN, GRU and LSTM, for example, can have groups.")

    def _maps(self, inputs: int, outputs: int, depth: int) -> Maps:
        settings = (self.bias, self._activation, self.skip)
        return Maps([inputs, *[outputs] * depth], *settings, **self._factory)

    def reset_parameters(self) -> None:
        self.inner.reset_parameters()
        for maps in (self.input_maps, self.transition_maps, self.output_maps):
            maps.reset_parameters()
        self._clear_unused()

    @torch.no_grad()
    def _clear_unused(self) -> None:
        """Set the weights that groups do not use to zero. They have no gradient, so an optimizer keeps them there."""
        for name, weight in self._restricted().items():
            self.inner._parameters[name].copy_(weight)  # type: ignore[union-attr]
        for one in self.transition_maps:
            one.weight.copy_(self._within_groups(one.weight))

    # Groups -----------------------------------------------------------------------------------------------------

    def _within_groups(self, weight: Tensor) -> Tensor:
        return weight if self.groups == 1 else restrict(weight, group_mask(self.hidden_size, self.groups))

    def _restricted(self) -> dict[str, Tensor]:
        """The parameters of the inner cell that groups restrict, with zeros."""
        if self.groups == 1:
            return {}
        if is_parametrized(self.inner):
            checks.fail("groups", "be 1 for a cell with a parametrization", self.groups)
        given = {name: self.inner._parameters.get(name) for name in self.inner.unit_matrices}
        weights = {name: self._within_groups(weight) for name, weight in given.items() if weight is not None}
        if self.group_input == "first":
            first = group_of(self.hidden_size, self.groups)[:, None] == 0
            weights["weight_ih"] = restrict(self.inner._parameters["weight_ih"], first)  # type: ignore[arg-type]
        return weights

    def _cell(self) -> Cell:
        """The inner cell with the weights that it has in its groups."""
        weights = self._restricted()
        return borrow(self.inner, self.inner._parameters | weights) if weights else self.inner

    @property
    def _read(self) -> slice:
        """The units of the inner cell's output that are the output, or that its maps read."""
        if self.group_output == "all":
            return slice(0, self.inner.output_size)
        last = group_of(self.hidden_size, self.groups) == self.groups - 1
        return slice(self.hidden_size - int(last.sum()), self.hidden_size)

    # The step ---------------------------------------------------------------------------------------------------

    def drive(self, x: Tensor) -> Tensor:
        return self.driver()(x)

    def driver(self) -> Callable[[Tensor], Tensor]:
        inner = self._cell().driver()
        return lambda x: inner(self.input_maps(x))

    def prepare(self) -> Form:
        inner = self._cell()
        weights = inner.prepare()
        form = inner.fused(weights)
        matrices = tuple(self._within_groups(one.weight) for one in self.transition_maps)
        biases = tuple(one.bias for one in self.transition_maps)
        if form is not None and not matrices:
            return form
        chain = _chained(form, matrices, biases, self._activation, self.skip)
        return chain or DeepStep(inner, weights, matrices, biases, self._activation, self.skip)

    def affine(self) -> None:  # type: ignore[override]
        """None: `drive` is that of the inner cell, after the maps."""

    def form(self) -> str | None:  # type: ignore[override]
        form = self.prepare()
        return None if isinstance(form, DeepStep) else form.name

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.inner.state_sizes

    @property
    def depends_on_position(self) -> bool:
        return self.inner.depends_on_position or super().depends_on_position

    @property
    def is_solved(self) -> bool:  # type: ignore[override]
        return self.inner.is_solved

    def solved_step(self, u: Tensor, state: State, weights: Any) -> tuple[State, SolveReport]:
        new, report = weights.cell.solved_step(u, state, weights.weights)
        return weights.mapped(new), report

    def output(self, state: State) -> Tensor:
        read = self.inner.output(state)
        read = read if self.group_output == "all" else read[..., self._read]
        return self.output_maps(read)

    @property
    def output_size(self) -> int:
        return (self.width or self.hidden_size) if self.output_depth else self._read.stop - self._read.start

    @property
    def output_reads_all(self) -> bool:
        return self.inner.output_reads_all


@dataclass(frozen=True)
class DeepStep(Form):
    """g₀, … = step(u, h, …); gᵢ = act(Vᵢ·gᵢ₋₁ + bᵢ), plus gᵢ₋₁ with a skip connection; h' = gₙ"""

    name = "deep"

    cell: Cell
    weights: Any  # the result of cell.prepare()
    matrices: tuple[Tensor, ...]  # V₁ … Vₙ
    biases: tuple[Tensor | None, ...]
    activation: str
    skip: bool

    def step(self, u: Tensor, state: State, t: int) -> State:
        return self.mapped(self.cell.step(u, state, self.weights, t))

    def mapped(self, state: State) -> State:
        """The states after the maps, from those after the cell's own step."""
        h, *others = state
        for matrix, bias in zip(self.matrices, self.biases, strict=True):
            h = self._add(self._map(h, matrix, bias), h)
        return (h, *others)

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        total = self.cell._jacobian(u, state, self.weights, t)
        h = self.cell.advance(u, state, self.weights, t)[0]
        size = h.shape[-1]
        by_state, others = total[:, :size], total[:, size:]
        for matrix, bias in zip(self.matrices, self.biases, strict=True):
            y = self._map(h, matrix, bias)
            slope = rows(ACTIVATIONS[self.activation].slope(y), matrix)
            by_state, h = self._add(slope @ by_state, by_state), self._add(y, h)
        return torch.cat([by_state, others], dim=1)

    def _map(self, h: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        return ACTIVATIONS[self.activation].apply(F.linear(h, matrix, bias))

    def _add(self, new: Tensor, read: Tensor) -> Tensor:
        return new + read if self.skip else new

    def __copy__(self) -> DeepStep:
        # A form caches what it computes from its matrices, and a copy must not share that.
        return replace(self, weights=copy.copy(self.weights))


def _chained(
    form: Form | None, matrices: tuple[Tensor, ...], biases: tuple[Tensor | None, ...], activation: str, skip: bool
) -> Transitions | None:
    """The chain form of a cell whose step is one map, or a chain, followed by more maps; None if it is not a chain."""
    if type(form) is Leaky and form.is_one_map:
        form = Transitions((form.matrix,), (), form.activation, skip)
    if type(form) is not Transitions or form.activation != activation or not form.may_skip(skip):
        return None
    given = tuple(matrix.new_zeros(len(matrix)) if b is None else b for matrix, b in zip(matrices, biases, strict=True))
    return Transitions((*form.matrices, *matrices), (*form.biases, *given), activation, skip)


@torch.no_grad()
def _activation(cell: Cell) -> str:
    """The activation of a cell whose form has one; tanh for others."""
    name = getattr(cell.fused(cell.prepare()), "activation", "tanh")
    return name if name in ACTIVATIONS else "tanh"


# Which cell ---------------------------------------------------------------------------------------------------------

CELLS: dict[str, type[Cell]] = {
    cell.__name__.lower(): cell
    for cell in (
        *(RNN, IRNN, RIN, LSTM, GRU, UGRNN, FastRNN, FastGRNN, Antisymmetric, ERNN, OrthogonalRNN, SpectralRNN),
        *(LeakyRNN, EquilibriumTanh, EquilibriumLinear, ImplicitMidpoint, Deep, ImplicitGRU, ImplicitLSTM),
    )
}


def cell_class(cell: Any) -> tuple[type[Cell], dict[str, Any]]:
    """The class and the options of a name such as "ernn:inner_steps=2", of a class, or of a pair of both."""
    kind, options = _named(cell) if isinstance(cell, str) else _given(cell)
    if max(kind.stencil) > 0:
        checks.fail("cell", "look back: a network that looks ahead has no single step", kind.__name__, "Try gru.")
    return kind, options


def _named(text: str) -> tuple[type[Cell], dict[str, Any]]:
    name, *words = words_of(inside(text) or text)
    kind = CELLS[checks.one_of("cell", name.lower(), CELLS)]
    return kind, parse_options("cell", text, name, words, cell_options(kind), cell_class)


def _given(cell: Any) -> tuple[type[Cell], dict[str, Any]]:
    kind, options = cell if isinstance(cell, tuple | list) and len(cell) == 2 else (cell, {})
    if not (isinstance(kind, type) and issubclass(kind, Cell) and isinstance(options, dict)):
        rule, remedy = "be a name, a cell class, or a pair of a class and its options", "An instance is not accepted."
        checks.fail("cell", rule, cell, remedy, checks.KindError)
    known = cell_options(kind)
    for name in options:
        if name not in known:
            rule = f"be one of: {', '.join(known) or 'none'}"
            checks.fail(f"option of {kind.__name__}", rule, name, checks.closest(name, known))
    return kind, dict(options)


def spec_of(kind: type[Cell], options: dict[str, Any]) -> str:
    """The name of a cell with options."""
    name = next((name for name, known in CELLS.items() if known is kind), f"{kind.__module__}:{kind.__qualname__}")
    return ":".join([name, *(f"{option}={value}" for option, value in options.items())])
