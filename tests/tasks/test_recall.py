"""Repeat copy, associative recall and priority sort: every sequence is read again from its inputs and answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import stats

from autapse.checks import InputError
from autapse.tasks import IGNORE, AssociativeRecall, Copy, Data, PrioritySort, RepeatCopy
from autapse.tasks.recall import Recall

SIZES = {"train_size": 150, "validation_size": 100, "test_size": 120}


def sequences(data: Data) -> Iterator[tuple[np.ndarray, list[int]]]:
    """The inputs of each sequence, and its targets, without padding."""
    lengths = data.lengths if data.lengths is not None else [data.inputs.shape[1]] * len(data)
    for x, y, length in zip(data.inputs, data.targets, lengths, strict=True):
        assert not x[length:].any()
        assert (y[length:] == IGNORE).all()
        yield x[:length], y[:length].tolist()


def symbols_of(x: np.ndarray, symbols: int) -> list[int | None]:
    """The symbol that each step shows, None for none."""
    assert set(np.unique(x[:, :symbols])) <= {0.0, 1.0}
    assert (x[:, :symbols].sum(axis=1) <= 1).all()
    return [int(row.argmax()) if row.any() else None for row in x[:, :symbols]]


def repeat_copy(x: np.ndarray, task: RepeatCopy) -> list[int]:
    shown = symbols_of(x, task.symbols)
    (marker,) = np.flatnonzero(x[:, task.symbols])
    assert all(symbol is None for symbol in shown[marker:])
    times = x[marker, task.symbols + 1] * task.repeats
    assert times == pytest.approx(round(times), abs=1e-5)
    answer = [*shown[:marker] * round(times), task.symbols]
    return [IGNORE] * (marker + 1) + answer  # type: ignore[list-item]


def associative_recall(x: np.ndarray, task: AssociativeRecall) -> list[int]:
    shown, n = symbols_of(x, task.symbols), task.item_length
    marks = np.flatnonzero(x[:, task.symbols])
    items = [shown[m + 1 : m + 1 + n] for m in marks]
    first, last = np.flatnonzero(x[:, task.symbols + 1])
    query = shown[first + 1 : last]
    assert len({tuple(item) for item in items}) == len(items)  # type: ignore[arg-type]
    assert all(symbol is None for symbol in shown[last:])
    assert first == len(items) * (n + 1)
    return [IGNORE] * (last + 1) + items[items.index(query) + 1]  # type: ignore[return-value]


def priority_sort(x: np.ndarray, task: PrioritySort) -> list[int]:
    shown = symbols_of(x, task.symbols)
    (marker,) = np.flatnonzero(x[:, task.symbols + 1])
    pairs = sorted(zip(x[:marker, task.symbols].tolist(), shown[:marker], strict=True), reverse=True)
    return [IGNORE] * (marker + 1) + [symbol for _, symbol in pairs][: task.answers]  # type: ignore[return-value]


ANSWERS: dict[type[Recall], Callable[..., list[int]]] = {
    RepeatCopy: repeat_copy,
    AssociativeRecall: associative_recall,
    PrioritySort: priority_sort,
}
OPTIONS: list[tuple[type[Recall], dict[str, int]]] = [
    (RepeatCopy, {}),
    (RepeatCopy, {"shortest": 3, "longest": 4, "repeats": 2, "symbols": 3, "test_repeats": 7, "test_longest": 9}),
    (AssociativeRecall, {}),
    (AssociativeRecall, {"item_length": 1, "symbols": 6}),
    (AssociativeRecall, {"shortest": 4, "longest": 4, "test_shortest": 9, "test_longest": 9, "item_length": 2}),
    (PrioritySort, {}),
    (PrioritySort, {"answers": 3, "shortest": 2, "longest": 6, "test_shortest": 8, "test_longest": 8}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_answer_follows_from_what_is_shown(kind: type[Recall], options: dict[str, int], split: str) -> None:
    task = kind(**SIZES, **options)
    data = task.split(split, seed=2)  # type: ignore[arg-type]
    for x, y in sequences(data):
        assert ANSWERS[kind](x, task) == y
        answer = [target for target in y if target != IGNORE]
        assert min(answer) >= 0
        assert max(answer) < task.output_size
        assert not x[len(y) - len(answer) :].any(), "nothing is shown during the answer"


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_numbers_of_items_are_uniform_within_their_limits(kind: type[Recall]) -> None:
    task = kind(**SIZES | {"test_size": 4000}, shortest=2, longest=5, test_shortest=7, test_longest=9)
    marked = {RepeatCopy: lambda x: np.flatnonzero(x[:, 8])[0], AssociativeRecall: lambda x: x[:, 8].sum()}
    count = marked.get(kind, lambda x: np.flatnonzero(x[:, 9])[0])
    for split, (low, high) in {"train": (2, 5), "validation": (2, 5), "test": (7, 9)}.items():
        found, counts = np.unique([count(x) for x, _ in sequences(task.split(split, 0))], return_counts=True)
        assert found.tolist() == list(range(low, high + 1))
    assert stats.chisquare(counts).pvalue > 1e-4


def test_repeats_and_symbols_are_uniform() -> None:
    task = RepeatCopy(longest=1, repeats=4, symbols=3, test_size=6000)
    data = task.split("test", 0)
    first = data.targets[:, 2]
    assert stats.chisquare(np.unique(first, return_counts=True)[1]).pvalue > 1e-4
    times = np.round(data.inputs[:, 1, 4] * 4)
    assert stats.chisquare(np.unique(times, return_counts=True)[1]).pvalue > 1e-4


@pytest.mark.parametrize("kind", ANSWERS)
def test_baseline_and_floor_count_the_answer_only(kind: type[Recall]) -> None:
    task = kind(**SIZES)
    data = task.split("test", 0)
    answers = [target for _, y in sequences(data) for target in y if target != IGNORE]
    most = max(answers.count(symbol) for symbol in set(answers))
    assert task.baseline(data) == pytest.approx(1 - most / len(answers))
    assert task.floor(data) == 0.0


# Copy, with lengths that differ -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "train", "test"),
    [
        ({"shortest": 2}, (2, 5), (2, 5)),
        ({"test_memory": 9}, (5, 5), (9, 9)),
        ({"shortest": 2, "test_memory": 9}, (2, 5), (2, 9)),
        ({"shortest": 2, "test_shortest": 9, "test_memory": 9}, (2, 5), (9, 9)),
    ],
)
def test_copies_of_lists_of_several_lengths(
    options: dict[str, int], train: tuple[int, int], test: tuple[int, int]
) -> None:
    task = Copy(delay=3, memory=5, symbols=4, **SIZES, **options)
    for split, limits in {"train": train, "test": test}.items():
        data = task.split(split, 0)  # type: ignore[arg-type]
        seen = set()
        for x, y in sequences(data):
            shown = x.argmax(axis=1).tolist()
            count = (len(shown) - 3) // 2
            message = shown[:count]
            assert shown == [*message, 4, 4, 5, *[4] * count]
            assert y == [4] * (count + 3) + message
            seen.add(count)
        assert (min(seen), max(seen)) == limits
        probabilities = [np.log(4) * ((len(y) - 3) / 2) for _, y in sequences(data)]
        steps = sum(len(y) for _, y in sequences(data))
        assert task.baseline(data) == pytest.approx(sum(probabilities) / steps)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Copy(shortest=11), "shortest must be at most the largest number of symbols, 10; got 11."),
        (lambda: Copy(test_shortest=11), "test_shortest must be at most the largest number of symbols, 10; got 11."),
        (lambda: Copy(test_memory=0), "test_memory must be an integer of at least 1; got 0."),
        (lambda: RepeatCopy(shortest=4, longest=3), "longest must be an integer of at least 4; got 3."),
        (lambda: RepeatCopy(repeats=0), "repeats must be an integer of at least 1; got 0."),
        (lambda: RepeatCopy(test_longest=0), "test_longest must keep the shortest test list at most as long as"),
        (lambda: RepeatCopy(test_shortest=11), "test_shortest must keep the shortest test list at most as long as"),
        (lambda: AssociativeRecall(shortest=1), "shortest must be an integer of at least 2; got 1."),
        (lambda: AssociativeRecall(symbols=2, item_length=2), "symbols, item_length must give at least 6 different"),
        (lambda: PrioritySort(answers=0), "answers must be an integer of at least 1; got 0."),
        (lambda: PrioritySort(symbols=1), "symbols must be an integer of at least 2; got 1."),
    ],
)
def test_options_that_do_not_fit(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert message in str(error.value)
