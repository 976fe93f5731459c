"""`autapse run FILE --task trees` and `autapse run sst`: what they print before and after the training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import OmitArgPrefixes

from autapse.cli.kind import RunArguments, RunKind, T
from autapse.tasks import TreeTask
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import TreeConfig
from autapse.training.tree_settings import TREES

if TYPE_CHECKING:
    from autapse.training import Summary

SHOWN = 3  # test trees that are printed
MOST_WORDS = 12  # of a tree that is printed


@dataclass(kw_only=True)
class TreeArguments(RunArguments[T, TreeConfig]):
    """Train a network that learns the labels of the nodes of trees. The best weights in validation are kept."""

    training: OmitArgPrefixes[TrainingConfig] = field(default_factory=TREES.training_config)
    model: OmitArgPrefixes[TreeConfig] = field(default_factory=TREES.model_config)


class TreeKind(RunKind):
    """Trees with labels."""

    arguments, defaults = TreeArguments, TREES

    def print_look(self, console: Any, config: RunConfig) -> None:
        assert isinstance(config.task, TreeTask)
        print_look(console, config.task, config.training.seed)

    def finish(self, console: Any, folder: Path, config: RunConfig, summary: Summary) -> None:
        assert isinstance(config.task, TreeTask)
        finish(console, folder, config.task)


def print_look(console: Any, task: TreeTask, seed: int) -> None:
    """Print how many trees, words and labels there are."""
    sizes = ", ".join(f"{len(task.split(split, seed))} {split}" for split in ("train", "validation", "test"))
    train, _, _ = task.trees()
    known = task.signature()
    arity = f"at most {known.tree.arity} children" if known.tree else ""
    console.print(f"trees: {sizes}; {train.lengths.mean():.1f} nodes on average, {arity}")
    shown = ", ".join(task.classes[:MOST_WORDS]) + (", …" if len(task.classes) > MOST_WORDS else "")
    console.print(f"{len(task.vocabulary)} words; {len(task.classes)} labels: {shown}")


def finish(console: Any, folder: Path, task: TreeTask) -> None:
    """Print some test trees with the labels that the network gives them."""
    from autapse.training import load

    _, _, test = task.trees()
    if test is None:
        console.print("There is no test part, so nothing is scored.")
        return
    model: Any = load(folder, trust=True)  # its cell was imported for the training
    short = [n for n in range(len(test)) if len(test.sentence(n)) <= MOST_WORDS]
    for n in short[:: max(1, len(short) // SHOWN)][:SHOWN]:
        one = test.take([n]).restructured(task.structure)
        (made,) = model.predict(one)
        text = one.brackets(0, made) if model.tree == "given" else f"{made[0]}: {' '.join(one.sentence(0))}"
        console.print(f"  {text}   (root: {one.labels[-1]})")
