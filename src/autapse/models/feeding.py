"""Feeding: what a decoder reads in training, the true element before or its own."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from autapse import checks
from autapse.cells.spec import parse_options
from autapse.models.decoder import Conditions, Decoder
from autapse.models.heads import Draw
from autapse.models.padding import Padded
from autapse.models.stepping import StepReports, at_every_step, mapped
from autapse.models.walk import DecoderWalk
from autapse.sequences.lengths import running

Shape = Literal["linear", "exponential", "sigmoid"]
Own = Literal["sample", "mean"]
STEEPNESS = 10.0  # of the sigmoid schedule, over the whole training
DECAY = 5.0  # of the exponential schedule, over the whole training


class Feeding(ABC):
    """How the training of a decoder feeds elements back."""

    @abstractmethod
    def log_likelihood(self, decoder: Decoder, y: Padded, given: Conditions, progress: float) -> Tensor:  # [B, T]
        """The log-likelihood of each element, to be maximised. `progress` is the share of the training that is done."""


@dataclass(frozen=True)
class Teacher(Feeding):
    """Teacher forcing: the true elements are read. All steps are computed at once.

    >>> Teacher()
    Teacher()
    """

    def log_likelihood(self, decoder: Decoder, y: Padded, given: Conditions, progress: float) -> Tensor:
        if given.attend is None or not given.attend.reads_before:
            return decoder.teacher_forced(y, given)
        return _one_by_one(decoder, y, given, lambda _features, truth: truth)


@dataclass(frozen=True)
class Scheduled(Feeding):
    """Scheduled sampling: each element that is read is the model's own with a probability that grows.

    Gradients do not pass through the model's own elements. So these are drawn first, one step after the other and
    without gradients. Then all steps are computed at once, as with teacher forcing.

    Args:
        end: the probability at the end of the training.
        shape: how it grows from 0: `linear`, `exponential` or `sigmoid`.
        own: what the model's own element is: a `sample`, or the `mean` of values and the most likely symbol.

    >>> [round(Scheduled(end=0.5).probability(share), 2) for share in (0.0, 0.5, 1.0)]
    [0.0, 0.25, 0.5]
    """

    end: float = 0.5
    shape: Shape = "linear"
    own: Own = "sample"

    def __post_init__(self) -> None:
        checks.number("end", self.end, low=0.0, high=1.0)
        checks.one_of("shape", self.shape, get_args(Shape))
        checks.one_of("own", self.own, get_args(Own))

    def probability(self, progress: float) -> float:
        """The probability of the model's own sample when a share of the training is done."""
        share = min(max(progress, 0.0), 1.0)
        if self.shape == "exponential":
            share = (1 - math.exp(-DECAY * share)) / (1 - math.exp(-DECAY))
        elif self.shape == "sigmoid":
            low, high, here = (1 / (1 + math.exp(-STEEPNESS * (x - 0.5))) for x in (0.0, 1.0, share))
            share = (here - low) / (high - low)
        return self.end * share

    def log_likelihood(self, decoder: Decoder, y: Padded, given: Conditions, progress: float) -> Tensor:
        chance, draw = self.probability(progress), Draw(mean=self.own == "mean")
        if given.attend is None or not given.attend.reads_before:
            return decoder.teacher_forced(y, given, _mixed(decoder, y, given, chance, draw))

        def mixed(features: Tensor, truth: Tensor) -> Tensor:
            own = decoder.previous(decoder.head.sample(features.detach(), draw))
            chosen = torch.rand(len(truth), 1, device=truth.device) < chance
            return torch.where(chosen, own, truth)

        return _one_by_one(decoder, y, given, mixed)


