"""Recurrent: any cell as a layer that keeps torch.nn.GRU's contract."""

from __future__ import annotations

import inspect
import numbers
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import PackedSequence

from autapse import checks
from autapse.cells.base import Cell, cell_options, looks_ahead, make_cell, option_words, refuse_complex
from autapse.forms import State
from autapse.layers import noise
from autapse.layers.compiled import never_compiled
from autapse.layers.help import layer_help
from autapse.layers.noted import DRAWS, PENALTIES, NotedTensors
from autapse.layers.per_thread import PerThread
from autapse.layers.stream import Stream
from autapse.sequences.batch import SequenceBatch, make_batch
from autapse.solve import LinearReport, SolveReport
from autapse.solve.report import warn_unsolved
from autapse.unfold import Unfold, strategy_class, strategy_settings

FIRST = 0  # the position of the first step of a sequence
Shapes = dict[str, Any]  # the shapes of a module's parameters by name; for a cell inside it, the same again
Hidden = Any  # what h0 and h_n are: a tensor, a tuple of one tensor per state, or tuples per layer; see Recurrent


class Run(NamedTuple):
    """The result of one call of all cells."""

    rows: Tensor  # [N, H], the output
    final: dict[str, State]  # the final states, by cell
    traces: list[list[Tensor]]  # the states of each layer, [N, directions, S] each; empty if not needed
    reports: list[SolveReport]  # one per cell that solved equations, in the caller's order of sequences
    adjoint_reports: list[LinearReport]  # the backward pass adds them


