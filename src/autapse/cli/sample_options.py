"""The options of `autapse sample`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse.cli.parse import Trust


@dataclass
class Sample(Trust):
    """Draw sequences from a run: text, symbols or values.

    A language model (a run on ptb) continues one long text. A generator (a run on strokes, or on your own file with
    --generate) draws whole sequences: symbols are printed as lines, values as a table or into a file.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or a checkpoint file."""
    count: int | None = None
    """Generators: number of sequences to draw, for each entry of --given; by default 10."""
    words: int | None = None
    """Language models: number of words or characters to write; the end of a sentence counts as one. By default 100
    words, or 500 characters."""
    length: int | None = None
    """Generators: the length of all sequences, instead of a length drawn by the model."""
    start: str | None = None
    """The known beginning. Text: its words, separated by spaces; or its characters. Values: a file with the first steps
    of one series, or of one series per sequence."""
    given: str | None = None
    """What the sequences depend on, if the run needs it: the name of a class (--given a), several (--given a,b,c),
    numbers (--given 0.5,2), or a file. In a text file each line is one entry; a table or array file has one series per
    sequence."""
    temperature: float = 1.0
    """Below 1, likely words and values become more likely; above 1, less likely."""
    top_k: int | None = None
    """Draw only from this many most likely words or symbols."""
    top_p: float | None = None
    """Draw only from the most likely words or symbols that together have this probability, such as 0.9."""
    seed: int = 0
    """Seed of the random numbers; another seed gives other sequences."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Generators: write the sequences to this new file instead of printing them. Symbols: .txt. Values: .csv; .npz with
    `inputs`, `lengths` and `channels`; or .npy, with NaN after the end of a sequence."""
    picture: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Values: also draw the sequences, as .svg or .png: series as lines, pen strokes as drawings."""
