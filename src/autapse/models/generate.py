"""Sequences drawn from a decoder."""

from __future__ import annotations

import torch
from torch import Tensor

from autapse import checks
from autapse.models.decoder import Conditions, Decoder
from autapse.models.heads import Draw
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
        known: the beginnings of the sequences. What is missing in them is drawn given the elements before it, not those
            after it. A sequence does not end before its last known element.
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
    begun = torch.zeros(count, dtype=torch.int64) if known is None else known.lengths
    if lengths is None and decoder.ending == "given":
        checks.fail("lengths", "be given for a model that does not know them", None)
    limit = limit if decoder.count is None else min(limit, decoder.elements.longest)
    ends = torch.full((count,), limit) if lengths is None else lengths
    if count and bool((begun > ends).any()):
        checks.fail("known", f"have at most {int(ends.min())} elements", int(begun.max()))
    if lengths is None and decoder.count is not None:
        ends = lengths = _drawn_lengths(decoder, given, count, draw, known).clamp(max=limit)
    walk = DecoderWalk(decoder, given, count, ends)
    fed, elements = decoder.previous.start.expand(count, -1), list[Tensor]()
    while len(elements) < int(ends.max()):
        t, features = len(elements), walk(fed)
        if lengths is None:
            y, over = decoder.drawn_or_over(features, draw)
            # The end symbol comes after the last element. The stop unit says that this element is the last one.
            last = t + (decoder.ending == "stop")
            ends = torch.where(over.cpu() & (ends > t) & (begun <= last), last, ends)
        else:
            y = decoder.head.sample(features, draw)
        if known is not None and t < known.values.shape[1]:
            here = (begun > t).to(y.device).view(-1, *[1] * (y.dim() - 1))
            y = torch.where(here, decoder.head.complete(features, known.values[:, t], draw), y)
        elements.append(y)
        fed = decoder.previous(y)
    return Padded(torch.stack(elements[: max(1, int(ends.max()))], dim=1), ends)


def _drawn_lengths(decoder: Decoder, given: Conditions, count: int, draw: Draw, known: Padded | None) -> Tensor:
    """Lengths from the model of lengths, [count]. With a known beginning, given this beginning."""
    logits = decoder.count_logits(given, count).double()
    if known is not None and known.values.shape[1]:
        logits = logits + _fit_of_lengths(decoder, given, known)
    if draw.mean:
        return 1 + logits.argmax(-1).cpu()
    chances = (logits / draw.temperature).softmax(-1)
    return 1 + torch.multinomial(chances, 1, generator=draw.generator)[:, 0].cpu()


def _fit_of_lengths(decoder: Decoder, given: Conditions, known: Padded) -> Tensor:  # [B, longest]
    """The log-likelihood of beginnings for each length that the whole sequence may have; −∞ if it would be shorter."""
    count, longest = len(known.values), decoder.elements.longest
    columns = []
    for length in range(1, longest + 1):
        lengths = torch.full((count,), length)
        inputs = decoder.inputs(decoder.fed(known), lengths, given)
        features, _ = decoder.run(inputs, known.lengths, given)
        each = decoder.elements_likelihood(features, known).sum(1).double()
        columns.append(torch.where((known.lengths <= length).to(each.device), each, -torch.inf))
    return torch.stack(columns, dim=1)