class Recurrent(nn.Module):
    """A cell over sequences: depth, direction, dropout, packing, lengths, initial states, streaming.

    If equations are solved, `reports` has a `SolveReport` for each layer and direction. It is that of the last call in
    the thread that reads it.

    Args:
        cell: a subclass of `autapse.Cell`. Its stencil decides how sequences are computed.
        input_size: features per step.
        hidden_size: units, or a list with the units of each layer.
        num_layers: number of stacked layers; by default 1, or the number of entries of `hidden_size`.
        bias: whether the cells have biases.
        batch_first: input and output are [B, T, D] instead of [T, B, D].
        dropout: probability of dropping a value between layers, in training mode.
        bidirectional: also read each sequence from its end, with other cells. Not for implicit layers.
        device: where the parameters are.
        dtype: type of the parameters.
        unfold: a strategy of `autapse.unfold` for cells that look back. None: step by step; `Parallel()`: all steps at
            once.
        options: options of the cell, and settings of its strategy: those of `autapse.unfold.Scan`, or of
            `autapse.unfold.Solve` if the cell looks ahead.

    Called with:
        x: the input, [T, B, D], [T, D] for a single sequence, or a PackedSequence. RNN, GRU and LSTM also accept
            torch.nn's names, `input` for x and `hx` for h0.
        h0: the initial state, [num_layers·directions, B, H]; zeros by default. A tuple with one such tensor per state
            if a cell has several, as LSTM. With a list as `hidden_size`, a tuple with a [directions, B, H] per layer
            instead of each tensor. For implicit layers a pair: the states before and after the sequence.
        lengths: [B], the length of each sequence, if they differ.
        start: position of the first step, for cells that depend on the position.
        return_states: also return the states at every step.
        start_states: for implicit layers, where the solves start: states in the format of `return_states`, or [T, B, H]
            for one layer.
        keys: for implicit layers with `cache`, [B] names of the sequences. The solve of a sequence then starts from
            its last solution.

    Returns:
        output: [T, B, directions·H] from the last layer, zero after the end of a sequence; packed if the input is.
        h_n: the final state of each sequence, in the format of h0; for implicit layers, of one of its parts.
        states: only with `return_states`, a list with a tuple per layer: a [T, B, directions, H] tensor per state. It
            is padded if the input is packed.

    >>> layer = autapse.Recurrent(autapse.cells.RIN, 3, 16, num_layers=2, bidirectional=True)
    >>> output, h_n = layer(torch.zeros(5, 4, 3))
    >>> output.shape, h_n.shape
    (torch.Size([5, 4, 32]), torch.Size([4, 4, 16]))
    """

    reports = PerThread[SolveReport]()
    adjoint_reports = PerThread[LinearReport]()  # those of the last backward pass, last layer first
    _has_reports = False  # whether some call had reports, which the next one replaces

    def __init__(
        self,
        cell: type[Cell],
        /,  # so that `cell` can also be an option of the cell
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        unfold: Unfold | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not (isinstance(cell, type) and issubclass(cell, Cell)):
            checks.fail("cell", "be a subclass of autapse.Cell", cell, "Pass the class itself, not an instance.")
        self.cell_class = cell
        self.looks_ahead = looks_ahead(cell)  # whether the cells depend on later input: then sequences must be whole
        self.input_size = checks.integer("input_size", input_size, minimum=1)
        self.hidden_size = _sizes(hidden_size)
        self.num_layers = self._checked_layers(num_layers)
        self.bias = checks.boolean("bias", bias)
        self.batch_first = checks.boolean("batch_first", batch_first)
        self.dropout = checks.number("dropout", dropout, low=0.0, high=1.0)
        self.bidirectional = checks.boolean("bidirectional", bidirectional)
        if self.bidirectional and self.looks_ahead:
            checks.fail("bidirectional", "be False: an implicit layer looks both ways already", bidirectional)
        known, settings = cell_options(cell), strategy_settings(cell)
        for name in options:
            if name not in known and name not in settings:
                names = [*known, *(n for n in settings if n not in known)]
                rule = f"be one of this layer's: {', '.join(names)}"
                checks.fail(f"option of {cell.__name__}", rule, name, checks.closest(name, names))
        given = {name: options.pop(name) for name in settings if name not in known and name in options}
        self.unfold = self._checked_unfold(unfold, given)
        self.solving = strategy_class(cell)(**given)
        if dropout > 0 and self.num_layers == 1:
            # torch.nn warns about the same mistake.
            warnings.warn(f"dropout={dropout} has no effect: it acts between layers and num_layers is 1", stacklevel=3)
        cells = self._make_cells({"bias": bias, "device": device, "dtype": dtype}, options)
        first = next(iter(cells.values()))
        if looks_ahead(first) and not self.looks_ahead:
            checks.fail("stencil", "be an attribute of the class, for a cell that looks ahead", first.stencil)
        for one in [cell] if self.looks_ahead else cells.values():
            self.strategy.check(one)
        self._state_sizes = {key: cell.carried_sizes for key, cell in cells.items()}
        self._outputs_states = first.outputs_state
        keys, d = list(cells), self.directions
        self._keys = [keys[n : n + d] for n in range(0, len(keys), d)]  # of the cells, by layer
        self._store_cells(cells)

    # Construction -----------------------------------------------------------------------------------------------

    def _checked_layers(self, num_layers: int | None) -> int:
        count = len(self.hidden_size) if isinstance(self.hidden_size, list) else None
        if num_layers is None:
            return count or 1
        num_layers = checks.integer("num_layers", num_layers, minimum=1)
        if count not in (None, num_layers):
            remedy = "Omit num_layers."
            checks.fail("num_layers", f"agree with the {count} sizes in hidden_size", num_layers, remedy)
        return num_layers

    def _checked_unfold(self, unfold: Any, settings: dict[str, Any]) -> Unfold | None:
        if unfold is None:
            return None
        if not isinstance(unfold, Unfold):
            remedy = "Pass an instance, with its brackets." if isinstance(unfold, type) else "None is the default."
            checks.fail(
                "unfold",
                "be a strategy of autapse.unfold, such as Parallel(), or None",
                unfold,
                remedy,
                checks.KindError,
            )
        for name, value in settings.items():
            checks.fail(name, "be None if unfold is given, which has its own settings", value)
        return unfold.for_layer()

    @property
    def strategy(self) -> Unfold:
        """How sequences are computed: the given strategy, or the default of the stencil."""
        return self.solving if self.unfold is None else self.unfold

    def _make_cells(self, common: dict[str, Any], options: dict[str, Any]) -> dict[str, Cell]:
        sizes = self.hidden_size if isinstance(self.hidden_size, list) else [self.hidden_size] * self.num_layers
        cells: dict[str, Cell] = {}
        width = self.input_size
        for layer, size in enumerate(sizes):
            for direction in range(self.directions):
                cell = make_cell(self.cell_class, width, size, common, options)
                cell.place(layer, self.num_layers)
                cells[self._key(layer, direction)] = cell
            width = cell.output_size * self.directions - cell.passed_features * (self.directions - 1)
        return cells

    def _store_cells(self, cells: dict[str, Cell]) -> None:
        self.cells: Mapping[str, Cell] = nn.ModuleDict(cells)  # type: ignore[assignment]
        inside = {f"cells.{name}": shapes_of(part) for name, part in self.cells.named_modules()}  # type: ignore[attr-defined]
        self._shapes = {tuple(path.split(".")): shapes for path, shapes in inside.items() if shapes}

    def _check_parameters(self) -> None:
        """Raise an error if a parameter has another shape than at first: an assignment to `.data` can change it."""
        for path, shapes in self._shapes.items():
            module: nn.Module | None = self
            for name in path:
                module = None if module is None else module._modules.get(name)
            if module is not None:
                check_parameters(module, shapes, *path)

    @staticmethod
    def _key(layer: int, direction: int) -> str:
        return f"l{layer}_reverse" if direction else f"l{layer}"

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def reads_state(self) -> bool:
        """Whether a step depends on other steps. Otherwise h0 has no effect."""
        return any(cell.stencil or cell.carried_sizes != cell.state_sizes for cell in self.cells.values())

    @property
    def depends_on_position(self) -> bool:
        """Whether a step depends on its position in the sequence."""
        return any(cell.depends_on_position for cell in self.cells.values())

    @property
    def learns_draws(self) -> bool:
        """Whether the cells draw random numbers whose probabilities are trained by REINFORCE."""
        return any(cell.log_probability(_no_sequences(cell)) is not None for cell in self.cells.values())

    @property
    def pays_penalty(self) -> bool:
        """Whether the cells add a penalty to the training loss."""
        return any(cell.penalty(_no_sequences(cell)) is not None for cell in self.cells.values())

    @property
    def checkpoint_every(self) -> int | None:
        """Every how many steps a scan keeps a state; None if it keeps all, or for another strategy."""
        return getattr(self.strategy, "checkpoint_every", None)

    @property
    def output_size(self) -> int:
        """Features of the output, of all directions together."""
        return self.cells[self._key(self.num_layers - 1, 0)].output_size * self.directions

    @property
    def initial_sizes(self) -> list[tuple[int, ...]]:
        """The sizes of the tensors of h0: for each cell, one per state that it carries."""
        return list(self._state_sizes.values())

    def reset_parameters(self) -> None:
        """Draw the initial parameters of every cell again."""
        for cell in self.cells.values():
            cell.reset_parameters()

    def extra_repr(self) -> str:
        shown = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False, "unfold": None}
        words = [f"{name}={getattr(self, name)!r}" for name, default in shown.items() if getattr(self, name) != default]
        words += option_words(self.cells[self._key(0, 0)]) + ([] if self.unfold is not None else self.solving.words())
        return ", ".join([str(self.input_size), str(self.hidden_size), *words])

    def __repr__(self) -> str:
        # One line, as torch.nn: the cells would repeat it.
        own = "" if isinstance(self, Layer) else f"{self.cell_class.__name__}, "
        return f"{type(self).__name__}({own}{self.extra_repr()})"

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        refuse_complex(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *others)

    # Use --------------------------------------------------------------------------------------------------------

    @never_compiled  # a Python loop over time: traced, its length would freeze and compile time grow with it
    def forward(
        self,
        x: Tensor | PackedSequence,  # [T, B, D], [B, T, D] if batch_first, [T, D], or packed
        h0: Hidden = None,
        lengths: Sequence[int] | Tensor | None = None,  # [B]
        start: int = FIRST,
        return_states: bool = False,
        *,
        start_states: Any = None,
        keys: Sequence[Any] | Tensor | None = None,  # [B]
    ) -> tuple[Any, ...]:
        """Run the layer. The docstring of the class explains the arguments and the result."""
        start = checks.integer("start", start, minimum=0) if start is not FIRST else start
        self._check_parameters()
        plain = lengths is None and not return_states and start_states is None and keys is None
        if plain and isinstance(x, Tensor) and x.dim() == 3:
            whole = self._whole(x, h0)
            if whole is not None:
                if self._has_reports:
                    self.reports, self.adjoint_reports = [], []
                return whole
        batch = make_batch(x, lengths, self._width(x), self.batch_first, self._dtype)
        states = self._initial(h0, batch)
        run = self._run(batch, states, start, return_states, start_states, keys)
        if self.cell_class.log_probability is not Cell.log_probability:
            self._note(DRAWS, "log_probability", run.final, batch)
        if self.cell_class.penalty is not Cell.penalty:
            self._note(PENALTIES, "penalty", run.final, batch)
        if run.reports or self._has_reports:
            self.reports, self.adjoint_reports, self._has_reports = run.reports, run.adjoint_reports, True
        h_n, output = self._gather(run.final, batch), batch.restore(run.rows)
        if not return_states:
            return output, h_n
        return output, h_n, [tuple(batch.pad(state) for state in trace) for trace in run.traces]

    def _note(self, notes: NotedTensors, method: str, final: dict[str, State], batch: SequenceBatch) -> None:
        """Note what a method of the cells gives for their final states, in the caller's order of sequences."""
        values = [getattr(cell, method)(final[key]) for key, cell in self._cells().items()]
        known = [value for value in values if value is not None]
        if known:
            notes.add(batch.stack(known).view(len(known), -1).sum(0))

    def final_output(self, h_n: Hidden) -> Tensor:  # [B, output_size], or [output_size] for a single sequence
        """The output that belongs to h_n, of both directions."""
        cells = list(self.cells.values())[-self.directions :]
        one = max(map(len, self._state_sizes.values())) == 1
        states = (h_n,) if one else h_n[: len(cells[0].state_sizes)]
        last = [s[-1] if isinstance(self.hidden_size, list) else s[-self.directions :] for s in states]
        return torch.cat([cell.output(tuple(s[n] for s in last)) for n, cell in enumerate(cells)], dim=-1)

    def converged(self) -> Tensor | None:  # [B]
        """Which sequences of the last call were solved; None if all were, or if no equations were solved."""
        if all(report.all_converged for report in self.reports):
            return None
        return torch.stack([report.converged for report in self.reports]).all(0)

    def stream(self, batch_size: int = 1) -> Stream:
        """A `Stream`, which reads one step at a time and keeps the states: y_t = stream(x_t)."""
        if self.looks_ahead:
            words = f"{type(self).__name__} cannot be streamed: its states depend on later input."
            raise NotImplementedError(f"{words} Use a one-way layer such as autapse.GRU, or whole windows.")
        return Stream(self, batch_size)

    def _cells(self) -> Mapping[str, Cell]:
        """The cells of one call."""
        return self.cells

    def _width(self, x: Any) -> int:
        """The number of features that the input must have."""
        return self.input_size

    def _whole(self, x: Tensor, h0: Hidden) -> tuple[Tensor, Hidden] | None:
        """(output, h_n) of a padded batch without lengths, where the layer has a shorter way than `_run`."""
        return None

    def _by_torch(self, batch: SequenceBatch, states: Mapping[str, Any]) -> Run | None:
        """What torch's op gives, where torch has one for this layer; asked if the native library cannot serve."""
        return None

    def _run(
        self, batch: SequenceBatch, states: Mapping[str, Any], start: int, keep: bool, start_states: Any, keys: Any
    ) -> Run:
        strategy, cells = self.strategy, self._cells()
        strategy = strategy.open(cells, batch, self.training, start_states, keys)
        if strategy.may_use_torch and not keep and not (self.dropout and noise.generator()):
            run = self._by_torch(batch, states)
            if run is not None:
                return run
        rows, final = batch.rows, {}
        traces: list[list[Tensor]] = []
        reports: list[SolveReport] = []
        passed = 0
        for layer, keys_here in enumerate(self._keys):
            if layer:
                rows = self._between_layers(rows, passed)
            outputs, kept = [], []
            for direction, key in enumerate(keys_here):
                cell = cells[key]
                trace, final[key], report = strategy.run(
                    cell, rows, batch, states[key], layer=layer, start=start, reverse=direction == 1, keep=keep
                )
                if report is not None:
                    report = report if batch.order is None else report.take(batch.places)
                    warn_unsolved(self, type(cell).__name__, report, consequence=strategy.unsolved, stacklevel=6)
                    reports.append(report)
                outputs.append(trace[0] if self._outputs_states else cell.output(trace))
                kept.append(trace)
            passed = cell.passed_features
            rows = _joined(outputs, passed) if self.bidirectional else outputs[0]
            traces.append([torch.stack(both, dim=1) for both in zip(*kept, strict=True)] if keep else [])
        return Run(rows, final, traces, reports, getattr(strategy, "adjoint_reports", []))

    def _between_layers(self, rows: Tensor, passed: int) -> Tensor:  # [N, D]
        """Dropout of what the layer below computed."""
        computed, same = rows.tensor_split([rows.shape[-1] - passed], dim=-1) if passed else (rows, None)
        computed = noise.dropout(computed, self.dropout, self.training)
        return computed if same is None else torch.cat([computed, same], dim=-1)

    # States -----------------------------------------------------------------------------------------------------

    def _initial(self, h0: Hidden, batch: SequenceBatch) -> Mapping[str, Any]:
        """The initial states by cell. If the layer looks ahead: pairs of the states before and after, or None."""
        if not self.looks_ahead:
            return self._states(h0, batch)
        if h0 is None:
            return dict.fromkeys(self._state_sizes)
        if not (isinstance(h0, tuple | list) and len(h0) == 2):
            rule = "be a pair: the states before the first and after the last position"
            checks.fail("h0", rule, type(h0).__name__, "Pass h0=None for the boundary of the layer.", checks.KindError)
        before, after = (self._states(part, batch) for part in h0)
        return {key: (before[key], after[key]) for key in before}

    def _states(self, h0: Hidden, batch: SequenceBatch) -> dict[str, State]:
        if h0 is None and self.cell_class.initial_state is not Cell.initial_state:
            return {key: cell.initial_state(batch.count, batch.rows) for key, cell in self._cells().items()}
        if h0 is None:
            zeros, count = batch.rows.new_zeros, batch.count
            return {key: tuple([zeros(count, size) for size in sizes]) for key, sizes in self._state_sizes.items()}
        per_state = self._states_of(h0, max(map(len, self._state_sizes.values())))
        split = [
            self._split_state(
                {key: sizes[i] for key, sizes in self._state_sizes.items() if i < len(sizes)}, state, batch
            )
            for i, state in enumerate(per_state)
        ]
        return {key: tuple(state[key] for state in split if key in state) for key in self._state_sizes}

    @staticmethod
    def _states_of(h0: Hidden, count: int) -> tuple[Any, ...]:
        """h0 as one entry per state tensor of a cell."""
        if count == 1:
            return (h0,)
        if not (isinstance(h0, tuple | list) and len(h0) == count):
            got = len(h0) if isinstance(h0, tuple | list) else type(h0).__name__
            checks.fail("h0", f"be a tuple of {count} states", got, "Pass h0=None for zeros.")
        return tuple(h0)

    def _split_state(self, sizes: dict[str, int], state: Any, batch: SequenceBatch) -> dict[str, Tensor]:
        """One state of every cell, [B, S] in the batch's order of sequences."""
        grouped = isinstance(self.hidden_size, list)
        if grouped and not isinstance(state, tuple | list):
            rule = f"have one tensor per layer, {self.num_layers} in all"
            checks.fail("h0", rule, type(state).__name__, "Pass a tuple.", checks.KindError)
        parts = list(state) if grouped else [state]
        groups = [keys for keys in self._keys if keys[0] in sizes] if grouped else [list(sizes)]
        if len(parts) != len(groups):
            checks.fail("h0", f"have one tensor per layer, {len(groups)} in all", len(parts), kind=checks.ShapeError)
        split: dict[str, Tensor] = {}
        for part, group in zip(parts, groups, strict=True):
            size = sizes[group[0]]
            expected = (len(group), size) if batch.unbatched else (len(group), batch.count, size)
            check_state(part, expected, batch.rows, "directions" if grouped else "num_layers·directions")
            rows = (part.unsqueeze(1) if batch.unbatched else part).unbind(0)
            split |= {key: batch.sort(row) for key, row in zip(group, rows, strict=True)}
        return split

    def _gather(self, final: dict[str, State], batch: SequenceBatch) -> Hidden:
        """h_n in the caller's layout and order of sequences."""
        per_state: list[Any]
        columns = columns_of(final.values())
        if isinstance(self.hidden_size, list):
            d = self.directions
            per_state = [tuple(batch.stack(c[n : n + d]) for n in range(0, len(c), d)) for c in columns]
        else:
            per_state = [batch.stack(column) for column in columns]
        return per_state[0] if len(per_state) == 1 else tuple(per_state)

    @property
    def _dtype(self) -> torch.dtype | None:
        """The dtype of the weights, also of fixed ones; None if there are none."""
        weight = self._first_weight()
        return None if weight is None else weight.dtype

    def _first_weight(self) -> Tensor | None:
        """A parameter; or a buffer with values, if there are no parameters."""
        weight = _first_parameter(self)
        return weight if weight is not None else next((b for b in self.buffers() if b.is_floating_point()), None)


