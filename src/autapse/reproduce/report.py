"""All results against the papers' tables, as one page with pictures."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

from autapse import checks, files
from autapse.reproduce.claims import OUTCOMES
from autapse.reproduce.figures import FOLDER, Picture
from autapse.reproduce.paper import PublishedPaper, check_recipe
from autapse.reproduce.result import Result
from autapse.results.page import fill_between, markdown_table

START, END = "<!-- results -->", "<!-- end of results -->"
INTRODUCTION = f"""# The papers' tables, trained again

Each table has the same rows and columns as in its paper. Our numbers are in bold, next to the paper's.

- **Ours** is the test score of the weights with the best validation score. If the paper tunes on held-out data and then
  trains on all training data, we do the same, and ours is the score after the second training. It is never the score of
  the best test epoch; if that was measured too, it has its own column.
- **94.5 ± 0.3 (3)** is the mean and the standard deviation of three seeds. A number without ± is one run.
- **–** means not run. **cited only** means that we cannot run it here; the number next to it is the paper's.
- Below each table are the settings that differ from the paper's ("All" means all runs of the table). All other settings
  are those of the paper, except how often a run validates. If the paper does not state a setting, the recipe has our
  choice: `autapse reproduce show ID`.
- Every number comes from a file in `reproductions/<paper>/results/`. The file also has the command, the commit, all
  settings and the machine. `autapse reproduce report` writes this page from these files.

{START}

{END}
"""


def render(results: dict[str, list[Result]], papers: list[PublishedPaper]) -> str:
    """The text between the page's marks: the claims, then paper by paper."""
    known = {recipe.id for paper in papers for layout in paper.layouts for recipe in layout.recipes}
    for name in results:
        check_recipe("recipe of a result", name, known)
    return "\n\n".join([_summary(results, papers), *(paper.render(results) for paper in papers)])


def _summary(results: dict[str, list[Result]], papers: list[PublishedPaper]) -> str:
    judged = [(paper.content.name, one) for paper in papers for one in paper.judgements(results)]
    rows = [(name, one.claim.text, one.verdict, one.numbers) for name, one in judged]
    numbers = Counter(one.outcome for _, one in judged)
    count = ", ".join(f"{numbers[outcome]} {outcome}" for outcome in OUTCOMES if numbers[outcome])
    table = markdown_table(["paper", "claim", "here", "numbers"], rows)
    return "\n\n".join(["## Claims of the papers, and our results", f"{len(judged)} claims: {count}.", table])


def write_page(path: Path, results: dict[str, list[Result]], papers: list[PublishedPaper]) -> list[str]:
    """Write the page and draw its pictures; a missing page is created.

    Returns notes for the user: which pictures could not be drawn, and why.
    """
    page = path.read_text(encoding="utf-8") if path.exists() else INTRODUCTION
    filled = _filled(path, page, render(results, papers))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, filled.encode())
    folder = path.parent / FOLDER
    old = [one for one in _pictures(results, papers) if not one.is_up_to_date(folder)]
    try:
        for picture in old:
            picture.draw(folder)
    except checks.InputError as error:
        return [f"{len(old)} {'picture was' if len(old) == 1 else 'pictures were'} not drawn. {error}"]
    return []


def check_page(path: Path, results: dict[str, list[Result]], papers: list[PublishedPaper]) -> None:
    """Raise an error unless the page and its pictures match the results."""
    remedy = "Run: autapse reproduce report"
    if not path.exists():
        raise checks.InputError(f"{path} does not exist. {remedy}")
    page = path.read_text(encoding="utf-8")
    if page != _filled(path, page, render(results, papers)):
        raise checks.InputError(f"{path} does not match the results. {remedy}")
    for picture in _pictures(results, papers):
        if not picture.is_up_to_date(path.parent / FOLDER):
            name = path.parent / FOLDER / picture.figure.file
            raise checks.InputError(f"{name} does not match the results. {remedy}")


def _pictures(results: dict[str, list[Result]], papers: list[PublishedPaper]) -> list[Picture]:
    return list(chain.from_iterable(paper.pictures(results) for paper in papers))


def _filled(path: Path, page: str, text: str) -> str:
    try:
        return fill_between(page, START, END, text)
    except ValueError as error:
        raise checks.InputError(f"{path}: {error}") from None
