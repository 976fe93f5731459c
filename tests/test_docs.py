"""What the README, the pages under docs/ and the docstrings say is run, parsed or looked up."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import io
import pkgutil
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import autapse
from autapse.cells.base import cell_options
from autapse.cli.compare import split_cells
from autapse.cli.main import VERBS, main
from autapse.cli.parse import parse
from autapse.cli.reproduce import DrawFigure
from autapse.cli.run import parse_task
from autapse.layers.registry import LAYERS, parse_network
from autapse.layers.tree import tree_cell
from autapse.reproduce import find_recipe, recipes_below
from autapse.reproduce.drawings.registry import figures_below
from autapse.tasks import TASKS
from autapse.training import AnswererConfig, ModelConfig, TrainingConfig, TranslatorConfig
from autapse.training.model_config import TreeStack

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOT_RUN = "<!-- not run -->"
RUN = "<!-- run -->"

PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
WITH_README = [page for page in (ROOT / "README.md", *PAGES) if page.exists()]


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    line: int  # of its first line of content, counted from 1
    text: str
    runs: bool  # not marked as one that is only shown
    ordered: bool  # commands that the page's Python blocks build on, run in order with them


def blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: int | None = None
    for n, line in enumerate(lines):
        if opened is None and line.startswith("```"):
            opened = n
        elif opened is not None and line.strip() == "```":
            before = [text for text in lines[:opened] if text.strip()]
            mark = before[-1].strip() if before else ""
            text = "\n".join(lines[opened + 1 : n])
            yield Block(lines[opened][3:].strip(), opened + 2, text, mark != NOT_RUN, mark == RUN)
            opened = None
    assert opened is None, f"{page}:{opened}: a block is opened and never closed"


def prose(page: Path) -> str:
    """A page without its fenced blocks and inline code."""
    text = re.sub(r"(?ms)^```.*?^```\s*$", "", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


def words_after_autapse(block: Block) -> Iterator[tuple[int, list[str]]]:
    """The words after `autapse` (or `-m autapse`) in each line of a console block, with the number of the line."""
    for n, line in enumerate(block.text.splitlines()):
        found = re.match(r"\$ (?:autapse|torchrun .*-m autapse)(?: (.*))?$", line)
        if found:
            yield n, shlex.split(found[1] or "", comments=True)


def run_block(block: Block, module: types.ModuleType, page: Path) -> None:
    """Run a Python block in a module, or a block of commands that is marked to be run in order."""
    if block.language == "python" and block.runs:
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), vars(module))
    for _, words in words_after_autapse(block) if block.ordered else ():
        assert main(words) == 0, words


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_there_are_pages() -> None:
    assert len(PAGES) >= 10
    assert all(block.language for page in PAGES for block in blocks(page) if block.text.startswith("$ "))


# Python -------------------------------------------------------------------------------------------------------------

RUNNABLE = [page for page in WITH_README if any(b.language == "python" and b.runs for b in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page in order, in one module, in an empty folder; tracebacks show the page's line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("autapse.tasks.TASKS", dict(TASKS))
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks(page):
        run_block(block, module, page)


MODULES = [
    "autapse",
    *(m.name for m in pkgutil.walk_packages(autapse.__path__, "autapse.") if "__main__" not in m.name),
]


def examples(name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(name)
    globs = {"autapse": autapse, "torch": torch, **vars(module)}
    return [test for test in doctest.DocTestFinder().find(module, globs=globs) if test.examples]


@pytest.mark.fixed_seed("examples show what seed 0 gives")
@pytest.mark.parametrize("name", [name for name in MODULES if examples(name)])
def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for test in examples(name):
        told = io.StringIO()
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.write)
        assert result.failed == 0, told.getvalue()


# Command line -------------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, list[str]]]:
    """The words after `autapse` in the console blocks, each with its place."""
    for page in WITH_README:
        for block in blocks(page):
            if block.language == "console" and block.runs:
                for n, words in words_after_autapse(block):
                    yield f"{name_of(page)}:{block.line + n}", words


def test_there_are_commands() -> None:
    assert {words[0] for _, words in commands() if words} >= {"run", "compare", "eval", "resume", "predict"}


def understand_recipe(kind: Any, name: str, *rest: str) -> None:
    if name == "list":
        assert all(recipes_below(word) for word in rest)
    elif name == "show":
        find_recipe(*rest)
    elif figures_below(name):
        parse(DrawFigure, "reproduce", list(rest))
    elif name != "report":
        args = parse(kind, "reproduce", list(rest))
        assert find_recipe(name) if args.seeds is None else recipes_below(name)


@pytest.mark.parametrize(("place", "words"), [pytest.param(*c, id=c[0]) for c in commands()])
def test_commands_are_understood(place: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not words or words[0].startswith("-"):
        assert words in ([], ["--help"], ["--version"])
        return
    verb, *rest = words
    assert verb in VERBS
    if "--help" in rest:
        return
    module, name = importlib.import_module(f"autapse.cli.{verb}"), verb.capitalize()
    kind: Any = getattr(module, f"{name}Arguments", None) or getattr(module, name)
    if verb == "reproduce":
        understand_recipe(kind, *rest)
        return
    args = parse_task(kind, verb, rest) if verb in ("run", "compare") else parse(kind, verb, rest)
    cells = split_cells(args.cells) if verb == "compare" else [args.model.cell] if verb == "run" else []
    for cell in cells:
        if cell.startswith("my_cells:"):  # the page's own cell, in a file as its text says
            page = (ROOT / place.partition(":")[0]).read_text(encoding="utf-8")
            (tmp_path / "my_cells.py").write_text(re.search(r"(?ms)^```python\n(.*?)^```", page)[1], encoding="utf-8")  # type: ignore[index]
            monkeypatch.syspath_prepend(tmp_path)
        if isinstance(getattr(args, "model", None) or getattr(args, "stack", None), TreeStack):
            tree_cell(cell)
        else:
            parse_network(cell)


# Tables of settings -------------------------------------------------------------------------------------------------


def table(page: str, heading: str, first: str) -> dict[str, Any]:
    """Name -> default, from the first table under a heading that has the columns `first` and "default"."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.search(rf"(?ms)^##+ {re.escape(heading)}$(.*?)(?=^##+ |\Z)", text)
    assert section, f"{page} has no heading {heading!r}"
    rows = re.search(rf"(?m)^\| {first} \| default \|.*\n\|.*\n((?:\|.*\n)*)", section[1])
    if rows is None:
        return {}
    return {n: ast.literal_eval(v) for n, v in re.findall(r"(?m)^\| `(\w+)` \| `([^`]*)` \|", rows[1])}


