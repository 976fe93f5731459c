"""Foreign text on the terminal: shown, never obeyed. And nothing is printed by another way."""

from __future__ import annotations

import ast
import doctest
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import rich.progress
from rich.table import Table

import autapse
from autapse import terminal
from autapse.console import Console, Label

SOURCE = Path(autapse.__file__).parent
# The first two are the way to the terminal; the others write to a pipe that their parent reads.
MAY_PRINT = {"terminal.py", "console.py", "benchmark/worker.py", "auto/pool.py"}
# Parts of rich that read no markup, or render their strings through the console that they are printed on.
RICH = {"box", "Table", "Progress", "BarColumn", "DownloadColumn", "MofNCompleteColumn", "ProgressColumn", "Task"}
RICH |= {"TimeRemainingColumn", "TransferSpeedColumn"}

HOSTILE = "a[/b][bold]c[/]\x1b[31m\x9b1m\x07\r:smile:\u202e\udcff"
SHOWN = r"a[/b][bold]c[/]\x1b[31m\x9b1m\x07\r:smile:\u202e\udcff"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, SHOWN),
        ("two\nlines\tand tabs", r"two\nlines\tand tabs"),
        ("ε·tanh(W·x) naïve 日本 👩‍🔬 می‌خواهم", "ε·tanh(W·x) naïve 日本 👩‍🔬 می‌خواهم"),
        (Path("a\x7fb"), r"a\x7fb"),
    ],
)
def test_control_characters_are_visible_and_letters_stay(text: object, shown: str) -> None:
    assert terminal.visible(text) == shown


def test_layout_is_kept_where_asked_for() -> None:
    assert terminal.visible("a\n\tb\x1b", keep=terminal.LAYOUT) == "a\n\tb\\x1b"


def test_write(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.write(HOSTILE)
    terminal.write(HOSTILE, end="", error=True)
    assert capsys.readouterr() == (SHOWN + "\n", SHOWN)


def screen() -> Console:
    console = Console()
    console.file = io.StringIO()
    console.width = 300
    return console


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_prints_and_tables_show_foreign_text_as_it_is() -> None:
    console, table = screen(), Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    console.print(HOSTILE)
    console.print(table, soft_wrap=False)
    assert printed(console).count(SHOWN) == 4
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", printed(console)) is None


def test_progress_and_spinners_show_foreign_text_as_it_is() -> None:
    console = screen()
    with rich.progress.Progress(Label("{task.description}"), console=console, auto_refresh=False) as bar:
        bar.add_task(HOSTILE)
        bar.refresh()
    with console.working(HOSTILE) as show:
        show(HOSTILE)
    assert SHOWN in printed(console)
    assert "\x1b[31m" not in printed(console)


def other_ways(source: str) -> Iterator[str]:
    """What a file prints by other ways than `terminal` and `console`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"line {node.lineno}: print; use terminal.write"
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout.write", "sys.stderr.write"):
            yield f"line {node.lineno}: {ast.unparse(node)}; use terminal.write"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".status", ".from_markup")):
            yield f"line {node.lineno}: {ast.unparse(node.func)} reads markup; use Console.working or style="
        elif isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "rich" for alias in node.names):
            yield f"line {node.lineno}: import rich; import from autapse.console"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rich":
            for alias in node.names:
                if alias.name not in RICH:
                    yield f"line {node.lineno}: {alias.name} of rich; import from autapse.console"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_printed_by_another_way(path: Path) -> None:
    if path.relative_to(SOURCE).as_posix() not in MAY_PRINT:
        assert list(other_ways(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "print('x')",
        "def f():\n    print('x', file=sys.stderr)",
        "sys.stdout.write('x')",
        "write = sys.stderr.write",
        "from rich.console import Console",
        "from rich import print",
        "from rich.progress import TextColumn",
        "from rich.text import Text",
        "import rich.console",
        "console.status('x')",
        "Text.from_markup('x')",
    ],
)
def test_the_rule_has_teeth(line: str) -> None:
    assert len(list(other_ways(line))) == 1


@pytest.mark.parametrize("line", ["console.print('x')", "from rich.table import Table", "terminal.write('x')"])
def test_the_rule_lets_the_rest_pass(line: str) -> None:
    assert list(other_ways(line)) == []


def test_the_examples_in_the_docstrings() -> None:
    result = doctest.testmod(terminal)
    assert result.attempted > 0
    assert result.failed == 0
