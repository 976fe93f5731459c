"""Heads: the distribution of the next element of a sequence, given the features of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks

SMALLEST = -7.0  # log of the smallest deviation, in units of the data's: a density must not grow without limit
LARGEST = 7.0
SPREAD = 0.1  # of initial vectors of symbols: with torch's 1, those of rare ones stay noise that hides other features
MISSING = -100
"""A symbol that is not known; NaN for values. It has no part in the likelihood."""


@dataclass(frozen=True)
class Draw:
    """How samples are drawn.

    Args:
        temperature: below 1, likely values become more likely; above 1, less likely.
        top_k: draw only from the k most likely symbols.
        top_p: draw only from the most likely symbols that together have this probability.
        mean: take the mean of values, and the most likely symbol, instead of a sample.
        generator: of the random numbers; by default torch's own.

    >>> head = Categorical(3, 5)
    >>> head.sample(torch.zeros(2, 3), Draw(temperature=0.5, top_k=1)).shape
    torch.Size([2])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    mean: bool = False
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        checks.number("temperature", self.temperature, above=0.0)
        if self.top_k is not None:
            checks.integer("top_k", self.top_k, minimum=1)
        if self.top_p is not None and checks.number("top_p", self.top_p, above=0.0) > 1:
            checks.fail("top_p", "be a share above 0 and at most 1", self.top_p)

    @property
    def restricted(self) -> bool:
        """Whether some symbols cannot be drawn."""
        return self.top_k is not None or self.top_p is not None


