"""The next values of a series, with prediction intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.models.base import Network, SequenceModel
from autapse.models.inputs import check_input
from autapse.models.linear_path import choose
from autapse.models.model import Batches
from autapse.models.series import read_given
from autapse.models.solved_head import SOLVED, is_solvable, states_of

KINDS = ("none", "mean", "last")
"""What is subtracted from a window: the mean of the training data, its own mean, or its last value."""
MOST_FEATURES = 1200  # of the straight line; with more, it reads only the channel that it forecasts
BATCH = 256  # series at a time
PATHS = 200  # drawn for the intervals of forecasts that read their own forecasts
TINY = 1e-6  # smallest deviation of a window, relative to its values
SMALLEST = 1e-30
SHORT = 4  # steps; the deviation of a shorter window means little
GAIN = 0.02  # of the loss, which is about 0.8 if the errors are as those of least squares
MANY = 20_000  # windows from which the size of the errors is computed
NARROWEST = 0.05  # factor of an interval


class Forecasts(NamedTuple):
    """Forecasts with the limits of their prediction intervals, in the unit of the data."""

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Forecaster(SequenceModel):
    """The values of the next steps, [B, horizon, K, 1 + columns], from a window of history, [B, window, input_size].

    The first column is the forecast. The others are the limits of the prediction intervals, two per level, or the
    deviation of a Gaussian.

    Each window is normalised. The forecast is the sum of a straight line, which is ridge regression on the training
    windows, and of what a recurrent network adds to it. The network starts at zero.

    `horizon`, `window`, `known` (the number of channels whose future is known) and `recursive` say what is forecast
    from what; `intervals` and `levels` which intervals there are; `order` is the place of each channel of the input in
    the user's data. `autapse.tasks.base.ForecastShape` explains them.

    >>> model = Forecaster("gru", 1, 1, hidden_size=8, horizon=3, window=12)
    >>> model(torch.zeros(4, 12, 1)).shape, model.forecast(np.arange(20.0)).shape
    (torch.Size([4, 3, 1, 5]), (3,))
    """

    has_classes: ClassVar[bool] = False

    channel_mean: Tensor
    channel_scale: Tensor
    kind: Tensor
    line: Tensor
    size: Tensor

    def __init__(
        self,
        cell: Network,
        input_size: int,
        output_size: int,
        *args: Any,
        horizon: int = 1,
        window: int = 1,
        known: int = 0,
        recursive: bool = False,
        intervals: str = "quantile",
        levels: Sequence[float] = (0.8, 0.95),
        order: Sequence[int] = (),
        mean: Sequence[float] = (),
        scale: Sequence[float] = (),
        **settings: Any,
    ) -> None:
        checks.integer("horizon", horizon, minimum=1)
        checks.integer("window", window, minimum=1)
        block = 1 if recursive else horizon
        own = input_size - 2 * known
        checks.one_of("intervals", intervals, ("quantile", "gaussian", "none"))
        levels = tuple(sorted(levels)) if intervals != "none" else ()
        extra = {"quantile": 2 * len(levels), "gaussian": 1, "none": 0}[intervals]
        super().__init__(cell, 3 * own + 2 * known, block * output_size * (1 + extra), *args, **settings)
        self.horizon, self.window, self.block = horizon, window, block
        self.targets, self.known, self.own = output_size, known, own
        self.intervals, self.levels, self.extra = intervals, levels, extra
        self.order = list(order) or list(range(own + known))
        like = self.head.weight
        self.register_buffer("channel_mean", like.new_tensor(list(mean) or [0.0] * input_size))
        self.register_buffer("channel_scale", like.new_tensor(list(scale) or [1.0] * input_size))
        self.register_buffer("kind", torch.zeros((), dtype=torch.int64, device=like.device))
        self.register_buffer("line", like.new_zeros(output_size, self._line_features(), self.block))
        self.register_buffer("size", like.new_ones(self.block, output_size))
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    # Forward ----------------------------------------------------------------------------------------------------------

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, W, D] -> [B, H, K, 1 + extra]
        check_input(x, self.own + 2 * self.known, dimensions=(3,))
        own, known = self._parts(x)
        if self.block == self.horizon or self.training:
            return self._blocked(own, known[:, : self.window + self.block], keys)
        return self._rolled(own, known, self.horizon)[..., None]

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The history [B, W, own], and the known channels of the window and the horizon, [B, W + H, known]."""
        if not self.known:  # the horizon may then be longer than the window
            return x, x.new_zeros(len(x), self.window + self.horizon, 0)
        now, ahead = x[..., self.own : self.own + self.known], x[..., self.own + self.known :]
        return x[..., : self.own], torch.cat([now, ahead[:, -self.horizon :]], dim=1)

    def _blocked(self, own: Tensor, known: Tensor, keys: Any = None) -> Tensor:
        """The next `block` steps, [B, block, K, 1 + extra], from the history and the known channels up to their end."""
        center, scale = self._unit(own, int(self.kind))
        known = self._scaled(known)
        features = self._features((own - center) / scale, known)  # [K, B, F]
        line = torch.bmm(features, self.line).permute(1, 2, 0)  # [B, block, K]
        raw = self.at_end(self._network_input(own, known), None, keys).view(len(own), self.block, self.targets, -1)
        center, scale = center[..., : self.targets], scale[..., : self.targets]  # [B, 1, K]
        point = center + scale * (line + self.size * raw[..., 0])
        if not self.extra:
            return point[..., None]
        spread = (scale * self.size)[..., None] * torch.exp(raw[..., 1:].clamp(-20, 10))
        if self.intervals == "gaussian":
            return torch.cat([point[..., None], spread], dim=-1)
        lower, upper = (part.cumsum(-1) for part in spread.chunk(2, dim=-1))
        return torch.cat([point[..., None], point[..., None] - lower, point[..., None] + upper], dim=-1)

    def features(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, W, D] -> [B, F]
        own, known = self._parts(x)
        return super().features(self._network_input(own, self._ahead(known)), lengths)

    def _unit(self, own: Tensor, kind: int) -> tuple[Tensor, Tensor]:  # [B, W, own] -> [B, 1, own] each
        """What is subtracted from each channel of a window, and what it is then divided by."""
        mean, scale = self.channel_mean[: self.own], self.channel_scale[: self.own]
        if KINDS[kind] == "none":
            shape = (len(own), 1, self.own)
            return mean.expand(shape), scale.expand(shape)
        center = own.mean(1, keepdim=True)
        deviation = (own - center).square().mean(1, keepdim=True).sqrt() + TINY * center.abs() + SMALLEST
        return (center if KINDS[kind] == "mean" else own[:, -1:]), deviation

    def _scaled(self, known: Tensor) -> Tensor:
        """The known channels, standardised."""
        last = slice(self.own + self.known, None)
        return (known - self.channel_mean[last]) / self.channel_scale[last]

    def _network_input(self, own: Tensor, known: Tensor) -> Tensor:  # [B, W, 3 * own + 2 * known]
        """The normalised window, its level and its deviation, and the known channels at each step and ahead."""
        center, scale = self._unit(own, KINDS.index("mean"))
        mean, deviation = self.channel_mean[: self.own], self.channel_scale[: self.own]
        level = torch.asinh((center - mean) / deviation), torch.log(scale / deviation).clamp(-10, 10)
        parts = [(own - center) / scale, *(part.expand_as(own) for part in level)]
        return torch.cat([*parts, known[:, : self.window], known[:, self.block :]], dim=-1)

    # The straight line ------------------------------------------------------------------------------------------------

    @property
    def _line_reads(self) -> tuple[bool, int]:
        """Whether the straight line reads all channels, rather than its own one; and how many steps of the window."""
        everything = self.window * (self.own + self.known) + self.block * self.known
        if everything <= MOST_FEATURES:
            return True, self.window
        return False, min(self.window, max(1, (MOST_FEATURES - self.block * self.known) // (1 + self.known)))

    def _line_features(self) -> int:
        everything, steps = self._line_reads
        return steps * ((self.own if everything else 1) + self.known) + self.block * self.known + 1

    def _features(self, own: Tensor, known: Tensor) -> Tensor:  # [K, B, F]
        """What the straight line of each channel reads; the last feature is 1."""
        everything, steps = self._line_reads
        shared = [known[:, self.window - steps :].flatten(1), own.new_ones(len(own), 1)]
        if everything:
            rows = torch.cat([own.flatten(1), *shared], dim=1)
            return rows.expand(self.targets, *rows.shape)
        history = own[:, -steps:, : self.targets].permute(2, 0, 1)  # [K, B, steps]
        rest = torch.cat(shared, dim=1)
        return torch.cat([history, rest.expand(self.targets, *rest.shape)], dim=2)

    @torch.no_grad()
    def start_from(self, train: Batches, validation: Batches) -> float:
        """Compute the straight line from the training windows, and the size of its errors.

        Args:
            train: the training batches.
            validation: the validation batches. They help to choose the normalisation and the ridge.

        Returns:
            By how much the network must lower the validation loss: smaller gains are chance.
        """

        def rows(kind: int, channel: int, held: bool) -> Iterable[tuple[Tensor, Tensor]]:
            for batch in (validation if held else train)():
                own, known = self._parts(batch.inputs.double())
                center, scale = self._unit(own, kind)
                features = self._features((own - center) / scale, self._ahead(known))[channel]
                unit = batch.targets[:, -1, channel, None].double()  # the loss divides by it too
                wanted = batch.targets[:, : self.block, channel].double() - center[:, :, channel]
                yield features * (scale[:, :, channel] / unit), wanted / unit

        kinds = range(len(KINDS)) if self.window >= SHORT else [KINDS.index("none")]
        choice = choose(kinds, self.targets, rows)
        self.kind.fill_(choice.kind)
        self.line.copy_(torch.stack(choice.weight))
        growth = self.line.new_tensor(choice.growth)
        self._start_sizes(train, validation, growth)
        if not is_solvable(self):
            return GAIN
        self._solve_head(train, validation, growth)
        return SOLVED

    def _solve_head(self, train: Batches, validation: Batches, growth: Tensor) -> None:
        """Add what a fixed network explains of the errors of the straight line, if it explains some on new windows."""

        def rows(kind: int, channel: int, held: bool) -> Iterable[tuple[Tensor, Tensor]]:
            for states, batch in states_of(self, validation if held else train):
                own, known = self._parts(batch.inputs)
                center, scale = (part[..., channel] for part in self._unit(own, int(self.kind)))  # [B, 1]
                features = self._features((own - center[..., None]) / scale[..., None], self._ahead(known))[channel]
                wanted = (batch.targets[:, : self.block, channel] - center) / scale - features @ self.line[channel]
                weight = scale / batch.targets[:, -1, channel, None]  # as in the loss
                constant = torch.cat([states, torch.ones_like(states[:, :1])], dim=1)
                yield weight * constant, weight * wanted / self.size[:, channel]

        before = self._errors(validation).square().mean()
        choice = choose([0], self.targets, rows)
        heads = self.head.weight.view(self.block, self.targets, 1 + self.extra, -1)[:, :, 0]  # [block, K, F]
        offsets = self.head.bias.view(self.block, self.targets, 1 + self.extra)[:, :, 0]
        for channel, weight in enumerate(choice.weight):
            heads[:, channel], offsets[:, channel] = weight[:-1].T.to(heads), weight[-1].to(heads)
        if self._errors(validation).square().mean() > before:  # False without validation windows
            heads.zero_()
            offsets.zero_()
            return
        size = self.size.clone()
        self._start_sizes(train, validation, torch.maximum(growth, self.line.new_tensor(choice.growth)))
        heads *= (size / self.size)[..., None]
        offsets *= size / self.size

    def _ahead(self, known: Tensor) -> Tensor:
        """The known channels up to the end of a block, standardised."""
        return self._scaled(known)[:, : self.window + self.block]

    def _start_sizes(self, train: Batches, validation: Batches, growth: Tensor) -> None:
        """The size of the errors, and the first intervals, from the errors of the straight line."""
        errors = torch.cat([growth * self._errors(train), self._errors(validation)])  # [N, block, K]
        self.size.copy_(errors.square().mean(0).sqrt() + SMALLEST)
        relative = errors / self.size
        bias = self.head.bias.view(self.block, self.targets, -1)
        if self.intervals == "quantile":
            for side, sign in enumerate((-1, 1)):
                before = torch.zeros_like(self.size)
                for n, level in enumerate(self.levels):
                    limit = (sign * relative).quantile((1 + level) / 2, dim=0).clamp(min=TINY)
                    bias[..., 1 + side * len(self.levels) + n] = (limit - before).clamp(min=0.01 * limit).log()
                    before = torch.maximum(limit, before)

    def _errors(self, batches: Batches) -> Tensor:  # [N, block, K]
        """The errors of the straight line, in units of each window's deviation."""
        errors = [self.size.new_zeros(0, self.block, self.targets)]
        was_training, count = self.training, 0
        self.train()  # of the recursive method: one step only
        for batch in batches():
            own, known = self._parts(batch.inputs)
            scale = self._unit(own, int(self.kind))[1][..., : self.targets]
            point = self._blocked(own, known[:, : self.window + self.block])[..., 0]
            errors.append((batch.targets[:, : self.block] - point) / scale)
            count += len(own)
            if count > MANY:
                break
        self.train(was_training)
        return torch.cat(errors)

    @torch.no_grad()
    def calibrate(self, weights: dict[str, Tensor], validation: Batches) -> None:
        """Stretch the prediction intervals so that each contains its share of the validation values.

        Training makes them too narrow, since the errors on the training windows are smaller than on new ones. One
        factor for each level, for all windows, steps and channels: that of a conformal prediction.
        """
        with self.evaluating():
            pieces = [self._distances(batch) for batch in validation()] if self.extra else []
        if not pieces:
            return
        error, steps = (torch.cat(part) for part in zip(*pieces, strict=True))
        reached, factors = torch.zeros_like(error), list[float]()
        for n, level in enumerate(self.levels):
            ratio = ((error - reached) / steps[..., n]).flatten()
            rank = min(len(ratio), math.ceil(level * (len(ratio) + 1)))
            factors.append(max(float(ratio.kthvalue(rank).values), NARROWEST))
            if self.intervals == "quantile":
                reached = reached + factors[-1] * steps[..., n]
        bias = weights["head.bias"].view(self.block, self.targets, 1 + self.extra)
        if self.intervals == "gaussian":
            bias[..., 1] += math.fsum(map(math.log, factors)) / len(factors)
            return
        for n, factor in enumerate(factors):
            bias[..., [1 + n, 1 + len(factors) + n]] += math.log(factor)

    def _distances(self, batch: Any) -> tuple[Tensor, Tensor]:  # [B, block, K], [B, block, K, levels]
        """The size of each error; and the distance of each limit on its side from the limit before it.

        For a Gaussian, the distance of each limit from the forecast.
        """
        own, known = self._parts(batch.inputs)
        output = self._blocked(own, known[:, : self.window + self.block])
        error = batch.targets[:, : self.block] - output[..., 0]
        if self.intervals == "gaussian":
            scores = output.new_tensor([normal_score((1 + level) / 2) for level in self.levels])
            return error.abs(), output[..., 1:] * scores
        lower, upper = (output[..., 1:] - output[..., :1]).chunk(2, dim=-1)
        limits = torch.where((error < 0)[..., None], -lower, upper)
        return error.abs(), torch.diff(limits, dim=-1, prepend=torch.zeros_like(limits[..., :1]))

    # Use of a trained model -------------------------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        return self.own + 2 * self.known

    def predict(self, x: Any, lengths: Any = None) -> Any:
        """The forecast, in evaluation mode.

        Args:
            x: series as in `forecast`; or a tensor of windows, [B, window, input_size].
            lengths: None.

        Returns:
            What `forecast` returns; for a tensor the values, [B, horizon, K].
        """
        if isinstance(x, Tensor):
            return self._predicted(x, None)[..., 0]
        return self.forecast(x)

    def stream(self, batch_size: int = 1) -> NoReturn:
        """A forecaster reads windows, so this is an error."""
        raise checks.InputError("A Forecaster has no stream. Call `forecast` with the latest values again.")

    @torch.no_grad()
    def forecast(
        self,
        history: Any,
        known: Any = None,
        steps: int | None = None,
        intervals: float | Sequence[float] | None = None,
        seed: int = 0,
    ) -> Any:
        """Forecast the values after the end of one or many series.

        Args:
            history: raw values, as in the training data. One series: an array or lists [T, D], or a table (a data frame
                or a mapping) whose columns are matched by name with `channels`. Many: an array [N, T, D], or a list of
                series. With one channel also [T] and [N, T]. Only the last `window` steps are used.
            known: the future of the known channels, [steps, C], or a table; for many series an array or a list of them.
            steps: steps to forecast; by default the horizon. With more, forecasts are read as history.
            intervals: the share of values that a prediction interval should contain, such as 0.8; or several.
            seed: of the random paths, from which the intervals are computed if forecasts are read as history.

        Returns:
            The values: [steps] for one series and one channel to forecast; otherwise with the axes [N, steps, K]. With
            `intervals` a tuple (values, lower, upper) of such arrays; for several intervals, lower and upper have a
            last axis for them.

        >>> model = Forecaster("gru", 1, 1, hidden_size=8, horizon=3, window=12)
        >>> values, lower, upper = model.forecast([range(20), range(30)], intervals=0.9)
        >>> values.shape, bool((lower < values).all())
        ((2, 3), True)
        """
        count = self.horizon if steps is None else checks.integer("steps", steps, minimum=1)
        several = intervals is not None and not isinstance(intervals, float | int)
        levels: Any = () if intervals is None else intervals if several else (intervals,)
        for level in levels:
            if not checks.number("intervals", level, above=0.0) < 1:
                checks.fail("intervals", "be shares above 0 and below 1", level)
        if levels and not self.extra:
            checks.fail("intervals", "be None, since the model was trained with intervals=none", intervals)
        expected = self.expected._replace(columns=len(self.order), remedy="Fill them first.")
        given = read_given(history, None, expected)
        own, future = self._read(given.series, known, count)
        parts = [
            self._limits(*part, count, levels, seed) for part in zip(own.split(BATCH), future.split(BATCH), strict=True)
        ]
        made = [torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)]
        made = [one[:, :, 0] if self.targets == 1 else one for one in made]
        made = [one[0] if given.form == "single" else one for one in made]
        if not levels:
            return made[0]
        return Forecasts(made[0], *(one if several else one[..., 0] for one in made[1:]))

    def limits(self, x: Tensor, levels: Sequence[float], seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Forecasts and their intervals for windows as in training.

        Args:
            x: [B, window, input_size].
            levels: the share of values that each interval should contain.
            seed: of random paths.

        Returns:
            The values [B, horizon, K], and the lower and the upper limits, [B, horizon, K, levels].
        """
        return self._limits(*self._parts(x), self.horizon, levels, seed)

    def _read(self, series: list[np.ndarray], known: Any, steps: int) -> tuple[Tensor, Tensor]:
        """The last window of each series, [N, W, own], and its known channels to the last step, [N, W + n, known]."""
        short = [len(one) for one in series if len(one) < self.window]
        if short:
            rule = f"have at least {self.window} steps, which the model reads"
            checks.fail("history", rule, short[0], kind=checks.ShapeError)
        if self.own > self.targets and steps > self.block:
            rule = f"be at most {self.block}: channels that are neither forecast nor known have no future"
            checks.fail("steps", rule, steps)
        like = self.head.weight
        past = np.stack([one[-self.window :, self.order] for one in series])
        values = torch.from_numpy(past).to(like)
        future = self._future(len(series), known, -(-steps // self.block) * self.block)
        return values[..., : self.own], torch.cat([values[..., self.own :], future.to(like)], dim=1)

    def _future(self, count: int, known: Any, steps: int) -> Tensor:  # [N, steps, known]
        if not self.known:
            if known is not None:
                checks.fail("known", "be None, since the model has no known channels", type(known).__name__)
            return torch.zeros(count, steps, 0)
        names = [self.channels[place] for place in self.order[self.own :]] if self.channels else []
        rule = f"have the next {steps} steps of {', '.join(names) or 'the known channels'} for each of {count} series"
        if known is None:
            checks.fail("known", rule, None)
        expected = self.expected._replace(columns=self.known, channels=names)
        given = read_given(known, None, expected)
        if len(given.series) != count or any(len(one) < steps for one in given.series):
            checks.fail("known", rule, [one.shape for one in given.series][:3], kind=checks.ShapeError)
        return torch.from_numpy(np.stack([one[:steps] for one in given.series]))

    def _limits(
        self, own: Tensor, known: Tensor, steps: int, levels: Sequence[float], seed: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Forecasts [B, steps, K], and the lower and upper limits of intervals, [B, steps, K, levels]."""
        was_training = self.training
        self.eval()
        try:
            scores = [normal_score((1 + level) / 2) for level in levels]
            if steps <= self.block:
                output = self._blocked(own, known)[:, :steps]
                values = output[..., 0]
                lower = [values + self.offset(output, torch.full_like(values, -score)) for score in scores]
                upper = [values + self.offset(output, torch.full_like(values, score)) for score in scores]
            else:
                values = self._rolled(own, known, steps)
                lower, upper = self._quantiles(own, known, steps, levels, seed)
        finally:
            self.train(was_training)
        if not levels:
            return values, values.new_zeros(*values.shape, 0), values.new_zeros(*values.shape, 0)
        return values, torch.stack(lower, dim=-1), torch.stack(upper, dim=-1)

    def _quantiles(
        self, own: Tensor, known: Tensor, steps: int, levels: Sequence[float], seed: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The limits of intervals, from random paths."""
        if not levels:
            return [], []
        random = torch.Generator().manual_seed(checks.seed("seed", seed))
        shape = (PATHS, -(-steps // self.block) * self.block, self.targets)
        rows = []
        for one, future in zip(own, known, strict=True):
            draws = torch.randn(shape, generator=random).to(own)
            history, ahead = one.expand(PATHS, *one.shape), future.expand(PATHS, *future.shape)
            rows.append(self._rolled(history, ahead, steps, draws))
        paths = torch.stack(rows)  # [B, PATHS, steps, K]
        lower = [paths.quantile((1 - level) / 2, dim=1) for level in levels]
        return lower, [paths.quantile((1 + level) / 2, dim=1) for level in levels]

    # Rolling forecasts ------------------------------------------------------------------------------------------------

    def _rolled(self, own: Tensor, known: Tensor, steps: int, draws: Tensor | None = None) -> Tensor:  # [B, steps, K]
        """Forecasts that read earlier forecasts as history.

        With `draws`, normal random values [B, steps, K], each value is drawn from its distribution.
        """
        made: list[Tensor] = []
        for first in range(0, steps, self.block):
            output = self._blocked(own, known[:, first : first + self.window + self.block])
            values = output[..., 0]
            if draws is not None:
                values = values + self.offset(output, draws[:, first : first + self.block])
            made.append(values)
            own = torch.cat([own, values], dim=1)[:, -self.window :]
        return torch.cat(made, dim=1)[:, :steps]

    def offset(self, output: Tensor, score: Tensor) -> Tensor:  # [..., 1 + extra], [...] -> [...]
        """How far a value is from the forecast, for a normal score: 0 is the forecast, 1.64 the 95 % quantile.

        Between two quantiles it is linear in the score, as for a Gaussian.
        """
        if self.intervals == "gaussian":
            return output[..., 1] * score
        scores = [0.0, *(normal_score((1 + level) / 2) for level in self.levels)]
        limits = output[..., 1:] - output[..., :1]
        lower, upper = limits.chunk(2, dim=-1)
        side = torch.where((score < 0)[..., None], -lower, upper)
        values = torch.cat([torch.zeros_like(side[..., :1]), side], dim=-1)  # at the scores
        size = score.abs()
        result = torch.zeros_like(size)
        for n in range(1, len(scores)):
            slope = (values[..., n] - values[..., n - 1]) / (scores[n] - scores[n - 1])
            here = values[..., n - 1] + slope * (size - scores[n - 1])
            result = torch.where(size >= scores[n - 1], here, result)
        return torch.where(score < 0, -result, result)


def normal_score(probability: float) -> float:
    """The value below which a standard normal variable is with this probability.

    >>> round(normal_score(0.975), 2)
    1.96
    """
    return statistics.NormalDist().inv_cdf(probability)
