"""From the columns of a data set to what a layer reads: word vectors and standardised features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.noise import Dropout, normal_like
from autapse.models.heads import SPREAD
from autapse.models.scaling import ChannelScaling


def check_input(x: object, columns: int, dimensions: tuple[int, ...] = (2, 3)) -> None:
    """Check that a model's input is a tensor (B, T, columns), or (T, columns) for one sequence."""
    rule = f"be a tensor of shape (B, T, {columns})"
    if not isinstance(x, Tensor):
        checks.fail("input", rule, type(x).__name__, "torch.as_tensor converts lists.", checks.KindError)
    if x.dim() not in dimensions or x.shape[-1] != columns:
        checks.fail("input", rule, tuple(x.shape), kind=checks.ShapeError)


class Inputs(ChannelScaling):
    """Word columns become word vectors, each column with its own table; channels are scaled.

    Args:
        input_size: columns: first those with words, then the channels.
        vocabularies: number of words of each word column.
        embedding_size: size of the word vectors, one per word column; the last one is used for the rest.
        mean: one value per channel, which is subtracted; by default 0.
        scale: one value per channel, by which it is then divided; by default 1.
        dropout: probability of dropping an output.
        noise: standard deviation of the Gaussian noise that training adds.
        device: where the parameters are.
        dtype: their type.
        scaling: other ways to scale the channels, as in `ChannelScaling`.

    >>> inputs = Inputs(3, vocabularies=[100, 7], embedding_size=[16, 4])
    >>> inputs(torch.zeros(2, 5, 3, dtype=torch.int64)).shape, inputs.output_size
    (torch.Size([2, 5, 21]), 21)
    """

    def __init__(
        self,
        input_size: int,
        vocabularies: Sequence[int] = (),
        embedding_size: Sequence[int] = (),
        mean: Sequence[float] = (),
        scale: Sequence[float] = (),
        dropout: float = 0.0,
        noise: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **scaling: Any,
    ) -> None:
        words, channels = len(vocabularies), input_size - len(vocabularies)
        if channels < 0:
            checks.fail("input_size", f"be at least {words}, one column per vocabulary", input_size)
        if words and not embedding_size:
            checks.fail("embedding_size", "have a size for the vocabularies", tuple(embedding_size))
        if len(embedding_size) > max(words, 1) or any(len(given) not in (0, channels) for given in (mean, scale)):
            checks.fail("embedding_size, mean, scale", "have one entry per column", (embedding_size, mean, scale))
        super().__init__(channels, mean, scale, **scaling, device=device, dtype=dtype)
        sizes = [checks.integer("embedding_size", size, minimum=1) for size in embedding_size]
        sizes += sizes[-1:] * (words - len(sizes))
        self.tables = nn.ModuleList(
            nn.Embedding(checks.integer("vocabularies", count, minimum=1), size, device=device, dtype=dtype)
            for count, size in zip(vocabularies, sizes[:words], strict=True)
        )
        for vectors in self.tables.parameters():
            nn.init.uniform_(vectors, -SPREAD, SPREAD)
        self.dropout = Dropout(dropout)
        self.noise = checks.number("noise", noise, low=0.0)
        self.input_size, self.channels = input_size, channels
        self.output_size += sum(sizes[:words])

    @property
    def continuous(self) -> Tensor:  # [output_size] bool
        """Which outputs are scaled values or their changes, rather than word vectors, marks of gaps or levels."""
        words = self.output_size - self.channels * len(self.blocks)
        kinds = [name in ("values", "differences") for name in self.blocks for _ in range(self.channels)]
        return torch.tensor([False] * words + kinds)

    def forward(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, T, columns] -> [B, T, output_size]
        check_input(x, self.input_size)
        words = len(self.tables)
        if not words and self.unscaled and x.is_floating_point():
            return self.dropout(self._noisy(x))
        parts = [table(x[..., column].long()) for column, table in enumerate(self.tables)]
        if x.shape[-1] > words:
            values = x[..., words:]
            if not self.unscaled:
                values = super().forward(values, lengths)
            elif not values.is_floating_point():
                values = values.to(parts[0].dtype if parts else torch.get_default_dtype())
            parts.append(values)
        return self.dropout(self._noisy(parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)))

    def _noisy(self, x: Tensor) -> Tensor:
        return x + self.noise * normal_like(x) if self.training and self.noise else x
