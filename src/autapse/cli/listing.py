"""A list of named things, two lines each."""

from __future__ import annotations

from collections.abc import Iterable


def print_listing(rows: Iterable[tuple[str, str, str]], footer: str) -> None:
    """Name and what it is; below it, dimmed, what else there is to know."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    rows = list(rows)
    width = max(len(name) for name, _, _ in rows)
    for name, line, detail in rows:
        console.print(f"[bold]{name:<{width}}[/]  ", end="")
        console.print(line, markup=False)
        if detail:
            console.print(f"{'':<{width}}  {detail}", style="dim", markup=False)
    console.print(f"\n{footer}", markup=False)
