"""Recipes: one TOML file per cell of a paper's table, `reproductions/<paper>/<table>/<column>/<row>.toml`.

Settings that several cells share are in a `common.toml` beside or above them. Files are merged from the top down, key
by key; the cell's own file comes last. The tables of a file:

    [about]     title (of the paper), table, column, row, note, mean (of the column, where the paper gives it), unit
                (error, accuracy, perplexity: the table's, for a row that the paper does not have)
    [task]      name, and the task's options
    [model]     the model's settings
    [training]  the training's settings
    [protocol]  refit = true: tune with a held-out part, then refit on all training data
    [paper]     what the paper found: accuracy (percent), error (rate), perplexity or solved; size_kb, parameters,
                minutes, hours; cited = true where the paper only cites the number
    [inferred]  "model.hidden_size" = "what the paper leaves open, and how we read it"
    [budget]    "training.learning_rate" = 1e-3: what replaces the paper's setting when time is short; reason = "why";
                "paper" keeps the paper's setting where a common.toml above replaces it

TOML has no null: write "none" for None. (The command line accepts None too.)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from autapse import checks, files

if TYPE_CHECKING:
    from autapse.training.config import RunConfig

COMMON = "common.toml"
NO_RECIPES = (COMMON, "paper.toml", "table.toml")  # for the page: claims.py, layout.py
MOST = 64 << 10  # bytes of a file; tomllib's memory grows with the square of a dotted name's length
RUN = ("task", "model", "training")  # the tables of a RunConfig, which knows their settings
KEYS = {
    "about": ("title", "table", "column", "row", "mean", "unit", "note"),
    "protocol": ("refit",),
    "paper": ("accuracy", "error", "perplexity", "solved", "size_kb", "parameters", "minutes", "hours", "cited"),
}
DOTTED = ("inferred", "budget")  # their keys are settings of other tables, as in "training.epochs"
TABLES = (*RUN, *KEYS, *DOTTED)
EITHER_OR = {"training.steps": "training.epochs", "training.epochs": "training.steps"}
NO_MATTER = ("training.device", "training.checkpoint_seconds", "training.seed")  # a paper does not state these

Settings = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Difference:
    """A setting that is not the paper's."""

    setting: str
    paper: Any
    here: Any
    reason: str


@dataclass(frozen=True)
class Recipe:
    """One cell of a paper's table."""

    id: str
    """Its path below reproductions/: rin/table1/sequential-mnist/rin-1-100."""
    path: Path
    """The cell's own file."""
    settings: Settings
    """The merged tables, all of them, empty ones included."""

    @property
    def about(self) -> dict[str, str]:
        return self.settings["about"]

    @property
    def paper(self) -> dict[str, Any]:
        """What the paper found; empty if it has no such cell."""
        return self.settings["paper"]

    @property
    def inferred(self) -> dict[str, str]:
        """What the paper leaves open, and what we chose, by setting."""
        return self.settings["inferred"]

    @property
    def budget(self) -> dict[str, Any]:
        """The settings that replace the paper's when time is short."""
        return {name: value for name, value in self.settings["budget"].items() if name != "reason" and value != "paper"}

    @property
    def refit(self) -> bool:
        """Whether the paper tunes with a held-out part and then trains on all training data."""
        return checks.boolean(f"{self.path}: protocol.refit", self.settings["protocol"].get("refit", False))

    def config(self, budget: bool = False, overrides: Mapping[str, Any] | None = None) -> RunConfig:
        """The settings of the run.

        Args:
            budget: whether to use the settings for a short training instead of the paper's.
            overrides: other values, by dotted name: {"training.steps": 100}. Text is read as a TOML value if it is
                one, so that text from a command line, {"training.steps": "100"}, works too.
        """
        run = {name: dict(self.settings[name]) for name in RUN}
        config = self._read(run, f"{self.path} (with the {COMMON} above it)")
        if budget:
            for name, value in self.budget.items():
                _replace(run, name, value)
            config = self._read(run, f"{self.path} (with its budget)")
        if overrides:
            for name, value in overrides.items():
                _check_dotted("setting", name)
                _replace(run, name, _value(value))
            config = self._read(run, f"{self.id}, with {', '.join(overrides)} given")
        return config

    def differences(self, config: RunConfig) -> list[Difference]:
        """The settings of a run that are not the paper's, and why."""
        paper, here, short = _flat(self.config()), _flat(config), _flat(self.config(budget=True))
        because = self.settings["budget"].get("reason", "")
        return [
            Difference(name, paper.get(name), here.get(name), _reason(name, paper, here, short, because))
            for name in dict.fromkeys([*paper, *here])
            if paper.get(name) != here.get(name) and name not in NO_MATTER
        ]

    def _read(self, run: Settings, source: str) -> RunConfig:
        from autapse.training.config import RunConfig

        if "name" not in run["task"]:
            raise checks.InputError(f"{source}: [task] must have a name.")
        content = {table: {name: _none(value) for name, value in run[table].items()} for table in RUN}
        return RunConfig.from_json(content, source)


def recipes_root() -> Path:
    """The folder of the recipes: beside the sources in a repository, inside the package if it is installed."""
    package = Path(__file__).parents[1]
    for place in (package.parents[1] / "reproductions", package / "reproductions"):
        if place.is_dir():
            return place
    raise checks.InputError(f"There are no recipes: neither {package.parents[1]} nor {package} has reproductions/.")


def all_recipes(root: Path | None = None) -> list[Recipe]:
    """Every recipe below a folder, in natural order: task-2 before task-10."""
    root = recipes_root() if root is None else root
    return [read_recipe(root, name) for name in _ids(root)]


