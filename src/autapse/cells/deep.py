"""Deep: any cell with further maps before, inside and after its step, and with groups of units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.parametrize import is_parametrized

from autapse import checks
from autapse.cells.base import Cell, FormCell, Note, borrow, make_cell
from autapse.cells.deep_step import DeepStep, chained
from autapse.cells.enclosing import check_place
from autapse.cells.groups import group_mask, group_of, restrict
from autapse.cells.maps import Maps
from autapse.cells.named import CELLS, cell_class, spec_of
from autapse.forms import ACTIVATIONS, Form, State

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
        if not kind.stencil:
            checks.fail("cell", "read its state", kind.__name__, "More layers make a feedforward network deep.")
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
        self.output_maps = self._maps(self.inner.output_size - self.first_output, wide, output_depth)
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

    def restricted_inner(self) -> Cell:
        """The inner cell with the weights that it has in its groups."""
        weights = self._restricted()
        return borrow(self.inner, self.inner._parameters | weights) if weights else self.inner

    @property
    def first_output(self) -> int:
        """The first unit that the output, or its first map, reads."""
        if self.group_output == "all":
            return 0
        return int((group_of(self.hidden_size, self.groups) < self.groups - 1).sum())

    # The step ---------------------------------------------------------------------------------------------------

    def drive(self, x: Tensor) -> Tensor:
        return self.driver()(x)

    def driver(self) -> Callable[[Tensor], Tensor]:
        inner = self.restricted_inner().driver()
        return lambda x: inner(self.input_maps(x))

    def prepare(self) -> Form:
        inner = self.restricted_inner()
        weights = inner.prepare()
        form = inner.fused(weights)
        matrices = tuple(self._within_groups(one.weight) for one in self.transition_maps)
        biases = tuple(one.bias for one in self.transition_maps)
        if form is not None and not matrices:
            return form
        chain = chained(form, matrices, biases, self._activation, self.skip)
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
    def depends_on_position(self) -> bool:  # type: ignore[override]
        return self.inner.depends_on_position or super().depends_on_position

    @property
    def is_solved(self) -> bool:  # type: ignore[override]
        return self.inner.is_solved

    def solved_step(self, weights: Any, note: Note, u: Tensor, state: State, t: int) -> State:
        return weights.mapped(weights.cell.solved_step(weights.weights, note, u, state, t))

    @property
    def draws(self) -> bool:  # type: ignore[override]
        return self.inner.draws

    def place(self, layer: int, layers: int) -> None:
        check_place("cell", self.inner, layers)

    def log_probability(self, state: State) -> Tensor | None:
        return self.inner.log_probability(state)

    def penalty(self, state: State) -> Tensor | None:
        return self.inner.penalty(state)

    def recurrent_matrices(self) -> list[Tensor]:
        return self.restricted_inner().recurrent_matrices()

    def output(self, state: State) -> Tensor:
        read = self.inner.output(state)
        return self.output_maps(read if self.group_output == "all" else read[..., self.first_output :])

    @property
    def output_size(self) -> int:
        if self.output_depth:
            return self.width or self.hidden_size
        return self.inner.output_size - self.first_output

    @property
    def outputs_state(self) -> bool:
        return not self.output_depth and self.group_output == "all" and self.inner.outputs_state

    @property
    def output_reads_all(self) -> bool:
        return self.inner.output_reads_all


@torch.no_grad()
def _activation(cell: Cell) -> str:
    """The activation of a cell whose form has one; tanh for others."""
    name = getattr(cell.fused(cell.prepare()), "activation", "tanh")
    return name if name in ACTIVATIONS else "tanh"


CELLS[Deep.__name__.lower()] = Deep  # a deep cell may be inside another one