@dataclass(frozen=True)
class Free(Feeding):
    """Free running: from each step on, the next elements are predicted from the model's own predictions.

    The loss of an element is the mean over its predictions 1 … `steps` ahead. Values are fed back as their means,
    symbols as the mean of their vectors, with gradients.

    Args:
        steps: how many steps ahead.

    >>> Free(steps=3)
    Free(steps=3)
    """

    steps: int = 5

    def __post_init__(self) -> None:
        checks.integer("steps", self.steps, minimum=1)

    def log_likelihood(self, decoder: Decoder, y: Padded, given: Conditions, progress: float) -> Tensor:
        self._check(decoder, given)
        wanted = decoder.wanted(y)
        steps, lengths = wanted.values.shape[1], wanted.lengths.to(wanted.values.device)
        output, states = decoder.run(
            decoder.inputs(decoder.fed(wanted), wanted.lengths, given), wanted.lengths, given, return_states=True
        )
        reports = StepReports(decoder.layer, len(output))
        reports.add(torch.arange(len(output)))
        total = decoder.elements_likelihood(output, wanted)
        state, place = at_every_step(decoder.layer, states), torch.arange(output[..., 0].numel(), device=output.device)
        output = output.flatten(0, 1)
        for _ in range(1, min(self.steps, steps)):
            # A row is a place where free running began. It continues to the step after its last one.
            t = place % steps + 1
            kept = (t < lengths[place // steps]).nonzero()[:, 0]
            place = place[kept] + 1
            fed = decoder.previous.soft(decoder.head.expected(output[kept]))
            x = decoder.inputs_at(fed, place // steps, place % steps, wanted.lengths, given)
            output, state = _step(decoder, x, mapped(partial(torch.index_select, dim=1, index=kept), state))
            reports.add(place // steps)
            ahead = Padded(wanted.values.flatten(0, 1)[place, None], (lengths[place // steps] - place % steps).cpu())
            each = decoder.elements_likelihood(output[:, None], ahead)[:, 0]
            total = total.flatten().index_add(0, place, each).view(total.shape)
        reports.give()
        predictions = (torch.arange(steps, device=total.device) + 1).clamp(max=self.steps)
        return total / predictions + decoder.length_likelihood(given, wanted.lengths, total)

    def _check(self, decoder: Decoder, given: Conditions) -> None:
        layer = decoder.layer
        if layer.depends_on_position or any(c.carried_sizes != c.state_sizes for c in layer.cells.values()):
            rule = "be teacher or scheduled for a network that depends on the position or on older states"
            checks.fail("feeding", rule, self)
        if given.attend is not None:
            checks.fail("feeding", "be teacher or scheduled with attention", self)


KINDS: dict[str, type[Feeding]] = {"teacher": Teacher, "scheduled": Scheduled, "free": Free}


def parse_feeding(text: str) -> Feeding:
    """Read the setting `feeding`.

    Args:
        text: `teacher`, `scheduled` or `free`, with options as in `scheduled:end=0.5:shape=sigmoid` or `free:steps=10`.

    Returns:
        The way of feeding elements back.

    >>> parse_feeding("free:steps=10")
    Free(steps=10)
    """
    if not isinstance(text, str):
        checks.fail("feeding", "be text, such as scheduled:end=0.5", text, kind=checks.KindError)
    name, *words = text.split(":")
    kind = KINDS[checks.one_of("feeding", name, KINDS)]
    return kind(**parse_options("feeding", text, name, words, dict(inspect.signature(kind).parameters)))


@torch.no_grad()
def _mixed(decoder: Decoder, y: Padded, given: Conditions, chance: float, draw: Draw) -> Tensor:
    """The elements, [B, T] or [B, T, D], each replaced by the decoder's own with this probability."""
    if chance == 0:
        return y.values
    count, device = len(y.values), y.values.device
    walk = DecoderWalk(decoder, given, count, decoder.wanted(y).lengths)
    fed, mixed = decoder.previous.start.expand(count, -1), list[Tensor]()
    for truth in y.values.unbind(1):
        own = decoder.head.sample(walk(fed), draw)
        chosen = (torch.rand(count, device=device) < chance).view(-1, *[1] * (own.dim() - 1))
        mixed.append(torch.where(chosen, own, truth))
        fed = decoder.previous(mixed[-1])
    return torch.stack(mixed, dim=1)


def _step(decoder: Decoder, x: Tensor, state: Any) -> tuple[Tensor, Any]:  # [N, D] -> [N, H]
    axis = 1 if decoder.layer.batch_first else 0
    output, state = decoder.layer(x.unsqueeze(axis), state)
    return output.squeeze(axis), state


def _one_by_one(
    decoder: Decoder, y: Padded, given: Conditions, choose: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:  # [B, T]
    """The log-likelihood of each element, one step after the other. `choose` says what the next step reads."""
    wanted = decoder.wanted(y)
    order = torch.argsort(wanted.lengths, descending=True, stable=True)
    running_at = running(wanted.lengths, wanted.values.shape[1]).sum(1).tolist()
    truth = decoder.fed(wanted)[order]
    walk = DecoderWalk(decoder, given, len(order), wanted.lengths)
    walk.select(order)
    fed, rows = truth[:, 0], []
    for t, count in enumerate(running_at):
        if count < len(fed):  # shorter sequences have ended
            walk.select(torch.arange(count))
            fed = fed[:count]
        rows.append(walk(fed))
        if t + 1 < len(running_at):
            fed = choose(rows[-1], truth[:count, t + 1])
    walk.report()
    features = pad_sequence(rows)[torch.argsort(order)]
    return decoder.log_likelihood(features, wanted, given)
