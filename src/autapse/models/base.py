"""SequenceModel: inputs made readable, a recurrent layer by name, and a linear head."""

from __future__ import annotations

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
UNITS = 64  # of a layer whose size is not given
MOST_LAYERS = 1000  # a number from a stranger's file must not build a network for hours


class SequenceModel(nn.Module):
    """What all models share; not for direct use.

    `cell` is a network's name with options (`"gru"`, `"ernn:inner_steps=2"`), a cell class, or a layer that is made
    already; a layer keeps its own sizes. `hidden_size` is one size, or one per layer.
    `vocabularies` has the number of words of each leading column of the input that has words instead of numbers, and
    `embedding_size` the size of their vectors, the last one for all that follow. `mean` and `scale`, one per column of
    numbers, standardise those. `dropout` acts between layers, `input_dropout` and `output_dropout` around them;
    `input_noise` is the deviation of the noise that training adds to what the first layer reads. `initialisation` draws
    the layer's parameters in another way, see `autapse.models.initialise`.
    """

    carries: ClassVar[bool] = False
    """Whether `forward` takes and returns states, so that a long sequence can be read in pieces."""

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
        """Make the recurrent layers for given sizes of input; `layer` is the one whose output the head reads."""
        self.layer = make(self.inputs.output_size)

    def _take_layer(self, layer: Recurrent, given: dict[str, Any]) -> None:
        """Use a layer that is made already."""
        if given:
            checks.fail(", ".join(given), "be left out with a layer, which has its own", *given.values())
        if layer.input_size != self.inputs.output_size:
            rule = f"read {self.inputs.output_size} features per step, as many as the model's inputs have"
            checks.fail("cell", rule, layer.input_size)
        self.layer = layer

    def layers(self) -> list[Recurrent]:
        """The recurrent layers."""
        return [self.layer]

    def at_end(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, output_size]
        """The head on the last layer at each sequence's own end."""
        return self._from_end(self._run(x, lengths, keys)[1])

    def at_each(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, D] -> [B, T, output_size]
        """The head on the last layer at every position."""
        return self._masked(self.head(self.output_dropout(self._run(x, lengths, keys)[0])))

    def carry(self, x: Tensor, lengths: Any = None, state: Any = None) -> tuple[Tensor, Any]:
        """The output, and the state to go on from; models that read whole sequences have none."""
        return self(x, lengths), None

    @property
    def depends_on_position(self) -> bool:
        """Whether a coefficient differs from step to step, so that it matters where a sequence begins."""
        return any(layer.depends_on_position for layer in self.layers())

    @property
    def solutions(self) -> Solutions | None:
        """The solutions that the layer keeps by key, where it keeps any; `keys` then name the sequences of a batch."""
        solutions = getattr(self.layer.solving, "solutions", None)
        return solutions if solutions is not None and solutions.limit else None

    def converged(self) -> Tensor | None:  # [B]
        """Which sequences of the last call were solved; None where all were, or nothing is to be solved."""
        found = [solved for layer in self.layers() if (solved := layer.converged()) is not None]
        return torch.stack(found).all(0) if found else None

    def evaluations(self) -> float | None:
        """What the last call cost, for layers that solve equations: evaluations per sequence and layer."""
        reports = [report for layer in self.layers() for report in layer.reports]
        return float(torch.stack([report.evaluations for report in reports]).mean()) if reports else None

    def _run(self, x: Tensor, lengths: Any, keys: Any) -> tuple[Any, Any]:
        named = {} if keys is None else {"keys": keys}
        return self.read(self.layer, self.inputs(x), lengths=lengths, **named)

    @staticmethod
    def read(layer: Recurrent, x: Tensor, *args: Any, **keywords: Any) -> tuple[Any, Any]:  # [B, T, D] -> [B, T, H]
        """A layer's output and last state; a layer that has time first gets it so."""
        if layer.batch_first:
            output, h_n = layer(x, *args, **keywords)
            return output, h_n
        output, h_n = layer(x.transpose(0, 1), *args, **keywords)
        return output.transpose(0, 1), h_n

    def _from_end(self, h_n: Any) -> Tensor:  # [B, output_size]
        return self._masked(self.head(self.output_dropout(self.layer.final_output(h_n))))

    def _masked(self, output: Tensor) -> Tensor:  # [B, ...]
        """What a layer could not solve is left out of the gradient: no loss may learn from wrong states."""
        converged = self.converged()
        if converged is None:
            return output
        keep = converged.to(output.device).view(-1, *[1] * (output.dim() - 1))
        return torch.where(keep, output, output.detach())

    def predict(self, x: Tensor, lengths: Any = None) -> Tensor:
        """What the model says of each sequence, in evaluation mode."""
        raise NotImplementedError

    @torch.no_grad()
    def _predicted(self, x: Tensor, lengths: Any) -> Tensor:
        was_training = self.training
        try:
            return self.eval().carry(x, lengths)[0]
        finally:
            self.train(was_training)
