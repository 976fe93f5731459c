"""Dates in nine formats: what is written is the date that was read."""

from datetime import datetime

import pytest

from autapse.checks import InputError
from autapse.tasks import Dates
from autapse.tasks.dates import FORMATS

SMALL = Dates(train_size=300, validation_size=200, test_size=250)
PATTERNS = ("%A, %B %d, %Y", "%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%a %d %b %Y", "%d.%m.%Y", "%Y/%m/%d")


def texts(task, split, seed=0):
    data, (source, target) = task.split(split, seed), task.symbols()
    return [(source.text(data.inputs[n][:, 0]), target.text(data.targets[n])) for n in range(len(data))]


def parsed(text):
    """The date by Python's own parser, for the formats that it knows."""
    for pattern in PATTERNS:
        try:
            return datetime.strptime(text, pattern).date().isoformat()
        except ValueError:
            continue
    return None


def test_the_target_is_the_date_of_the_source():
    pairs = texts(SMALL, "train")
    known = [(parsed(source), target) for source, target in pairs]
    assert all(mine == target for mine, target in known if mine)
    assert 150 < sum(mine is not None for mine, _ in known) < 300  # seven of nine formats
    spelled = {source.split()[1]: target for source, target in pairs if source.startswith("the ")}
    assert spelled
    assert all(int(day[:-2]) == int(target[-2:]) for day, target in spelled.items())
    assert len({source.count(" ") for source, _ in pairs}) >= 3
    assert len(FORMATS) == len(PATTERNS) + 2


def test_no_date_is_in_two_splits():
    parts = [{target for _, target in texts(SMALL, split, seed=4)} for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [300, 200, 250]
    assert len(set.union(*parts)) == 750


def test_more_dates_than_days_are_refused():
    with pytest.raises(InputError, match="be at most the number of days from 1999 to 1999, 365, in total; got 366"):
        Dates(first=1999, last=1999, train_size=364, validation_size=1, test_size=1)
