"""SequenceModel: embedded or standardised inputs, a recurrent layer, and a linear head."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import NetworkClass, make_layer
from autapse.models.initialise import initialise
from autapse.models.inputs import Inputs
from autapse.unfold.warm_start import Solutions

Network = str | NetworkClass | Recurrent
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
    device: where the parameters are.
    dtype: their type.

The model is called as `model(x, lengths)`: `x` is [B, T, input_size], and `lengths` [B] has the length of each sequence
if they differ. `keys` name the sequences of the batch for an implicit layer with a cache."""


class SequenceModel(nn.Module):
    """The base of all models; not for direct use."""

    carries: ClassVar[bool] = False
    """Whether `forward` takes and returns states, to read a long sequence in pieces."""

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
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.inputs = Inputs(input_size, vocabularies, embedding_size, mean, scale, input_dropout, input_noise, **where)
        stack = {"num_layers": num_layers, "dropout": dropout, "bidirectional": bidirectional}
        if isinstance(cell, Recurrent):
            given = {"hidden_size": hidden_size if hidden_size != UNITS else None, **stack}
            self._take_layer(cell, {name: value for name, value in given.items() if value})
        else:
            if num_layers is not None:
                checks.integer("num_layers", num_layers, minimum=1, maximum=MOST_LAYERS)
            sizes = hidden_size if isinstance(hidden_size, int) else list(hidden_size)
            self._make_layers(lambda size: make_layer(cell, size, sizes, batch_first=True, **stack, **where))
        self.output_dropout = nn.Dropout(output_dropout)
        output_size = checks.integer("output_size", output_size, minimum=1)
        self.head = nn.Linear(self.layer.output_size, output_size, **where)
        for layer in self.layers():
            initialise(layer, initialisation)

    def _make_layers(self, make: Callable[[int], Recurrent]) -> None:
        """Make the recurrent layers with a function of the input size. The head reads the output of `layer`."""
        self.layer = make(self.inputs.output_size)

    def _take_layer(self, layer: Recurrent, given: dict[str, Any]) -> None:
        """Use a given layer."""
        if given:
            checks.fail(", ".join(given), "be omitted if cell is a layer, which has its own", *given.values())
        if layer.input_size != self.inputs.output_size:
            rule = f"have input_size {self.inputs.output_size}, the number of features after the model's inputs"
            checks.fail("cell", rule, layer.input_size)
        self.layer = layer

    def layers(self) -> list[Recurrent]:
        """The recurrent layers."""
        return [self.layer]

    def at_end(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, output_size]
        """The head on the last layer's output at the last step of each sequence."""
        return self._from_end(self._run(x, lengths, keys)[1])

    def at_each(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, T, output_size]
        """The head on the last layer's output at every step."""
        return self._masked(self.head(self.output_dropout(self._run(x, lengths, keys)[0])))

    def carry(self, x: Tensor, lengths: Any = None, state: Any = None) -> tuple[Tensor, Any]:
        """The output and the final state; the state is None for models that read whole sequences."""
        return self(x, lengths), None

    @property
    def depends_on_position(self) -> bool:
        """Whether a step depends on its position in the sequence."""
        return any(layer.depends_on_position for layer in self.layers())

    @property
    def solutions(self) -> Solutions | None:
        """The solutions that the layer keeps by key, or None; `keys` name the sequences of a batch."""
        solutions = getattr(self.layer.strategy, "solutions", None)
        return solutions if solutions is not None and solutions.limit else None

    def converged(self) -> Tensor | None:  # [B]
        """Which sequences of the last call were solved; None if all were, or if the layer solves no equations."""
        solved = [each for layer in self.layers() if (each := layer.converged()) is not None]
        return torch.stack(solved).all(0) if solved else None

    def evaluations(self) -> float | None:
        """Evaluations of the last call per sequence and layer; None for layers that solve no equations."""
        reports = [report for layer in self.layers() for report in layer.reports]
        return float(torch.stack([report.evaluations for report in reports]).mean()) if reports else None

    def _run(self, x: Tensor, lengths: Any, keys: Any) -> tuple[Any, Any]:
        named = {} if keys is None else {"keys": keys}
        return self.read(self.layer, self.inputs(x), lengths=lengths, **named)

    @staticmethod
    def read(layer: Recurrent, x: Tensor, *args: Any, **keywords: Any) -> tuple[Any, Any]:  # [B, T, D] -> [B, T, H]
        """A layer's output and final state, batch first for any layer."""
        if layer.batch_first:
            output, h_n = layer(x, *args, **keywords)
            return output, h_n
        output, h_n = layer(x.transpose(0, 1), *args, **keywords)
        return output.transpose(0, 1), h_n

    def _from_end(self, h_n: Any) -> Tensor:  # [B, output_size]
        return self._masked(self.head(self.output_dropout(self.layer.final_output(h_n))))

    def _masked(self, output: Tensor) -> Tensor:  # [B, ...]
        """The output without the gradient of unsolved sequences: no loss may learn from wrong states."""
        converged = self.converged()
        if converged is None:
            return output
        keep = converged.to(output.device).view(-1, *[1] * (output.dim() - 1))
        return torch.where(keep, output, output.detach())

    def predict(self, x: Tensor, lengths: Any = None) -> Tensor:
        """The prediction for each sequence, in evaluation mode.

        Args:
            x: [B, T, input_size].
            lengths: [B], if sequences differ in length.
        """
        raise NotImplementedError

    @torch.no_grad()
    def _predicted(self, x: Tensor, lengths: Any) -> Tensor:
        was_training = self.training
        try:
            return self.eval().carry(x, lengths)[0]
        finally:
            self.train(was_training)
