"""Model: what training needs of any model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autapse.layers.recurrent import Recurrent
from autapse.models.baseline import RunningBaseline
from autapse.unfold.warm_start import Solutions

Batches = Callable[[], Iterable[Any]]  # batches with `inputs` and `targets`, from the beginning at each call


class Model(nn.Module):
    """The base of all models: recurrent layers inside, and what the training asks of them. Not for direct use.

    >>> isinstance(autapse.models.Classifier("gru", 3, 2), autapse.models.Model)
    True
    """

    carries: ClassVar[bool] = False
    """Whether `forward` takes and returns states, to read a long sequence in pieces."""
    feeds_back: ClassVar[bool] = False
    """Whether outputs are fed back. `forward` then takes the targets too: in training they are fed back instead."""

    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of the outputs; empty if they have no names."""
    channels: tuple[str, ...] = ()
    """Names of the input channels; empty if they have no names."""

    def __init__(self) -> None:
        super().__init__()
        self.baseline: RunningBaseline | None = None  # for layers that draw random numbers with trained probabilities

    @abstractmethod
    def layers(self) -> list[Recurrent]:
        """The recurrent layers."""

    def carry(self, x: Tensor, lengths: Any = None, state: Any = None, targets: Any = None) -> tuple[Any, Any]:
        """The output for a score, and the final state.

        Args:
            x: the input, [B, T, D].
            lengths: [B], the length of each sequence, if they differ.
            state: the state to start from, for models that read a long sequence in pieces.
            targets: the targets, for models whose outputs are fed back.

        Returns:
            The output, and the final state; the state is None for models that read whole sequences.
        """
        return self(x, lengths), None

    @property
    def members(self) -> list[Any]:
        """The models that answer together; by default this one alone."""
        return [self]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let each of several models that answer together answer alone for a while."""
        yield

    def apart(self, output: Any) -> list[Any]:
        """What each of several models that answer together put out in training; by default there is one.

        Args:
            output: what `forward` returned in training mode.

        Returns:
            One output per model. The loss is the mean of their losses.
        """
        return [output]

    def start_from(self, train: Batches, validation: Batches) -> float | None:
        """Compute initial weights from the training data, before the first training step; by default none.

        Args:
            train: a function that returns the training batches.
            validation: the same for the validation batches; there may be none.

        Returns:
            None; or, if the model is good already, by how much training must lower the validation loss to be worth it.
            Infinity: all weights that can learn are solved, so that there is nothing to train.
        """
        return None

    def calibrate(self, weights: dict[str, Tensor], validation: Batches) -> None:
        """Change weights that are to be kept, by means of the validation data; by default nothing.

        Args:
            weights: a copy of the state dict of this model.
            validation: a function that returns the validation batches; there may be none.
        """

    def set_progress(self, share: float) -> None:
        """Called before each training step with the share of the training that is done; for settings that follow it."""

    def surrogate(self, losses: Tensor, counts: Tensor, draws: Sequence[Tensor]) -> Tensor:
        """What the random choices of the layers add to the loss, for the gradient of their probabilities.

        Args:
            losses: the loss of each sequence, a sum over its targets, [B].
            counts: the number of targets of each sequence, [B].
            draws: log-probabilities of what was drawn, from `DRAWS.noted`, [B] each.
        """
        log_probability = torch.stack(list(draws)).sum(0)
        assert self.baseline is not None, "only layers with draws note them"
        value: Tensor = self.baseline(losses, counts.to(losses), log_probability)
        return value

    @property
    def depends_on_position(self) -> bool:
        """Whether a step depends on its position in the sequence."""
        return any(layer.depends_on_position for layer in self.layers())

    @property
    def solutions(self) -> Solutions | None:
        """The solutions that a layer keeps by key, or None; `keys` name the sequences of a batch."""
        return None

    @staticmethod
    def kept(layer: Recurrent) -> Solutions | None:
        """The solutions that a layer keeps by key, or None if it keeps none."""
        solutions = getattr(layer.strategy, "solutions", None)
        return solutions if solutions is not None and solutions.limit else None

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def converged(self) -> Tensor | None:  # [B]
        """Which sequences of the last call were solved; None if all were, or if no layer solves equations."""
        solved = [each for layer in self.layers() if (each := layer.converged()) is not None]
        return torch.stack(solved).all(0) if solved else None

    def evaluations(self) -> float | None:
        """Evaluations of the last call per sequence and layer; None for layers that solve no equations."""
        reports = [report for layer in self.layers() for report in layer.reports]
        return float(torch.stack([report.evaluations for report in reports]).mean()) if reports else None

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation mode for a while; then the mode is what it was."""
        was_training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(was_training)

    @staticmethod
    def read(layer: Recurrent, x: Tensor, *args: Any, **keywords: Any) -> tuple[Any, Any]:  # [B, T, D] -> [B, T, H]
        """A layer's output and final state, batch first for any layer."""
        if layer.batch_first:
            output, h_n = layer(x, *args, **keywords)
            return output, h_n
        output, h_n = layer(x.transpose(0, 1), *args, **keywords)
        return output.transpose(0, 1), h_n

    def _masked(self, output: Tensor) -> Tensor:  # [B, ...]
        """The output without the gradient of unsolved sequences: no loss may learn from wrong states."""
        converged = self.converged()
        if converged is None:
            return output
        keep = converged.to(output.device).view(-1, *[1] * (output.dim() - 1))
        return torch.where(keep, output, output.detach())
