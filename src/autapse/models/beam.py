"""Beam search: the most likely sequences of a decoder."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.models.decoder import Conditions, Decoder
from autapse.models.heads import MISSING
from autapse.models.padding import Padded
from autapse.models.walk import DecoderWalk


class Hypotheses(NamedTuple):
    """The n best sequences for each source, best first.

    Args:
        values: [B, n, T] their symbols, −100 after the end of a sequence.
        lengths: [B, n] their lengths, on the CPU.
        log_likelihood: [B, n], the end included; −inf if fewer than n sequences were found.
        scores: [B, n] log-likelihood / (length + 1)^penalty.

    >>> one = torch.tensor([[-0.1]])
    >>> Hypotheses(torch.tensor([[[2, 0]]]), torch.tensor([[2]]), one, one / 3).best.values.tolist()
    [[2, 0]]
    """

    values: Tensor
    lengths: Tensor
    log_likelihood: Tensor
    scores: Tensor

    @property
    def best(self) -> Padded:
        """The best sequence of each source."""
        lengths = self.lengths[:, 0]
        return Padded(self.values[:, 0, : max(1, int(lengths.max()) if len(lengths) else 1)], lengths)


@torch.no_grad()
def beam_search(
    decoder: Decoder,
    given: Conditions,
    count: int,
    beam: int = 1,
    length_penalty: float = 1.0,
    best: int = 1,
    longest: int | None = None,
) -> Hypotheses:
    """Search the sequences with the highest score, log-likelihood / (length + 1)^penalty.

    At each step the `beam` most likely beginnings are kept. One that ends is set aside, and the beam becomes narrower
    by one. So a beam of 1 takes the most likely symbol at each step. The search for a source is over when nothing that
    continues can have a better score than what ended.

    Args:
        decoder: the decoder, in evaluation mode, with an end symbol.
        given: what the sequences depend on.
        count: number of sources.
        beam: number of beginnings that are kept.
        length_penalty: 0 compares log-likelihoods, and 1 their means per symbol; without a penalty short sequences have
            an advantage.
        best: number of sequences to return, at most `beam`.
        longest: length of the longest sequence; by default that of the decoder.

    Returns:
        The best sequences of each source with their log-likelihoods and scores.

    >>> from autapse.models.decoder import Elements
    >>> decoder = Decoder("gru", Elements(symbols=5, longest=9), hidden_size=16).eval()
    >>> hypotheses = beam_search(decoder, Conditions(), count=2, beam=3, best=2)
    >>> hypotheses.scores.shape, hypotheses.values.shape[:2]
    (torch.Size([2, 2]), torch.Size([2, 2]))
    """
    if decoder.ending != "end":
        checks.fail("ending", "be end for a beam search", decoder.ending, "Use beam=1.")
    checks.integer("beam", beam, minimum=1)
    if checks.integer("best", best, minimum=1) > beam:
        checks.fail("best", f"be at most the beam, {beam}", best, "Pass a larger beam.")
    checks.number("length_penalty", length_penalty, low=0.0)
    limit = checks.integer("longest", longest or decoder.elements.longest, minimum=1)
    return _Search(decoder, given, count, beam, length_penalty, best, limit).run()


class _Search:
    """The beams of all sources. `alive` [B, k] has the log-likelihood of each beginning, −inf where there is none."""

    def __init__(
        self, decoder: Decoder, given: Conditions, count: int, beam: int, penalty: float, best: int, limit: int
    ) -> None:
        self.decoder, self.beam, self.penalty, self.best, self.limit = decoder, beam, penalty, best, limit
        like = decoder.previous.start
        self.first = torch.arange(count, device=like.device)[:, None] * beam  # [B, 1] row of each source's first beam
        rows = torch.arange(count, device=like.device).repeat_interleave(beam)
        self.walk = DecoderWalk(decoder, given if beam == 1 else given.select(rows), count * beam)
        self.alive = like.new_full((count, beam), -torch.inf)
        self.alive[:, 0] = 0
        self.free = torch.full((count, 1), beam, device=like.device)  # how many beginnings may continue
        self.steps: list[tuple[Tensor, Tensor]] = []  # [B, k] each: the beam before, and the symbol
        # What ended: its log-likelihood, its length, and the beam of its last symbol.
        self.ended = like.new_full((count, beam), -torch.inf)
        self.lengths = torch.zeros_like(self.ended, dtype=torch.int64)
        self.places = torch.zeros_like(self.lengths)

    def run(self) -> Hypotheses:
        # Detached: a view of a parameter claims to need a gradient, and torch's counter of operations fails at it.
        fed = self.decoder.previous.start.detach().expand(self.alive.numel(), -1)
        while bool(self.alive.isfinite().any()):
            before, symbol = self._advance(self.walk(fed))
            self.steps.append((before, symbol))
            self._stop()
            if self.beam > 1:
                self.walk.select((self.first + before).flatten(), alike=True)
            fed = self.decoder.previous(symbol.flatten())
        return self._found()

    def _advance(self, features: Tensor) -> tuple[Tensor, Tensor]:  # [B·k, F] -> [B, k] twice
        """Continue each beginning with the likely symbols. Returns the beginning and the symbol of each new beam."""
        end = self.decoder.elements.symbols
        chances = self.decoder.head.linear(features).log_softmax(-1).view(*self.alive.shape, end + 1)
        if len(self.steps) == self.limit:
            chances[..., :end] = -torch.inf
        total, chosen = (self.alive[..., None] + chances).flatten(1).topk(self.beam)
        before, symbol = chosen // (end + 1), chosen % (end + 1)
        total = total.masked_fill(torch.arange(self.beam, device=total.device) >= self.free, -torch.inf)
        over = (symbol == end) & total.isfinite()
        self._set_aside(over, total, before)
        self.alive = total.masked_fill(over, -torch.inf)
        return before, symbol.masked_fill(symbol == end, 0)  # 0: any symbol, since nothing follows

    def _set_aside(self, over: Tensor, total: Tensor, before: Tensor) -> None:
        """Keep the beginnings that are over, each in the next free column."""
        column = self.beam - self.free + over.cumsum(1) - 1
        source, place = over.nonzero(as_tuple=True)
        column = column[source, place]
        self.ended[source, column] = total[source, place]
        self.lengths[source, column] = len(self.steps)
        self.places[source, column] = before[source, place]
        self.free = self.free - over.sum(1, keepdim=True)

    def _stop(self) -> None:
        """End the search for a source if nothing that continues can have a better score than what ended."""
        scores = self._scores().sort(dim=1, descending=True).values[:, self.best - 1]
        possible = self.alive.amax(1) / (self.limit + 1) ** self.penalty
        self.alive = self.alive.masked_fill((scores >= possible)[:, None], -torch.inf)

    def _scores(self) -> Tensor:  # [B, k]
        return self.ended / (self.lengths + 1).to(self.ended) ** self.penalty

    def _found(self) -> Hypotheses:
        scores, order = self._scores().sort(dim=1, descending=True, stable=True)
        order = order[:, : self.best]
        lengths, place = self.lengths.gather(1, order), self.places.gather(1, order)
        values = torch.full((*order.shape, max(1, int(lengths.max()))), MISSING, device=order.device)
        for t in reversed(range(values.shape[-1])):
            if t >= len(self.steps):
                continue
            before, symbol = self.steps[t]
            inside = t < lengths
            values[..., t] = torch.where(inside, symbol.gather(1, place), MISSING)
            place = torch.where(inside, before.gather(1, place), place)
        return Hypotheses(values, lengths.cpu(), self.ended.gather(1, order), scores[:, : self.best])
