"""DecoderModel: what all models with a decoder share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.models.decoder import Conditions, Decoder
from autapse.models.feeding import Feeding, Teacher
from autapse.models.model import Model
from autapse.models.padding import Padded


class DecoderModel(Model):
    """The base of models that write sequences with a decoder; not for direct use."""

    feeds_back: ClassVar[bool] = True
    decoder: Decoder
    separator: str = " "
    """Text between two symbols that are written; empty for characters."""
    columns: tuple[str, ...] = ()
    """Names of the columns of values that are written; empty if they have no names."""
    words: tuple[tuple[str, ...], ...] = ()
    """The words of each word column that is read; empty if they have no names."""

    def __init__(self, feeding: Feeding | None = None) -> None:
        super().__init__()
        self.feeding = feeding or Teacher()
        self.progress = 0.0  # the share of the training that is done

    @abstractmethod
    def given(self, x: Any, lengths: Any = None) -> Conditions:
        """What the sequences depend on."""

    def layers(self) -> list[Recurrent]:
        return [self.decoder.layer]

    def set_progress(self, share: float) -> None:
        self.progress = share

    def forward(self, x: Tensor | None = None, lengths: Any = None, targets: Any = None) -> Tensor:  # [B, T]
        """The log-likelihood of each element of the targets; 0 after the end. In training mode with the feeding.

        Args:
            x: what the sequences depend on, [B, T, D]; None for nothing.
            lengths: [B], the lengths of x, if they differ.
            targets: the sequences, `Padded(values, lengths)`.

        Returns:
            [B, T], or with an end symbol [B, T + 1].
        """
        return self.likelihood(self.given(x, lengths), targets)

    def likelihood(self, given: Conditions, targets: Any) -> Tensor:  # [B, T]
        """The log-likelihood of each element of the targets, without the gradient of unsolved sequences.

        Args:
            given: what the sequences depend on.
            targets: the sequences, `Padded(values, lengths)`.
        """
        if not isinstance(targets, Padded):
            checks.fail("targets", "be Padded(values, lengths)", type(targets).__name__, kind=checks.KindError)
        feeding = self.feeding if self.training else Teacher()
        return self._masked(feeding.log_likelihood(self.decoder, targets, given, self.progress))

    def carry(self, x: Tensor, lengths: Any = None, state: Any = None, targets: Any = None) -> tuple[Any, Any]:
        return self(x, lengths, targets), None