class Layer(Recurrent):
    """A named layer: its class says which cell it has. Not for direct use."""

    cell_type: ClassVar[type[Cell]]

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(self.cell_type, *args, **keywords)

    @classmethod
    def named_options(cls) -> dict[str, inspect.Parameter]:
        """The options in a layer's name on the command line: those of its cell, and `tolerance` and `cache`."""
        named = {name: p for name, p in strategy_settings(cls.cell_type).items() if name in ("tolerance", "cache")}
        return cell_options(cls.cell_type) | named

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not hasattr(cls, "cell_type"):
            return
        # The cell declares its options once; help() and editors see them here too.
        *own, unfold, _ = list(inspect.signature(Recurrent.__init__).parameters.values())[2:]
        further = [*strategy_settings(cls.cell_type).values(), unfold, *cell_options(cls.cell_type).values()]
        options = [p.replace(kind=p.KEYWORD_ONLY) for p in further]
        cls.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
        cls.__doc__ = cls.__doc__ or layer_help(cls, cls.cell_type, Recurrent)


def _joined(outputs: Sequence[Tensor], passed: int) -> Tensor:  # [N, D] each
    """The outputs of both directions side by side, with one copy of what both pass on."""
    first, last = outputs
    return torch.cat([first[..., : first.shape[-1] - passed], last], dim=-1)


