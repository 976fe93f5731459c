"""`autapse sample RUN`: write text with a language model, or draw sequences from a generator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse import checks, terminal
from autapse.cli.parse import Trust, parse


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


def main(words: list[str]) -> None:
    args = parse(Sample, "sample", words)
    checks.seed("seed", args.seed)
    _check_amounts(args)
    from autapse.cli.sample_sequences import write_sequences
    from autapse.cli.sample_text import write_text
    from autapse.models import Generator, LanguageModel
    from autapse.training import load_run

    model, config, signature = load_run(args.run, trust=args.trust)
    if isinstance(model, LanguageModel):
        refuse(args, "a language model", "count", "length", "given", "out", "picture")
        terminal.write(write_text(model, signature.vocabularies[0], args))
    elif isinstance(model, Generator):
        refuse(args, "a generator, which draws whole sequences: use --count or --length", "words")
        write_sequences(model, args)
    else:
        what = "neither a language model nor a generator"
        remedy = "Train one: autapse run ptb, autapse run strokes, or autapse run my.txt."
        raise checks.InputError(f"{args.run} is a run on {config.task.name}, {what}. {remedy}")


def _check_amounts(args: Sample) -> None:
    """Check the numbers before the run is loaded."""
    checks.number("temperature", args.temperature, above=0.0)
    for name in ("count", "words", "length", "top_k"):
        if getattr(args, name) is not None:
            checks.integer(name, getattr(args, name), minimum=1)
    if args.top_p is not None and checks.number("top_p", args.top_p, above=0.0) > 1:
        checks.fail("top_p", "be a share above 0 and at most 1", args.top_p)


def refuse(args: Sample, what: str, *names: str) -> None:
    """Raise an error if an option was given that a run does not have."""
    for name in names:
        value = getattr(args, name)
        if value is not None:
            checks.fail(name, f"be omitted for {what}", str(value) if isinstance(value, Path) else value)
