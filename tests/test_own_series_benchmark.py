"""The page of the benchmark of one's own series, from made-up results."""

import numpy as np
from benchmarks.own_series.minirocket import _padded
from benchmarks.own_series.page import page

from autapse.data.ragged import Ragged


def test_the_page_has_means_and_deviations():
    runs = [
        {"seed": seed, "accuracy": value, "chosen": "recipe", "seconds": 100.0} for seed, value in ((0, 98), (1, 99))
    ]
    results = {
        "sets": {
            "GunPoint": {
                "autapse": runs,
                "estimator": [{"seed": 0, "accuracy": 96.0, "seconds": 1.0}],
                "minirocket": [{"seed": 0, "accuracy": 97.0, "seconds": 1.0}],
            }
        },
        "limit": 120,
        "commit": "abc",
        "command": "python",
        "hardware": {"cpu": "some", "cores": 2, "load": 0.1},
    }
    text = page(results)
    assert "| GunPoint | 98.5 ± 0.7 | recipe | 100 | 96.0 | 97.0 | 100.0 |" in text
    assert "| **mean** | 98.5 | | | 96.0 | 97.0 | 100.0 |" in text
    assert "within 120 seconds" in text


def test_short_series_are_filled_with_their_last_value():
    series = Ragged.of([np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])])
    assert _padded(series, 3).tolist() == [[[1, 3, 3], [2, 4, 4]], [[5, 5, 5], [6, 6, 6]]]