def _no_sequences(cell: Cell) -> State:
    """The states of a batch of 0 sequences, to ask a cell for what it computes from states."""
    return cell.initial_state(0, torch.empty(0))


def _first_parameter(module: nn.Module) -> Tensor | None:
    """next(module.parameters(), None), several times faster."""
    for parameter in module._parameters.values():
        if parameter is not None:
            return parameter
    below = (_first_parameter(child) for child in module._modules.values() if child is not None)
    return next((parameter for parameter in below if parameter is not None), None)


def columns_of(states: Iterable[Sequence[Tensor]]) -> list[list[Tensor]]:
    """For each state tensor of a cell, those of all cells. A cell that reaches further back has more than others."""
    columns: list[list[Tensor]] = []
    for own in states:
        for n, state in enumerate(own):
            if n == len(columns):
                columns.append([])
            columns[n].append(state)
    return columns


def shapes_of(module: nn.Module) -> Shapes:
    """The shape of each parameter and buffer of a module; for each module inside, a dict of the same kind."""
    held = module._parameters | module._buffers
    own = {name: p.shape for name, p in held.items() if p is not None and not is_lazy(p)}
    return own | {name: shapes_of(inside) for name, inside in module._modules.items() if isinstance(inside, Cell)}


def check_parameters(module: nn.Module, shapes: Shapes, *path: str) -> None:
    """Raise an error unless a module's parameters and buffers have these shapes. `path` is its name in the message."""
    parameters, buffers = module._parameters, module._buffers
    for name, shape in shapes.items():
        if isinstance(shape, dict):
            check_parameters(module._modules[name], shape, *path, name)  # type: ignore[arg-type]
            continue
        parameter = parameters.get(name) if name in parameters else buffers.get(name)
        if parameter is not None and parameter.is_complex():  # after layer.to(torch.complex64)
            refuse_complex({".".join([*path, name]): parameter})
        if parameter is not None and parameter.shape != shape:
            rule, remedy = f"have shape {tuple(shape)}, as at first", "Make a layer with other sizes."
            checks.fail(".".join([*path, name]), rule, tuple(parameter.shape), remedy, checks.ShapeError)


