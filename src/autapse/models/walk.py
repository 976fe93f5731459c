"""DecoderWalk: a decoder one step at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse.models.decoder import Conditions, Decoder
from autapse.models.stepping import Differentiable, Stepping, Streaming, mapped


class DecoderWalk:
    """features = walk(fed): what the head reads at one step after the other.

    With gradients each step is a call of the layer; without them a stream of the layer is used.

    Args:
        decoder: the decoder.
        given: what the sequences depend on.
        count: number of sequences.
        lengths: [B] the length of each sequence, for a decoder that reads how many steps are left.

    >>> from autapse.models.decoder import Elements
    >>> decoder = Decoder("gru", Elements(symbols=5), hidden_size=16)
    >>> walk = DecoderWalk(decoder, Conditions(), 2)
    >>> walk(decoder.previous.start.expand(2, -1)).shape, walk.position
    (torch.Size([2, 16]), 1)
    """

    def __init__(self, decoder: Decoder, given: Conditions, count: int, lengths: Tensor | None = None) -> None:
        self._decoder, self._given = decoder, given
        self._lengths = torch.zeros(count, dtype=torch.int64) if lengths is None else lengths
        h0 = decoder.initial(given)
        kind = Differentiable if torch.is_grad_enabled() else Streaming
        self._stepping: Stepping = kind(decoder.layer, count, h0)
        self._attention: Any = None  # what attention carries
        zeros = decoder.previous.start.new_zeros(count, decoder.layer.output_size)
        self._output = zeros if h0 is None else decoder.layer.final_output(h0)
        self.position = 0

    def __call__(self, fed: Tensor) -> Tensor:  # [B, feed] -> [B, F]
        decoder, attend = self._decoder, self._given.attend
        x = decoder.inputs(fed[:, None], self._lengths, self._given, self.position)[:, 0]
        if attend is not None and attend.reads_before:
            more, self._attention = attend.before(self._output, self._attention)
            x = torch.cat([x, more], dim=-1)
        self._output = self._stepping(x)
        self.position += 1
        if attend is None:
            return self._output
        features, self._attention = attend.after(self._output[:, None], self._attention)
        return features[:, 0]

    def select(self, index: Tensor, alike: bool = False) -> None:  # [B']
        """Continue with these sequences, in this order; without gradients with at most as many as at first.

        Args:
            index: the numbers of the sequences.
            alike: each one depends on the same as the one in whose place it comes, which need not be copied then.
        """
        self._stepping.select(index)
        self._output, self._lengths = self._output[index], self._lengths[index.cpu()]
        self._attention = mapped(lambda part: part[index], self._attention)
        self._given = self._given if alike else self._given.select(index)

    def report(self) -> None:
        """Let the reports of a layer that solves equations be those of all steps so far."""
        self._stepping.report()
