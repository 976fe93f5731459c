"""ImplicitGRU, ImplicitLSTM and Implicit: layers whose states before and after a position determine it together."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from autapse import cells, checks
from autapse.cells.implicit import ImplicitCell, checked_stencil
from autapse.forms.coupled import AnyRule, Rule
from autapse.gradient import Gradient
from autapse.gradient import Implicit as ImplicitGradient
from autapse.layers.batch import Batch, make_batch
from autapse.layers.recurrent import Hidden, Layer
from autapse.layers.solutions import MEGABYTE, Solutions
from autapse.solve import LinearReport, NotConvergedWarning, Solver, SolveReport, Tolerance, general, recommended
from autapse.unfold.lattice import Lattice
from autapse.unfold.whole import unfold_coupled


class Solving(nn.Module):
    """How a layer solves: solver, gradient, tolerance, cached solutions, and the reports of its last call."""

    calls: Tensor

    def __init__(
        self, solver: Solver | None, gradient: Gradient | None, tolerance: Tolerance | float | None, cache: float
    ) -> None:
        """`cache` is the memory in megabytes for solutions that are kept by key; 0 for none."""
        super().__init__()
        self.solver = _checked("solver", solver, Solver, "one of autapse.solve, such as Chain(Tridiagonal(), Newton())")
        self.gradient = _checked("gradient", gradient, Gradient, "one of autapse.gradient, such as Implicit()")
        if isinstance(tolerance, int | float) and not isinstance(tolerance, bool):
            tolerance = checks.number("tolerance", tolerance, above=0.0)
            tolerance = Tolerance(training=tolerance, adjoint=tolerance, evaluation=tolerance)
        self.tolerance = _checked("tolerance", tolerance, Tolerance, "a number or autapse.solve.Tolerance(…)")
        self.tolerance = self.tolerance or Tolerance()
        self.solutions = Solutions(checks.number("cache", cache, low=0.0))
        self.reports: list[SolveReport] = []
        self.adjoint_reports: list[LinearReport] = []
        self._warned = False
        # A schedule goes by training calls, which a resumed run must not count anew.
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=self.tolerance.first is not None)

    def begin(self) -> tuple[float, float]:
        """A call of the layer: the tolerances of states and adjoint."""
        self.reports, self.adjoint_reports = [], []
        tolerances = self.tolerance.at(self.training, int(self.calls))
        if self.training and self.tolerance.first is not None:
            self.calls += 1
        return tolerances

    def unfold(
        self,
        rule: Rule,
        x: Tensor,  # [N, D], in the lattice's order
        drive: Any,  # x -> u
        lattice: Lattice,
        edges: Tensor,
        batch: Batch,
        tolerances: tuple[float, float],
        start: Tensor | None,
    ) -> Tensor:
        """The states of one layer, in the lattice's order."""
        default = recommended if rule.has_bands else general
        states, report = unfold_coupled(
            rule,
            drive(x),
            lattice,
            edges,
            self.solver or default(),
            self.gradient or ImplicitGradient(),
            *tolerances,
            start,
            self.adjoint_reports.append,
        )
        self.reports.append(report if batch.order is None else report.take(torch.argsort(batch.order)))
        self._warn(report)
        return states

    def _warn(self, report: SolveReport) -> None:
        if report.all_converged or self._warned:
            return
        self._warned = True
        warnings.warn(
            f"The states of a batch were not all found: {report.words()}. Such sequences are kept at their best "
            "residual, give no gradient and are marked in layer.reports. Try a smaller learning rate, a looser "
            "tolerance or another solver. This warning comes once per layer.",
            NotConvergedWarning,
            stacklevel=7,  # the call of the layer, past torch.nn.Module and torch.compiler.disable
        )

    def words(self) -> list[str]:
        """name=value of what is not the default."""
        megabytes = self.solutions.limit / MEGABYTE
        given = {"solver": self.solver, "gradient": self.gradient, "cache": megabytes or None}
        given["tolerance"] = None if self.tolerance == Tolerance() else self.tolerance
        return [f"{name}={value!r}" for name, value in given.items() if value is not None]


def _checked(name: str, value: Any, kind: type, rule: str) -> Any:
    if value is not None and not isinstance(value, kind):
        checks.fail(name, f"be {rule}", value, "Leave it out for the default.", checks.KindError)
    return value


