"""Pixels in an order of one's choice: what all tasks that show images pixel by pixel share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autapse import checks


@dataclass(frozen=True, kw_only=True)
class Permuted:
    """The options; a task takes them in by deriving from this first."""

    permuted: bool = False
    """Show the pixels in a random order, the same for all images."""
    permutation_seed: int = 92_916
    """Chooses that order."""

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # the task's, which comes after this one
        checks.boolean("permuted", self.permuted)
        checks.seed("permutation_seed", self.permutation_seed)
        if not self.permuted and self.permutation_seed != Permuted.permutation_seed:
            checks.fail("permutation_seed", "go with permuted=True", self.permutation_seed)

    def order(self, pixels: int) -> np.ndarray:  # [pixels]
        """Which pixel comes when."""
        order = np.arange(pixels)
        return np.random.default_rng(self.permutation_seed).permutation(order) if self.permuted else order