class Head(nn.Module):
    """The base of all heads: a linear map of the features gives the parameters of a distribution."""

    symbols: bool
    """Whether elements are symbols, int64 [...]; otherwise vectors of values, [..., D]."""

    def __init__(self, features: int, parameters: int, **where: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(features, parameters, **where)

    def log_likelihood(self, features: Tensor, y: Tensor) -> Tensor:  # [..., F], element -> [...]
        """The log-likelihood of elements. What is missing in them is summed over: it has no part."""
        raise NotImplementedError

    def sample(self, features: Tensor, draw: Draw) -> Tensor:  # [..., F] -> element
        """Draw an element for each step."""
        raise NotImplementedError

    def complete(self, features: Tensor, y: Tensor, draw: Draw) -> Tensor:  # [..., F], element -> element
        """Draw what is missing in elements, given what is known in them."""
        raise NotImplementedError

    def expected(self, features: Tensor) -> Tensor:  # [..., F] -> [..., K] or [..., D]
        """The mean of values, or the probabilities of the symbols; with gradients, to be fed back."""
        raise NotImplementedError


class Categorical(Head):
    """Symbols: a softmax over `count` classes, and with `end` one more, which is the last.

    Args:
        features: number of features.
        count: number of symbols.
        end: whether there is one more symbol, which ends a sequence. It is not an element.
        where: device and dtype.

    >>> head = Categorical(8, 5)
    >>> head.log_likelihood(torch.zeros(2, 3, 8), torch.zeros(2, 3, dtype=torch.int64)).shape
    torch.Size([2, 3])
    """

    symbols = True

    def __init__(self, features: int, count: int, end: bool = False, **where: Any) -> None:
        self.count, self.end = checks.integer("count", count, minimum=1), checks.boolean("end", end)
        super().__init__(features, count + end, **where)

    def log_likelihood(self, features: Tensor, y: Tensor) -> Tensor:
        logits, y = self.linear(features).flatten(0, -2), y.flatten()
        each = -F.cross_entropy(logits, y, ignore_index=MISSING, reduction="none")
        if self.end:  # an element that is missing is any symbol but the end
            absent = (y == MISSING).nonzero()[:, 0]
            rows = logits.index_select(0, absent)
            each = each.index_copy(0, absent, rows[:, : self.count].logsumexp(-1) - rows.logsumexp(-1))
        return each.view(features.shape[:-1])

    def sample(self, features: Tensor, draw: Draw) -> Tensor:
        return drawn_from(self.linear(features)[..., : self.count], draw)

    def sample_or_end(self, features: Tensor, draw: Draw) -> Tensor:
        """The same, but the sequence may also end: then it is `count`."""
        return drawn_from(self.linear(features), draw)

    def complete(self, features: Tensor, y: Tensor, draw: Draw) -> Tensor:
        return torch.where(y == MISSING, self.sample(features, draw), y)

    def expected(self, features: Tensor) -> Tensor:
        return self.linear(features).softmax(-1)


class Mixture(Head):
    """Values: a mixture of Gaussians with diagonal covariance, in the unit of the data; one component is a Gaussian.

    Binary columns, the last ones, are independent of the others given the features.

    Args:
        features: number of features.
        values: number of columns with values.
        binary: number of columns that are 0 or 1.
        components: number of Gaussians.
        mean: mean of each column with values; by default 0.
        scale: deviation of each column with values; by default 1.
        where: device and dtype.

    >>> head = Mixture(8, 2, components=3)
    >>> y = head.sample(torch.zeros(4, 8), Draw())
    >>> y.shape, head.log_likelihood(torch.zeros(4, 8), y).shape
    (torch.Size([4, 2]), torch.Size([4]))
    """

    symbols = False
    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        features: int,
        values: int,
        binary: int = 0,
        components: int = 1,
        mean: Sequence[float] = (),
        scale: Sequence[float] = (),
        **where: Any,
    ) -> None:
        self.values = checks.integer("values", values, minimum=0)
        self.binary = checks.integer("binary", binary, minimum=0)
        self.components = checks.integer("components", components, minimum=1)
        if not values + binary:
            checks.fail("values", "be at least 1 if there are no binary columns", values)
        super().__init__(features, components * (1 + 2 * values) + binary, **where)
        like = self.linear.weight
        self.register_buffer("mean", _column("mean", mean, values, 0.0, like))
        self.register_buffer("scale", _column("scale", scale, values, 1.0, like))

    def _parameters_of(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Log-weights [..., K]; means and log-deviations [..., K, D] in units of the data's; logits [..., b]."""
        k, d = self.components, self.values
        weights, means, deviations, bits = self.linear(features).split([k, k * d, k * d, self.binary], dim=-1)
        shape = (*features.shape[:-1], k, d)
        return weights.log_softmax(-1), means.view(shape), deviations.view(shape).clamp(SMALLEST, LARGEST), bits

    def log_likelihood(self, features: Tensor, y: Tensor) -> Tensor:
        weights, means, deviations, bits = self._parameters_of(features)
        known = ~y.isnan()
        values, ones = torch.where(known, y, 0).split([self.values, self.binary], dim=-1)
        known_values, known_ones = known.split([self.values, self.binary], dim=-1)
        z = (((values - self.mean) / self.scale).unsqueeze(-2) - means) * torch.exp(-deviations)
        each = -0.5 * z.square() - deviations - 0.5 * math.log(2 * math.pi) - self.scale.log()
        each = torch.where(known_values.unsqueeze(-2), each, 0)
        total = torch.logsumexp(weights + each.sum(-1), dim=-1)
        if self.binary:
            bit = -F.binary_cross_entropy_with_logits(bits, ones, reduction="none")
            total = total + torch.where(known_ones, bit, 0).sum(-1)
        return total

    def sample(self, features: Tensor, draw: Draw) -> Tensor:
        nothing = features.new_full((*features.shape[:-1], self.values + self.binary), math.nan)
        return self.complete(features, nothing, draw)

    def complete(self, features: Tensor, y: Tensor, draw: Draw) -> Tensor:
        """Draw the columns that are missing. Those that are known make some components more likely than others."""
        if draw.restricted:
            checks.fail("top_k, top_p", "be None for values, since they choose among symbols", (draw.top_k, draw.top_p))
        weights, means, deviations, bits = self._parameters_of(features)
        given = y[..., : self.values]
        known, given = ~given.isnan().unsqueeze(-2), (torch.where(given.isnan(), 0, given) - self.mean) / self.scale
        z = (given.unsqueeze(-2) - means) * torch.exp(-deviations)
        fit = torch.where(known, -0.5 * z.square() / draw.temperature - deviations, 0).sum(-1)
        chances = (weights / draw.temperature + fit).double().softmax(-1)
        if draw.mean:
            drawn = (chances.to(means).unsqueeze(-1) * means).sum(-2)
            ones = bits > 0
        else:
            chosen = torch.multinomial(chances.flatten(0, -2), 1, generator=draw.generator)
            chosen = chosen.view(*features.shape[:-1], 1, 1).expand(*features.shape[:-1], 1, self.values)
            mean, deviation = (part.gather(-2, chosen).squeeze(-2) for part in (means, deviations.exp()))
            noise = torch.empty_like(mean).normal_(generator=draw.generator)
            drawn = mean + math.sqrt(draw.temperature) * deviation * noise
            uniform = torch.empty_like(bits).uniform_(generator=draw.generator)
            ones = uniform < (bits / draw.temperature).sigmoid()
        made = torch.cat([self.mean + self.scale * drawn, ones.to(drawn)], dim=-1)
        return torch.where(y.isnan(), made, y)

    def expected(self, features: Tensor) -> Tensor:
        weights, means, _, bits = self._parameters_of(features)
        mean = self.mean + self.scale * (weights.exp().unsqueeze(-1) * means).sum(-2)
        return torch.cat([mean, bits.sigmoid()], dim=-1) if self.binary else mean


def drawn_from(logits: Tensor, draw: Draw) -> Tensor:  # [..., K] -> [...]
    """A symbol for each row of logits."""
    if draw.mean:
        return logits.argmax(-1)
    chances = chances_of(logits, draw)
    return torch.multinomial(chances.flatten(0, -2), 1, generator=draw.generator).view(logits.shape[:-1])


def chances_of(logits: Tensor, draw: Draw) -> Tensor:  # [..., K] -> [..., K]
    """The probabilities with which symbols are drawn.

    Args:
        logits: of the symbols.
        draw: temperature, and which symbols can be drawn.

    Returns:
        Probabilities in float64, with zeros for symbols that cannot be drawn.

    >>> chances_of(torch.tensor([0.0, 0.0, -1.0, -9.0]), Draw(top_k=2)).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    known = logits.double()
    # Subtract the largest first: a tiny temperature would make the others infinite.
    known = (known - known.amax(-1, keepdim=True)) / draw.temperature
    if not draw.restricted:
        return known.softmax(-1)
    ordered, order = known.sort(dim=-1, descending=True, stable=True)
    chances = ordered.softmax(-1)
    kept = torch.ones_like(chances, dtype=torch.bool)
    if draw.top_k is not None:
        kept[..., draw.top_k :] = False
    if draw.top_p is not None:
        kept &= chances.cumsum(-1) - chances < draw.top_p  # the symbol that crosses the limit is kept
    chances = torch.where(kept, chances, 0)
    return torch.zeros_like(chances).scatter(-1, order, chances / chances.sum(-1, keepdim=True))


def _column(name: str, given: Sequence[float], count: int, default: float, like: Tensor) -> Tensor:
    if len(given) not in (0, count):
        checks.fail(name, f"have one value per column, {count} in all", len(given))
    return like.new_tensor(list(given) or [default] * count)
