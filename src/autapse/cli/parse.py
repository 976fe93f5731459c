"""Parse arguments into dataclasses with tyro, with its errors in one line."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from typing import TypeVar

import tyro

from autapse import checks
from autapse.terminal import visible

T = TypeVar("T")


@dataclass(kw_only=True)
class Trust:
    """The option of commands that load a run."""

    trust: bool = False
    """Allow the run to import the module of its own cell, if it has one. This runs the code of that module."""


def parse(kind: type[T], command: str, words: list[str], description: str | None = None) -> T:
    """Parse the arguments `words` of a command into an instance of the dataclass `kind`."""
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(kind, prog=visible(f"autapse {command}"), args=words, description=description)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise checks.InputError(f"{_one_line(captured.getvalue())} `autapse {command} --help` explains.") from None


def _one_line(panel: str) -> str:
    """The first paragraph of tyro's panel, and the first option that it suggests."""
    lines = [line.strip("│ \t") for line in re.sub(r"\x1b\[[0-9;]*m", "", panel).splitlines()]
    boxed = any(line.startswith("╭") for line in lines)
    text = "\n".join(line for line in lines if not line.startswith(("╭", "╰")))
    paragraphs = [" ".join(part.split()) for part in re.split(r"(?m)^[─-]{5,}$", text)]
    paragraphs = paragraphs if boxed else paragraphs[1:]  # without a box, the first paragraph is the title
    # Errors of our own dataclasses already name the argument.
    if missing := re.match(r"Missing from ([^:]+):", paragraphs[0]):
        names = [line for line in lines if re.fullmatch(r"[A-Z][A-Z_-]*", line)]
        return f"`{missing[1]}` needs {' and '.join(names)}." if names else paragraphs[0].rstrip(".") + "."
    message = re.sub(r"^Error parsing \w+: (?=.* must )", "", paragraphs[0]).rstrip(".") + "."
    suggestion = re.search(r"(--[\w-]+)", next((p for p in paragraphs[1:] if "meant" in p), ""))
    return f"{message} Did you mean {suggestion[1]}?" if suggestion else message


def positional(words: list[str], argument: str, command: str, example: str) -> tuple[str, list[str]]:
    """The first word and the rest. The first word must exist and must not be an option."""
    if not words or words[0].startswith("-"):
        raise checks.InputError(f"`autapse {command}` needs {argument} first, as in: {example}")
    return words[0], words[1:]


def wants_help(words: list[str]) -> bool:
    """Whether the first word asks for help."""
    return bool(words) and words[0] in ("-h", "--help")
