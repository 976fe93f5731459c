"""Implicit: a rule of the user's own, solved over whole sequences; ImplicitGRU and ImplicitLSTM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from autapse import cells, checks
from autapse.cells.base import Cell
from autapse.cells.implicit import ImplicitFunction, checked_stencil
from autapse.layers.recurrent import Layer, Recurrent, borrow


class ImplicitGRU(Layer):
    cell_type = cells.ImplicitGRU


class ImplicitLSTM(Layer):
    cell_type = cells.ImplicitLSTM


class Implicit(Recurrent):
    """A rule of your own on a stencil, solved over whole sequences: h_t = rule(x_t, h_{t+j} for j in stencil).

    Args:
        rule: a function or module of (x, *neighbours), [M, D] and one [M, H] per offset, that gives [M, H]. Its rows
            are positions and must not depend on one another. Jacobian products come from automatic differentiation.
        stencil: offsets of the neighbours, each once, and not 0.
        hidden_size: units; by default the rule's attribute of that name.
        input_size: features per step, checked where it is known; by default the rule's attribute of that name.
        batch_first: whether input and output are [B, T, D] instead of [T, B, D].
        boundary: states past the ends are "zero" or "learned".
        options: `solver`, `gradient`, `tolerance` and `cache`, see `autapse.unfold.Solve`; `device` and `dtype`.

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
            checks.fail("hidden_size", "be given where the rule has no attribute of that name", None)
        width = getattr(rule, "input_size", None) if input_size is None else input_size
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
        # One line, as the other layers have.
        boundary = [f"boundary={self.boundary!r}"] if self.boundary != "zero" else []
        words = [f"hidden_size={self.hidden_size}", *boundary, *self.solving.words()]
        module = isinstance(self.rule, nn.Module)
        name = self.rule if module else getattr(self.rule, "__name__", type(self.rule).__name__)
        return f"Implicit({name}, {self.stencil}, {', '.join(words)})"
