import numpy as np

from autapse.auto.folds import Folded, fold
from autapse.data.ragged import Ragged
from autapse.tasks.stored import Examples


def examples(size: int, classes: int = 3, groups: np.ndarray | None = None) -> Examples:
    x = Ragged.of([np.full((1 + n % 4, 2), n, dtype=np.float32) for n in range(size)])
    return Examples(x, np.arange(size) % classes, groups)


def test_a_small_set_has_four_folds_with_all_classes_in_proportion():
    data = fold(examples(60), seed=0)
    assert data.count == 4
    for number in range(4):
        split = data.split(number)
        assert (len(split["train"]), len(split["validation"])) == (45, 15)
        assert np.bincount(split["validation"].targets).tolist() == [5, 5, 5]


def test_every_sequence_validates_once():
    data = fold(examples(61), seed=3)
    parts = [data.split(number)["validation"].inputs for number in range(data.count)]
    firsts = [float(value) for part in parts for value in part.values[part.starts[:-1], 0]]
    assert sorted(firsts) == list(range(61))


def test_a_large_set_has_one_validation_part():
    data = fold(examples(600), seed=0)
    assert data.count == 1
    assert len(data.split(0)["validation"]) == 120
    assert len(fold(examples(20_000, classes=2), seed=0).split(0)["validation"]) == 1000


def test_a_group_is_never_on_both_sides():
    groups = np.arange(60) // 6
    data = fold(examples(60, groups=groups), seed=0)
    for number in range(data.count):
        assert not set(groups[data.fold == number]) & set(groups[data.fold != number])


def test_another_process_gets_the_same_data():
    data = fold(examples(20), seed=0)
    copy = Folded.of_arrays(data.arrays())
    for number in range(data.count):
        for name, part in data.split(number).items():
            other = copy.split(number)[name]
            assert np.array_equal(part.inputs.values, other.inputs.values)
            assert np.array_equal(part.targets, other.targets)
