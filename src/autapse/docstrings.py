"""Docstrings as parts: the prose, and sections such as `Args:` with an entry per name. Helps are composed from them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import cache

SECTION = r"(?m)^{}:\n((?: {{4}}.*\n?)+)"
ENTRY = re.compile(r"(?m)^ {4}(\w+): .*\n?(?: {5}.*\n?)*")
clean = cache(inspect.cleandoc)


def prose(doc: str | None) -> str:
    """The text before the first section or example."""
    return re.split(r"(?m)^(?:[A-Z][a-z ]+:$|>>> )", clean(doc or ""), maxsplit=1)[0].rstrip()


def section(doc: str | None, title: str) -> str:
    """The lines of a section without its title, indented; empty if there is no such section."""
    match = re.search(SECTION.format(title), clean(doc or ""))
    return match[1].rstrip() if match else ""


@cache
def entries(doc: str | None) -> dict[str, str]:
    """The entries of the section `Args:` by name, each with its indented lines."""
    return {match[1]: match[0].rstrip() for match in ENTRY.finditer(section(doc, "Args"))}


def arguments(names: Iterable[str], *docs: str | None) -> str:
    """The `Args:` section with these names. The first docstring that has an entry gives its text."""
    texts: dict[str, str] = {}
    for doc in reversed(docs):
        texts |= entries(doc)
    return "\n".join(["Args:", *(texts[name] for name in names if name in texts)])


def inherited(kind: type) -> str | None:
    """The docstring of a class whose `Args:` section also has the entries of its base classes that it lacks."""
    if kind.__doc__ is None:
        return None
    text, known = clean(kind.__doc__), entries(kind.__doc__)
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[1:]):
        texts |= entries(base.__doc__)
    added = "\n".join(text for name, text in texts.items() if name not in known)
    if known:
        own = section(kind.__doc__, "Args")
        return text.replace(own, f"{own}\n{added}".rstrip(), 1)
    first = prose(kind.__doc__)
    return text.replace(first, f"{first}\n\nArgs:\n{added}", 1) if added else text


def examples(doc: str | None) -> str:
    """The examples at the end of a docstring; empty if there are none."""
    return clean(doc or "")[len(clean(doc or "").partition(">>> ")[0]) :]


def example(layer: str) -> str:
    """An example for a layer with 3 features and 4 units, given as code that makes it."""
    return f">>> output, h_n = {layer}(torch.zeros(5, 2, 3))\n>>> output.shape\ntorch.Size([5, 2, 4])"
