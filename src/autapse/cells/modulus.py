"""Networks with one recurrent matrix and modReLU, over the real or the complex numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from autapse import checks
from autapse.cells.base import FormCell
from autapse.forms import ACTIVATIONS, ComplexModulus, Form, Leaky

FIELDS = ("real", "complex")


class ModulusCell(FormCell):
    """h' = modReLU(W·x + R·h; b), or h' = act(W·x + R·h + b); a subclass has `matrix`, which is R.

    The state of n complex units has 2n numbers: the real parts, then the imaginary parts. So have W, and R, which is
    [[P, −Q], [Q, P]] for a complex P + iQ.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, nonlinearity: str, field: str, **factory: Any
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **factory)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ("modrelu", *ACTIVATIONS))
        self.field = checks.one_of("field", field, FIELDS)

    def _make_parameters(self, *free: int) -> None:
        """Make W, the free values of R, which have this shape, and b."""
        (width,) = self.state_sizes
        self.weight_ih = self._parameter(width, self.input_size)
        self.weight_hh = self._parameter(*free)
        self.bias_h = self._bias(self.hidden_size if self.nonlinearity == "modrelu" else width)
        self.reset_parameters()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (2 * self.hidden_size if self.field == "complex" else self.hidden_size,)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        given = state_dict.get(f"{prefix}weight_ih")
        (width,) = self.state_sizes
        if isinstance(given, Tensor) and given.dim() == 2 and len(given) in (2 * width, width / 2):
            other = FIELDS[1 - FIELDS.index(self.field)]
            rule = f'have {width} rows for field="{self.field}"'
            remedy = f'Make a network with field="{other}", or with another hidden_size.'
            checks.fail(f"{prefix}weight_ih", rule, tuple(given.shape), remedy)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def matrix(self) -> Tensor:
        """R, [H, H]; complex: [2H, 2H]."""
        raise NotImplementedError

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, None if self.nonlinearity == "modrelu" else self.bias_h

    def form(self) -> str:
        return (ComplexModulus if self._has_modulus else Leaky).name

    @property
    def _has_modulus(self) -> bool:
        """Whether modReLU acts on the modulus of complex numbers."""
        return self.field == "complex" and self.nonlinearity == "modrelu"

    def prepare(self) -> Form:
        if self._has_modulus:
            return ComplexModulus(self.matrix(), self.bias_h)
        threshold = self.bias_h if self.nonlinearity == "modrelu" else None
        return Leaky(self.matrix(), self.nonlinearity, threshold=threshold)
