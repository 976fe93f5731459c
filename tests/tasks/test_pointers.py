import itertools

import numpy as np
import pytest
from scipy import stats

from autapse.tasks import IGNORE, Pointers


@pytest.mark.parametrize(("places", "hops", "tables", "pause"), [(4, 2, 6, 0), (2, 1, 1, 3), (5, 3, 4, 2)])
def test_the_targets_are_the_places_that_the_pointers_lead_to(places, hops, tables, pause):
    task = Pointers(places=places, hops=hops, tables=tables, pause=pause, test_size=50)
    data = task.split("test", seed=0)
    assert data.inputs.shape == (50, task.length, places * places)
    for sequence, targets in zip(data.inputs, data.targets, strict=True):
        place = 0
        for t, (row, target) in enumerate(zip(sequence, targets, strict=True)):
            if t % (pause + 1):
                assert not row.any()
                assert target == IGNORE
                continue
            table = row.reshape(places, places)
            assert sorted(np.unique(table)) == [0, 1]
            assert (table.sum(axis=1) == 1).all()
            for _ in range(hops):
                place = list(table[place]).index(1)
            assert target == place


def test_every_table_is_equally_likely():
    data = Pointers(places=3, tables=2, test_size=20_000).split("test", seed=0)
    tables = data.inputs.reshape(-1, 3, 3).argmax(axis=-1)
    _, counts = np.unique(tables, axis=0, return_counts=True)
    assert len(counts) == 3**3
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_baseline_is_the_error_of_the_most_frequent_place(hops):
    """With one table: the frequency of each place over all possible tables, counted one by one."""
    counts = [0, 0, 0]
    for table in itertools.product(range(3), repeat=3):
        place = 0
        for _ in range(hops):
            place = table[place]
        counts[place] += 1
    task = Pointers(places=3, hops=hops, tables=1, test_size=40_000)
    assert task.baseline(task.split("test", seed=0)) == pytest.approx(1 - max(counts) / 27, abs=0.01)


def test_a_network_that_looks_things_up_scores_zero():
    """The floor is 0: the inputs determine the targets."""
    task = Pointers(test_size=10)
    assert task.floor(task.split("test", seed=0)) == 0.0
