"""Sequences drawn from a decoder."""

from __future__ import annotations

import torch
from torch import Tensor

from autapse import checks
from autapse.models.decoder import Conditions, Decoder
from autapse.models.heads import MISSING, Draw
from autapse.models.padding import Padded
from autapse.models.walk import DecoderWalk


@torch.no_grad()
def generate(
    decoder: Decoder,
    given: Conditions,
    count: int,
    draw: Draw,
    lengths: Tensor | None = None,
    known: Padded | None = None,
    longest: int | None = None,
) -> Padded:
    """Draw sequences, one element after the other.

    Args:
        decoder: the decoder, in evaluation mode.
        given: what the sequences depend on.
        count: number of sequences.
        draw: temperature, restrictions and random numbers.
        lengths: [count] the lengths, for a decoder whose lengths are given, or instead of its own.
        known: elements that are not drawn: the beginning of each sequence, in which some may be missing. A sequence
            does not end before its last known element.
        longest: steps after which a sequence ends in any case; by default those of the decoder.

    Returns:
        The sequences and their lengths.

    >>> from autapse.models.decoder import Elements
    >>> decoder = Decoder("gru", Elements(symbols=5, longest=20), hidden_size=16)
    >>> y = generate(decoder, Conditions(), 3, Draw(generator=torch.Generator().manual_seed(0)))
    >>> y.values.shape[0], int(y.lengths.max()) <= 20
    (3, True)
    """
    limit = checks.integer("longest", longest or decoder.elements.longest, minimum=1)
    if lengths is None and decoder.ending == "given":
        checks.fail("lengths", "be given for a model that does not know them", None)
    if lengths is None and decoder.count is not None:
        chances = decoder.count_logits(given, count).double().div(draw.temperature).softmax(-1)
        lengths = 1 + torch.multinomial(chances, 1, generator=draw.generator)[:, 0].cpu()
    ends = torch.full((count,), limit) if lengths is None else lengths.clamp(max=limit)
    walk = DecoderWalk(decoder, given, count, ends)
    fed, elements = decoder.previous.start.expand(count, -1), list[Tensor]()
    while len(elements) < int(ends.max()):
        t, features = len(elements), walk(fed)
        if lengths is None:
            y, over = decoder.drawn_or_over(features, draw)
            over = over.cpu() & (ends > t) & (True if known is None else known.lengths <= t)
            # The end symbol comes after the last element. The stop unit says that this element is the last one.
            ends = torch.where(over, t + (decoder.ending == "stop"), ends)
        else:
            y = decoder.drawn(features, draw)
        elements.append(y if known is None else _replaced(y, known, t))
        fed = decoder.previous(elements[-1])
    return Padded(torch.stack(elements[: max(1, int(ends.max()))], dim=1), ends)


def _replaced(y: Tensor, known: Padded, t: int) -> Tensor:  # [B] or [B, D]
    """The elements at step t, with those that are known."""
    if t >= known.values.shape[1]:
        return y
    here, inside = known.values[:, t], (known.lengths > t).to(y.device)
    if not y.is_floating_point():
        return torch.where(inside & (here != MISSING), here, y)
    return torch.where(inside[:, None] & ~here.isnan(), here, y)
