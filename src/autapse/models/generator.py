"""Generator: a distribution over sequences, which may depend on a vector or on a sequence of the same length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
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
from autapse.models.missing import Missing, filled, log_likelihood
from autapse.models.model import Batches
from autapse.models.padding import Padded
from autapse.models.passed import Passed
from autapse.models.symbols import Symbols

Depends = Literal["nothing", "vector", "sequence"]
UNSEEN = 0.1  # sequences of each length that are added to those of the data, so that no length is impossible


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

    >>> model = Generator("gru", Elements(symbols=3, longest=20), hidden_size=16)
    >>> model.classes, model.separator = ("a", "b", "c"), ""
    >>> model.log_likelihood(["abba", "c"]).shape
    (2,)
    >>> all(set(text) <= set("abc") for text in model.sample(count=5, seed=1))
    True
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
        if depends == "sequence" and ending not in (None, "given"):
            checks.fail("ending", "be given for sequences that depend on one of the same length", ending)
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

    @property
    def symbols(self) -> Symbols:
        """The symbols with their names."""
        return Symbols(self.decoder.elements.symbols, self.classes, self.separator)

    def given(self, x: Tensor | None, lengths: Any = None) -> Conditions:
        """What sequences depend on, from [B, 1, D] for a vector or [B, T, D] for a sequence."""
        if self.inputs is None:
            return Conditions()
        read = self.inputs(x, lengths)
        return Conditions(context=read[:, 0]) if self.depends == "vector" else Conditions(aligned=read)

    @torch.no_grad()
    def start_from(self, train: Batches, validation: Batches) -> float | None:
        """Let the model of lengths start with the frequencies of the training data, if there is one."""
        if self.decoder.count is not None:
            counts = torch.zeros(self.decoder.elements.longest)
            for batch in train():
                counts += torch.bincount(batch.padded_targets.lengths - 1, minlength=len(counts))
            chances = (counts + UNSEEN) / (counts + UNSEEN).sum()
            self.decoder.count.bias.copy_(chances.log())
            self.decoder.count.weight.zero_()
        return None

    # Use of a trained model -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self,
        x: Any = None,
        count: int = 1,
        *,
        start: Any = None,
        lengths: int | Sequence[int] | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        mean: bool = False,
        longest: int | None = None,
        seed: int = 0,
    ) -> Any:
        """Draw sequences.

        Args:
            x: what they depend on. A vector: its entries, or the name of a class; or a list of these. A sequence: an
                array [T, D], or a list of arrays. Or a tensor [B, T, D], with T = 1 for a vector.
            count: number of sequences, for each vector or sequence in `x`.
            start: the known beginning of all sequences, or a list with one beginning for each: text, symbols or values,
                as in `log_likelihood`. What is missing in it is drawn, given what is before it.
            lengths: the length of all sequences, or one for each, instead of the model's own. A model that does not
                model lengths writes sequences of the longest length of the training data, if this is None.
            temperature: below 1, likely elements become more likely; above 1, less likely.
            top_k: draw only from the k most likely symbols.
            top_p: draw only from the most likely symbols that together have this probability.
            mean: take the mean of values, and the most likely symbol, instead of a sample.
            longest: a sequence ends after this many steps at the latest; by default the longest of the training data.
            seed: of the random numbers.

        Returns:
            A list with one sequence each: text if symbols have names, otherwise an array of numbers [T]; or an array of
            values [T, D]. If `x` or `start` has tensors, `Padded(values, lengths)`.
        """
        count = checks.integer("count", count, minimum=1)
        draw, passed = Draw(temperature, top_k, top_p, mean, self._random(seed)), Passed(self)
        with self.evaluating():
            inputs, ends = passed.x(x)
            rows = count if inputs is None else len(inputs) * count
            given = self.given(inputs, ends).select(torch.arange(rows, device=self.device) // count)
            wanted = passed.lengths(lengths, rows, None if ends is None else ends.repeat_interleave(count))
            known = None if start is None else passed.starts(start, rows)
            made = generate(self.decoder, given, rows, draw, wanted, known, longest)
        return made if isinstance(x, Tensor) or isinstance(start, Padded) else passed.shown(made)

    @torch.no_grad()
    def log_likelihood(
        self, sequences: Any, x: Any = None, *, missing: Missing = "auto", samples: int = 200, seed: int = 0
    ) -> Any:
        """The natural logarithm of the probability, or of the density, of each sequence.

        Args:
            sequences: one or many. Symbols: text, or a list or array of names or numbers, with None or −100 for one
                that is missing; a list of texts is many sequences. Values: an array [T, D], with NaN for a value that
                is missing; many are a list of arrays, or an array [N, T, D]. Or `Padded(values, lengths)`.
            x: what they depend on, as in `sample`, one for each sequence.
            missing: what is done about missing elements. `mask`: the model reads a mark, as it was trained. `sum`: sum
                over all symbols that may be there. `sample`: an unbiased estimate of the same by `samples` particles.
                `auto` is `mask` for a model that was trained with missing elements; otherwise `sum` for at most 4096
                fillings of a sequence, else `sample`.
            samples: particles per sequence.
            seed: of their random numbers.

        Returns:
            [N] of float64; one number for one sequence; a tensor for `Padded`.
        """
        checks.one_of("missing", missing, get_args(Missing))
        checks.integer("samples", samples, minimum=1)
        draw, passed = Draw(generator=self._random(seed)), Passed(self)
        y, single = passed.sequences(sequences)
        with self.evaluating():
            total = torch.cat(
                [log_likelihood(self.decoder, *batch, missing, samples, draw) for batch in passed.batches(y, x)]
            )
        if isinstance(sequences, Padded):
            return total
        return float(total[0]) if single else total.cpu().numpy()

    @torch.no_grad()
    def fill(self, sequences: Any, x: Any = None, *, samples: int = 200, seed: int = 0) -> Any:
        """Draw the missing elements of sequences, given the known ones before and after them.

        The draw is exact for symbols if a sequence has at most 4096 fillings. Otherwise it is one of `samples`
        particles, which becomes exact as their number grows: importance sampling with resampling.

        Args:
            sequences: one or many, as in `log_likelihood`.
            x: what they depend on, as in `sample`, one for each sequence.
            samples: particles per sequence.
            seed: of the random numbers.

        Returns:
            The sequences without gaps, in the form of what `sample` returns; one for one sequence.
        """
        checks.integer("samples", samples, minimum=1)
        draw, passed = Draw(generator=self._random(seed)), Passed(self)
        y, single = passed.sequences(sequences)
        with self.evaluating():
            values = torch.cat([filled(self.decoder, *batch, samples, draw) for batch in passed.batches(y, x)])
        made = Padded(values, y.lengths)
        if isinstance(sequences, Padded):
            return made
        return passed.shown(made)[0] if single else passed.shown(made)

    def free_running_errors(self, sequences: Any, primed: int, x: Any = None) -> np.ndarray:  # [steps]
        """How well the model continues sequences of values by itself, over the steps after the known beginning.

        Args:
            sequences: many, as in `log_likelihood`, with more than `primed` steps each.
            primed: steps that the model reads. Then it reads the means of its own predictions.
            x: what they depend on, as in `sample`, one for each sequence.

        Returns:
            The mean squared error 1, 2, … steps ahead, in units of the variance of the training data. Values that are
            missing do not count.
        """
        if not self.decoder.elements.values:
            checks.fail("sequences", "be values for free-running errors", "symbols")
        y, _ = Passed(self).sequences(sequences)
        checks.integer("primed", primed, minimum=1, maximum=int(y.lengths.min()) - 1)
        begun = Padded(y.values[:, :primed], torch.full_like(y.lengths, primed))
        lengths = None if self.depends == "sequence" else y.lengths.tolist()
        count = 1 if x is not None else len(y.values)
        made = self.sample(x, count, start=begun, lengths=lengths, mean=True).values
        columns = self.decoder.elements.values
        error = ((made - y.values)[:, primed:, :columns] / self.decoder.head.scale).square().cpu().numpy()
        error[(torch.arange(primed, made.shape[1]) >= y.lengths[:, None]).numpy()] = np.nan
        return np.nanmean(error, axis=(0, 2))

    def _random(self, seed: int) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(checks.seed("seed", seed))

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.decoder.head.linear.weight.device
