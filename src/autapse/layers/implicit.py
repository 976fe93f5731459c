"""ImplicitGRU and ImplicitLSTM: layers whose states before and after a position determine it together."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from autapse import cells, checks
from autapse.cells.implicit import ImplicitCell
from autapse.gradient import Gradient
from autapse.layers.recurrent import Hidden, Layer
from autapse.layers.solving import Solving, final_states, make_lattice, own_edges, start_rows
from autapse.sequences.batch import SequenceBatch, make_batch
from autapse.solve import LinearReport, Solver, SolveReport, Tolerance


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
    def reports(self) -> list[SolveReport]:  # type: ignore[override]
        """One per layer, of this thread's last call: how the solve of each sequence went."""
        return self.solving.reports

    @property
    def adjoint_reports(self) -> list[LinearReport]:
        """One per layer, last layer first, of the backward pass of this thread's last call: how each adjoint went."""
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
        self._check_parameters()
        batch = make_batch(x, lengths, self.input_size, self.batch_first)
        self._check_dtype(batch.rows)
        edges = self._edges(h0, batch)
        starts = self._starts(start_states, batch)
        keep = self.solving.solutions.open(keys, batch)
        lattice = make_lattice(batch, self._stencil(), self._has_edges(h0))
        tolerances = self.solving.begin()
        rows, final, traces = batch.rows, {}, []
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

    def _edges(self, h0: Hidden, batch: SequenceBatch) -> dict[str, Tensor]:
        """The states past the ends of each layer: [1, S] of zeros, or [2B, S]."""
        if h0 is None:
            found = self.cells.items()
            return {key: own_edges(cell.edges, sum(cell.state_sizes), batch) for key, cell in found}  # type: ignore[arg-type]
        if not (isinstance(h0, tuple | list) and len(h0) == 2):
            rule = "be a pair: the states before the first and after the last position"
            checks.fail("h0", rule, type(h0).__name__, "Pass h0=None for the layer's own boundary.", checks.KindError)
        before, after = (self._initial(self.cells, part, batch) for part in h0)
        return {key: torch.cat([torch.cat(before[key], 1), torch.cat(after[key], 1)]) for key in self.cells}

    def _starts(self, start_states: Any, batch: SequenceBatch) -> list[Tensor] | None:
        if start_states is None:
            return None
        layers = list(start_states) if isinstance(start_states, tuple | list) else [start_states]
        if len(layers) != self.num_layers:
            checks.fail("start_states", f"have one entry per layer, {self.num_layers} in all", len(layers))
        pairs = zip(layers, self.cells.values(), strict=True)
        return [start_rows(entry, cell.state_sizes, batch) for entry, cell in pairs]


class ImplicitGRU(ImplicitLayer):
    cell_type = cells.ImplicitGRU


class ImplicitLSTM(ImplicitLayer):
    cell_type = cells.ImplicitLSTM
