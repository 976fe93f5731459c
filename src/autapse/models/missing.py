"""Missing elements of a sequence: summed over exactly, or by particles; and drawn, given the known ones on both sides.

p(known) is the sum over all fillings of p(known, filling). With few fillings the sum is computed. Otherwise particles
walk along the sequence: each draws what is missing from the model, given what is before it, and its weight is
multiplied by the probability of the known elements. Where the weights of a sequence become uneven, its particles are
drawn again in proportion to them. The mean weight is an unbiased estimate of p(known).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.models.decoder import Conditions, Decoder
from autapse.models.feeding import Teacher
from autapse.models.heads import MISSING, Draw
from autapse.models.padding import Padded
from autapse.models.walk import DecoderWalk

Missing = Literal["auto", "mask", "sum", "sample"]
FILLINGS = 4096  # of a sequence, that are summed over
ROWS = 4096  # sequences that are computed at a time


class Filled(NamedTuple):
    """Sequences without gaps, and the log-likelihood of what was known in them."""

    values: Tensor  # [B, T] or [B, T, D]
    log_likelihood: Tensor  # [B]


def gaps_of(y: Padded) -> Tensor:  # [B, T] bool
    """Which elements of the sequences are missing, wholly or in part."""
    inside = torch.arange(y.values.shape[1]) < y.lengths[:, None]
    absent = y.values.isnan().any(-1) if y.values.dim() == 3 else y.values == MISSING
    return absent & inside.to(absent.device)


def fillings(decoder: Decoder, y: Padded) -> Tensor:  # [B] float64
    """In how many ways the missing symbols of each sequence can be filled; infinite for values."""
    gaps = gaps_of(y).sum(1).double()
    if not decoder.elements.symbols:
        return torch.where(gaps > 0, math.inf, 1.0)
    return float(decoder.elements.symbols) ** gaps


@torch.no_grad()
def log_likelihood(
    decoder: Decoder, y: Padded, given: Conditions, missing: Missing, samples: int, draw: Draw
) -> Tensor:  # [B] float64
    """The log-likelihood of sequences in which elements may be missing.

    Args:
        decoder: the decoder, in evaluation mode.
        y: the sequences.
        given: what they depend on.
        missing: `mask`: the decoder reads a mark. `sum`: sum over all fillings. `sample`: estimate it by particles.
            `auto`: mask if the decoder was trained with it, otherwise sum if there are few fillings, else sample.
        samples: particles per sequence.
        draw: their random numbers.
    """
    masked = decoder.elements.gaps if missing == "auto" else missing == "mask"
    gaps = bool(gaps_of(y).any())
    if masked and gaps and not decoder.elements.gaps:
        checks.fail("missing", "be sum or sample for a model that was trained without missing elements", missing)
    if masked or not gaps:
        return Teacher().log_likelihood(decoder, y, given, 0.0).double().sum(1)
    if missing == "sum":
        return by_enumeration(decoder, y, given, draw).log_likelihood
    if missing == "sample":
        return by_particles(decoder, y, given, samples, draw).log_likelihood
    return _either(decoder, y, given, samples, draw).log_likelihood


@torch.no_grad()
def filled(decoder: Decoder, y: Padded, given: Conditions, samples: int, draw: Draw) -> Tensor:  # [B, T] or [B, T, D]
    """Sequences with their missing elements drawn, given the known ones on both sides."""
    return _either(decoder, y, given, samples, draw).values


def _either(decoder: Decoder, y: Padded, given: Conditions, samples: int, draw: Draw) -> Filled:
    """By enumeration for sequences with few fillings, and by particles for the others."""
    few = fillings(decoder, y) <= FILLINGS
    made = Filled(y.values.clone(), torch.zeros(len(few), dtype=torch.float64, device=few.device))
    for rows, exact in ((few.nonzero()[:, 0], True), ((~few).nonzero()[:, 0], False)):
        if len(rows):
            some, depends = Padded(y.values[rows], y.lengths[rows.cpu()]), given.select(rows)
            part = (
                by_enumeration(decoder, some, depends, draw)
                if exact
                else by_particles(decoder, some, depends, samples, draw)
            )
            made.values[rows], made.log_likelihood[rows] = part
    return made


@torch.no_grad()
def by_enumeration(decoder: Decoder, y: Padded, given: Conditions, draw: Draw) -> Filled:
    """All fillings of the missing symbols: the exact log-likelihood, and one filling drawn in proportion.

    Args:
        decoder: the decoder, in evaluation mode.
        y: sequences of symbols, each with at most `FILLINGS` fillings.
        given: what they depend on.
        draw: the random numbers.
    """
    counts = fillings(decoder, y)
    if bool((counts > FILLINGS).any()):
        rule = f"be sample if a sequence can be filled in more than {FILLINGS} ways"
        checks.fail("missing", rule, "sum" if math.isinf(counts.max()) else f"sum, with {int(counts.max())} ways")
    rows, total, gaps = [], [], gaps_of(y)
    for n, count in enumerate(counts.int().tolist()):
        every = _every_filling(y.values[n], gaps[n], decoder.elements.symbols, count)
        one = given.select(torch.full((count,), n, device=y.values.device))
        each = _log_likelihood(decoder, Padded(every, y.lengths[n].expand(count)), one)
        chosen = torch.multinomial((each - each.max()).exp(), 1, generator=draw.generator)[0]
        rows.append(every[chosen])
        total.append(each.logsumexp(0))
    return Filled(torch.stack(rows), torch.stack(total))


def _every_filling(row: Tensor, gaps: Tensor, symbols: int, count: int) -> Tensor:  # [T], [T] -> [count, T]
    made, number = row.repeat(count, *[1] * row.dim()), torch.arange(count, device=row.device)
    for place in gaps.nonzero()[:, 0]:
        made[:, place], number = number % symbols, number // symbols
    return made


def _log_likelihood(decoder: Decoder, y: Padded, given: Conditions) -> Tensor:  # [B] float64
    """The log-likelihood of sequences, some at a time."""
    parts = []
    for chosen in torch.arange(len(y.values)).split(ROWS):
        here = chosen.to(y.values.device)
        some = Padded(y.values[here], y.lengths[chosen])
        parts.append(Teacher().log_likelihood(decoder, some, given.select(here), 0.0).double().sum(1))
    return torch.cat(parts)


@torch.no_grad()
def by_particles(decoder: Decoder, y: Padded, given: Conditions, samples: int, draw: Draw) -> Filled:
    """An estimate of the log-likelihood by particles, and one filling of each sequence.

    Args:
        decoder: the decoder, in evaluation mode.
        y: the sequences.
        given: what they depend on.
        samples: particles per sequence.
        draw: the random numbers.
    """
    parts = []
    for chosen in torch.arange(len(y.values)).split(max(1, ROWS // samples)):
        here = chosen.to(y.values.device)
        some = Padded(y.values[here], y.lengths[chosen])
        parts.append(_particles(decoder, some, given.select(here), samples, draw))
    return Filled(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _particles(decoder: Decoder, y: Padded, given: Conditions, samples: int, draw: Draw) -> Filled:
    wanted, count = decoder.wanted(y), len(y.values)
    owner = torch.arange(count).repeat_interleave(samples)
    here = owner.to(y.values.device)
    walk = DecoderWalk(decoder, given.select(here), len(owner), wanted.lengths[owner])
    fed, made = decoder.previous.start.expand(len(owner), -1), y.values[here]
    weights = torch.zeros(count, samples, dtype=torch.float64, device=made.device)
    total = torch.zeros_like(weights[:, 0])
    for t in range(wanted.values.shape[1]):
        features = walk(fed)
        ahead = Padded(wanted.values[here, t, None], wanted.lengths[owner] - t)
        weights += decoder.elements_likelihood(features[:, None], ahead)[:, 0].double().view(count, samples)
        if t == y.values.shape[1]:
            break
        made[:, t] = decoder.head.complete(features, y.values[here, t], draw)
        uneven = 1 / _shares(weights).square().sum(1) < samples / 2
        if bool(uneven.any()):
            index = _drawn_again(weights, uneven, draw)
            walk.select(index)
            made = made[index]
            total = total + torch.where(uneven, _log_mean(weights), 0)
            weights = torch.where(uneven[:, None], 0, weights)
        fed = decoder.previous(made[:, t])
    chosen = torch.multinomial(_shares(weights), 1, generator=draw.generator)[:, 0]
    total = total + _log_mean(weights) + decoder.length_likelihood(given, y.lengths, total[:, None])[:, 0]
    return Filled(made.view(count, samples, *made.shape[1:])[torch.arange(count), chosen], total)


def _drawn_again(weights: Tensor, uneven: Tensor, draw: Draw) -> Tensor:  # [B, S], [B] -> [B·S]
    """Which particle takes the place of each, by systematic sampling; the same one where weights are even."""
    count, samples = weights.shape
    place, number = (torch.arange(size, device=weights.device) for size in (samples, count))
    comb = torch.empty_like(weights[:, :1]).uniform_(generator=draw.generator) + place
    drawn = torch.searchsorted(_shares(weights).cumsum(1), comb / samples).clamp(max=samples - 1)
    return (torch.where(uneven[:, None], drawn, place) + samples * number[:, None]).flatten()


def _shares(weights: Tensor) -> Tensor:  # [B, S]
    return weights.softmax(1)


def _log_mean(weights: Tensor) -> Tensor:  # [B, S] -> [B]
    return weights.logsumexp(1) - math.log(weights.shape[1])
