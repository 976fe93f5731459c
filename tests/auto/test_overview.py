"""What is seen in the data, against numbers that the data was made of."""

from dataclasses import replace

import numpy as np
import pytest

from autapse.auto import look
from autapse.tasks import ArrayTask


def test_counts_lengths_and_scales_are_those_of_the_data():
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(length, 2)) * [1, 100] + [0, 5] for length in [4] * 10 + [6] * 10 + [30] * 10]
    seen = look(ArrayTask(x, ["rest"] * 20 + ["walk"] * 10, test=(x[:3], ["rest"] * 3)))
    assert (seen.kind, seen.train, seen.test) == ("classification", 30, 3)
    assert seen.classes == {"rest": 20, "walk": 10}
    assert seen.lengths == (4, 6, 30)
    assert seen.missing == 0
    assert seen.deviations == pytest.approx(np.concatenate(x).std(0), rel=1e-5)
    rows = dict(seen.rows()[:6])
    assert rows["series"] == "33; 4 to 30 steps, median 6"
    assert rows["splits"] == "24 for training, 6 for validation, 3 for the test"
    assert rows["classes"] == "2: rest (20), walk (10)"
    assert rows["missing"] == "none"
    (_, mean), (_, deviation) = np.concatenate(x).mean(0), np.concatenate(x).std(0)
    assert f", {mean:.0f} ± {deviation:.0f}; series differ" in rows["scale"]


def test_series_that_differ_in_scale_are_seen():
    """Factors 10^-2, 1 and 10^2 have a deviation of log of ln(100) times that of -1, 0, 1."""
    base = np.random.default_rng(0).normal(size=(1, 50, 1))
    x = np.concatenate([base * factor for factor in (0.01, 1, 100)] * 10)
    seen = look(ArrayTask(x, [0.5] * 30, test=(x, [0.5] * 30)))
    assert seen.series_spread == pytest.approx(np.log(100) * np.sqrt(2 / 3), rel=1e-4)
    assert seen.classes == {}


def test_long_lists_of_names_are_cut():
    x = np.random.default_rng(0).normal(size=(60, 3, 20))
    seen = look(ArrayTask(x, [f"class {n % 15}" for n in range(60)]))
    rows = dict(seen.rows())
    assert rows["channels"] == "20"  # without names
    named = replace(seen, channels=tuple("abcdefghijklmnopqrst"))
    assert dict(named.rows())["channels"] == "20: a, b, c, d, e, f, g, h, i, j, k, l, …"
    assert rows["classes"].startswith("15: ")
    assert rows["classes"].endswith("…")


def test_a_search_divides_the_training_series_by_itself():
    rng = np.random.default_rng(0)
    small, large = (ArrayTask(rng.normal(size=(count, 3, 1)), ["a", "b"] * (count // 2)) for count in (100, 1000))
    rows = dict(look(small, search=True).rows())
    assert rows["splits"] == "80 for training, also for 4-fold cross-validation; 20 for the test"
    assert dict(look(large, search=True).rows())["splits"] == "640 for training, 160 for validation, 200 for the test"


def test_values_whose_squares_are_too_large_for_float32():
    x = 1e30 * np.random.default_rng(0).normal(size=(10, 5, 1)).astype(np.float32)
    seen = look(ArrayTask(x, ["a", "b"] * 5, test_share=0.0))
    assert seen.deviations == pytest.approx([x.astype(np.float64).std()], rel=1e-6)
    assert dict(seen.rows())["scale"].startswith(f"{seen.means[0]:.3g} ± {seen.deviations[0]:.2g}")
