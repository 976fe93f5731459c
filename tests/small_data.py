"""All data sets, small, where a user keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import upstream
import upstream_text

IMAGES_AND_SENSORS = ("mnist", "fashion_mnist", "cifar", "hapt", "dsa")
WORDS_AND_SOUND = ("ptb", "conllu", "babi", "imdb", "yelp", "speech_commands", "sst")


def write_all(folder: Path) -> None:
    """One of each in the upstream formats; of time series JapaneseVowels."""
    for name in IMAGES_AND_SENSORS:
        getattr(upstream, f"write_{name}")(folder)
    for name in WORDS_AND_SOUND:
        getattr(upstream_text, f"write_{name}")(folder)
    upstream.write_ts(folder, "JapaneseVowels")


@contextmanager
def data_in(folder: Path) -> Iterator[Path]:
    """Data sets are looked for in a folder, parsed arrays kept below it, and nothing is downloaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTAPSE_DATA", str(folder))
        patch.setenv("AUTAPSE_CACHE", str(folder / "parsed"))
        patch.setenv("AUTAPSE_OFFLINE", "1")
        yield folder
