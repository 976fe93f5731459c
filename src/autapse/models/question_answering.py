"""The answer to a question about a story (paper: recurrent identity networks, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.models.base import SequenceModel
from autapse.models.inputs import check_input

STORY = 0  # the part of a story's words; a question's is 1


class QuestionAnswering(SequenceModel):
    """One layer reads the story, one the question, a third the outputs of both one after the other; then the head.

    The input has two columns, a word and its part: first the story's words (part 0), then the question's (part 1).

    >>> model = QuestionAnswering("rin", 1, 6, hidden_size=10, vocabularies=[30], embedding_size=[20])
    >>> part = torch.tensor([[0, 0, 0, 1, 1]])
    >>> model(torch.stack([torch.ones_like(part), part], dim=2)).shape
    torch.Size([1, 6])
    """

    def _make_layers(self, make: Callable[[int], Recurrent]) -> None:
        self.story, self.question = make(self.inputs.output_size), make(self.inputs.output_size)
        self.layer = make(self.story.output_size)

    def _take_layer(self, layer: Recurrent, given: dict[str, Any]) -> None:
        checks.fail("cell", "be a name or a cell class: this model makes three layers of it", layer)

    def layers(self) -> list[Recurrent]:
        return [self.story, self.question, self.layer]

    @property
    def solutions(self) -> None:
        """None: a sequence's number stands for three solutions here."""

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, 2] -> [B, answers]
        check_input(x, columns=2, dimensions=(3,))
        steps = torch.arange(x.shape[1], device=x.device)
        ends = torch.full((len(x),), x.shape[1]) if lengths is None else torch.as_tensor(lengths)
        inside = steps < ends.to(x.device)[:, None]
        told = ((x[..., 1] == STORY) & inside).sum(1)  # [B] words of each story
        asked = ends.to(x.device) - told
        words = self.inputs(x[..., :1])
        # Position t of the whole is position t of the story, or t − told of the question.
        shifted = (told[:, None] + steps).clamp(max=x.shape[1] - 1)[..., None]
        story, _ = self.story(words, lengths=told)
        question, _ = self.question(words.gather(1, shifted.expand_as(words)), lengths=asked)
        back = (steps - told[:, None]).clamp(min=0)[..., None]
        both = torch.where((steps < told[:, None])[..., None], story, question.gather(1, back.expand_as(question)))
        _, h_n = self.layer(both, lengths=ends)
        return self._from_end(h_n)

    def predict(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B]
        """The most probable answer, in evaluation mode."""
        return self._predicted(x, lengths).argmax(-1)
