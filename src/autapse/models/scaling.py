"""Raw values of channels as a network can read them: scaled, without gaps, with what scaling removes as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.data.missing import Missing
from autapse.models.padding import inside, ragged_lengths

SMALLEST_LEVEL = -10.0  # of a constant series, whose log deviation is −∞
ROUNDING = 1e-6  # deviations below this share of the mean are rounding errors of a constant series


class ChannelScaling(nn.Module):
    """Channels [..., T, D] become inputs [..., T, output_size].

    Every channel is squashed by arcsinh if its `spread` is above 0, then standardised: by `mean` and `scale`, or by the
    mean and the deviation of each series. Then gaps are filled. The inputs are, side by side: the scaled channels,
    their changes since the step before, marks of the gaps, and the levels of the series.

    Args:
        size: channels.
        mean: one value per channel, which is subtracted; empty for 0.
        scale: one value per channel, by which it is then divided; empty for 1.
        center: arcsinh((x − center) / spread) replaces x first; empty for no channel.
        spread: see center; 0 for channels that stay as they are.
        level_mean: not empty: standardise each series by its own mean and deviation. Its level, the log of the
            deviation, is then one more input per channel, less `level_mean` and divided by `level_scale`.
        level_scale: see level_mean.
        difference_scale: not empty: the change since the step before, divided by this, is one more input per channel.
        missing: what is read where a value is NaN: the mean; the last value before (`forward`); the mean and a second
            input that is 1 there (`mask`); with `error` NaN stays NaN.
        device: where the values are.
        dtype: their type.

    >>> scaling = ChannelScaling(1, mean=[2.0], scale=[2.0], difference_scale=[0.5], missing="mask")
    >>> scaling(torch.tensor([[4.0], [8.0], [torch.nan]])).tolist()
    [[1.0, 0.0, 0.0], [3.0, 4.0, 0.0], [0.0, -6.0, 1.0]]
    """

    mean: Tensor | None
    scale: Tensor | None
    center: Tensor | None
    spread: Tensor | None
    level_mean: Tensor | None
    level_scale: Tensor | None
    difference_scale: Tensor | None

    def __init__(
        self,
        size: int,
        mean: Sequence[float] = (),
        scale: Sequence[float] = (),
        center: Sequence[float] = (),
        spread: Sequence[float] = (),
        level_mean: Sequence[float] = (),
        level_scale: Sequence[float] = (),
        difference_scale: Sequence[float] = (),
        missing: str = "error",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        given: dict[str, Sequence[float]] = {
            "mean": mean or [0.0] * len(scale),
            "scale": scale or [1.0] * len(mean),
            "center": center,
            "spread": spread,
            "level_mean": level_mean,
            "level_scale": level_scale,
            "difference_scale": difference_scale,
        }
        for name, values in given.items():
            if len(values) not in (0, size):
                checks.fail(name, f"have one entry per channel, {size}", tuple(values))
            # Part of the model: a loaded model takes values as they were in the data.
            self.register_buffer(name, torch.tensor(values, device=device, dtype=dtype) if values else None)
        for first, second in (("center", "spread"), ("level_mean", "level_scale")):
            if bool(given[first]) != bool(given[second]):
                checks.fail(first, f"be used with {second}", tuple(given[first]))
        self.missing = checks.one_of("missing", missing, get_args(Missing))
        self.by_series = bool(level_mean)
        self.unscaled = not any(given.values()) and missing == "error"
        blocks = {"values": True, "differences": bool(difference_scale), "mask": missing == "mask"}
        self.blocks = [name for name, used in {**blocks, "levels": self.by_series}.items() if used]  # of `size` inputs
        self.output_size = size * len(self.blocks)

    def forward(self, x: Tensor, lengths: Any = None) -> Tensor:  # [..., T, D]
        gaps = torch.isnan(x) if self.missing != "error" else None
        squashed = self.squashed(x)
        levels = None
        if self.by_series:
            values, levels = self._by_series(squashed, lengths, gaps)
        else:
            values = self.standardised(squashed)
        if gaps is not None:
            values = _forward(values, gaps) if self.missing == "forward" else torch.where(gaps, 0, values)
        before = torch.cat([values[..., :1, :], values[..., :-1, :]], dim=-2)
        return self.joined(values, before, gaps, levels)

    def squashed(self, x: Tensor) -> Tensor:
        """arcsinh of the channels with heavy tails."""
        if self.center is None or self.spread is None:
            return x
        return torch.where(self.spread > 0, torch.asinh((x - self.center) / self.spread), x)

    def standardised(self, x: Tensor) -> Tensor:
        """The z-score with the values of the training data."""
        x = x if self.mean is None else x - self.mean
        return x if self.scale is None else x / self.scale

    def joined(self, values: Tensor, before: Tensor, gaps: Tensor | None, levels: Tensor | None) -> Tensor:
        """All inputs side by side: the values, the changes from the values `before`, marks of the gaps, the levels."""
        parts = [values]
        if self.difference_scale is not None:
            parts.append((values - before) / self.difference_scale)
        if gaps is not None and self.missing == "mask":
            parts.append(gaps.to(values.dtype))
        if levels is not None:
            parts.append(levels)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _by_series(self, x: Tensor, lengths: Any, gaps: Tensor | None) -> tuple[Tensor, Tensor]:
        """The z-score of each series, and the levels at every step."""
        known = ragged_lengths(lengths, x) if x.dim() == 3 else None
        used = torch.ones_like(x, dtype=torch.bool) if known is None else inside(known, x).expand_as(x)
        used = used if gaps is None else used & ~gaps
        count = used.sum(-2, keepdim=True).clamp(min=1)
        mean = torch.where(used, x, 0).sum(-2, keepdim=True) / count
        centred = torch.where(used, x - mean, 0)
        deviation = (centred.square().sum(-2, keepdim=True) / count).sqrt()
        constant = deviation <= ROUNDING * mean.abs()
        level_mean, level_scale = cast(Tensor, self.level_mean), cast(Tensor, self.level_scale)
        levels = (torch.log(deviation) - level_mean) / level_scale
        levels = torch.where(constant, SMALLEST_LEVEL, levels.clamp(SMALLEST_LEVEL, -SMALLEST_LEVEL))
        values = torch.where(constant, 0, centred / torch.where(constant, 1, deviation))
        return values, levels.expand_as(x)


def _forward(values: Tensor, gaps: Tensor) -> Tensor:  # [..., T, D]
    """Gaps filled with the last value before; 0, the mean, before the first value."""
    steps = torch.arange(values.shape[-2], device=values.device)[:, None].expand_as(values)
    last = torch.where(gaps, -1, steps).cummax(-2).values
    return torch.where(last < 0, 0, torch.where(gaps, 0, values).gather(-2, last.clamp(min=0)))
