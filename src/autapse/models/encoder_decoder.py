"""EncoderDecoder: from one sequence to another of any length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import make_layer
from autapse.models.attention import NONE, Attention, When
from autapse.models.base import Network
from autapse.models.baseline import check_no_draws
from autapse.models.beam import Hypotheses, beam_search
from autapse.models.decoder import WRITES, Conditions, Decoder, Elements
from autapse.models.decoder_model import DecoderModel
from autapse.models.feeding import Feeding
from autapse.models.initialise import initialise
from autapse.models.inputs import Inputs
from autapse.models.padding import Padded, ragged_lengths
from autapse.models.series import Expected
from autapse.models.texts import Sources, TextSymbols, Translation, make_batches, read_sources, read_targets
from autapse.models.walk import DecoderWalk
from autapse.unfold.warm_start import Solutions


class Translated(NamedTuple):
    """What a model says about pairs of sequences."""

    log_likelihood: Tensor  # [B, T + 1] of each element of the target, and of its end
    sequences: Padded  # the translation that takes the most likely element at each step
    targets: Padded  # what it should be


class EncoderDecoder(DecoderModel):
    """One layer reads a sequence; a decoder writes another one, given its final state, its states, or both.

    Args:
        cell: the network of the decoder.
        elements: what the decoder writes: symbols.
        input_size: columns of the sequence that is read: first those with words, then those with features.
        encoder: the network of the encoder; by default that of the decoder. It may look both ways.
        encoder_size: units of the encoder, one size or one per layer; by default those of the decoder.
        encoder_layers: number of layers of the encoder; by default one per size, or if it has one size, as many as the
            decoder has.
        bidirectional: the encoder reads in both directions.
        attention: what the decoder reads of the encoder's states at each step: `none`, or a weighted mean with weights
            that are `additive`, `multiplicative` or `monotonic`, with options as in `additive:size=64`; see
            `autapse.models.attention`.
        attend: `after` the recurrence of the decoder, for all steps at once; or `before` it, one step after the other.
        hidden_size: units of the decoder, one size or one per layer.
        num_layers: number of layers of the decoder; by default one per size.
        dropout: probability of dropping an output between layers.
        feeding: what is read in training; by default the true elements, `Teacher()`.
        inputs: settings of what is read: `vocabularies`, `embedding_size`, `mean`, `scale`, …
        initialisation: other initial weights of the layers; see `autapse.models.initialise`.
        device: where the parameters are.
        dtype: their type.
        decoder: settings of the `Decoder`, such as `condition`, `context_map` and `input_dropout`.

    >>> words = {"vocabularies": [7], "embedding_size": [8]}
    >>> model = EncoderDecoder("gru", Elements(symbols=5, longest=9), 1, inputs=words, attention="multiplicative")
    >>> x, y = torch.ones(2, 4, 1, dtype=torch.int64), Padded(torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2]))
    >>> model(x, [4, 2], targets=y).shape
    torch.Size([2, 4])
    >>> model.translate(x, [4, 2], beam=3).lengths.shape
    torch.Size([2])
    """

    source: TextSymbols | None = None
    """The symbols of a text that is read, with their numbers; None if the model does not know them."""
    target: TextSymbols | None = None
    """The same for a text that is written."""

    def __init__(
        self,
        cell: Network,
        elements: Elements,
        input_size: int,
        *,
        encoder: Network | None = None,
        encoder_size: int | Sequence[int] | None = None,
        encoder_layers: int | None = None,
        bidirectional: bool = False,
        attention: str = NONE,
        attend: When = "after",
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
        if attention == NONE and attend != "after":
            checks.fail("attend", "keep its default without attention", attend)
        dropped = {"dropout": decoder.get("input_dropout", 0.0)}
        self.inputs = Inputs(input_size, **{**dropped, **(inputs or {})}, **where)
        sizes = _listed(hidden_size if encoder_size is None else encoder_size)
        if len(sizes) == 1 and encoder_layers is None:
            encoder_layers = num_layers or len(_listed(hidden_size))
        stack = {"dropout": dropout, "bidirectional": bidirectional}
        self.encoder = self._make_encoder(encoder or cell, sizes, encoder_layers, {**stack, **where})
        initialise(self.encoder, initialisation)
        memory = self.encoder.output_size
        self.decoder = Decoder(
            cell,
            elements,
            hidden_size,
            num_layers,
            dropout,
            context_size=memory,
            attends=attention != NONE,
            attended_size=memory if attend == "before" else 0,
            initialisation=initialisation,
            **decoder,
            **where,
        )
        query = self.decoder.layer.output_size
        self.attention = None if attention == NONE else Attention(attention, query, memory, attend, **where)

    def _make_encoder(self, network: Any, sizes: list[int], layers: int | None, settings: dict[str, Any]) -> Recurrent:
        if isinstance(network, Recurrent):
            if network.input_size != self.inputs.output_size:
                rule = f"have input_size {self.inputs.output_size}, the features of the model's inputs"
                checks.fail("encoder", rule, network.input_size)
            return network
        if (layers or len(sizes)) == 1:
            settings = {**settings, "dropout": 0.0}  # it acts between layers; the decoder may have several
        size = sizes if len(sizes) > 1 else sizes[0]
        layer = make_layer(network, self.inputs.output_size, size, num_layers=layers, batch_first=True, **settings)
        check_no_draws(layer, WRITES)
        return layer

    def layers(self) -> list[Recurrent]:
        return [self.encoder, self.decoder.layer]

    @property
    def solutions(self) -> Solutions | None:
        return self.kept(self.encoder)

    def given(self, x: Tensor, lengths: Any = None, keys: Any = None, record: list[Tensor] | None = None) -> Conditions:
        """The context, and what the decoder attends to, from the sequences that are read.

        Args:
            x: the sequences, [B, T, D].
            lengths: [B], if they differ.
            keys: [B] names of the sequences, for an implicit encoder that keeps its solutions.
            record: a list to which the weights of the attention are added.
        """
        named = {} if keys is None else {"keys": keys}
        output, h_n = self.read(self.encoder, self.inputs(x, lengths), lengths=lengths, **named)
        context = self.encoder.final_output(h_n)
        if self.attention is None:
            return Conditions(context)
        known = ragged_lengths(lengths, x)
        return Conditions(context, attend=self.attention.over(output, known, record))

    def forward(self, x: Any = None, lengths: Any = None, targets: Any = None, keys: Any = None) -> Tensor:
        """The log-likelihood of each element of the targets; 0 after the end. In training mode with the feeding.

        Args:
            x: the sequences that are read, [B, T, D].
            lengths: [B], the lengths of x, if they differ.
            targets: the sequences that are written, `Padded(values, lengths)`.
            keys: [B] names of the sequences, for an implicit encoder that keeps its solutions.

        Returns:
            [B, T + 1], the end included.
        """
        return self.likelihood(self.given(x, lengths, keys), targets)

    @torch.no_grad()
    def carry(self, x: Tensor, lengths: Any = None, state: Any = None, targets: Any = None) -> tuple[Any, Any]:
        with self.evaluating():
            given = self.given(x, lengths)
            hypotheses = beam_search(self.decoder, given, len(x))
            return Translated(self.likelihood(given, targets), hypotheses.best, targets), None

    # Use of a trained model -------------------------------------------------------------------------------------------

    @torch.no_grad()
    def search(self, x: Tensor, lengths: Any = None, **settings: Any) -> Hypotheses:
        """The best translations of a batch, in evaluation mode.

        Args:
            x: the sequences that are read, [B, T, D].
            lengths: [B], if they differ.
            settings: of `beam_search`: `beam`, `length_penalty`, `best`, `longest`.
        """
        with self.evaluating():
            return beam_search(self.decoder, self.given(x, lengths), len(x), **settings)

    def translate(
        self,
        x: Any,
        lengths: Any = None,
        *,
        beam: int = 1,
        length_penalty: float = 1.0,
        best: int | None = None,
        longest: int | None = None,
    ) -> Any:
        """The most likely translations, by a search from left to right.

        Args:
            x: what is read: a text or a list of texts; arrays as in `predict` of other models; or a tensor [B, T, D].
            lengths: [B], if the sequences of a tensor or array have padding.
            beam: number of beginnings that are kept at each step; 1 takes the most likely symbol.
            length_penalty: translations are compared by log-likelihood / (length + 1)^length_penalty.
            best: return this many translations of each source, with scores; by default only the best one.
            longest: length of the longest translation; by default that of the model.

        Returns:
            For a text its translation, for a list of texts or arrays a list; for arrays, numbers of symbols. With
            `best`, lists of `Translation(target, log_likelihood, score)` instead of each. For a tensor
            `Padded(values, lengths)`, with `best` `Hypotheses`.
        """
        settings = {"beam": beam, "length_penalty": length_penalty, "longest": longest, "best": best or 1}
        if isinstance(x, Tensor):
            hypotheses = self.search(x, lengths, **settings)
            return hypotheses.best if best is None else hypotheses
        given = self._sources(x, lengths)
        made: list[Any] = [None] * len(given.series)
        for chosen, batch, ends in make_batches(given.series, self.device):
            for n, one in zip(chosen, self._written(self.search(batch, ends, **settings), given.is_text), strict=True):
                made[n] = one[0].target if best is None else one
        return made[0] if given.form == "single" else made

    def _sources(self, x: Any, lengths: Any = None) -> Sources:
        double, inputs = self.decoder.head.linear.weight.dtype == torch.float64, self.inputs
        form = "float64" if double else "float32"
        expected = Expected(inputs.input_size, self.channels, bool(len(inputs.tables)), inputs.missing != "error", form)
        return read_sources(x, lengths, self.source, expected)

    def _targets(self, y: Sequence[Any]) -> list[np.ndarray]:
        return read_targets(y, self.target, self.decoder.elements.symbols)

    def _written(self, hypotheses: Hypotheses, as_text: bool) -> list[list[Translation]]:
        """The translations of each source as texts or arrays."""
        rows = []
        for values, lengths, *scores in zip(*(part.cpu().numpy() for part in hypotheses), strict=True):
            each = [values[n, : lengths[n]] for n in range(len(lengths)) if scores[0][n] > -float("inf")]
            said = [self.target.text(one) for one in each] if as_text and self.target is not None else each
            rows.append([Translation(*one) for one in zip(said, *(part.tolist() for part in scores), strict=False)])
        return rows

    @torch.no_grad()
    def log_likelihood(self, pairs: Sequence[tuple[Any, Any]]) -> Tensor:  # [N]
        """The log-likelihood of translations, the end included.

        Args:
            pairs: (source, target) each: two texts; or arrays, the source as in `translate`, and the numbers of the
                symbols of the target, [T].

        Returns:
            One value per pair.
        """
        for pair in list[Any](pairs):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:  # two letters would be a source and a target
                rule = "be a list of pairs (source, target)"
                checks.fail("pairs", rule, pair, "For one pair, pass [(source, target)].", kind=checks.KindError)
        given = self._sources([source for source, _ in pairs])
        targets = self._targets([target for _, target in pairs])
        values = torch.empty(len(pairs), dtype=self.decoder.head.linear.weight.dtype)
        for chosen, batch, ends in make_batches(given.series, self.device):
            wanted = Padded.of([targets[n] for n in chosen], self.device)
            with self.evaluating():
                values[chosen] = self(batch, ends, wanted).sum(1).cpu()
        return values

    @torch.no_grad()
    def attention_weights(self, x: Any, y: Any = None, lengths: Any = None) -> Any:
        """How much of each step of the source is read for each step of the target.

        Args:
            x: what is read, as in `translate`.
            y: the targets: texts, arrays of numbers of symbols, or for a tensor `Padded`. By default the translations.
            lengths: [B], if the sequences of a tensor or array have padding.

        Returns:
            For a tensor [B, T_y, T_x]. Otherwise an array [T_y, T_x] per source, in a list if x has several.
        """
        if self.attention is None:
            checks.fail("attention", "not be none, to have weights", NONE, "Train with attention=multiplicative.")
        if isinstance(x, Tensor):
            return self._weights(x, lengths, self.translate(x, lengths) if y is None else y)
        given = self._sources(x, lengths)
        single = given.form == "single"
        y = self.translate(x, lengths) if y is None else y
        targets, made = self._targets([y] if single else y), list[Any]([None] * len(given.series))
        for chosen, batch, ends in make_batches(given.series, self.device):
            weights = self._weights(batch, ends, Padded.of([targets[n] for n in chosen], self.device)).cpu().numpy()
            for n, one in zip(chosen, weights, strict=True):
                made[n] = one[: len(targets[n]), : len(given.series[n])]
        return made[0] if single else made

    def _weights(self, x: Tensor, lengths: Any, y: Padded) -> Tensor:  # [B, T_y, T_x]
        record: list[Tensor] = []
        with self.evaluating():
            given = self.given(x, lengths, record=record)
            fed = self.decoder.fed(y)
            walk = DecoderWalk(self.decoder, given, len(x))
            for t in range(fed.shape[1]):
                walk(fed[:, t])
        inside = torch.arange(fed.shape[1]) < y.lengths[:, None]
        weights = torch.cat(record, dim=1) if record else fed.new_zeros(len(x), 0, x.shape[1])
        return weights * inside[..., None].to(weights)


def _listed(size: int | Sequence[int]) -> list[int]:
    return [size] if isinstance(size, int) else list(size)
