"""Time series with a class or values to predict: data sets of the UEA and UCR archive, or your own file."""

from __future__ import annotations

import os
import warnings
import zipfile
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.archives import open_tree
from autapse.data.catalogue import ARCHIVE
from autapse.data.formats.sequences import SINCE, FileLayout, Form, Times
from autapse.data.formats.table import read_series
from autapse.data.formats.timeseries import Series, number_or_none, share_labels
from autapse.data.kept import read_kept
from autapse.data.paths import source
from autapse.data.ragged import Ragged, alike, dense
from autapse.tasks.base import Signature, Task
from autapse.tasks.own import OwnData, check_count, divided

Target = Literal["as they look", "classes", "numbers", "step", "series"]
Stamp = tuple[tuple[int, int, int], ...]
SUFFIXES = (".ts", ".tsv", ".csv", ".npz", ".parquet", ".ts.gz", ".tsv.gz", ".csv.gz")


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
        layout = FileLayout(missing=self.missing != "error")
        return _upstream(source(f"{ARCHIVE}/{self.dataset}"), self.dataset, layout)


@dataclass(frozen=True, kw_only=True)
class OwnSeries(OwnData):
    """Your own series from a file or a folder of sounds; y is a class or values, per series or per step.

    Args:
        path: The file with the training series (and the test series, if there is no test file): a table (.csv, .tsv,
            .parquet), arrays (.npz), .ts; or a folder of .wav files, with one folder per class.
        test: The file with the test series; by default X_TEST in the folder of X_TRAIN. Without such a file, a share of
            the series is held out.
        test_share: Share of the series in the test set, if there is no test file; 0 for no test set.
        targets: What targets are: classes or values to predict (numbers), for each series or for each step. By default,
            text and integers are classes.
        sequence_column: Column with the series of each row; by default `sequence`.
        time_column: Column with the time of each row, numbers or dates; by default `time` or `step`, if there is one.
        target_column: Columns with targets; by default `target`.
        channels: Columns with channels; by default all others.
        form: Whether a table has one row per step (long) or one row per series (wide).
        times: What irregular times become: the time since the step before as a further input, values resampled to equal
            steps, or nothing (ignore). With auto, an input.
    """

    path: str
    test: str | None = None
    test_share: float = 0.2
    targets: tuple[Target, ...] = ()
    sequence_column: str | None = None
    time_column: str | None = None
    target_column: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    form: Form = "auto"
    times: Times = "auto"

    name: ClassVar[str] = "file"
    summary: ClassVar[str] = (
        "learn from your own series: autapse run my.csv (.tsv, .parquet, .npz, .ts, a folder of .wav)"
    )
    older: ClassVar[dict[str, Any]] = {**OwnData.older, "times": "ignore"}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("test_share", self.test_share, low=0.0, high=0.9)
        for name in ("targets", "target_column", "channels"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        for target in self.targets:
            checks.one_of("targets", target, get_args(Target))
        for pair in ({"classes", "numbers"}, {"step", "series"}):
            if pair <= set(self.targets):
                checks.fail("targets", f"not have both {' and '.join(sorted(pair))}", self.targets)
        checks.one_of("form", self.form, get_args(Form))
        checks.one_of("times", self.times, get_args(Times))
        object.__setattr__(self, "path", absolute(self.path))  # the run may be loaded from another folder
        if self.test is not None:
            object.__setattr__(self, "test", absolute(self.test))

    def layout(self) -> FileLayout:
        """How to read the file."""
        return FileLayout(
            sequence=self.sequence_column or "",
            time=self.time_column or "",
            targets=self.target_column,
            channels=self.channels,
            form=self.form,
            times=self.times,
            per="step" if "step" in self.targets else "series" if "series" in self.targets else "auto",
            missing=self.missing != "error",
        )

    def both(self) -> tuple[Series, Series]:
        train, test = Path(self.path), self._test_path()
        if test is None:
            both = _divided(train, self.test_share, self.layout(), stamp(train))
            check_count(both, self.test_share, self.validation, self.path)
        else:
            both = _files(train, test, self.layout(), stamp(train), stamp(test))
        understood = _understood(self.path, both, self.targets)
        labels = understood[0].labels
        if len(labels) == 1:
            checks.fail(self.path, "have series of at least two classes", f"only {labels[0]!r}")
        return understood

    def _test_path(self) -> Path | None:
        if self.test is not None:
            return Path(self.test)
        path = Path(self.path)
        beside = path.with_name(path.name.replace("_TRAIN.", "_TEST."))
        return beside if beside != path and beside.exists() else None


def layout_for(task: Task, signature: Signature) -> FileLayout:
    """How to read a file for predictions: as the training file of a run, with the channels that its model knows."""
    own = task.layout() if isinstance(task, OwnSeries) else FileLayout()
    per_step = signature.kind in ("tagging", "regression per step")
    return replace(
        own.fitted(signature.channels, signature.time_step),
        per="step" if per_step else "series",
        missing=signature.missing != "error",
        size=signature.input_size,
    )


def is_own(word: str) -> bool:
    """Whether a word of the command line is a file or a folder with people's own series, rather than a task."""
    return word.lower().endswith(SUFFIXES) or Path(word).is_dir()


def absolute(path: str) -> str:
    """The absolute path. A link is not resolved, because its target may have another suffix."""
    return str(Path(os.path.realpath(Path(path).parent), Path(path).name))


def _understood(path: str, both: tuple[Series, Series], targets: tuple[Target, ...]) -> tuple[Series, Series]:
    """Read the names of the classes as values, if `targets` asks for it."""
    labels = both[0].labels
    if "numbers" not in targets or not labels:
        if "classes" in targets and not labels:
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
def _upstream(place: Path, name: str, layout: FileLayout) -> tuple[Series, Series]:
    """The training and test series of a data set, from a folder or a zip file."""
    train, test = (_find(place, f"{name}_{part}") for part in ("TRAIN", "TEST"))
    return _pair(train, test, layout)


def _find(place: Path, stem: str) -> Any:
    """The file whose name begins with `stem`, anywhere in the folder or the zip file."""
    with open_tree(place) as tree:
        known = {PurePosixPath(name).name: name for name in tree.names()}
    names = [known[f"{stem}{suffix}"] for suffix in SUFFIXES if f"{stem}{suffix}" in known]
    if not names:
        raise checks.InputError(f"{place / stem}{SUFFIXES[0]} is missing.")
    return place / names[0] if place.is_dir() else zipfile.Path(place, names[0])


def _pair(train: Path, test: Path, layout: FileLayout) -> tuple[Series, Series]:
    """Training and test series. The test file's channels are matched by name."""
    first = _read(train, layout)
    second = _read(test, layout.fitted(first.channels, first.time_step))
    both = share_labels(first, second, f"{train} and {test}")
    shapes = [(isinstance(series.targets, Ragged), *dense(series.targets).shape[1:]) for series in both]
    if shapes[0] != shapes[1]:
        widths = [dense(series.targets).shape[1:] for series in both]
        checks.fail(str(test), f"have targets of shape {widths[0]}, as {train} has", widths[1], kind=checks.ShapeError)
    return both


@lru_cache(maxsize=4)
def _files(train: Path, test: Path, layout: FileLayout, *stamps: Stamp) -> tuple[Series, Series]:
    """The series of two files; they are read again if their stamps have changed."""
    return _pair(train, test, layout)


@lru_cache(maxsize=4)
def _divided(path: Path, share: float, layout: FileLayout, stamp: Stamp) -> tuple[Series, Series]:
    """Split the series of a file into training and test; it is read again if its stamp has changed."""
    return divided(_read(path, layout), share)


def stamp(path: Path) -> Stamp:
    """What changes if a file changes, or a file anywhere in a folder."""
    try:
        parts = [path, *(sorted(path.rglob("*")) if path.is_dir() else ())]
        return tuple((part.stat().st_size, part.stat().st_mtime_ns, part.stat().st_ino) for part in parts)
    except OSError:  # reading it will say what is wrong
        return ()


def _read(path: Path, layout: FileLayout) -> Series:
    series = read_kept(path, layout) if isinstance(path, Path) else read_series(path, layout)
    if layout.times == "auto" and SINCE in series.channels:
        _say_irregular(path)
    return series


@cache
def _say_irregular(path: Path) -> None:
    """Warn once for each file."""
    other = "To resample or to ignore the times, add --times resample or --times ignore."
    warnings.warn(f"{path} has irregular times. A further input is the {SINCE}. {other}", stacklevel=2)
