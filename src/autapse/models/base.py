"""SequenceModel: embedded or scaled inputs, a front end, a recurrent layer, a readout, and a linear head."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.noise import Dropout
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import NetworkClass, make_layer
from autapse.models.baseline import RunningBaseline
from autapse.models.batch_norm import BatchNorm
from autapse.models.front import NONE, make_front
from autapse.models.initialise import initialise
from autapse.models.inputs import Inputs, check_input
from autapse.models.model import Model
from autapse.models.padding import inside, on_rows, ragged_lengths, rows_inside
from autapse.models.readout import Readout
from autapse.models.series import GAPS, Expected, read_given
from autapse.models.stream import ModelStream
from autapse.unfold.warm_start import Solutions

Network = str | NetworkClass | Recurrent
LAST = "last"  # the default readout
UNITS = 64  # default size of a layer
MOST_LAYERS = 1000  # a malicious file must not build a network for hours


ARGUMENTS = """Args:
    cell: the network: a name with options (`"gru"`, `"ernn:inner_steps=2"`), a cell class, or a layer. A layer keeps
        its own sizes.
    input_size: columns of the input: first those with words, then those with features.
    output_size: outputs of the head.
    hidden_size: units, one size for all layers or one per layer.
    num_layers: number of layers; by default one per hidden size.
    dropout: probability of dropping an output between layers.
    bidirectional: read sequences in both directions.
    vocabularies: number of words of each leading column of the input that has words.
    embedding_size: size of the word vectors, one per vocabulary; the last one is used for the rest.
    mean: one value per column of features, which is subtracted.
    scale: one value per column of features, by which it is then divided.
    input_dropout: probability of dropping a feature that the first layer reads.
    output_dropout: probability of dropping a feature that the head reads.
    input_noise: standard deviation of the noise that training adds to the input of the first layer.
    initialisation: other initial weights of the layer; see `autapse.models.initialise`.
    front: what comes before the layer: `none`; `frames:size=4`, where the features of 4 steps become one step; or
        `conv` with options, as in `conv:channels=64:kernels=7,5,3:steps=150`: convolutions, then pooling.
    readout: what the head reads: the layer's output at the `last` step, its `mean` or `max` over the steps, both
        (`mean-max`), or `attention`, a weighted mean with one learned vector.
    readout_front: also read the output of the front end in this way.
    output_norm: batch normalisation of what the head reads.
    streaming: make everything causal, so that `stream` can read one step at a time.
    length: number of steps of a typical sequence, by which `conv` chooses its pooling; 0 for no pooling.
    center: the channels with a `spread` above 0 become arcsinh((x − center) / spread) before anything else.
    spread: see center.
    level_mean: not empty: each series is standardised by its own mean and deviation, and the log of the deviation, less
        `level_mean` and divided by `level_scale`, is one more input per channel.
    level_scale: see level_mean.
    difference_scale: not empty: the change since the step before, divided by this, is one more input per channel.
    missing: what is read where a value is NaN: the `mean`; the last value before (`forward`); the mean, and a second
        input that is 1 there (`mask`); with `error` the caller must not pass NaN.
    device: where the parameters are.
    dtype: their type.

