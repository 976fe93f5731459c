"""Time series with a label or a number each: a set of the UEA and UCR archive by name, or a file of one's own."""

from __future__ import annotations

import os
import zipfile
from abc import abstractmethod
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
from autapse.tasks.base import Data, Kind, Metric, Signature, dense, majority_error
from autapse.tasks.stored import Examples, Parts, Stored, held_out, standardisation

Targets = Literal["as they look", "classes", "numbers"]
SUFFIXES = (".ts", ".tsv", ".csv", ".npz", ".ts.gz", ".tsv.gz", ".csv.gz")


@dataclass(frozen=True, kw_only=True)
class SeriesTask(Stored):
    """x_t are the channels of a series, standardised; y is its class, or the numbers that belong to it."""

    validation: float = 0.2

    @classmethod
    def about(cls) -> str:
        return "classification or regression; trivial predictor: always the most frequent class, or the mean"

    @abstractmethod
    def both(self) -> tuple[Series, Series]:
        """Training and test series."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return "classification" if self.both()[0].labels else "regression"

    @property
    def metric(self) -> Metric:  # type: ignore[override]
        return "error rate" if self.both()[0].labels else "mean squared error"

    @property
    def baseline_text(self) -> str:  # type: ignore[override]
        return "always the most frequent class" if self.both()[0].labels else "always the mean of the training targets"

    def parts(self) -> Parts:
        return Parts(*(Examples(series.inputs, _targets(series)) for series in self.both()))

    def signature(self) -> Signature:
        train, _ = self.both()
        outputs = len(train.labels) or _targets(train).shape[1]
        channels, (mean, scale) = train.inputs.values.shape[1], standardisation(train.inputs.values)
        sizes = {"input_size": channels, "output_size": outputs}
        known = Signature(kind=self.kind, **sizes, classes=train.labels, mean=mean, scale=scale)
        if train.labels:
            return known
        target_mean, target_scale = standardisation(_targets(train))
        return replace(known, target_mean=target_mean, target_scale=target_scale)

    def baseline(self, data: Data) -> float:
        targets = dense(data.targets)
        if targets.dtype.kind == "i":
            return majority_error(targets)
        return float(np.square(targets - dense(self.parts().train.targets).mean(axis=0)).mean())


@dataclass(frozen=True, kw_only=True)
class Archive(SeriesTask):
    """A set of the UEA and UCR time series archive, with the archive's own test part."""

    dataset: str
    """Its name, such as JapaneseVowels."""

    name: ClassVar[str] = "uea"
    summary: ClassVar[str] = "classify the series of a set of the UEA and UCR archive, such as JapaneseVowels"

    def both(self) -> tuple[Series, Series]:
        return _upstream(source(f"{ARCHIVE}/{self.dataset}"), self.dataset)


@dataclass(frozen=True, kw_only=True)
class OwnSeries(SeriesTask):
    """Your own series from a file: .ts, .tsv, .csv or .npz; what is known of each is its class or numbers."""

    path: str
    """The file with the series to train on (and, without a test file, to test on)."""
    test: str | None = None
    """The file with the test series; by default X_TEST beside X_TRAIN, else a fifth of the series is set aside."""
    test_share: float = 0.2
    """Share of the series to test on where there is no file of them."""
    targets: Targets = "as they look"
    """Whether targets are names of classes or numbers to predict; as they look, text and whole numbers are classes."""

    name: ClassVar[str] = "file"
    summary: ClassVar[str] = "learn from your own series: autapse run my.ts (.tsv, .csv, .npz)"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("test_share", self.test_share, above=0.0, high=0.9)
        checks.one_of("targets", self.targets, get_args(Targets))
        object.__setattr__(self, "path", _absolute(self.path))  # a run is looked at from other folders too
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
    """A full path with the name that was given: what a link leads to may have another ending."""
    return str(Path(os.path.realpath(Path(path).parent), Path(path).name))


def _understood(path: str, both: tuple[Series, Series], targets: Targets) -> tuple[Series, Series]:
    """Classes taken for the numbers that they are named by."""
    labels = both[0].labels
    if targets == "classes" or not labels:
        if targets == "classes" and not labels:
            checks.fail("targets", f"be numbers for {path}, whose targets are no whole numbers and no text", targets)
        return both
    numbers = [number_or_none(label) for label in labels]
    if None in numbers:
        checks.fail("targets", f"be classes for {path}, which has targets that are no numbers", targets)
    values = np.array(numbers, dtype=np.float32)
    train, test = (Series(series.inputs, values[series.targets], ()) for series in both)
    return train, test


def _targets(series: Series) -> np.ndarray:
    """[N] int64 of classes, [N, K] float32 of numbers."""
    return series.targets.reshape(len(series.targets), -1) if series.targets.dtype.kind == "f" else series.targets


@lru_cache(maxsize=4)
def _upstream(place: Path, name: str) -> tuple[Series, Series]:
    """The two files of a set, in a folder or in a zip."""
    return _pair(*(_find(place, f"{name}_{part}") for part in ("TRAIN", "TEST")))


def _find(place: Path, stem: str) -> Any:
    """The file of a part, wherever in the folder or the zip it lies."""
    with open_tree(place) as tree:
        known = {PurePosixPath(name).name: name for name in tree.names()}
    found = [known[f"{stem}{suffix}"] for suffix in SUFFIXES if f"{stem}{suffix}" in known]
    if not found:
        raise checks.InputError(f"{place / stem}{SUFFIXES[0]} is missing.")
    return place / found[0] if place.is_dir() else zipfile.Path(place, found[0])


def _pair(train: Path, test: Path) -> tuple[Series, Series]:
    both = share_labels(read_series(train), read_series(test), f"{train} and {test}")
    widths = [_targets(series).shape[1:] for series in both]
    if widths[0] != widths[1]:
        checks.fail(str(test), f"have targets of shape {widths[0]}, as {train} has", widths[1], kind=checks.ShapeError)
    return both


_files = lru_cache(maxsize=4)(_pair)


@lru_cache(maxsize=4)
def _divided(path: Path, share: float) -> tuple[Series, Series]:
    """A file's series in two; which ones test does not depend on a run's seed."""
    series = read_series(path)
    if len(series) < 3:
        checks.fail(str(path), "have at least three series, to train, choose and test on", len(series))
    held = held_out(Examples(series.inputs, series.targets), share, seed=0)
    train, test = (
        Series(series.inputs.take(np.flatnonzero(side)), series.targets[side], series.labels) for side in (~held, held)
    )
    return train, test
