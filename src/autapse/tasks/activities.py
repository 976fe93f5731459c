"""Human activities from body-worn sensors (paper: ERNN, section 4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from autapse import checks
from autapse.data.cache import cached
from autapse.data.formats.dsa import read_dsa
from autapse.data.formats.hapt import read_hapt
from autapse.data.formats.har import read_uci_har
from autapse.data.formats.recordings import Recordings
from autapse.data.paths import find, source
from autapse.tasks.base import Kind, Metric, Preset, Signature
from autapse.tasks.stored import Examples, Parts, Stored, standardisation

Readers = dict[str, Callable[[Path], Recordings]]
READERS: Readers = {"har": read_uci_har, "hapt": read_hapt, "dsa-19": read_dsa}


@dataclass(frozen=True, kw_only=True)
class Activities(Stored):
    """Windows of sensor signals, channels standardised; y is the activity.

    Args:
        validation: Share of the training windows that is held out for validation, by subject.
    """

    validation: float = 0.2

    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    preset: ClassVar[Preset] = "recipe"
    baseline_text: ClassVar[str] = "always the most frequent activity"

    @abstractmethod
    def recordings(self) -> Recordings:
        """All windows, with their labels and subjects."""

    @abstractmethod
    def named(self) -> tuple[tuple[str, ...], np.ndarray]:
        """The names of the classes, and the class of each activity."""

    def parts(self) -> Parts:
        all_of_it, (_, classes) = self.recordings(), self.named()
        sides = (~all_of_it.is_test, all_of_it.is_test)
        return Parts(
            *(Examples(all_of_it.windows[s], classes[all_of_it.labels[s]], all_of_it.subjects[s]) for s in sides)
        )

    def signature(self) -> Signature:
        recordings, (names, _) = self.recordings(), self.named()
        mean, scale = standardisation(recordings.windows[~recordings.is_test])
        return Signature(
            kind=self.kind, input_size=len(mean), output_size=len(names), classes=names, mean=mean, scale=scale
        )


@dataclass(frozen=True, kw_only=True)
class HAR(Activities):
    """2.56 s of a smartphone's acceleration and rotation at 50 Hz, nine channels; y is one of six activities.

    With two classes, y is a group: sitting, laying and walking upstairs; or standing, walking and walking downstairs.

    Args:
        classes: 6 activities, or the 2 groups that the papers call HAR-2.
        recorded: The windows to use: har (the original ones), hapt (cut from HAPT's raw signals, with the same people
            and phone), or any (the data set that is here).
        validation: Share of the training windows that is held out for validation, by subject.
    """

    classes: Literal[2, 6] = 6
    recorded: Literal["any", "har", "hapt"] = "any"

    name: ClassVar[str] = "har"
    data_sets: ClassVar[tuple[str, ...]] = ("har", "hapt")
    summary: ClassVar[str] = "recognise an activity from a smartphone on the belt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if checks.integer("classes", self.classes) not in (2, 6):
            checks.fail("classes", "be 2 or 6", self.classes)
        checks.one_of("recorded", self.recorded, ("any", "har", "hapt"))

    def recordings(self) -> Recordings:
        here = "hapt" if find("hapt") and not find("har") else "har"
        return _recordings(here if self.recorded == "any" else self.recorded)

    def named(self) -> tuple[tuple[str, ...], np.ndarray]:
        if self.classes == 2:
            groups = ("sitting, laying or walking upstairs", "standing, walking or walking downstairs")
            return groups, np.array([1, 0, 1, 0, 1, 0])
        return ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying"), np.arange(6)


@dataclass(frozen=True, kw_only=True)
class DSA(Activities):
    """5 s of five body-worn sensors at 25 Hz, 45 channels; y is one of 19 daily and sports activities.

    Args:
        validation: Share of the training windows that is held out for validation, by subject.
    """

    name: ClassVar[str] = "dsa"
    data_sets: ClassVar[tuple[str, ...]] = ("dsa-19",)
    summary: ClassVar[str] = "recognise 19 daily and sports activities from five sensors on the body"

    def recordings(self) -> Recordings:
        return _recordings(self.data_sets[0])

    def named(self) -> tuple[tuple[str, ...], np.ndarray]:
        return tuple(f"a{number:02d}" for number in range(1, 20)), np.arange(19)


def _recordings(name: str) -> Recordings:
    return _parsed(name, source(name))


@lru_cache(maxsize=2)
def _parsed(name: str, path: Path) -> Recordings:
    def parse() -> dict[str, np.ndarray]:
        return dict(vars(READERS[name](path)))

    return Recordings(**cached(f"{name}/windows", 1, [path], parse))
