"""`autapse reproduce list | show ID | report | ID`: train the papers' experiments."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import UseAppendAction

from autapse import checks, terminal
from autapse.cli.parse import parse, positional, wants_help
from autapse.cli.run import one_process_only

if TYPE_CHECKING:
    from autapse.reproduce.drawings.base import PaperFigure
    from autapse.reproduce.recipe import Recipe
    from autapse.reproduce.result import Result

USAGE = """usage: autapse reproduce list [PREFIX]
       autapse reproduce show ID
       autapse reproduce ID [--budget 10m] [options]
       autapse reproduce ID-OR-FOLDER --seeds 5 [options]
       autapse reproduce FIGURE [--seed 0] [--results FOLDER]
       autapse reproduce report

Train an experiment of a paper again, and compare our results with the paper's; or draw one of its figures again.

`autapse reproduce ID --help` lists the options, for example of rin/table3/rin/task-01 or ernn/figure5."""
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(kw_only=True)
class Reproduce:
    """Train a recipe. If the run is stopped, the same command continues it."""

    budget: Annotated[str | None, tyro.conf.arg(metavar="TIME")] = None
    """Time limit for the whole training, as in 90s, 10m, 1h; by default it runs as long as in the paper."""
    set: Annotated[UseAppendAction[list[str]], tyro.conf.arg(metavar="SETTING=VALUE")] = field(default_factory=list)
    """Change a setting, as in --set training.learning_rate=0.001; can be given several times."""
    seed: int = 0
    """Seed of data, initial weights, order of batches and dropout."""
    seeds: int | None = None
    """Train with this many seeds, from `seed` on: the recipe, or every recipe below a folder. Results that are there
    already are kept."""
    results: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("reproductions")
    """Folder for the results; the file is <paper>/results/<table>/… in it."""
    runs: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/reproduce")
    """Folder for the run folder, with its checkpoints."""


@dataclass(kw_only=True)
class DrawFigure:
    """Draw a figure of a paper again, as PNG, SVG and JSON. Some train small networks first, for a minute or two."""

    seed: int = 0
    """Seed of random matrices, data and trainings."""
    results: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("reproductions")
    """Folder for the results; the files are <paper>/figures/… in it."""

    def __post_init__(self) -> None:
        checks.seed("seed", self.seed)


@dataclass(kw_only=True)
class Report:
    """Write the page that compares all results with the papers' tables, and the page of figures."""

    results: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("reproductions")
    """Folder with the result files."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("reproductions/README.md")
    """The page. The part between its two marks is replaced; a missing page is created. The figures are on FIGURES.md
    beside it."""
    check: bool = False
    """Write nothing; fail if the page or a figure does not match the results."""


def main(words: list[str]) -> int:
    if wants_help(words):
        terminal.write(USAGE)
        return 0
    name, rest = positional(words, "a recipe, list, show or report", "reproduce", "autapse reproduce list")
    if name == "list":
        return _list(rest)
    if name == "show":
        return _show(rest)
    if name == "report":
        return _report(parse(Report, "reproduce report", rest))
    if name.count("/") == 1:  # a recipe has more parts
        from autapse.reproduce.drawings.registry import FIGURES

        if name in FIGURES:
            return _draw(FIGURES[name], parse(DrawFigure, f"reproduce {name}", rest))
        if "/figure" in name:
            remedy = checks.closest(name, FIGURES) or "`autapse reproduce list` shows them."
            checks.fail("figure", "be the id of a figure", name, remedy)
    return _reproduce(name, parse(Reproduce, f"reproduce {name}", rest), words)


def _list(words: list[str]) -> int:
    from autapse.cli.listing import print_groups
    from autapse.reproduce import all_recipes, has_recipes, recipes_below
    from autapse.reproduce.drawings.registry import figures_below

    if len(words) > 1 or wants_help(words):
        raise checks.InputError("`autapse reproduce list` takes only the beginning of a recipe's name, as in: rin")
    figures = figures_below(words[0] if words else "")
    rows = []
    single = len(figures) == 1 and words == [figures[0].id] and not has_recipes(words[0])
    for recipe in [] if single else recipes_below(words[0]) if words else all_recipes():
        scores = ", ".join(f"{unit} {value}" for unit, value in recipe.paper.items() if unit != "cited") or "no score"
        rows.append((recipe.id, f"{recipe.settings['task']['name']}, {_network(recipe)}", f"paper: {scores}"))
    drawn = [(one.id, one.name, f"paper: {one.paper}") for one in figures]
    groups = {title: part for title, part in (("recipes", rows), ("figures", drawn)) if part}
    counts = f"{len(rows)} recipes, {len(drawn)} figures"
    print_groups(groups, f"{counts}. To train a recipe or draw a figure: autapse reproduce ID")
    return 0


def _network(recipe: Recipe) -> str:
    """The network of a recipe in a few words."""
    model = recipe.settings["model"]
    if "hops" in model:
        return f"memory network with {model['hops']} hops"
    return f"{model['cell']} {'-'.join(map(str, model.get('hidden_size', [])))}"


def _show(words: list[str]) -> int:
    from autapse.console import Console
    from autapse.reproduce import find_recipe

    name, _ = positional(words, "a recipe", "reproduce show", "autapse reproduce show rin/table3/rin/task-01")
    recipe = find_recipe(name)
    console = Console()
    for table, settings in recipe.settings.items():
        if settings:
            console.print(f"[{table}]", style="bold")
            for setting, value in settings.items():
                console.print(f"  {setting} = {value}")
    return 0


def _report(args: Report) -> int:
    from autapse.reproduce.drawings.gallery import check_gallery, write_gallery
    from autapse.reproduce.paper import read_papers
    from autapse.reproduce.recipe import recipes_root
    from autapse.reproduce.report import check_page, write_page
    from autapse.reproduce.result import read_results

    results = read_results(recipes_root(), args.results)
    if not results:
        raise checks.InputError(f"{args.results} has no results. `autapse reproduce ID` writes one.")
    papers = read_papers(recipes_root())
    count = sum(map(len, results.values()))
    gallery = args.out.with_name("FIGURES.md")
    if args.check:
        check_page(args.out, results, papers)
        check_gallery(args.results, gallery)
        terminal.write(f"{args.out} matches the {count} results.")
        return 0
    for note in write_page(args.out, results, papers):
        terminal.write(note)
    write_gallery(args.results, gallery)
    terminal.write(f"{count} results: {args.out}; figures: {gallery}")
    return 0


def _draw(figure: PaperFigure, args: DrawFigure) -> int:
    from autapse.console import Console
    from autapse.reproduce.drawings.base import draw_figure, path_of

    one_process_only("reproduce", "one process for a figure")
    with Console(stderr=True).working(f"drawing {figure.id}"):
        result = draw_figure(figure, args.seed, args.results)
    outcome = {True: "holds here", False: "does not hold here", None: "cannot be judged yet"}[result.holds]
    lines = [result.caption, f"the paper: {result.paper}", f"ours: {result.ours}", f"The claim {outcome}."]
    place = path_of(args.results, figure.id)
    lines.append(f"{place}.svg, .png, .json")
    for line in lines:
        terminal.write(line)
    return 0


def _reproduce(name: str, args: Reproduce, words: list[str]) -> int:
    from autapse.reproduce.recipe import find_recipe, recipes_below
    from autapse.reproduce.result import result_path

    one_process_only("reproduce", "`autapse run`")
    if args.seeds is None:
        recipe = find_recipe(name)
        path = result_path(args.results, recipe.id, args.seed)
        if path.exists():
            raise checks.InputError(
                f"{path} exists already and is not overwritten. Remove it, or choose another --results."
            )
        return _train(recipe, args, words)
    checks.integer("seeds", args.seeds, minimum=1)
    recipes = recipes_below(name)
    for seed in range(args.seed, args.seed + args.seeds):
        for recipe in recipes:
            if not result_path(args.results, recipe.id, seed).exists():
                _train(recipe, replace(args, seed=seed), words)
    return 0


def _train(recipe: Recipe, args: Reproduce, words: list[str]) -> int:
    """Train one recipe with one seed, and write its result."""
    from autapse.reproduce.result import result_path, write_result
    from autapse.reproduce.run import Plan

    budget = None if args.budget is None else seconds(args.budget)
    plan = Plan.of(recipe, budget, args.seed, dict(_setting(text) for text in args.set))
    path = result_path(args.results, recipe.id, args.seed)
    path.parent.mkdir(parents=True, exist_ok=True)  # fails before the training if the folder cannot be written

    from autapse.console import Console
    from autapse.reproduce.run import reproduce
    from autapse.training.log import Screen
    from autapse.training.trainer import Interrupted

    console = Console()
    _announce(console, plan)
    folder = args.runs / (recipe.id if not args.seed else f"{recipe.id}-seed{args.seed}")
    command = command_of(recipe.id, args)
    try:
        result = reproduce(plan, folder, command, lambda c: Screen(console, c.model.network, c.task.metric))
    except Interrupted as stop:
        raise stop.continued_by(shlex.join(["autapse", "reproduce", *words])) from None
    write_result(path, result)
    _print_result(console, result, path)
    return 0


def command_of(recipe: str, args: Reproduce) -> str:
    """The command that trains this again: the recipe and its options, without the folders of this machine.

    >>> command_of("rin/table3/rin/task-01", Reproduce(budget="5m", seed=1, runs=Path("/tmp/runs")))
    'autapse reproduce rin/table3/rin/task-01 --budget 5m --seed 1'
    """
    words = ["autapse", "reproduce", recipe]
    words += [] if args.budget is None else ["--budget", args.budget]
    words += ["--seed", str(args.seed)] if args.seed else []
    words += [word for setting in args.set for word in ("--set", setting)]
    return shlex.join(words)


def _announce(console: Any, plan: Any) -> None:
    from autapse.reproduce.score import duration

    whole = "as long as in the paper" if plan.recipe.paper else "to the end of its training"
    time = whole if plan.budget is None else f"at most {duration(plan.budget)}"
    lines = [f"{plan.recipe.id}, {time}"]
    by_reason = attrgetter("reason")
    for reason, differences in groupby(sorted(plan.differences(), key=by_reason), key=by_reason):
        whose = "the paper's" if plan.recipe.paper else "the recipe's"
        lines += [f"  {one.setting}: {one.here} instead of {whose} {one.paper}" for one in differences]
        lines.append(f"    why: {reason}")
    lines += [f"  inferred: {setting}: {reading}" for setting, reading in plan.recipe.inferred.items()]
    for line in lines:
        console.print(line)


def _print_result(console: Any, result: Result, path: Path) -> None:
    from autapse.reproduce.score import duration

    against = "the paper has no score" if result.paper is None else f"paper: {result.paper}"
    lines = [f"{result.unit}: {result.ours} ({against})"]
    if result.held_out is not None:
        lines[0] += f"; before the second training, on all training data: {result.held_out}"
    took = f"{result.steps} steps, {result.epochs:.3g} epochs, {duration(result.seconds)}, {result.ended}"
    lines += [took, f"result: {path}"]
    for line in lines:
        console.print(line)


def seconds(text: str) -> float:
    """The seconds of a time such as 90s, 10m, 1.5h or 45.

    >>> seconds("10m"), seconds("1.5h"), seconds("45")
    (600.0, 5400.0, 45.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not match or float(match[1]) == 0:
        checks.fail("budget", "be a time such as 90s, 10m or 1h", text)
    return float(match[1]) * UNITS[match[2]]


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        checks.fail("set", "be SETTING=VALUE, as in training.learning_rate=0.001", text)
    return name.strip(), value.strip()
