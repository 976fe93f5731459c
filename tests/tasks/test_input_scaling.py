"""The choice of a scaling, against formulas of numpy and scipy on generated series."""

import numpy as np
import pytest
from scipy import stats

from autapse.data.ragged import Ragged
from autapse.tasks import ArrayTask
from autapse.tasks.scaling import choose, kurtosis, scale_range


def series(channels=2, count=30, seed=0, steps=(5, 60)):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(*steps, size=count)
    return [rng.normal([3.0, -100.0][:channels], [2.0, 50.0][:channels], (n, channels)) for n in lengths]


def of_all_scales(count=30, seed=0):
    """Series that differ in scale by 10⁴."""
    rng = np.random.default_rng(seed)
    return [10 ** rng.uniform(-4, 4) * one for one in series(count=count, seed=seed)]


def test_channels_are_standardised_by_default():
    ragged = Ragged.of(series())
    known = choose(ragged)
    np.testing.assert_allclose(known.mean, ragged.values.mean(0))
    np.testing.assert_allclose(known.scale, ragged.values.std(0))
    assert (known.center, known.level_mean, known.difference_scale, known.missing) == ((), (), (), "error")
    assert known.reasons == ("scaling: each channel is standardised (z-score)",)
    assert choose(ragged, "channel").fields() == known.fields()


def test_heavy_tails_are_squashed():
    values = series()
    values[3][2, 1] = 1e6
    ragged = Ragged.of(values)
    column = ragged.values[:, 1]
    assert stats.kurtosis(column, fisher=False) > 30
    known = choose(ragged, names=("left", "right"))
    np.testing.assert_allclose(known.center, [0, np.median(column)])
    np.testing.assert_allclose(known.spread, [0, stats.iqr(column) / 1.349])
    squashed = np.arcsinh((column - np.median(column)) / (stats.iqr(column) / 1.349))
    np.testing.assert_allclose(known.mean, [ragged.values[:, 0].mean(), squashed.mean()])
    np.testing.assert_allclose(known.scale, [ragged.values[:, 0].std(), squashed.std()])
    assert "arcsinh where tails are heavy (right: kurtosis up to" in known.reasons[0]


def test_robust_squashes_every_channel():
    ragged = Ragged.of(series())
    known = choose(ragged, "robust")
    np.testing.assert_allclose(known.spread, stats.iqr(ragged.values, axis=0) / 1.349)


def test_a_channel_that_is_mostly_constant_has_a_spread_too():
    values = np.zeros((100, 1))
    values[::50] = 7.0
    assert choose(Ragged.of([values]), "robust").spread == (0.14,)  # the mean distance from the median, 0
    assert choose(Ragged.of([np.ones((9, 1))]), "robust").fields()["scale"] == (1.0,)


def test_series_of_different_scale_are_standardised_by_themselves():
    values = of_all_scales()
    known = choose(Ragged.of(values))
    levels = np.log([one.std(0) for one in values])
    np.testing.assert_allclose(known.level_mean, levels.mean(0))
    np.testing.assert_allclose(known.level_scale, levels.std(0))
    assert (known.mean, known.center) == ((), ())
    assert "each series is standardised by itself: their scales differ by a factor of about" in known.reasons[0]
    assert choose(Ragged.of(values), "channel").level_mean == ()
    assert choose(Ragged.of(series()), "series").level_mean != ()


def test_scale_range():
    values = of_all_scales()
    levels = np.log([one.std(0) for one in values])
    assert scale_range(Ragged.of(values)) == pytest.approx(np.median(levels.std(0)))
    assert scale_range(Ragged.of(series())) < 0.5
    assert scale_range(Ragged.of([np.ones((4, 1)), np.zeros((3, 1))])) == 0


def test_kurtosis():
    values = np.random.default_rng(0).standard_t(3, 500)
    assert kurtosis(values) == pytest.approx(stats.kurtosis(values, fisher=False))
    assert kurtosis(np.ones(5)) == 0


@pytest.mark.parametrize("scaling", ["auto", "channel", "robust", "series"])
def test_missing_values_are_ignored(scaling):
    """Gaps at random places: the values are those of the same series without the missing steps."""
    rng, values = np.random.default_rng(0), series(channels=1)
    without = [one[rng.random(len(one)) > 0.2] for one in values]
    with_gaps = [np.insert(one, rng.integers(0, len(one), 3), np.nan, axis=0) for one in without]
    gaps, known = choose(Ragged.of(with_gaps), scaling), choose(Ragged.of(without), scaling)
    for name in ("mean", "scale", "center", "spread", "level_mean", "level_scale"):
        np.testing.assert_allclose(getattr(gaps, name), getattr(known, name))


@pytest.mark.parametrize("scaling", ["none", "channel", "series", "robust"])
def test_differences_are_measured_after_scaling(scaling):
    values = series()
    ragged = Ragged.of(values)
    known = choose(ragged, scaling, differences=True)
    if scaling == "series":
        after = [(one - one.mean(0)) / one.std(0) for one in values]
    elif scaling == "robust":
        after = [np.arcsinh((one - known.center) / known.spread) / known.scale for one in values]
    else:
        after = values if scaling == "none" else [one / ragged.values.std(0) for one in values]
    changes = np.concatenate([np.diff(one, axis=0) for one in after])
    np.testing.assert_allclose(known.difference_scale, np.sqrt((changes**2).mean(0)))


def test_a_task_hands_its_scaling_to_the_model():
    values = of_all_scales()
    task = ArrayTask(values, ["a", "b"] * 15)
    signature = task.signature()
    assert signature.level_mean == task.input_scaling().level_mean != ()
    assert signature.length == int(np.median([len(one) for one in task.both()[0].inputs]))
    assert ArrayTask(values, ["a", "b"] * 15, scaling="none", differences=True).signature().difference_scale != ()
