"""Implicit: a given rule, solved over whole sequences; ImplicitGRU and ImplicitLSTM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from autapse import cells, checks
from autapse.cells.base import Cell, borrow
from autapse.cells.implicit import ImplicitFunction, checked_stencil
from autapse.layers.help import explain_call
from autapse.layers.recurrent import Layer, Recurrent


class ImplicitGRU(Layer):
    cell_type = cells.ImplicitGRU


class ImplicitLSTM(Layer):
    cell_type = cells.ImplicitLSTM


@explain_call
class Implicit(Recurrent):
    """h_t = rule(x_t, h_{t+j} for j in stencil), solved over whole sequences: a rule of your own on a stencil.

    Args:
        rule: a function or module of (x, *neighbours), [M, D] and one [M, H] per offset, that returns [M, H]. The rows
            are positions and must not depend on each other. Derivatives are automatic.
        stencil: offsets of the neighbours, each once and not 0.
        hidden_size: units; by default the rule's attribute of that name.
        input_size: features per step; by default the rule's attribute of that name. The input is not checked if
            there is neither.
        batch_first: input and output are [B, T, D] instead of [T, B, D].
        boundary: the states before and after each sequence, "zero" or "learned".
        options: `solver`, `gradient`, `tolerance` and `cache` of `autapse.unfold.Solve`; `device` and `dtype`.

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
        boundary: str = "zero",
        **options: Any,
    ) -> None:
        if not callable(rule):
            checks.fail("rule", "be a function or module of (x, *neighbours)", rule, kind=checks.KindError)
        size = getattr(rule, "hidden_size", None) if hidden_size is None else hidden_size
        if size is None:
            checks.fail("hidden_size", "be given if the rule has no attribute of that name", None)
        width = getattr(rule, "input_size", None) if input_size is None else input_size
        allowed = ("solver", "gradient", "tolerance", "cache", "unfold", "device", "dtype")
        for name in options:
            if name not in allowed:
                rule = f"be one of stencil, hidden_size, input_size, batch_first, boundary, {', '.join(allowed)}"
                checks.fail("option of Implicit", rule, name, checks.closest(name, allowed))
        if isinstance(size, Sequence):
            checks.fail("hidden_size", "be an integer: a rule is one layer", size, kind=checks.KindError)
        own = {"function": rule, "stencil": checked_stencil(stencil), "boundary": boundary}
        super().__init__(ImplicitFunction, width or 1, size, batch_first=batch_first, **own, **options)
        self.stencil, self.boundary = own["stencil"], boundary
        self._knows_width = width is not None

    def _store_cells(self, made: dict[str, Cell]) -> None:
        (self._template,) = made.values()
        self.rule, self.edges = self._template.function, self._template.edges
        self._template._parameters = dict.fromkeys(self._template._parameters)
        self._template._modules = {}
        self._shapes = {}

    @property
    def cells(self) -> Mapping[str, Cell]:  # type: ignore[override]
        return {"l0": borrow(self._template, {"edges": self.edges}, function=self.rule)}

    def _width(self, x: Any) -> int:
        if self._knows_width:
            return self.input_size
        data = x.data if isinstance(x, PackedSequence) else x
        return data.shape[-1] if isinstance(data, Tensor) and data.dim() else 1

    def __repr__(self) -> str:
        boundary = [f"boundary={self.boundary!r}"] if self.boundary != "zero" else []
        words = [f"hidden_size={self.hidden_size}", *boundary, *self.solving.words()]
        module = isinstance(self.rule, nn.Module)
        name = self.rule if module else getattr(self.rule, "__name__", type(self.rule).__name__)
        return f"Implicit({name}, {self.stencil}, {', '.join(words)})"
