"""The readout: what the head sees of the outputs at all steps of a sequence."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.models.padding import inside, ragged_lengths

ReadoutKind = Literal["last", "mean", "max", "mean-max", "attention"]
State = tuple[Tensor, ...]  # of a readout that reads one step at a time; sums are in float64, for long streams
KINDS: tuple[ReadoutKind, ...] = get_args(ReadoutKind)


class Readout(nn.Module):
    """Features of all steps of a sequence, [B, T, size], as features of the sequence, [B, output_size].

    Steps after the end of a sequence are ignored. A sequence without steps has zeros.

    Args:
        kind: the features of the last step; their mean or maximum over the steps; both side by side; or attention: a
            mean whose weights are the softmax of the products with one learned vector.
        size: features per step.
        device: where the parameters are.
        dtype: their type.

    >>> Readout("mean-max", 1)(torch.tensor([[[1.0], [2.0], [6.0]], [[4.0], [0.0], [9.0]]]), [3, 2]).tolist()
    [[3.0, 6.0], [2.0, 4.0]]
    """

    def __init__(
        self, kind: str, size: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.kind = checks.one_of("readout", kind, KINDS)
        self.output_size = 2 * size if kind == "mean-max" else size
        if kind == "attention":  # it starts as a mean
            self.query = nn.Parameter(torch.zeros(size, device=device, dtype=dtype))

    def forward(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, T, size] -> [B, output_size]
        known = ragged_lengths(lengths, x)
        mask = None if known is None else inside(known, x)
        if self.kind == "last":
            return x[:, -1] if known is None else self._last(x, known)
        parts = [getattr(self, f"_{kind}")(x, known, mask) for kind in self.kind.split("-")]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    @staticmethod
    def _last(x: Tensor, lengths: Tensor) -> Tensor:
        lengths = lengths.to(x.device)
        ends = x[torch.arange(len(x), device=x.device), (lengths - 1).clamp(min=0)]
        return torch.where((lengths > 0)[:, None], ends, 0)

    @staticmethod
    def _mean(x: Tensor, lengths: Tensor | None, mask: Tensor | None) -> Tensor:
        if lengths is None or mask is None:
            return x.mean(1)
        return torch.where(mask, x, 0).sum(1) / lengths.clamp(min=1)[:, None].to(x)

    @staticmethod
    def _max(x: Tensor, lengths: Tensor | None, mask: Tensor | None) -> Tensor:
        if lengths is None or mask is None:
            return x.max(1).values
        largest = torch.where(mask, x, -torch.inf).max(1).values
        return torch.where((lengths > 0).to(x.device)[:, None], largest, 0)

    def _attention(self, x: Tensor, lengths: Tensor | None, mask: Tensor | None) -> Tensor:
        scores = self.scores(x)  # [B, T]
        if lengths is None or mask is None:
            return torch.einsum("bt,bth->bh", torch.softmax(scores, 1), x)
        # The lowest finite value rather than −∞: a sequence without steps must not become NaN.
        scores = scores.masked_fill(~mask[..., 0], torch.finfo(x.dtype).min)
        return torch.einsum("bt,bth->bh", torch.softmax(scores, 1), torch.where(mask, x, 0))

    def scores(self, x: Tensor) -> Tensor:  # [..., size] -> [...]
        """How much attention each step gets, before the softmax."""
        return x @ self.query

    # One step at a time -----------------------------------------------------------------------------------------

    def step(self, state: State, x: Tensor) -> State:  # [B, size]
        """The state of a running readout after one more step. The first state is empty."""
        if self.kind == "last":
            return (x,)
        if self.kind == "attention":
            return self._attend(state, x)
        if not state:
            return (x.double(), x, torch.ones((), dtype=torch.int64))
        total, largest, count = state
        return (total + x, torch.maximum(largest, x), count + 1)

    def value(self, state: State) -> Tensor:  # [B, output_size]
        """What the readout gives for the steps so far."""
        if self.kind == "last":
            return state[0]
        if self.kind == "attention":
            total, weight, highest = state
            return (total / weight).to(highest.dtype)
        total, largest, count = state
        parts = {"mean": (total / count).to(largest.dtype), "max": largest}
        return torch.cat([parts[kind] for kind in self.kind.split("-")], dim=-1)

    def _attend(self, state: State, x: Tensor) -> State:
        """Sums with weights relative to the highest score so far, which cannot overflow."""
        score = self.scores(x)[:, None]
        if not state:
            return (x.double(), torch.ones_like(score, dtype=torch.float64), score)
        total, weight, before = state
        highest = torch.maximum(before, score)
        shrunk, new = (before - highest).double().exp(), (score - highest).double().exp()
        return (total * shrunk + x * new, weight * shrunk + new, highest)
