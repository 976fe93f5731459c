"""A rich console that is safe for text from untrusted files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rich.console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from autapse import terminal


class Console(rich.console.Console):
    """A console that prints text literally: no markup, no emoji codes, control characters as escapes.

    Use `style=` for styles. Long lines are not broken, unless `soft_wrap=False`.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Convert a string to rich text. All prints, tables and titles use this method."""
        settings |= {"markup": False, "emoji": False}
        return super().render_str(terminal.visible(text, keep=terminal.LAYOUT), **settings)

    def on_broken_pipe(self) -> None:
        terminal.silence(sys.stderr if self.stderr else sys.stdout)

    @contextmanager
    def working(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner with a line of text. Yields a function that replaces the line."""
        with self.status(plain(text)) as status:
            yield lambda line: status.update(plain(line))

    @contextmanager
    def counting(self, total: int) -> Iterator[Callable[[str], None]]:
        """Show a progress bar over `total` parts. Yields a function to be called with the name of each part."""
        columns = (Label("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self, transient=True, disable=not self.is_terminal) as bar:
            task = bar.add_task("", total=total, completed=-1)

            def begin(name: str) -> None:
                bar.update(task, description=name, advance=1)

            yield begin


class Label(TextColumn):
    """Literal text in a progress bar."""

    def render(self, task: Task) -> Text:
        return plain(self.text_format.format(task=task))


def plain(text: str, style: str = "") -> Text:
    """Literal text, for the parts of rich that interpret markup in every string."""
    return Text(terminal.visible(text), style)