def recipes_below(prefix: str, root: Path | None = None) -> list[Recipe]:
    """The recipe with that id, or all recipes below a folder: rin, rin/table1, rin/table1/permuted-mnist."""
    root = recipes_root() if root is None else root
    names = _ids(root)
    prefix = prefix.strip("/")
    matching = [name for name in names if name == prefix or name.startswith(f"{prefix}/")]
    if not matching:
        _unknown(prefix, names)
    return [read_recipe(root, name) for name in matching]


def has_recipes(prefix: str, root: Path | None = None) -> bool:
    """Whether there is a recipe with that id or below that folder."""
    names, prefix = _ids(recipes_root() if root is None else root), prefix.strip("/")
    return any(name == prefix or name.startswith(f"{prefix}/") for name in names)


def find_recipe(name: str, root: Path | None = None) -> Recipe:
    """The recipe of an id. If it is a folder, the error lists what is in it."""
    root = recipes_root() if root is None else root
    names = _ids(root)
    name = name.strip("/")
    if name in names:
        return read_recipe(root, name)
    below = [other for other in names if other.startswith(f"{name}/")]
    if not below:
        _unknown(name, names)
    depth = name.count("/") + 2
    inside = dict.fromkeys("/".join(other.split("/")[:depth]) for other in below)
    rule = f"be one of the {len(below)} below {name}: {', '.join(inside)}"
    raise checks.InputError(f"recipe must {rule}. To train all of them, add --seeds 1.")


def read_recipe(root: Path, name: str) -> Recipe:
    """The recipe of an id, merged from its files."""
    path = root / f"{name}.toml"
    folders = [root, *(root.joinpath(*path.relative_to(root).parts[:n]) for n in range(1, name.count("/") + 1))]
    settings: Settings = {table: {} for table in TABLES}
    for file in [*(folder / COMMON for folder in folders if (folder / COMMON).is_file()), path]:
        for table, content in read_tables(file).items():
            for key, value in content.items():
                _replace(settings, f"{table}.{key}", value)
    return Recipe(name, path, settings)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; a file that cannot be read is an error of one line."""
    try:
        text = files.read_bytes(path, limit=MOST)
    except OSError as error:
        raise checks.InputError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # also for deeply nested lists and very long numbers
        raise checks.InputError(f"{path} is not TOML: {error}.") from None


def read_tables(path: Path) -> Settings:
    """The tables of one file. Anything that is not TOML, not a table or not a known key is an error of one line."""
    content = read_toml(path)
    for table, settings in content.items():
        _check_table(path, table, settings)
    return content


def _check_table(path: Path, table: str, settings: Any) -> None:
    checks.one_of(f"{path}: table", table, TABLES)
    if not isinstance(settings, dict):
        checks.fail(f"{path}: {table}", f"be a table, [{table}]", settings)
    for key, value in settings.items():
        if table in KEYS:
            checks.one_of(f"{path}: setting of [{table}]", key, KEYS[table])
        elif table in DOTTED and (table, key) != ("budget", "reason"):
            _check_dotted(f"{path}: setting of [{table}]", key, RUN if table == "budget" else (*RUN, *KEYS))
        if table in ("about", "inferred") and not isinstance(value, str):
            checks.fail(f"{path}: {table}.{key}", "be text", value)


def _check_dotted(argument: str, name: str, tables: Iterable[str] = RUN) -> None:
    """Check that a name is one such as training.epochs."""
    table, dot, key = name.partition(".")
    if not (dot and key and table in tables):
        checks.fail(argument, f"be <table>.<setting>, the table one of {', '.join(tables)}", name)


def _replace(settings: Settings, name: str, value: Any) -> None:
    table, _, key = name.partition(".")
    settings[table][key] = value
    other = EITHER_OR.get(name, "")
    if other:  # the steps of a cell replace the epochs above it, and vice versa
        settings[table].pop(other.partition(".")[2], None)


def _value(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return value


def _none(value: Any) -> Any:
    return None if value in ("none", "None") else value


def _flat(config: RunConfig) -> dict[str, Any]:
    """A config by dotted names; steps are None if epochs are set."""
    content = config.to_json()
    flat = {f"{table}.{key}": value for table in RUN for key, value in content[table].items()}
    if flat.get("training.epochs") is not None:
        flat["training.steps"] = None
    return flat


def _reason(name: str, paper: dict[str, Any], here: dict[str, Any], short: dict[str, Any], because: str) -> str:
    by_budget = short.get(name) == here.get(name) and short.get(name) != paper.get(name)
    return because if by_budget else "changed for this run"


def _ids(root: Path) -> list[str]:
    names = (path.relative_to(root).as_posix().removesuffix(".toml") for path in root.rglob("*.toml"))
    return sorted((name for name in names if f"{name}.toml".rpartition("/")[2] not in NO_RECIPES), key=_natural)


def _natural(name: str) -> list[tuple[float, str]]:
    """Numbers by size, words by letter."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part), "") if part[0].isdigit() else (-1.0, part) for part in parts if part]


def _unknown(name: str, names: list[str]) -> NoReturn:
    """Raise the error for a name that is neither a recipe nor a folder."""
    folders = {"/".join(other.split("/")[:depth]) for other in names for depth in range(1, other.count("/") + 1)}
    remedy = checks.closest(name, [*names, *folders])
    tops = ", ".join(dict.fromkeys(other.partition("/")[0] for other in names)) or "none"
    checks.fail("recipe", f"be the id of a recipe or of a folder of them ({tops}, …)", name, remedy)
