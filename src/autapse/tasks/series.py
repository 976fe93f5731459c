"""Time series with a class or values to predict: data sets of the UEA and UCR archive, or your own file."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.archives import open_tree
from autapse.data.catalogue import ARCHIVE
from autapse.data.formats.table import read_series
from autapse.data.formats.timeseries import Series, number_or_none, share_labels
from autapse.data.paths import source
from autapse.data.ragged import alike, dense
from autapse.tasks.own import OwnData, divided

Targets = Literal["as they look", "classes", "numbers"]
SUFFIXES = (".ts", ".tsv", ".csv", ".npz", ".ts.gz", ".tsv.gz", ".csv.gz")


@dataclass(frozen=True, kw_only=True)
class Archive(OwnData):
    """A data set of the UEA and UCR time series archive, with the archive's own test set.

    Args:
        dataset: Its name, such as JapaneseVowels.
    """

    dataset: str

    name: ClassVar[str] = "uea"
    summary: ClassVar[str] = "classify the series of a data set of the UEA and UCR archive, such as JapaneseVowels"

    def both(self) -> tuple[Series, Series]:
        return _upstream(source(f"{ARCHIVE}/{self.dataset}"), self.dataset)


@dataclass(frozen=True, kw_only=True)
class OwnSeries(OwnData):
    """Your own series from a file, .ts, .tsv, .csv or .npz; y is the class of each series, or values to predict.

    Args:
        path: The file with the training series (and the test series, if there is no test file).
        test: The file with the test series; by default X_TEST in the folder of X_TRAIN. Without such a file, a share of
            the series is held out.
        test_share: Share of the series in the test set, if there is no test file.
        targets: Whether targets are classes or values to predict (numbers). With "as they look", text and integers are
            classes.
    """

    path: str
    test: str | None = None
    test_share: float = 0.2
    targets: Targets = "as they look"

    name: ClassVar[str] = "file"
    summary: ClassVar[str] = "learn from your own series: autapse run my.ts (.tsv, .csv, .npz)"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("test_share", self.test_share, above=0.0, high=0.9)
        checks.one_of("targets", self.targets, get_args(Targets))
        object.__setattr__(self, "path", _absolute(self.path))  # the run may be loaded from another folder
        if self.test is not None:
            object.__setattr__(self, "test", _absolute(self.test))

    def both(self) -> tuple[Series, Series]:
        train, test = Path(self.path), self._test_path()
        both = _files(train, test) if test is not None else _divided(train, self.test_share)
        return both if self.targets == "as they look" else _understood(self.path, both, self.targets)

    def _test_path(self) -> Path | None:
        if self.test is not None:
            return Path(self.test)
        path = Path(self.path)
        beside = path.with_name(path.name.replace("_TRAIN.", "_TEST."))
        return beside if beside != path and beside.exists() else None


def _absolute(path: str) -> str:
    """The absolute path. A link is not resolved, because its target may have another suffix."""
    return str(Path(os.path.realpath(Path(path).parent), Path(path).name))


def _understood(path: str, both: tuple[Series, Series], targets: Targets) -> tuple[Series, Series]:
    """Read the names of the classes as values, if `targets` asks for it."""
    labels = both[0].labels
    if targets == "classes" or not labels:
        if targets == "classes" and not labels:
            checks.fail("targets", f"be numbers for {path}, whose targets are neither integers nor text", targets)
        return both
    numbers = [number_or_none(label) for label in labels]
    if None in numbers:
        checks.fail("targets", f"be classes for {path}, which has targets that are not numbers", targets)
    values = np.array(numbers, dtype=np.float32)
    train, test = (
        replace(series, targets=alike(series.targets, values[dense(series.targets)][:, None]), labels=())
        for series in both
    )
    return train, test


@lru_cache(maxsize=4)
def _upstream(place: Path, name: str) -> tuple[Series, Series]:
    """The training and test series of a data set, from a folder or a zip file."""
    return _pair(*(_find(place, f"{name}_{part}") for part in ("TRAIN", "TEST")))


def _find(place: Path, stem: str) -> Any:
    """The file whose name begins with `stem`, anywhere in the folder or the zip file."""
    with open_tree(place) as tree:
        known = {PurePosixPath(name).name: name for name in tree.names()}
    names = [known[f"{stem}{suffix}"] for suffix in SUFFIXES if f"{stem}{suffix}" in known]
    if not names:
        raise checks.InputError(f"{place / stem}{SUFFIXES[0]} is missing.")
    return place / names[0] if place.is_dir() else zipfile.Path(place, names[0])


def _pair(train: Path, test: Path) -> tuple[Series, Series]:
    both = share_labels(read_series(train), read_series(test), f"{train} and {test}")
    widths = [dense(series.targets).shape[1:] for series in both]
    if widths[0] != widths[1]:
        checks.fail(str(test), f"have targets of shape {widths[0]}, as {train} has", widths[1], kind=checks.ShapeError)
    return both


_files = lru_cache(maxsize=4)(_pair)


@lru_cache(maxsize=4)
def _divided(path: Path, share: float) -> tuple[Series, Series]:
    return divided(read_series(path), share, str(path))