class ImplicitLayer(Layer):
    """A layer whose states are coupled both ways; not for direct use."""

    cell_type: ClassVar[type[ImplicitCell]]

    def __init__(
        self,
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
        solver: Solver | None = None,
        gradient: Gradient | None = None,
        tolerance: Tolerance | float | None = None,
        cache: float = 0.0,
        **options: Any,
    ) -> None:
        if checks.boolean("bidirectional", bidirectional):
            checks.fail("bidirectional", "be False: an implicit layer looks both ways already", bidirectional)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, False, device, dtype, **options
        )
        self.solving = Solving(solver, gradient, tolerance, cache)

    @property
    def adjoint_reports(self) -> list[LinearReport]:
        """One per layer, last layer first, of the last backward pass: how the adjoint of each sequence went."""
        return self.solving.adjoint_reports

    @classmethod
    def layer_options(cls) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(ImplicitLayer.__init__).parameters

    @classmethod
    def named_options(cls) -> dict[str, inspect.Parameter]:
        return {**super().named_options(), **{name: cls.layer_options()[name] for name in ("tolerance", "cache")}}

    def extra_repr(self) -> str:
        return ", ".join([super().extra_repr(), *self.solving.words()])

    def stream(self, batch_size: int = 1) -> Any:
        """There is none: the first output depends on the last input."""
        words = f"{type(self).__name__} cannot be streamed: its states depend on later input."
        raise NotImplementedError(f"{words} Use a one-way layer such as autapse.GRU, or whole windows.")

    @torch.compiler.disable
    def forward(
        self,
        x: Tensor | PackedSequence,  # [T, B, D], [B, T, D] if batch_first, [T, D], or packed
        h0: Hidden = None,  # the pair (before, after) of boundary states, each as another layer's h0
        lengths: Sequence[int] | Tensor | None = None,  # [B], of padded input
        return_states: bool = False,
        *,
        start_states: Any = None,  # as return_states gives them, or [T, B, H] of a single layer: where solves begin
        keys: Sequence[Any] | Tensor | None = None,  # [B], names of the sequences, under which solutions are kept
    ) -> tuple[Any, ...]:
        """(output, h_n), and with `return_states` the states of each layer, one [T, B, 1, H] tensor per state."""
        batch = make_batch(x, lengths, self.input_size, self.batch_first)
        self._check_dtype(batch.rows)
        edges = self._edges(h0, batch)
        starts = self._starts(start_states, batch)
        tolerances, lattice = self.solving.begin(), make_lattice(batch, self._stencil(), self._has_edges(h0))
        self.reports = self.solving.reports  # one per layer, filled as they are solved
        keep, rows, final, traces = self.solving.solutions.open(keys, batch), batch.rows, {}, []
        for layer, (key, cell) in enumerate(self.cells.items()):
            if layer:
                rows = F.dropout(rows, self.dropout, self.training)
            begin = starts[layer] if starts is not None else keep.start(layer, lattice, sum(cell.state_sizes), rows)
            begin = begin if begin is None or starts is None else begin.index_select(0, lattice.packed)
            ordered = rows.index_select(0, lattice.packed)
            z = self.solving.unfold(cell.prepare(), ordered, cell.drive, lattice, edges[key], batch, tolerances, begin)
            keep.store(layer, lattice, z)
            final[key] = final_states(z, lattice, edges[key]).split(cell.state_sizes, 1)
            states = z.new_empty(z.shape).index_copy(0, lattice.packed, z).split(cell.state_sizes, 1)
            rows = cell.output(states)
            traces.append([state.unsqueeze(1) for state in states])
        output, h_n = batch.restore(rows), self._gather(final, batch)
        if not return_states:
            return output, h_n
        return output, h_n, [tuple(batch.pad(state) for state in trace) for trace in traces]

    # States past the ends, and where solves begin ---------------------------------------------------------------

    def _stencil(self) -> tuple[int, ...]:
        return next(iter(self.cells.values())).stencil

    def _has_edges(self, h0: Hidden) -> bool:
        return h0 is not None or next(iter(self.cells.values())).edges is not None

    def _edges(self, h0: Hidden, batch: Batch) -> dict[str, Tensor]:
        """The states past the ends of each layer: [1, S] of zeros, or [2B, S]."""
        if h0 is None:
            return {key: _edges_of(cell, batch) for key, cell in self.cells.items()}  # type: ignore[arg-type]
        if not (isinstance(h0, tuple | list) and len(h0) == 2):
            rule = "be a pair: the states before the first and after the last position"
            checks.fail("h0", rule, type(h0).__name__, "Pass h0=None for the layer's own boundary.", checks.KindError)
        before, after = (self._initial(self.cells, part, batch) for part in h0)
        return {key: torch.cat([torch.cat(before[key], 1), torch.cat(after[key], 1)]) for key in self.cells}

    def _starts(self, start_states: Any, batch: Batch) -> list[Tensor] | None:
        if start_states is None:
            return None
        layers = list(start_states) if isinstance(start_states, tuple | list) else [start_states]
        if len(layers) != self.num_layers:
            checks.fail("start_states", f"have one entry per layer, {self.num_layers} in all", len(layers))
        return [_start_rows(entry, cell, batch) for entry, cell in zip(layers, self.cells.values(), strict=True)]


