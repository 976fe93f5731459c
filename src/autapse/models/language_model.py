"""The next word of a text."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from autapse import checks
from autapse.models.base import Network, SequenceModel
from autapse.models.heads import Draw, drawn_from


class LanguageModel(SequenceModel):
    """Logits of the next word at every step, [B, T, output_size], and the final state, to continue from.

    >>> model = LanguageModel("lstm", 1, 50, hidden_size=16, vocabularies=[50], embedding_size=[8])
    >>> logits, state = model(torch.zeros(4, 10, 1, dtype=torch.int64))
    >>> logits.shape, model(torch.ones(4, 3, 1, dtype=torch.int64), state=state)[0].shape
    (torch.Size([4, 10, 50]), torch.Size([4, 3, 50]))
    """

    carries: ClassVar[bool] = True
    every_step: ClassVar[bool] = True
    plain: ClassVar[bool] = True

    def __init__(self, cell: Network, input_size: int, output_size: int, *args: Any, **settings: Any) -> None:
        super().__init__(cell, input_size, output_size, *args, **settings)
        if self.layer.bidirectional:
            checks.fail("bidirectional", "be False: a language model must not see the next word", True)
        if self.layer.looks_ahead:
            checks.fail("cell", "read forwards only, since the next word must not be seen", cell)

    def forward(  # [B, T, 1] -> [B, T, words], state
        self, x: Tensor, lengths: Any = None, keys: Any = None, state: Any = None, start: int = 0
    ) -> tuple[Tensor, Any]:
        output, h_n = self.read(self.layer, self.inputs(x), state, lengths=lengths, start=start)
        return self._headed(output), h_n

    def carry(self, x: Tensor, lengths: Any = None, state: Any = None, targets: Any = None) -> tuple[Tensor, Any]:
        output, h_n = self(x, lengths, state=state)
        return output, h_n

    @torch.no_grad()
    def sample(  # [T] -> [count]
        self,
        start: Tensor,
        count: int,
        temperature: float = 1.0,
        seed: int = 0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Tensor:
        """Draw words that continue a text.

        Args:
            start: the numbers of the words so far, [T].
            count: how many words to draw.
            temperature: words are drawn with the model's probabilities to the power 1/temperature.
            seed: of the draws.
            top_k: draw only from the k most likely words.
            top_p: draw only from the most likely words that together have this probability.

        Returns:
            The numbers of the new words, [count].
        """
        checks.integer("count", count, minimum=0)
        draw = Draw(temperature, top_k, top_p, generator=torch.Generator().manual_seed(checks.seed("seed", seed)))
        rule = "be a tensor of at least one word number, [T]"
        if not isinstance(start, Tensor):
            checks.fail("start", rule, type(start).__name__, kind=checks.KindError)
        if start.dim() != 1 or not len(start):
            checks.fail("start", rule, tuple(start.shape), kind=checks.ShapeError)
        words: list[int] = []
        with self.evaluating():
            logits, state = self(start.view(1, -1, 1))
            for position in range(len(start), len(start) + count):
                words.append(int(drawn_from(logits[:, -1].cpu(), draw)))
                word = torch.tensor([[[words[-1]]]], device=start.device)
                logits, state = self(word, state=state, start=position)
        return torch.tensor(words, dtype=torch.int64)
