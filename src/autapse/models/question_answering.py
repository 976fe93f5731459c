"""The answer to a question about a story (paper: recurrent identity networks, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.models.base import SequenceModel
from autapse.models.inputs import check_input

STORY = 0  # time of the words of a story, or less; those of a question have time 1


class QuestionAnswering(SequenceModel):
    """Logits of the answer, [B, output_size]: one layer reads the story, one the question, a third the outputs of both.

    The input has two columns, a word and its time: first the words of the story (0 or less, which statement does not
    matter here), then those of the question (1).

    >>> model = QuestionAnswering("rin", 1, 6, hidden_size=10, vocabularies=[30], embedding_size=[20])
    >>> time = torch.tensor([[0, 0, 0, 1, 1]])
    >>> model(torch.stack([torch.ones_like(time), time], dim=2)).shape
    torch.Size([1, 6])
    """

    plain: ClassVar[bool] = True

    def _make_layers(self, make: Callable[[int], Recurrent]) -> None:
        self.story, self.question = make(self.inputs.output_size), make(self.inputs.output_size)
        self.layer = make(self.story.output_size)

    def _take_layer(self, layer: Recurrent, given: dict[str, Any]) -> None:
        checks.fail("cell", "be a name or a cell class: this model makes three layers of it", layer)

    def layers(self) -> list[Recurrent]:
        return [self.story, self.question, self.layer]

    @property
    def columns(self) -> int:
        return 2

    @property
    def solutions(self) -> None:
        """None: a sequence has three solutions here, one per layer."""

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, 2] -> [B, answers]
        check_input(x, self.columns, dimensions=(3,))
        steps = torch.arange(x.shape[1], device=x.device)
        ends = torch.full((len(x),), x.shape[1]) if lengths is None else torch.as_tensor(lengths)
        inside = steps < ends.to(x.device)[:, None]
        story_lengths = ((x[..., 1] <= STORY) & inside).sum(1)  # [B]
        question_lengths = ends.to(x.device) - story_lengths
        words = self.inputs(x[..., :1])
        # Step t of the whole is step t of the story, or step t − story_lengths of the question.
        shifted = (story_lengths[:, None] + steps).clamp(max=x.shape[1] - 1)[..., None]
        story, _ = self.story(words, lengths=story_lengths)
        question, _ = self.question(words.gather(1, shifted.expand_as(words)), lengths=question_lengths)
        back = (steps - story_lengths[:, None]).clamp(min=0)[..., None]
        both = torch.where(
            (steps < story_lengths[:, None])[..., None], story, question.gather(1, back.expand_as(question))
        )
        _, h_n = self.layer(both, lengths=ends)
        return self._headed(self.layer.final_output(h_n))