@pytest.mark.parametrize(("first", "config"), [("model", ModelConfig), ("training", TrainingConfig)])
def test_settings_are_listed_with_their_defaults(first: str, config: type) -> None:
    assert table("training.md", "Settings", first) == {f.name: f.default for f in dataclasses.fields(config)}


def test_settings_of_memory_networks_are_listed_with_their_defaults() -> None:
    usual = {field.name for field in dataclasses.fields(ModelConfig)}
    own = {field.name: field.default for field in dataclasses.fields(AnswererConfig) if field.name not in usual}
    assert table("tasks.md", "Memory networks", "setting") == own


def test_settings_of_a_translator_are_listed_with_their_defaults() -> None:
    fields = dataclasses.fields(TranslatorConfig)
    assert table("translating.md", "Settings", "model") == {f.name: f.default for f in fields}


@pytest.mark.parametrize("name", TASKS)
def test_task_options_are_listed_with_their_defaults(name: str) -> None:
    fields = [f for f in dataclasses.fields(TASKS[name]) if f.default is not dataclasses.MISSING]
    assert table("tasks.md", name, "option") == {f.name: f.default for f in fields}


@pytest.mark.parametrize("name", LAYERS)
def test_cell_options_are_listed_with_their_defaults(name: str) -> None:
    cell = LAYERS[name].cell_type
    pages = [p for p in (DOCS / "cells").glob("*.md") if f"\n## {cell.__name__}\n" in p.read_text(encoding="utf-8")]
    assert len(pages) == 1
    listed = table(f"cells/{pages[0].name}", cell.__name__, "option")
    assert listed == {option: p.default for option, p in cell_options(cell).items()}


# Links and names ----------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```\s*$", "", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", WITH_README, ids=name_of)
def test_internal_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        assert aim.exists(), f"{name_of(page)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(aim), f"{name_of(page)} links to {target}, which has no such heading"


def toctree(page: Path) -> Iterator[Path]:
    for block in blocks(page):
        if block.language == "{toctree}":
            for entry in block.text.splitlines():
                if entry.strip() and not entry.startswith(":"):
                    yield (page.parent / f"{entry.strip()}.md").resolve()


def test_every_page_is_in_the_toctree() -> None:
    index = DOCS / "index.md"
    reached, open_pages = {index}, [index]
    while open_pages:
        below = list(toctree(open_pages.pop()))
        assert all(page.exists() for page in below), below
        open_pages += [page for page in below if page not in reached]
        reached |= set(below)
    assert reached == set(PAGES)


@pytest.mark.parametrize("name", autapse.__all__)
def test_public_names_are_documented(name: str) -> None:
    assert any(re.search(rf"\b{name}\b", page.read_text(encoding="utf-8")) for page in PAGES)


def test_sphinx_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(tmp_path)]
    result = subprocess.run(build, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