def _edges_of(cell: ImplicitCell, batch: Batch) -> Tensor:
    size = sum(cell.state_sizes)
    if cell.edges is None:
        return batch.rows.new_zeros(1, size)
    return cell.edges[:, None].expand(2, batch.count, size).reshape(2 * batch.count, size)


def _start_rows(entry: Any, cell: Any, batch: Batch) -> Tensor:
    states = list(entry) if isinstance(entry, tuple | list) else [entry]
    if len(states) != len(cell.state_sizes) or not all(isinstance(s, Tensor) for s in states):
        rule = f"have {len(cell.state_sizes)} tensors per layer, as return_states=True gives them"
        checks.fail("start_states", rule, type(entry).__name__, kind=checks.KindError)
    leading = batch.pad(batch.rows[:, :0]).shape[:-1]
    parts = []
    for state, size in zip(states, cell.state_sizes, strict=True):
        if state.numel() != leading.numel() * size or state.shape[: len(leading)] != leading:
            checks.fail("start_states", f"have shape {(*leading, size)}", tuple(state.shape), kind=checks.ShapeError)
        parts.append(batch.unpad(state.detach().to(batch.rows).reshape(*leading, size)))
    return torch.cat(parts, 1)


def make_lattice(batch: Batch, stencil: tuple[int, ...], edges: bool) -> Lattice:
    """The lattice of a batch."""
    sizes = torch.tensor(batch.sizes, dtype=torch.long)
    lengths = (sizes[:, None] > torch.arange(batch.count)).sum(0)
    return Lattice(lengths, stencil, batch.rows.device, edges)


def final_states(z: Tensor, lattice: Lattice, edges: Tensor) -> Tensor:  # [B, S]
    """The state at each sequence's own end; before the first position where it has none."""
    before = edges[: lattice.count] if lattice.edges else edges.expand(lattice.count, -1)
    if not lattice.total:
        return before
    empty = (lattice.lengths == 0).to(z.device)
    found = z.index_select(0, lattice.ends)
    return torch.where(empty[:, None], before, found) if bool(empty.any()) else found


class ImplicitGRU(ImplicitLayer):
    cell_type = cells.ImplicitGRU


class ImplicitLSTM(ImplicitLayer):
    cell_type = cells.ImplicitLSTM


