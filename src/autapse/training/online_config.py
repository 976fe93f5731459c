"""The settings of a run that learns online."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from autapse import checks
from autapse.records import Record

Optimizer = Literal["sgd", "adam"]


@dataclass(frozen=True, kw_only=True)
class OnlineConfig(Record):
    """The settings of a run that learns online. Every field is a keyword argument.

    Example:
        >>> OnlineConfig(cell="rnn", steps=500).hidden_size
        (16,)
    """

    cell: str = "gru"
    """The network, with options: gru, lstm, ernn:inner_steps=2, ..."""
    hidden_size: tuple[int, ...] = (16,)
    """Units of each layer."""
    steps: int = 20_000
    """Values of the stream; the weights are updated after each of them."""
    period: int = 2_000
    """Steps between two changes of the stream."""
    learn: int | None = None
    """Stop learning after this many steps, and only predict; by default learn to the end."""
    optimizer: Optimizer = "adam"
    """The optimizer."""
    learning_rate: float = 0.003
    """Learning rate."""
    clip_norm: float = 1.0
    """Scale the gradient of a step down to this norm if its norm is larger."""
    record_every: int = 500
    """Steps over which errors are averaged, and after which a checkpoint is written."""
    seed: int = 0
    """Seed of the stream and of the initial weights."""

    def __post_init__(self) -> None:
        for name in ("steps", "period", "record_every"):
            checks.integer(name, getattr(self, name), minimum=1)
        if self.learn is not None:
            checks.integer("learn", self.learn, minimum=0, maximum=self.steps)
        for name in ("learning_rate", "clip_norm"):
            checks.number(name, getattr(self, name), above=0.0)
        checks.one_of("optimizer", self.optimizer, get_args(Optimizer))
        checks.seed("seed", self.seed)
