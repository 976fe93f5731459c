"""A paper on the page: its claims, its tables and its figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autapse import checks, records
from autapse.reproduce.claims import Claim, Evidence, Judgement
from autapse.reproduce.figures import Figure, Picture, picture_of
from autapse.reproduce.layout import Layout, read_layouts
from autapse.reproduce.recipe import read_toml
from autapse.reproduce.result import Result
from autapse.reproduce.table import render_table

FILE = "paper.toml"


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of paper.toml. `own_tables`: the tables are ours, not the paper's."""

    name: str
    year: int
    own_tables: bool = False
    claim: tuple[Claim, ...] = ()
    figure: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class PublishedPaper:
    """A paper with the tables that we reproduce."""

    source: Path
    content: Content
    layouts: tuple[Layout, ...]

    @property
    def id(self) -> str:
        """The name of its folder: rin."""
        return self.source.parent.name

    def judgements(self, results: dict[str, list[Result]]) -> list[Judgement]:
        recipes = {recipe.id: recipe for layout in self.layouts for recipe in layout.recipes}
        evidence = Evidence(self.id, recipes, results, self.source)
        claims = [*self.content.claim, *(claim for layout in self.layouts for claim in layout.claim)]
        return [evidence.judge(claim) for claim in claims]

    def pictures(self, results: dict[str, list[Result]]) -> list[Picture]:
        """The figures that results have curves for."""
        every = (picture_of(figure, self.id, results, self.source) for figure in self.content.figure)
        return [picture for picture in every if picture]

    def render(self, results: dict[str, list[Result]]) -> str:
        title = self.layouts[0].recipes[0].about["title"]
        tables = [render_table(layout, results) for layout in self.layouts]
        pictures = [picture.markdown for picture in self.pictures(results)]
        pictures = [f"### Learning curves of the {self.content.name} paper", *pictures] if pictures else []
        return "\n\n".join([f"## {self.content.name} ({self.content.year})", f"*{title}*", *tables, *pictures])


def read_papers(root: Path) -> list[PublishedPaper]:
    """All papers below a folder, the oldest first; those with tables of our own come last."""
    papers = [_read(root, path) for path in sorted(root.glob(f"*/{FILE}"))]
    return sorted(papers, key=lambda paper: (paper.content.own_tables, paper.content.year))


def _read(root: Path, path: Path) -> PublishedPaper:
    content, name = records.read(Content, read_toml(path), path), path.parent.name
    layouts = tuple(read_layouts(root, name))
    known = {recipe.id for layout in layouts for recipe in layout.recipes}
    for figure in content.figure:
        for panel in figure.panel:
            for curve in panel.curves:
                check_recipe(f"{path}: recipe of {figure.name}", f"{name}/{curve.recipe}", known)
    for layout in layouts:
        for row in layout.row:
            if row.also:
                check_recipe(f"{root / layout.id}: also of {row.id!r}", row.also, known)
    return PublishedPaper(path, content, layouts)


def check_recipe(argument: str, name: str, known: set[str]) -> None:
    """Raise an error unless the recipe exists."""
    if name not in known:
        checks.fail(argument, "be a recipe that exists", name, checks.closest(name, known))
