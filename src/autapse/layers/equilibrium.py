"""Equilibrium: a given rule, solved at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from autapse import checks
from autapse.cells.base import Cell
from autapse.cells.equilibrium import EquilibriumRule, FunctionRule
from autapse.layers.help import explain_call
from autapse.layers.recurrent import Recurrent


@explain_call
class Equilibrium(Recurrent):
    """h_t = φ(h_t, h_{t−1}, x_t), solved at each step: an equilibrium rule over sequences.

    `reports` has a report per layer and direction for the last call in this thread. For each sequence it has the worst
    residual and reason of its steps, the total iterations and evaluations, whether all steps converged, and whether
    any was flagged as singular.

    Args:
        rule: φ, as a subclass of `autapse.cells.EquilibriumRule`, an instance of one, or a function or module
            phi(h, previous, x). Only a class can have several layers or two directions.
        input_size: features per step; not needed with an instance.
        hidden_size: units, or a list with the units of each layer; not needed with an instance.
        num_layers: number of stacked layers; by default 1, or the number of entries of `hidden_size`.
        options: other arguments of `autapse.Recurrent`, and options of the rule.

    >>> layer = autapse.Equilibrium(lambda h, previous, x: torch.tanh(0.5 * h + 0.3 * previous + x), 4, 4)
    >>> output, h_n = layer(torch.zeros(5, 2, 4))
    >>> layer.reports[0].converged
    tensor([True, True])
    """

    def __init__(
        self,
        rule: type[EquilibriumRule] | EquilibriumRule | Callable[..., Tensor],
        input_size: int | None = None,
        hidden_size: int | Sequence[int] | None = None,
        num_layers: int | None = None,
        *args: Any,
        **options: Any,
    ) -> None:
        cell_class, given = _rule_class(rule)
        if isinstance(rule, EquilibriumRule):
            input_size = _agreed("input_size", input_size, rule.input_size)
            hidden_size = _agreed("hidden_size", hidden_size, rule.hidden_size)
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
            if value is None:
                checks.fail(name, "be given with this kind of rule", None, "As in Equilibrium(rule, 3, 16).")
        self.__dict__["_made"] = given.pop("made", None)  # a torch.nn.Module cannot have modules before its __init__
        super().__init__(cell_class, input_size, hidden_size, num_layers, *args, **options | given)  # type: ignore[arg-type]

    def _make_cells(self, common: dict[str, Any], options: dict[str, Any]) -> dict[str, Cell]:
        made = self.__dict__.pop("_made")
        one = not self.bidirectional and self.num_layers == 1 and not isinstance(self.hidden_size, list)
        if not one and (made is not None or "phi" in options):
            got = f"num_layers={self.num_layers}, hidden_size={self.hidden_size}, bidirectional={self.bidirectional}"
            remedy = "Pass a subclass of autapse.cells.EquilibriumRule: each layer and direction then has its own cell."
            checks.fail("a rule that is not a class", "have one layer and one direction", got, remedy)
        if made is None:
            return super()._make_cells(common, options)
        if options:
            remedy = "Make the instance with them, or pass the class."
            checks.fail("options", "be omitted if the rule is an instance", ", ".join(options), remedy)
        placement = {name: common[name] for name in ("device", "dtype") if common[name] is not None}
        return {self._key(0, 0): made.to(**placement) if placement else made}


def _rule_class(rule: Any) -> tuple[type[EquilibriumRule], dict[str, Any]]:
    """The class of the cells, and an option for an instance or a function."""
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
        checks.fail(name, f"be None or the rule's own, {own}", given)
    return own
