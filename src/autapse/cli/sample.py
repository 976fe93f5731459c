"""`autapse sample RUN`: text from a language model."""

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
    """Let a language model go on from some words, each next one drawn with the model's probabilities."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or a checkpoint file."""
    words: int = 100
    """Words to write; the end of a sentence counts as one."""
    temperature: float = 1.0
    """Below 1 likely words become more likely, above 1 less."""
    seed: int = 0
    """Another seed, another text."""
    start: str = ""
    """Words to go on from, with spaces between them, <unk> for one that the run does not know; by default a new
    sentence."""


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
        raise checks.InputError(f"{args.run} is a run on {config.task.name} and no language model. Train one on ptb.")
    known = signature.vocabularies[0]
    begun = start_words(args.start, known)
    # A sentence begins where another ended.
    before = [END, *begun] if END in known else begun or [known[0]]
    numbers = torch.tensor([known.index(word) for word in before])
    drawn = model.sample(numbers, args.words, args.temperature, args.seed).tolist()
    terminal.write(text_of([*begun, *(known[number] for number in drawn)]))


def start_words(text: str, known: tuple[str, ...]) -> list[str]:
    """The words of a beginning, all of which the model must know."""
    words = text.split()
    for word in words:
        if word not in known:
            remedy = f"{checks.closest(word, known)} Write <unk> for a word that it does not know.".strip()
            checks.fail("start", f"have words that the run knows, which are {len(known)}", word, remedy)
    return words


def text_of(words: list[str]) -> str:
    """Words with spaces between them, a line for each sentence.

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
