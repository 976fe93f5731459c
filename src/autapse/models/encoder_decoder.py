"""EncoderDecoder: from one sequence to another of any length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import make_layer
from autapse.models.base import Network
from autapse.models.decoder import Conditions, Decoder, Elements
from autapse.models.decoder_model import DecoderModel
from autapse.models.feeding import Feeding
from autapse.models.generate import generate
from autapse.models.heads import Draw
from autapse.models.initialise import initialise
from autapse.models.inputs import Inputs
from autapse.models.padding import Padded


class Translated(NamedTuple):
    """What a model says about pairs of sequences."""

    log_likelihood: Tensor  # [B, T + 1] of each element of the target, and of its end
    sequences: Padded  # the most likely translation, step by step


class EncoderDecoder(DecoderModel):
    """One layer reads a sequence; its final state is the context of a decoder, which writes another one.

    Args:
        cell: the network of the decoder.
        elements: what the decoder writes: symbols.
        input_size: columns of the sequence that is read: first those with words, then those with features.
        encoder: the network of the encoder; by default that of the decoder. It may look both ways.
        encoder_size: units of the encoder, one size or one per layer; by default those of the decoder.
        bidirectional: the encoder reads in both directions.
        hidden_size: units of the decoder, one size or one per layer.
        num_layers: number of layers, of both; by default one per size.
        dropout: probability of dropping an output between layers.
        feeding: what is read in training; by default the true elements, `Teacher()`.
        inputs: settings of what is read: `vocabularies`, `embedding_size`, `mean`, `scale`, …
        initialisation: other initial weights of the layers; see `autapse.models.initialise`.
        device: where the parameters are.
        dtype: their type.
        decoder: settings of the `Decoder`, such as `condition` and `context_map`.

    >>> words = {"vocabularies": [7], "embedding_size": [8]}
    >>> model = EncoderDecoder("gru", Elements(symbols=5, longest=9), 1, inputs=words)
    >>> x, y = torch.ones(2, 4, 1, dtype=torch.int64), Padded(torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2]))
    >>> model(x, [4, 2], targets=y).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        cell: Network,
        elements: Elements,
        input_size: int,
        *,
        encoder: Network | None = None,
        encoder_size: int | Sequence[int] | None = None,
        bidirectional: bool = False,
        hidden_size: int | Sequence[int] = 64,
        num_layers: int | None = None,
        dropout: float = 0.0,
        feeding: Feeding | None = None,
        inputs: dict[str, Any] | None = None,
        initialisation: str = "default",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **decoder: Any,
    ) -> None:
        super().__init__(feeding)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.inputs = Inputs(input_size, **(inputs or {}), **where)
        stack: dict[str, Any] = {"num_layers": num_layers, "dropout": dropout}
        self.encoder = self._make_encoder(
            cell if encoder is None else encoder,
            hidden_size if encoder_size is None else encoder_size,
            {**stack, "bidirectional": bidirectional, **where},
        )
        initialise(self.encoder, initialisation)
        self.decoder = Decoder(
            cell,
            elements,
            hidden_size,
            **stack,
            context_size=self.encoder.output_size,
            initialisation=initialisation,
            **decoder,
            **where,
        )

    def _make_encoder(self, network: Any, size: Any, settings: dict[str, Any]) -> Recurrent:
        if isinstance(network, Recurrent):
            if network.input_size != self.inputs.output_size:
                rule = f"have input_size {self.inputs.output_size}, the features of the model's inputs"
                checks.fail("encoder", rule, network.input_size)
            return network
        size = size if isinstance(size, int) else list(size)
        return make_layer(network, self.inputs.output_size, size, batch_first=True, **settings)

    def layers(self) -> list[Recurrent]:
        return [self.encoder, self.decoder.layer]

    def given(self, x: Tensor, lengths: Any = None) -> Conditions:
        """The context, from the sequences that are read."""
        _, h_n = self.read(self.encoder, self.inputs(x, lengths), lengths=lengths)
        return Conditions(context=self.encoder.final_output(h_n))

    def carry(self, x: Tensor, lengths: Any = None, state: Any = None, targets: Any = None) -> tuple[Any, Any]:
        return Translated(self(x, lengths, targets), self.translate(x, lengths)), None

    @torch.no_grad()
    def translate(self, x: Tensor, lengths: Any = None) -> Padded:
        """The translation that takes the most likely element at each step.

        Args:
            x: the sequences that are read, [B, T, D].
            lengths: [B], if they differ.

        Returns:
            The sequences and their lengths.
        """
        was_training = self.training
        try:
            return generate(self.decoder, self.eval().given(x, lengths), len(x), Draw(top_k=1))
        finally:
            self.train(was_training)
