"""What a model reads where a value is missing."""

from typing import Literal

Missing = Literal["mask", "forward", "mean", "error"]
"""The mean of the channel with a mark as a second input, the last value before, the mean alone, or none: an error."""
