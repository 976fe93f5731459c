"""What is measured, and with which sizes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

RTOL = 1e-4  # relative residual of all counts
BATCH = 20  # sequences, as in the paper
DIMENSIONS = 8


@dataclass(frozen=True)
class ImplicitSettings:
    """Sizes of the measurement."""

    hidden: tuple[int, ...] = (64, 200)
    phases: tuple[int, ...] = (0, 100, 500, 2000)
    """Training steps after which weights are measured: initial, early, middle, trained."""
    rate: float = 1e-3
    seed: int = 0
    bias: float = 0.5
    batches: int = 10
    """Batches of test walks for the counts."""
    lengths: tuple[int, ...] = (10, 20, 40, 100, 200)
    """Lengths n for the growth with n."""
    rounds: int = 5
    """Rounds in which each network takes a training step."""

    @classmethod
    def quick(cls) -> ImplicitSettings:
        return cls(hidden=(16,), phases=(0, 5), batches=1, lengths=(5, 10), rounds=1)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"rtol": RTOL, "batch": BATCH, "dimensions": DIMENSIONS}
