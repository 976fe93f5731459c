"""Text from a language model, of words or of characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autapse import checks
from autapse.cli.sample_options import Sample

if TYPE_CHECKING:
    from autapse.models import LanguageModel

END = "<eos>"
UNKNOWN = "<unk>"
WORDS, CHARACTERS = 100, 500  # that are written by default


def write_text(model: LanguageModel, known: tuple[str, ...], args: Sample) -> str:
    """The text that a model writes.

    Args:
        model: the model.
        known: its words or characters.
        args: how much, and how.
    """
    import torch

    characters = are_characters(known)
    begun = start_of(args.start or "", known)
    # A new sentence comes after the end of another one.
    before = [END, *begun] if END in known else begun or [known[0]]
    numbers = torch.tensor([known.index(word) for word in before])
    count = args.words or (CHARACTERS if characters else WORDS)
    drawn = model.sample(numbers, count, args.temperature, args.seed, args.top_k, args.top_p).tolist()
    return text_of([*begun, *(known[number] for number in drawn)], "" if characters else " ")


def are_characters(known: Sequence[str]) -> bool:
    """Whether a vocabulary has characters, rather than words."""
    return all(len(word) == 1 for word in known if word != END)


def start_of(text: str, known: tuple[str, ...]) -> list[str]:
    """The words or characters of `text`; the model must know all of them."""
    characters = are_characters(known)
    words = list(text) if characters else text.split()
    for word in words:
        if word not in known:
            remedy = f"Write {UNKNOWN} for a word that the run does not know." if UNKNOWN in known else ""
            remedy = f"{checks.closest(word, known)} {remedy}".strip()
            noun = "characters" if characters else "words"
            checks.fail("start", f"have only {noun} of the run's vocabulary ({len(known)} {noun})", word, remedy)
    return words


def text_of(words: list[str], separator: str = " ") -> str:
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
    return "\n".join(separator.join(line) for line in (lines if lines[-1] else lines[:-1]))