def _sizes(hidden_size: Any) -> int | list[int]:
    if isinstance(hidden_size, numbers.Integral):
        return checks.integer("hidden_size", hidden_size, minimum=1)
    if not isinstance(hidden_size, Sequence) or isinstance(hidden_size, str) or not hidden_size:
        checks.fail("hidden_size", "be an integer, or a list with one per layer", hidden_size, kind=checks.KindError)
    return [checks.integer("hidden_size", size, minimum=1) for size in hidden_size]


def check_state(state: Any, expected: tuple[int, ...], like: Tensor, first: str) -> None:
    axes = f"({first}, H)" if len(expected) == 2 else f"({first}, B, H)"
    if not isinstance(state, Tensor):
        checks.fail("h0", f"be a tensor of shape {axes}", type(state).__name__, kind=checks.KindError)
    if tuple(state.shape) != expected:
        rule = f"have shape {axes} = {expected}"
        checks.fail("h0", rule, tuple(state.shape), "Pass h0=None for zeros.", checks.ShapeError)
    if state.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type):
        checks.fail("h0", f"have the dtype of the input, {like.dtype}", state.dtype, kind=checks.ShapeError)
    if state.device != like.device:
        checks.fail("h0", f"be on the device of the input, {like.device}", state.device, kind=checks.ShapeError)
