"""`autapse sample RUN`: write text with a language model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from autapse import checks, terminal
from autapse.cli.parse import Trust, parse

END = "<eos>"


@dataclass
class Sample(Trust):
    """Write text with a language model. Each word is drawn with the probabilities of the model."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or a checkpoint file."""
    words: int = 100
    """Number of words to write; the end of a sentence counts as one word."""
    temperature: float = 1.0
    """Below 1, likely words become more likely; above 1, less likely."""
    seed: int = 0
    """Seed of the random numbers; another seed gives another text."""
    start: str = ""
    """First words of the text, separated by spaces; <unk> for a word that the run does not know. By default the text
    starts with a new sentence."""


def main(words: list[str]) -> None:
    args = parse(Sample, "sample", words)
    checks.integer("words", args.words, minimum=1)
    checks.number("temperature", args.temperature, above=0.0)
    checks.seed("seed", args.seed)
    import torch

    from autapse.models import LanguageModel
    from autapse.training import load_run

    model, config, signature = load_run(args.run, trust=args.trust)
    if not isinstance(model, LanguageModel):
        raise checks.InputError(f"{args.run} is a run on {config.task.name}, not a language model. Train one on ptb.")
    known = signature.vocabularies[0]
    begun = start_words(args.start, known)
    # A new sentence comes after the end of another one.
    before = [END, *begun] if END in known else begun or [known[0]]
    numbers = torch.tensor([known.index(word) for word in before])
    drawn = model.sample(numbers, args.words, args.temperature, args.seed).tolist()
    terminal.write(text_of([*begun, *(known[number] for number in drawn)]))


def start_words(text: str, known: tuple[str, ...]) -> list[str]:
    """The words of `text`; the model must know all of them."""
    words = text.split()
    for word in words:
        if word not in known:
            remedy = f"{checks.closest(word, known)} Write <unk> for a word that the run does not know.".strip()
            checks.fail("start", f"have only words of the run's vocabulary ({len(known)} words)", word, remedy)
    return words


def text_of(words: list[str]) -> str:
    """The words as text, with one line per sentence.

    >>> print(text_of("it rose <eos> shares fell".split()))
    it rose
    shares fell
    """
    lines: list[list[str]] = [[]]
    for word in words:
        if word == END:
            lines.append([])
        else:
            lines[-1].append(word)
    return "\n".join(" ".join(line) for line in (lines if lines[-1] else lines[:-1]))
