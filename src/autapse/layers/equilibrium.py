"""Layers whose steps are solved: h_t = φ(h_t, h_{t−1}, x_t)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from autapse import cells, checks
from autapse.cells.base import Cell
from autapse.cells.equilibrium import EquilibriumRule, FunctionRule
from autapse.forms import State
from autapse.layers.recurrent import Layer, Recurrent
from autapse.sequences.batch import SequenceBatch
from autapse.solve import SolveReport
from autapse.unfold.equilibrium import scan_equilibrium


class Reporting(Recurrent):
    """A layer of equilibrium rules that reports how its solves went."""

    cells: Mapping[str, EquilibriumRule]

    def _unfold(
        self, cell: Cell, rows: Tensor, state: State, batch: SequenceBatch, start: int, keep: bool, reverse: bool
    ) -> tuple[State, State, SolveReport | None]:
        if not isinstance(cell, EquilibriumRule) or type(cell).step is not EquilibriumRule.step:
            return super()._unfold(cell, rows, state, batch, start, keep, reverse)  # a step of the user's own
        turn = batch.reverse if reverse else None
        return scan_equilibrium(cell, rows, state, batch.sizes, start, turn, self.checkpoint_every)

    def _warn_if_unsolved(self, reports: Sequence[SolveReport]) -> None:
        for rule, report in zip(self.cells.values(), reports, strict=True):
            rule.warn_if_unsolved(report, "sequence")

    def _checked_unfold(self, unfold: Any) -> None:
        if unfold is not None:
            checks.fail("unfold", "be None: each step is solved after the one before it", unfold)


class Equilibrium(Reporting):
    """h_t = φ(h_t, h_{t−1}, x_t), solved at each step: a rule over sequences, with torch.nn.GRU's contract.

    >>> layer = Equilibrium(lambda h, previous, x: torch.tanh(0.5 * h + 0.3 * previous + x), 4, 4)
    >>> output, h_n = layer(torch.zeros(5, 2, 4))
    >>> layer.reports[0].converged
    tensor([True, True])

    `rule` is a class of `autapse.cells` or a subclass of `autapse.cells.EquilibriumRule`, which may be stacked and run
    both ways as `Recurrent` does; or one such cell, whose sizes hold; or a function or module phi(h, previous, x). The
    last two make one layer of one direction. `reports` has one detached report per layer and direction for the last
    call of this thread. Per sequence it has the worst residual and reason of its steps, the sums of their iterations
    and evaluations, whether all converged, and whether any was flagged as singular.
    """

    def __init__(
        self,
        rule: type[EquilibriumRule] | EquilibriumRule | Callable[..., Tensor],
        input_size: int | None = None,
        hidden_size: int | Sequence[int] | None = None,
        num_layers: int | None = None,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        checkpoint_every: int | None = None,
        **options: Any,
    ) -> None:
        cell_class, given = _rule_class(rule)
        if isinstance(rule, EquilibriumRule):
            if options:
                remedy = "Make the rule with them, or pass its class."
                checks.fail("options", "be left out with a rule that is made already", ", ".join(options), remedy)
            input_size = _agreed("input_size", input_size, rule.input_size)
            hidden_size = _agreed("hidden_size", hidden_size, rule.hidden_size)
        if given and (bidirectional or num_layers not in (None, 1) or isinstance(hidden_size, Sequence)):
            got = f"num_layers={num_layers}, hidden_size={hidden_size}, bidirectional={bidirectional}"
            remedy = "Pass a subclass of autapse.cells.EquilibriumRule, of which each makes its own parameters."
            checks.fail("a rule that is no class", "be one layer of one direction", got, remedy)
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
            if value is None:
                checks.fail(name, "be given with such a rule", None, "As in Equilibrium(rule, 3, 16).")
        super().__init__(
            cell_class,
            input_size,  # type: ignore[arg-type]
            hidden_size,  # type: ignore[arg-type]
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            checkpoint_every=checkpoint_every,
            **options | given,
        )

    def _make_cells(self, common: dict[str, Any], options: dict[str, Any]) -> dict[str, Cell]:
        made = options.pop("made", None)
        if made is None:
            return super()._make_cells(common, options)
        placement = {name: common[name] for name in ("device", "dtype") if common[name] is not None}
        return {self._key(0, 0): made.to(**placement) if placement else made}


class EquilibriumTanh(Reporting, Layer):
    cell_type = cells.EquilibriumTanh


class EquilibriumLinear(Reporting, Layer):
    cell_type = cells.EquilibriumLinear


class ImplicitMidpoint(Reporting, Layer):
    cell_type = cells.ImplicitMidpoint


def _rule_class(rule: Any) -> tuple[type[EquilibriumRule], dict[str, Any]]:
    """The class of a rule's cells, and the one thing that is made already."""
    if isinstance(rule, type) and issubclass(rule, EquilibriumRule):
        return rule, {}
    if isinstance(rule, EquilibriumRule):
        return type(rule), {"made": rule}
    if isinstance(rule, type | Cell) or not callable(rule):
        remedy = "Other cells are for Recurrent."
        checks.fail("rule", "be an EquilibriumRule, its class, or a function phi(h, previous, x)", rule, remedy)
    return FunctionRule, {"phi": rule}


def _agreed(name: str, given: Any, own: int) -> int:
    if given not in (None, own):
        checks.fail(name, f"be left out, or be the rule's own {own}", given)
    return own
