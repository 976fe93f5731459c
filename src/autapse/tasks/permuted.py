"""The order of the pixels: options of all tasks that show images pixel by pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autapse import checks


@dataclass(frozen=True, kw_only=True)
class Permuted:
    """Options for the order of the pixels. A task must list this base class first.

    Args:
        permuted: Show the pixels in a random order, the same for all images.
        permutation_seed: Chooses that order.
    """

    permuted: bool = False
    permutation_seed: int = 92_916

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # of the task, the next base class
        checks.boolean("permuted", self.permuted)
        checks.seed("permutation_seed", self.permutation_seed)
        if not self.permuted and self.permutation_seed != Permuted.permutation_seed:
            checks.fail("permutation_seed", "be used with permuted=True", self.permutation_seed)

    def order(self, pixels: int) -> np.ndarray:  # [pixels]
        """The index of the pixel at each step."""
        order = np.arange(pixels)
        return np.random.default_rng(self.permutation_seed).permutation(order) if self.permuted else order
