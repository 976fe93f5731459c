"""SequenceModel: a recurrent layer by name, and a linear head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.names import make_layer
from autapse.layers.solutions import Solutions


class SequenceModel(nn.Module):
    """What classifier, regressor and tagger share; not for direct use.

    `cell` is a layer's name with options (`"gru"`, `"ernn:inner_steps=2"`); `hidden_size` one size, or one per layer.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        output_size: int,
        hidden_size: int | Sequence[int] = 64,
        num_layers: int | None = None,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.layer = make_layer(
            cell,
            input_size,
            hidden_size if isinstance(hidden_size, int) else list(hidden_size),
            num_layers=num_layers,
            batch_first=True,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )
        output_size = checks.integer("output_size", output_size, minimum=1)
        self.head = nn.Linear(self.layer.output_size, output_size, device=device, dtype=dtype)

    def at_end(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, output_size]
        """The head on the last layer at each sequence's own end."""
        _, h_n = self._run(x, lengths, keys)
        return self._masked(self.head(self.layer.final_output(h_n)))

    def at_each(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, T, output_size]
        """The head on the last layer at every position."""
        return self._masked(self.head(self._run(x, lengths, keys)[0]))

    @property
    def solutions(self) -> Solutions | None:
        """The solutions that the layer keeps by key, where it keeps any; `keys` then name the sequences of a batch."""
        solving = getattr(self.layer, "solving", None)
        return solving.solutions if solving is not None and solving.solutions.limit else None

    def _run(self, x: Tensor, lengths: Any, keys: Any) -> tuple[Any, Any]:
        named = {} if keys is None else {"keys": keys}
        output, h_n = self.layer(x, lengths=lengths, **named)
        return output, h_n

    def _masked(self, output: Tensor) -> Tensor:  # [B, ...]
        """What a layer could not solve is left out of the gradient: no loss may learn from wrong states."""
        converged = self.layer.converged()
        if converged is None:
            return output
        keep = converged.to(output.device).view(-1, *[1] * (output.dim() - 1))
        return torch.where(keep, output, output.detach())

    def predict(self, x: Tensor, lengths: Any = None) -> Tensor:
        """What the model says of each sequence, in evaluation mode."""
        raise NotImplementedError

    @torch.no_grad()
    def _predicted(self, x: Tensor, lengths: Any) -> Tensor:
        was_training = self.training
        try:
            return self.eval()(x, lengths)
        finally:
            self.train(was_training)
