"""Print lists with two lines per entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Row = tuple[str, str, str]


def print_listing(rows: Iterable[Row], footer: str) -> None:
    """Print each row as its name and summary, with the details dimmed on a second line; then the footer."""
    print_groups({"": rows}, footer)


def print_groups(groups: Mapping[str, Iterable[Row]], footer: str) -> None:
    """Print one list per heading, with aligned columns; then the footer."""
    from autapse.console import Console

    console = Console()
    listed = {heading: list(rows) for heading, rows in groups.items()}
    width = max(len(name) for rows in listed.values() for name, _, _ in rows)
    for n, (heading, rows) in enumerate(listed.items()):
        if heading:
            console.print(("\n" if n else "") + heading + "\n")
        for name, line, detail in rows:
            console.print(f"{name:<{width}}  ", style="bold", end="")
            console.print(line)
            if detail:
                console.print(f"{'':<{width}}  {detail}", style="dim")
    console.print(f"\n{footer}")
