"""Implicit: a rule of the user's own, solved over whole sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from autapse import checks
from autapse.cells.implicit import checked_stencil
from autapse.forms.implicit import AnyRule
from autapse.gradient import Gradient
from autapse.layers.solving import Solving, final_states, make_lattice, own_edges, start_rows
from autapse.sequences.batch import SequenceBatch, make_batch
from autapse.solve import LinearReport, Solver, SolveReport, Tolerance


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
        begin = None if start_states is None else start_rows(start_states, (self.hidden_size,), batch)
        keep, rule = self.solving.solutions.open(keys, batch), self._bound_rule()
        self._check_graph(rule, batch.rows)
        lattice = make_lattice(batch, self.stencil, h0 is not None or self.edges is not None)
        begin = (
            keep.start(0, lattice, self.hidden_size, edges) if begin is None else begin.index_select(0, lattice.packed)
        )
        tolerances = self.solving.begin()
        ordered = batch.rows.index_select(0, lattice.packed)
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

    def _edges(self, h0: Any, batch: SequenceBatch) -> Tensor:
        size = self.hidden_size
        if h0 is None:
            return own_edges(self.edges, size, batch)
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


def _same(x: Tensor) -> Tensor:
    return x