class Implicit(nn.Module):
    """A rule of your own on a stencil, solved over whole sequences: h_t = rule(x_t, h_{t+j} for j in stencil).

    `rule` is a function or module of (x, *neighbours), [M, D] and one [M, H] per offset, that gives [M, H]; its rows
    are positions and must not depend on one another. Jacobian products come from automatic differentiation.

    >>> layer = autapse.Implicit(lambda x, before, after: torch.tanh(x + 0.3 * before - 0.4 * after), hidden_size=2)
    >>> output, h_n = layer(torch.ones(5, 3, 2))
    >>> output.shape, h_n.shape, layer.reports[0].all_converged
    (torch.Size([5, 3, 2]), torch.Size([1, 3, 2]), True)
    """

    def __init__(
        self,
        rule: Any,
        stencil: Sequence[int] = (-1, 1),
        *,
        hidden_size: int | None = None,
        input_size: int | None = None,
        batch_first: bool = False,
        solver: Solver | None = None,
        gradient: Gradient | None = None,
        boundary: str = "zero",
        tolerance: Tolerance | float | None = None,
        cache: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """`hidden_size` is the rule's attribute of that name by default; `input_size` is checked where it is known."""
        super().__init__()
        if not callable(rule):
            checks.fail("rule", "be a function or module of (x, *neighbours)", rule, kind=checks.KindError)
        self.rule = rule
        self.stencil = checked_stencil(stencil)
        size = getattr(rule, "hidden_size", None) if hidden_size is None else hidden_size
        if size is None:
            checks.fail("hidden_size", "be given where the rule has no attribute of that name", None)
        self.hidden_size = checks.integer("hidden_size", size, minimum=1)
        inputs = getattr(rule, "input_size", None) if input_size is None else input_size
        self.input_size = None if inputs is None else checks.integer("input_size", inputs, minimum=1)
        self.batch_first = checks.boolean("batch_first", batch_first)
        self.boundary = checks.one_of("boundary", boundary, ("zero", "learned"))
        edges = torch.zeros(2, self.hidden_size, device=device, dtype=dtype)
        self.edges = nn.Parameter(edges) if boundary == "learned" else None
        self.solving = Solving(solver, gradient, tolerance, cache)

    @property
    def reports(self) -> list[SolveReport]:
        """The report of the last call, in a list as other layers have it."""
        return self.solving.reports

    @property
    def adjoint_reports(self) -> list[LinearReport]:
        """The adjoint's report of the last backward pass, in a list."""
        return self.solving.adjoint_reports

    def converged(self) -> Tensor | None:  # [B]
        """The sequences of the last call that were solved; None where that is all of them."""
        return None if all(report.all_converged for report in self.reports) else self.reports[0].converged

    @torch.compiler.disable
    def forward(
        self,
        x: Tensor | PackedSequence,
        h0: tuple[Tensor, Tensor] | None = None,  # states before and after, [1, B, H] each ([1, H] unbatched)
        lengths: Sequence[int] | Tensor | None = None,
        *,
        start_states: Tensor | None = None,  # [T, B, H]
        keys: Sequence[Any] | Tensor | None = None,
    ) -> tuple[Any, Tensor]:
        """(output, h_n)."""
        width = self.input_size
        if width is None:
            data = x.data if isinstance(x, PackedSequence) else x
            width = data.shape[-1] if isinstance(data, Tensor) and data.dim() else 1
        batch = make_batch(x, lengths, width, self.batch_first)
        edges = self._edges(h0, batch)
        begin = None if start_states is None else _start_rows(start_states, _Sizes(self.hidden_size), batch)
        tolerances = self.solving.begin()
        lattice = make_lattice(batch, self.stencil, h0 is not None or self.edges is not None)
        keep = self.solving.solutions.open(keys, batch)
        begin = (
            keep.start(0, lattice, self.hidden_size, edges) if begin is None else begin.index_select(0, lattice.packed)
        )
        rule = self._bound_rule()
        ordered = batch.rows.index_select(0, lattice.packed)
        self._check_graph(rule, ordered)
        z = self.solving.unfold(rule, ordered, _same, lattice, edges, batch, tolerances, begin)
        keep.store(0, lattice, z)
        output = z.new_empty(z.shape).index_copy(0, lattice.packed, z)
        h_n = batch.unsort(final_states(z, lattice, edges))
        return batch.restore(output), h_n if batch.unbatched else h_n[None]

    def _bound_rule(self) -> AnyRule:
        """The rule with the weights that it has now: in a backward pass functional_call has put others back."""
        rule = self.rule
        if not isinstance(rule, nn.Module):
            return AnyRule(lambda *args: _checked_value(rule(*args), args[1]), self.stencil)
        weights = dict(rule.named_parameters())
        tensors = weights | dict(rule.named_buffers())
        return AnyRule(
            lambda *args: _checked_value(torch.func.functional_call(rule, tensors, args), args[1]),
            self.stencil,
            tuple(weights.values()),
        )

    def _check_graph(self, rule: AnyRule, x: Tensor) -> None:
        """A function's own parameters would get no gradient, and nobody would notice."""
        if isinstance(self.rule, nn.Module) or not torch.is_grad_enabled() or not len(x):
            return
        row = x[:1].detach()
        near = (row.new_zeros(1, self.hidden_size),) * len(self.stencil)
        if rule.evaluate(row, near).requires_grad:
            remedy = "Make it a torch.nn.Module that has them."
            checks.fail("rule", "be a function of its arguments alone", "one that uses parameters of its own", remedy)

    def _edges(self, h0: Any, batch: Batch) -> Tensor:
        size = self.hidden_size
        if h0 is None:
            if self.edges is None:
                return batch.rows.new_zeros(1, size)
            return self.edges[:, None].expand(2, batch.count, size).reshape(2 * batch.count, size)
        expected = (1, size) if batch.unbatched else (1, batch.count, size)
        if not (isinstance(h0, tuple | list) and len(h0) == 2 and all(isinstance(h, Tensor) for h in h0)):
            checks.fail("h0", "be the pair of states before and after", type(h0).__name__, kind=checks.KindError)
        for state in h0:
            if tuple(state.shape) != expected:
                checks.fail(
                    "h0", f"be a pair of tensors of shape {expected}", tuple(state.shape), kind=checks.ShapeError
                )
        return torch.cat([batch.sort(state.reshape(batch.count, size)) for state in h0])

    def __repr__(self) -> str:
        # One line, as the other layers have.
        boundary = [f"boundary={self.boundary!r}"] if self.boundary != "zero" else []
        words = [f"hidden_size={self.hidden_size}", *boundary, *self.solving.words()]
        module = isinstance(self.rule, nn.Module)
        name = self.rule if module else getattr(self.rule, "__name__", type(self.rule).__name__)
        return f"Implicit({name}, {self.stencil}, {', '.join(words)})"


def _checked_value(value: Any, neighbour: Tensor) -> Tensor:
    if not isinstance(value, Tensor) or value.shape != neighbour.shape:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        rule = f"give a tensor of the shape of its neighbours, {tuple(neighbour.shape)}"
        checks.fail("rule", rule, got, kind=checks.ShapeError)
    return value


class _Sizes:
    def __init__(self, hidden_size: int) -> None:
        self.state_sizes = (hidden_size,)


def _same(x: Tensor) -> Tensor:
    return x
