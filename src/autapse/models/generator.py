"""Generator: a distribution over sequences, which may depend on a vector or on a sequence of the same length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.models.base import Network
from autapse.models.decoder import Conditions, Decoder, Elements, Ending
from autapse.models.decoder_model import DecoderModel
from autapse.models.feeding import Feeding
from autapse.models.generate import generate
from autapse.models.heads import Draw
from autapse.models.inputs import Inputs
from autapse.models.padding import Padded

Depends = Literal["nothing", "vector", "sequence"]


class Generator(DecoderModel):
    """The log-likelihood of sequences, and samples of new ones.

    Args:
        cell: the network: a name with options, a cell class, or a layer.
        elements: what is generated: symbols or values.
        depends: what a sequence depends on: `nothing`, a `vector`, or a `sequence` of the same length.
        input_size: columns of what it depends on: first those with words, then those with features.
        feeding: what is read in training; by default the true elements, `Teacher()`.
        inputs: settings of what it depends on, as in other models: `vocabularies`, `embedding_size`, `mean`, `scale`, …
        ending: how the length of a sequence is modelled: `end`, `stop`, `count` or `given`; by default `given` if the
            sequence depends on another one, else `end` for symbols and `stop` for values.
        device: where the parameters are.
        dtype: their type.
        decoder: settings of the `Decoder`, such as `hidden_size` and `condition`.

    >>> model = Generator("gru", Elements(symbols=5, longest=20), hidden_size=16)
    >>> y = Padded(torch.tensor([[0, 3, 1], [2, -100, -100]]), torch.tensor([3, 1]))
    >>> model(targets=y).shape
    torch.Size([2, 4])
    >>> model.sample(count=3, seed=1).lengths.shape
    torch.Size([3])
    """

    def __init__(
        self,
        cell: Network,
        elements: Elements,
        depends: Depends = "nothing",
        input_size: int = 0,
        *,
        feeding: Feeding | None = None,
        inputs: dict[str, Any] | None = None,
        ending: Ending | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **decoder: Any,
    ) -> None:
        super().__init__(feeding)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.depends = checks.one_of("depends", depends, get_args(Depends))
        if (input_size > 0) != (depends != "nothing"):
            checks.fail("input_size", "be 0 if a sequence depends on nothing, and only then", input_size)
        self.inputs = Inputs(input_size, **(inputs or {}), **where) if input_size else None
        read = self.inputs.output_size if self.inputs else 0
        known: dict[str, Any] = {"context_size" if depends == "vector" else "aligned_size": read}
        self.decoder = Decoder(
            cell, elements, ending=ending or self._usual_ending(elements), **known, **decoder, **where
        )

    def _usual_ending(self, elements: Elements) -> Ending:
        return "given" if self.depends == "sequence" else "end" if elements.symbols else "stop"

    @property
    def layer(self) -> Recurrent:
        """The recurrent layer."""
        return self.decoder.layer

    def given(self, x: Tensor | None, lengths: Any = None) -> Conditions:
        """What sequences depend on, from [B, 1, D] for a vector or [B, T, D] for a sequence."""
        if self.inputs is None:
            return Conditions()
        read = self.inputs(x, lengths)
        return Conditions(context=read[:, 0]) if self.depends == "vector" else Conditions(aligned=read)

    @torch.no_grad()
    def sample(
        self,
        x: Tensor | None = None,
        count: int = 1,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        lengths: Sequence[int] | None = None,
        known: Padded | None = None,
        seed: int = 0,
    ) -> Padded:
        """Draw sequences.

        Args:
            x: what they depend on, as in `forward`; there are as many sequences as rows. None for nothing.
            count: number of sequences, if they depend on nothing.
            temperature: below 1, likely elements become more likely; above 1, less likely.
            top_k: draw only from the k most likely symbols.
            top_p: draw only from the most likely symbols that together have this probability.
            lengths: the lengths, if the model does not know them, or instead of its own.
            known: elements that are not drawn; see `generate`.
            seed: of the random numbers.

        Returns:
            The sequences and their lengths.
        """
        device = self.decoder.head.linear.weight.device
        random = torch.Generator(device).manual_seed(checks.seed("seed", seed))
        draw = Draw(temperature, top_k, top_p, random)
        was_training = self.training
        try:
            given = self.eval().given(x)
            wanted = None if lengths is None else torch.as_tensor(lengths)
            if wanted is None and given.aligned is not None:
                wanted = torch.full((len(given.aligned),), given.aligned.shape[1])
            rows = checks.integer("count", count, minimum=1) if x is None else len(x)
            return generate(self.decoder, given, rows, draw, wanted, known)
        finally:
            self.train(was_training)