The model is called as `model(x, lengths)`: `x` is [B, T, input_size], and `lengths` [B] has the length of each sequence
if they differ. `keys` name the sequences of the batch for an implicit layer with a cache."""


class SequenceModel(Model):
    """The base of models that read a sequence and say something about it; not for direct use."""

    every_step: ClassVar[bool] = False
    """Whether there is an output at every step."""
    has_classes: ClassVar[bool] = True
    """Whether the outputs are logits of classes, rather than values."""
    plain: ClassVar[bool] = False
    """Whether the model has no front end, and the head reads the layer's output as it is."""
    joins: ClassVar[bool] = False
    """Whether several models of this kind can answer together."""
    _alone = False  # whether those that joined this one are left out

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The arguments are the same for all models, so they are explained once."""
        super().__init_subclass__(**keywords)
        if cls.__doc__ and "Args:" not in cls.__doc__:
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\n{ARGUMENTS}"

    def __init__(
        self,
        cell: Network,
        input_size: int,
        output_size: int,
        hidden_size: int | Sequence[int] = UNITS,
        num_layers: int | None = None,
        dropout: float = 0.0,
        bidirectional: bool = False,
        vocabularies: Sequence[int] = (),
        embedding_size: Sequence[int] = (),
        mean: Sequence[float] = (),
        scale: Sequence[float] = (),
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        input_noise: float = 0.0,
        initialisation: str = "default",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        front: str = NONE,
        readout: str = LAST,
        readout_front: bool = False,
        output_norm: bool = False,
        streaming: bool = False,
        length: int = 0,
        center: Sequence[float] = (),
        spread: Sequence[float] = (),
        level_mean: Sequence[float] = (),
        level_scale: Sequence[float] = (),
        difference_scale: Sequence[float] = (),
        missing: str = "error",
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self._check_plain(front=front != NONE and front, readout=readout != LAST and readout, output_norm=output_norm)
        self.streaming = checks.boolean("streaming", streaming)
        self.others = nn.ModuleList()
        self.inputs = Inputs(
            input_size,
            vocabularies,
            embedding_size,
            mean,
            scale,
            input_dropout,
            input_noise,
            **where,
            center=center,
            spread=spread,
            level_mean=level_mean,
            level_scale=level_scale,
            difference_scale=difference_scale,
            missing=missing,
        )
        self.front = make_front(front, self.inputs.output_size, length, streaming, self.every_step, **where)
        stack = {"num_layers": num_layers, "dropout": dropout, "bidirectional": bidirectional}
        if isinstance(cell, Recurrent):
            given = {"hidden_size": hidden_size if hidden_size != UNITS else None, **stack}
            self._take_layer(cell, {name: value for name, value in given.items() if value})
        else:
            if num_layers is not None:
                checks.integer("num_layers", num_layers, minimum=1, maximum=MOST_LAYERS)
            sizes = hidden_size if isinstance(hidden_size, int) else list(hidden_size)
            self._make_layers(lambda size: make_layer(cell, size, sizes, batch_first=True, **stack, **where))
        self._check_causal()
        self.readout = None if readout == LAST else Readout(readout, self.layer.output_size, **where)
        self.front_readout = self._make_front_readout(readout, readout_front, where)
        read = self.readout.output_size if self.readout else self.layer.output_size
        read += self.front_readout.output_size if self.front_readout else 0
        self.output_norm = BatchNorm(read, **where) if checks.boolean("output_norm", output_norm) else None
        self.output_dropout = Dropout(output_dropout)
        output_size = checks.integer("output_size", output_size, minimum=1)
        self.head = nn.Linear(read, output_size, **where)
        for layer in self.layers():
            initialise(layer, initialisation)
        if any(layer.learns_draws for layer in self.layers()):
            self.baseline = RunningBaseline(**where)

    def _check_plain(self, **settings: Any) -> None:
        """Raise an error for settings that this kind of model does not have."""
        name = type(self).__name__
        for setting, value in settings.items():
            if value and self.plain:
                checks.fail(setting, f"keep its default for a {name}", value)
            if value and self.every_step and setting == "readout":
                rule = f"be {LAST} for a {name}, which has an output at every step"
                checks.fail(setting, rule, value)

    def _check_causal(self) -> None:
        """With `streaming`, no output may depend on later steps."""
        if self.streaming and any(layer.bidirectional for layer in self.layers()):
            checks.fail("bidirectional", "be False with streaming", True)
        if self.streaming and self.inputs.by_series:
            remedy = 'Use scaling="channel" (--scaling channel), or robust.'
            checks.fail("scaling", "not need the whole series with streaming", "series", remedy)
        if self.streaming and any(layer.looks_ahead for layer in self.layers()):
            checks.fail("cell", "not look ahead with streaming", self.layer.cell_class.__name__, "Try gru.")

    def _make_front_readout(self, readout: str, wanted: bool, where: dict[str, Any]) -> Readout | None:
        if not checks.boolean("readout_front", wanted):
            return None
        if self.front is None or self.every_step:
            rule = "be False without a front end, or for a model with an output at every step"
            checks.fail("readout_front", rule, wanted)
        return Readout(readout, self.front.output_size, **where)

    @property
    def layer_input_size(self) -> int:
        """Features that the recurrent layer reads."""
        return self.inputs.output_size if self.front is None else self.front.output_size

    def _make_layers(self, make: Callable[[int], Recurrent]) -> None:
        """Make the recurrent layers with a function of the input size. The head reads the output of `layer`."""
        self.layer = make(self.layer_input_size)

    def _take_layer(self, layer: Recurrent, given: dict[str, Any]) -> None:
        """Use a given layer."""
        if given:
            checks.fail(", ".join(given), "be omitted if cell is a layer, which has its own", *given.values())
        if layer.input_size != self.layer_input_size:
            rule = f"have input_size {self.layer_input_size}, the number of features after the model's inputs"
            checks.fail("cell", rule, layer.input_size)
        self.layer = layer

    def layers(self) -> list[Recurrent]:
        """The recurrent layers."""
        return [member.layer for member in self.members]

    # Several models that answer together ----------------------------------------------------------------------------

    @property
    def members(self) -> list[SequenceModel]:
        """The models that answer together: this one, and those that joined it."""
        return [self] if self._alone else [self, *self.others]

    @contextmanager
    def alone(self) -> Iterator[None]:
        self._alone = True
        try:
            yield
        finally:
            self._alone = False

    def join(self, others: Iterable[SequenceModel]) -> Self:
        """Let further models answer together with this one: the mean of their probabilities, or of their values.

        In training, each of them learns by itself.

        Args:
            others: models of the same kind and the same sizes, with initial weights of their own.

        Returns:
            This model. Its parameters are those of all.

        >>> one, two = (autapse.models.Classifier("gru", 3, 2, hidden_size=8) for _ in range(2))
        >>> x = torch.randn(4, 7, 3)
        >>> mean = (one.predict_proba(x) + two.predict_proba(x)) / 2
        >>> bool(torch.allclose(one.join([two]).predict_proba(x), mean))
        True
        """
        self.others = nn.ModuleList(others)
        if self.others and not self.joins:
            checks.fail("members", f"be 1 for a {type(self).__name__}", len(self.members))
        if self.others and any(layer.learns_draws for layer in self.layers()):
            checks.fail("members", "be 1 for a cell that draws random numbers", len(self.members))
        return self

    def together(self, outputs: Sequence[Tensor]) -> Tensor:
        """The output of all members, from that of each. In training they stay apart, [members, ...]."""
        if len(outputs) == 1:
            return outputs[0]
        each = torch.stack(list(outputs))
        if self.training:
            return each
        return each.log_softmax(-1).logsumexp(0) - math.log(len(each)) if self.has_classes else each.mean(0)

    def apart(self, output: Any) -> list[Any]:
        return list(output) if self.others else [output]

    def at_end(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, output_size]
        """The head on what the readout gives for each sequence; by default the output at its last step."""
        return self.together([member._own_at_end(x, lengths, keys) for member in self.members])

    def at_each(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, T, output_size]
        """The head on the last layer's output at every step."""
        return self.together([member._own_at_each(x, lengths, keys) for member in self.members])

    def _own_at_end(self, x: Tensor, lengths: Any, keys: Any) -> Tensor:
        read, lengths, single = self._prepared(x, lengths)
        scores = self._headed(self._read_at_end(read, lengths, keys))
        return scores[0] if single else scores

    def _own_at_each(self, x: Tensor, lengths: Any, keys: Any) -> Tensor:
        read, lengths, single = self._prepared(x, lengths)
        scores = self._headed(self._run(read, lengths, keys)[0], lengths)
        return scores[0] if single else scores

    def features(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, T, D] -> [B, F], or [B, T, F]
        """What the head reads, for each sequence, or for each step if there is an output at every step."""
        read, lengths, _ = self._prepared(x, lengths)
        return self._run(read, lengths, None)[0] if self.every_step else self._read_at_end(read, lengths, None)

    def _read_at_end(self, read: Tensor, lengths: Any, keys: Any) -> Tensor:  # [B, F]
        output, h_n = self._run(read, lengths, keys)
        features = self.layer.final_output(h_n) if self.readout is None else self.readout(output, lengths)
        if self.front_readout is not None:
            features = torch.cat([features, self.front_readout(read, lengths)], dim=-1)
        return features

    @property
    def solutions(self) -> Solutions | None:
        """The solutions that the layer keeps by key, or None; `keys` name the sequences of a batch."""
        return self.kept(self.layer)

    def _prepared(self, x: Tensor, lengths: Any) -> tuple[Tensor, Any, bool]:
        """What the recurrent layer reads, its lengths, and whether x is a single sequence, [T, D]."""
        x = self.inputs(x, lengths)
        single = x.dim() == 2
        x = x[None] if single else x
        return (x, lengths, single) if self.front is None else (*self.front(x, lengths), single)

    def _run(self, x: Tensor, lengths: Any, keys: Any) -> tuple[Any, Any]:
        named = {} if keys is None else {"keys": keys}
        return self.read(self.layer, x, lengths=lengths, **named)

    def _headed(self, features: Tensor, lengths: Any = None) -> Tensor:  # [B, size] or [B, T, size]
        """The head on the features of each sequence, or of each step."""
        if self.output_norm is not None:
            known = ragged_lengths(lengths, features) if features.dim() == 3 else None
            rows = None if known is None else rows_inside(inside(known, features))
            features = on_rows(self.output_norm, features, rows)
        return self._masked(self.head(self.output_dropout(features)))

    def head_of(self, features: Tensor) -> Tensor:  # [B, size] -> [B, output_size]
        """The head on features of some steps, in evaluation mode."""
        return self.head(features if self.output_norm is None else self.output_norm(features))

    def in_unit(self, output: Tensor) -> Tensor:  # [..., output_size]
        """The output of the head in the unit of the targets; for classes unchanged."""
        return output

    # Use of a trained model -----------------------------------------------------------------------------------------

    def predict(self, x: Any, lengths: Any = None) -> Any:
        """The prediction for each sequence, or for each step, in evaluation mode.

        Args:
            x: raw values, as in the training data. One sequence: an array or lists [T, D], or a table (a data frame or
                a mapping) whose columns are matched by name with `channels`. Many: an array [N, T, D], or a list of
                sequences. With one channel also [T] and [N, T]. Or a tensor [B, T, D].
            lengths: [N], if the sequences of an array or tensor have padding.

        Returns:
            The most probable class: its name from `classes`, or its number if it has none; or values. [N], or values
            [N, K]; with one sequence one entry. If there is a prediction at every step, [N, T]; for a list of sequences
            a list. A tensor gives a tensor of numbers.
        """
        if isinstance(x, Tensor):
            return self._decided(self._predicted(x, lengths))
        return self._answer(x, lengths, lambda scores: self.meaning(torch.from_numpy(scores)))

    def predict_proba(self, x: Any, lengths: Any = None) -> Any:
        """The probability of each class for each sequence, or for each step, in evaluation mode.

        Args:
            x: as in `predict`.
            lengths: [N], if the sequences of an array or tensor have padding.

        Returns:
            [N, classes], in the order of `classes`, in the form of what `predict` returns.
        """
        self._check_classes()
        if isinstance(x, Tensor):
            return torch.softmax(self._predicted(x, lengths), dim=-1)
        return self._answer(x, lengths, softmax)

    def stream(self, batch_size: int = 1) -> ModelStream:
        """A `ModelStream`, which reads raw values one step at a time: scores = stream(x_t).

        Args:
            batch_size: number of sequences that are read side by side.

        Returns:
            The stream. Its scores are those of `predict_proba`, or of `predict` for values, on all steps so far.
        """
        return ModelStream(self, batch_size)

    def scores(self, series: Sequence[np.ndarray], batch_size: int = 256) -> list[np.ndarray]:
        """The output of the head for each of many sequences: logits of the classes, or values.

        Args:
            series: arrays [T_n, D] of float32, or of integers for words.
            batch_size: sequences that are computed at a time; those of similar length, to pad little.

        Returns:
            One array per sequence, [K], or [T_n, K] if there is an output at every step.
        """
        order = sorted(range(len(series)), key=lambda n: len(series[n]))
        outputs: list[Any] = [None] * len(series)
        for first in range(0, len(order), batch_size):
            chosen = order[first : first + batch_size]
            rows = [torch.from_numpy(np.ascontiguousarray(series[n])) for n in chosen]
            batch = nn.utils.rnn.pad_sequence(rows, batch_first=True)
            output = self._predicted(batch.to(self.head.weight.device), [len(row) for row in rows]).cpu().numpy()
            for n, one in zip(chosen, output, strict=True):
                outputs[n] = one[: len(series[n])] if self.every_step else one
        return outputs

    @property
    def expected(self) -> Expected:
        """What the model reads, for checks of what people pass."""
        words, gaps = bool(len(self.inputs.tables)), self.inputs.missing != "error"
        double = self.head.weight.dtype == torch.float64
        return Expected(self.columns, self.channels, words, gaps, "float64" if double else "float32")

    @property
    def columns(self) -> int:
        """Columns of the input."""
        return self.inputs.input_size

    def _answer(self, x: Any, lengths: Any, meaning: Callable[[np.ndarray], Any]) -> Any:
        """The meaning of the scores, in the form of x: one, an array, or a list if there is an output at every step."""
        if x is None or isinstance(x, str | bytes | int | float):
            rule = f"be a tensor of shape (B, T, {self.columns})"
            checks.fail("input", rule, type(x).__name__, "An array, a list or a table is fine too.", checks.KindError)
        given = read_given(x, lengths, self.expected)
        answers = [np.asarray(meaning(one)) for one in self.scores(given.series)]
        if given.form == "single":
            return answers[0][()]
        if not self.every_step:
            return np.stack(answers)
        return answers if given.form == "list" else self._padded(answers)

    @staticmethod
    def _padded(answers: list[np.ndarray]) -> np.ndarray:  # [N, T, ...]
        """Answers at every step as one array. After the end of a sequence the last one is repeated."""
        longest = max(map(len, answers))
        return np.stack([one[np.minimum(np.arange(longest), len(one) - 1)] for one in answers])

    def meaning(self, scores: Tensor) -> Any:  # [..., K] -> [...]
        """The most probable class, by name if classes have names; or the values."""
        answer = self._decided(scores).numpy()
        return np.array(self.classes)[answer] if self.classes and self.has_classes else answer

    def _decided(self, scores: Tensor) -> Tensor:
        """The most probable class, or the values."""
        return scores.argmax(-1) if self.has_classes else scores

    def _check_classes(self) -> None:
        if not self.has_classes:
            raise checks.InputError(f"A {type(self).__name__} has values, not probabilities of classes. Use predict.")

    @torch.no_grad()
    def _predicted(self, x: Tensor, lengths: Any) -> Tensor:
        check_input(x, self.columns)
        if x.is_floating_point():
            x = x.to(self.head.weight.dtype)
            self._check_values(x, lengths)
        was_training = self.training
        try:
            return self.eval().carry(x, lengths)[0]
        finally:
            self.train(was_training)

    def _check_values(self, x: Tensor, lengths: Any) -> None:
        """Values that are not finite would give a class that means nothing."""
        good = torch.isfinite(x)
        if self.inputs.missing != "error":
            good |= torch.isnan(x)
        if bool(good.all()):
            return
        known = ragged_lengths(lengths, x) if x.dim() == 3 else None
        bad = ~good if known is None else ~good & inside(known, x)
        if bool(bad.any()):
            checks.fail("input", "have finite values", f"{int(bad.sum())} that are NaN or infinite", GAPS)


def as_reader(model: Model) -> SequenceModel:
    """A model that reads sequences and predicts. One that writes sequences, or reads trees or images, is an error."""
    if isinstance(model, SequenceModel):
        return model
    remedy = " Use `autapse sample`, or model.sample." if hasattr(model, "sample") else ""
    raise checks.InputError(
        f"This needs a model that reads sequences and predicts; got a {type(model).__name__}.{remedy}"
    )


def softmax(scores: np.ndarray) -> np.ndarray:  # [..., classes]
    """Probabilities, in float64."""
    probabilities: np.ndarray = torch.from_numpy(scores).double().softmax(-1).numpy()
    return probabilities
