"""Spoken commands (paper: ERNN, section 4: Google-12 and Google-30)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from autapse import checks
from autapse.data.cache import cached, pack_strings, unpack_strings
from autapse.data.formats.speech_commands import read_speech_commands
from autapse.data.paths import source
from autapse.tasks.base import SPLITS, Kind, Metric, Signature
from autapse.tasks.stored import Examples, Parts, Stored, standardisation


@dataclass(frozen=True, kw_only=True)
class Speech(Stored):
    """One second of speech as 99 frames of 32 log filterbank energies, standardised; y is the word.

    The data set's own validation and test parts are used, which share no speaker with the training part.
    """

    classes: Literal[12, 30] = 30
    """All 30 words; or ten commands, other words and silence."""

    name: ClassVar[str] = "speech"
    data_sets: ClassVar[tuple[str, ...]] = ("speech-commands",)
    summary: ClassVar[str] = "recognise a spoken command from a second of sound"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent word"

    def __post_init__(self) -> None:
        super().__post_init__()
        if checks.integer("classes", self.classes) not in (12, 30):
            checks.fail("classes", "be 12 or 30", self.classes)

    def parts(self) -> Parts:
        return _clips(source(self.data_sets[0]), self.classes)[0]

    def signature(self) -> Signature:
        parts, names = _clips(source(self.data_sets[0]), self.classes)
        assert isinstance(parts.train.inputs, np.ndarray)
        mean, scale = standardisation(parts.train.inputs)
        return Signature(kind=self.kind, input_size=32, output_size=len(names), classes=names, mean=mean, scale=scale)


@lru_cache(maxsize=1)
def _clips(path: Path, classes: int) -> tuple[Parts, tuple[str, ...]]:
    def parse() -> dict[str, np.ndarray]:
        clips = read_speech_commands(path, classes)
        splits = np.array([SPLITS.index(split) for split in clips.splits], dtype=np.uint8)
        return {
            "features": clips.features,
            "labels": clips.labels,
            "splits": splits,
            "names": pack_strings(clips.names),
        }

    arrays = cached(f"speech-commands/{classes}", 1, [path], parse)
    train, validation, test = (
        Examples(arrays["features"][chosen], arrays["labels"][chosen])
        for chosen in (arrays["splits"] == number for number in range(len(SPLITS)))
    )
    return Parts(train, test, validation), tuple(unpack_strings(arrays["names"]))
