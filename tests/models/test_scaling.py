"""Scaled inputs against numpy on each series alone."""

import tracemalloc

import numpy as np
import pytest
import torch

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.models import Classifier
from autapse.models.inputs import Inputs
from autapse.models.scaling import ChannelScaling
from autapse.tasks.scaling import choose

LENGTHS = [9, 4, 6]


def raw(gaps=False, seed=0):
    rng = np.random.default_rng(seed)
    values = [10.0**k * rng.normal([5.0, -2.0], [1.0, 3.0], (n, 2)) for k, n in enumerate(LENGTHS)]
    if gaps:
        for one in values:
            one[rng.random(one.shape) < 0.4] = np.nan
        values[0][:2, 0] = np.nan  # before the first value
        values[1][:, 1] = np.nan  # no value at all
    return values


def padded(values, filler=0.0):
    steps = max(map(len, values))
    rows = [np.pad(one, ((0, steps - len(one)), (0, 0)), constant_values=filler) for one in values]
    return torch.from_numpy(np.stack(rows))


def numpy_inputs(values, known, missing, differences):
    """One series, written from the definition."""
    x = values
    if known.spread:
        x = np.where(np.array(known.spread) > 0, np.arcsinh((x - known.center) / known.spread), x)
    levels = None
    if known.level_mean:
        mean, deviation = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.clip((np.log(deviation) - known.level_mean) / known.level_scale, -10, 10)
            x = np.where(deviation > 0, (x - mean) / deviation, 0 * x)
        levels = np.broadcast_to(np.where(deviation > 0, level, -10), x.shape)
    elif known.mean:
        x = (x - known.mean) / known.scale
    gaps, x = np.isnan(values), x.copy()
    for t, d in np.argwhere(gaps):
        x[t, d] = x[t - 1, d] if missing == "forward" and t else 0.0
    parts = [x]
    if differences:
        parts.append(np.diff(x, axis=0, prepend=x[:1]) / known.difference_scale)
    if missing == "mask":
        parts.append(gaps.astype(float))
    return np.concatenate([*parts, *([] if levels is None else [levels])], axis=1)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom")
@pytest.mark.parametrize("filler", [0.0, 1e9])
@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize("missing", ["error", "mask", "forward", "mean"])
@pytest.mark.parametrize("scaling", ["none", "channel", "robust", "series"])
def test_inputs_are_those_of_numpy(scaling, missing, differences, filler):
    values = raw(gaps=missing != "error")
    known = choose(Ragged.of(values), scaling, missing, differences)
    inputs = Inputs(2, dtype=torch.float64, **known.fields())
    out = inputs(padded(values, filler), LENGTHS)
    assert out.shape[2] == inputs.output_size == len(inputs.continuous)
    for n, one in enumerate(values):
        expected = numpy_inputs(one, known, missing, differences)
        np.testing.assert_allclose(out[n, : len(one)].numpy(), expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(inputs(torch.from_numpy(one)).numpy(), expected, rtol=1e-9, atol=1e-9)


def test_what_may_be_changed_at_random():
    inputs = Inputs(
        3, [5], [4], [0.0, 0.0], [1.0, 1.0], level_mean=[0.0] * 2, level_scale=[1.0] * 2, difference_scale=[1.0] * 2,
        missing="mask",
    )  # fmt: skip
    assert inputs.continuous.tolist() == [False] * 4 + [True] * 4 + [False] * 4


def test_a_constant_series_stays_finite():
    """Also where rounding makes its deviation a little more than 0."""
    scaling = ChannelScaling(1, level_mean=[0.0], level_scale=[1.0])
    for value in (0.0, 0.1, 1234567.9):
        out = scaling(torch.full((1, 1000, 1), value))
        assert (out[..., 0] == 0).all()
        assert (out[..., 1] == -10).all()


def test_series_of_different_scale_become_alike():
    """A factor of 10⁴ changes nothing but the level, which says how large it was."""
    scaling = ChannelScaling(2, level_mean=[0.0, 0.0], level_scale=[2.0, 2.0], dtype=torch.float64)
    x = torch.from_numpy(raw()[0])
    small, large = scaling(x), scaling(1e4 * x)
    torch.testing.assert_close(small[:, :2], large[:, :2])
    torch.testing.assert_close(large[:, 2:] - small[:, 2:], torch.full((9, 2), np.log(1e4) / 2, dtype=torch.float64))


def test_scaling_is_saved_with_the_weights():
    fields = choose(Ragged.of(raw()), "series", "mask", True).fields()
    names = {"inputs.level_mean", "inputs.level_scale", "inputs.difference_scale"}
    assert names <= set(Classifier("gru", 2, 3, 4, **fields).state_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"center": [1.0], "spread": [1.0]}, "center must have one entry per channel, 2"),
        ({"center": [1.0, 1.0]}, "center must be used with spread"),
        ({"level_scale": [1.0, 1.0]}, "level_mean must be used with level_scale"),
        ({"missing": "zero"}, "missing must be one of mask, forward, mean, error"),
        (
            {"level_mean": [1.0, 1.0], "level_scale": [1.0, 1.0], "streaming": True},
            "scaling must not need the whole series with streaming; got 'series'. Use scaling=.channel",
        ),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(checks.InputError, match=message):
        Classifier("gru", 2, 3, 4, **settings)


def test_a_huge_size_without_values_takes_no_memory():
    """As in a damaged checkpoint: 10⁹ channels were once a list of 8 GB before the model was refused."""
    tracemalloc.start()
    try:
        assert ChannelScaling(10**9).output_size == 10**9
        with pytest.raises(checks.InputError, match="one entry per channel"):
            ChannelScaling(10**9, scale=[1.0])
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
