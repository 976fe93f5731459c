"""`autapse run TASK`: train a network, evaluate it, save it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from autapse import checks, files, terminal
from autapse.cli.forecast import as_forecast
from autapse.cli.generate import as_generation
from autapse.cli.kind import RunArguments
from autapse.cli.kinds import kind_of
from autapse.cli.parse import parse, positional, wants_help
from autapse.cli.preset import (
    OF_A_FILE,
    given_options,
    preset_of,
    print_choice,
    print_look,
    run_name,
)
from autapse.cli.repeat import repeat, write_choice
from autapse.cli.summary import print_summary
from autapse.data.catalogue import ARCHIVE, DATA_SETS, misspelt
from autapse.data.formats.pairs import has_pairs
from autapse.tasks import TASKS, Archive, Forecast, OwnPairs, OwnSequences, OwnSeries, task_class
from autapse.tasks.own import OwnData
from autapse.tasks.series import is_own
from autapse.training.config import RunConfig

if TYPE_CHECKING:
    from autapse.auto import Choice
    from autapse.training.summary import Summary

USAGE = """usage: autapse {command} TASK [options]

{about}

tasks:
{tasks}

`autapse {command} TASK --help` lists all options, including those of the task."""
CHOICE = "--task"


def main(words: list[str]) -> int:
    if wants_help(words):
        return task_help("run", "Train a network on a task, evaluate it, and save it under runs/.")
    args = parse_task(RunArguments, "run", words)
    given = given_options(words)
    preset = preset_of(args.task, args.preset, given)
    if preset == "auto":
        one_process_only("run --preset auto", "--preset none")
    kind = kind_of(args.task)
    config = kind.settled(RunConfig(task=args.task, model=args.model, training=args.training), given)
    if preset == "recipe":
        config = _by_recipe(config, given)
    with speaking_for_all() as console:
        choice = None
        if preset != "auto":
            kind.print_look(console, config)
        else:
            if args.out is not None and args.out.exists():
                files.new_folder(args.out)  # refuse it now, not after the search
            choice = _chosen(config, given, args.seeds, console)
            config = choice.config
        default = Path("runs") / f"{run_name(args.task)}-{config.model.network.split(':')[0].lower()}"
        summaries = [
            _train_one(_with_seed(config, seed), choice, console, args.out, default, seed if args.seeds > 1 else None)
            for seed in range(config.training.seed, config.training.seed + args.seeds)
        ]
        if args.seeds > 1 and all(summaries):
            console.print(_spread([summary for summary in summaries if summary]))
        if choice:
            seeds = f" --seeds {args.seeds}" if args.seeds > 1 else ""
            console.print(f"to repeat it: {repeat(choice)}{seeds}")
    return 0


def _by_recipe(config: RunConfig, given: set[str]) -> RunConfig:
    """The recipe, with the options that were given."""
    from autapse.auto import recipe

    model, training = _given(config, given)
    return recipe(config.task, model=model, training=training)


def _given(config: RunConfig, given: set[str]) -> tuple[dict[str, Any], ...]:
    """The settings of the network and of the training that were given."""
    return tuple({n: v for n, v in vars(part).items() if n in given} for part in (config.model, config.training))


def _chosen(config: RunConfig, given: set[str], seeds: int, console: Any) -> Choice:
    """Choose the settings by the data, and print how."""
    from autapse.auto import choose, look
    from autapse.auto.choice import SECONDS
    from autapse.training.log import Notes

    assert isinstance(config.task, OwnData)
    print_look(console, look(config.task, config.training.seed, search=True))
    model, training = _given(config, given)
    choice = choose(
        config.task,
        seconds=config.training.seconds or SECONDS,
        seed=config.training.seed,
        model=model,
        training=training,
        given=given,
        runs=seeds,
        show=Notes(console),
    )
    print_choice(console, choice, config.task.metric)
    return choice


def _with_seed(config: RunConfig, seed: int) -> RunConfig:
    return replace(config, training=replace(config.training, seed=seed))


def _train_one(
    config: RunConfig, choice: Choice | None, console: Any, out: Path | None, default: Path, seed: int | None
) -> Summary | None:
    """Train one run and print its summary; with a seed, in a folder of that name."""
    place = out if out is None or seed is None else out.with_name(f"{out.name}-seed{seed}")
    summary, folder = train_shown(config, console, lambda: make_folder(place, default))
    if summary:
        if choice:
            write_choice(folder, choice)
        print_summary(console, summary, config)
        kind_of(config.task).finish(console, folder, config, summary)
        console.print(f"\nrun: {folder}")
    return summary


def _spread(summaries: list[Summary]) -> str:
    """The mean test score over several seeds, with its standard deviation."""
    scores = [summary.test for summary in summaries if summary.test is not None]
    if len(scores) < 2:
        return f"{len(summaries)} seeds: {len(scores)} with a test score"
    return f"{len(scores)} seeds: test {summaries[0].metric} {mean(scores):.4g} ± {stdev(scores):.2g}"


@contextmanager
def speaking_for_all() -> Iterator[Any]:
    """A console on which only rank 0 prints. At the end, this process leaves the process group."""
    from autapse.console import Console
    from autapse.training.distributed import join, leave

    try:
        yield Console(quiet=not join().leads)
    finally:
        leave()


def parse_task(kind: Any, command: str, words: list[str]) -> Any:
    """Parse the arguments of a command whose first word is a task, including the options of the task."""
    name, rest = positional(words, "a task", command, f"autapse {command} adding")
    if name not in TASKS:
        name, rest = _series(name, rest)
    try:
        task = task_class(name)
    except checks.InputError as error:
        raise checks.InputError(f"{error} {_what_else(name, command)}".rstrip()) from None
    special: Any = kind_of(task).arguments
    if kind is RunArguments and special is not RunArguments:
        return parse(special[task], f"{command} {name}", rest)
    return parse(kind[task, kind.settings(task)], f"{command} {name}", rest)


def _series(word: str, rest: list[str]) -> tuple[str, list[str]]:
    """The task and its options for a word that is a file, or a data set of the archive."""
    chosen, others = _chosen_task(rest)
    if chosen is not None:
        return checks.one_of(CHOICE, chosen, [task.name for task in OF_A_FILE]), ["--path", word, *others]
    for task, options in (
        (Forecast, as_forecast(word, rest)),
        (OwnSequences, as_generation(word, rest)),
    ):
        if options is not None:
            return task.name, options
    if is_own(word):
        if has_pairs(Path(word)):
            raise checks.InputError(f"{word} has pairs of texts. To translate them, add {CHOICE} {OwnPairs.name}.")
        return OwnSeries.name, ["--path", word, *rest]
    if f"{ARCHIVE}/{word}" in DATA_SETS:
        return Archive.name, ["--dataset", word, *rest]
    return word, rest


def _chosen_task(words: list[str]) -> tuple[str | None, list[str]]:
    """What `--task NAME` says about a file, and the other words."""
    for n, word in enumerate(words):
        if word == CHOICE and n + 1 < len(words):
            return words[n + 1], [*words[:n], *words[n + 2 :]]
        if word.startswith(f"{CHOICE}="):
            return word.removeprefix(f"{CHOICE}="), [*words[:n], *words[n + 1 :]]
    return None, words


def _what_else(word: str, command: str) -> str:
    """A hint for a word that is not a task."""
    archive = [name.removeprefix(f"{ARCHIVE}/") for name in DATA_SETS if name.startswith(f"{ARCHIVE}/")]
    same = next((name for name in archive if name.lower() == word.lower()), None)
    if same is not None:
        return f"The data set is called {same}."
    if checks.closest(word, TASKS):
        return ""
    if misspelt(word):
        return checks.closest(word, archive)
    if "." in word or "/" in word:
        return "The name of your own file must end in .ts, .tsv, .csv, .npz, .parquet or .txt."
    meant = f"For a data set of the UEA and UCR archive: autapse {command} {Archive.name} --dataset {word}"
    return meant if word[:1].isupper() else ""


def one_process_only(command: str, instead: str) -> None:
    """Raise an error if torchrun started several processes."""
    from autapse.training.distributed import processes

    if processes() > 1:
        raise checks.InputError(f"`autapse {command}` runs in one process only. Under torchrun use {instead}.")


def task_help(command: str, about: str) -> int:
    """Print the help of a command without a task."""
    width = max(map(len, TASKS))
    tasks = "\n".join(f"  {name:<{width}}  {task.summary}" for name, task in TASKS.items())
    terminal.write(USAGE.format(command=command, about=about, tasks=tasks))
    return 0


def make_folder(chosen: Path | None, default: Path) -> Path:
    """Create the chosen folder, which must not exist yet; by default a numbered one."""
    return files.numbered_folder(default) if chosen is None else files.new_folder(chosen)


def train_shown(
    config: RunConfig, console: Any, folder: Callable[[], Path], data: Any = None
) -> tuple[Summary | None, Path]:
    """Train a new run and show its progress. The folder is created after everything has been checked and built."""
    from autapse.training.log import Screen
    from autapse.training.trainer import Trainer

    screen = Screen(console, config.model.network, config.task.metric)
    trainer = Trainer(config, screen, data)
    place = folder() if trainer.world.leads else Path()
    with screen:
        return trainer.start(place).train(), place
