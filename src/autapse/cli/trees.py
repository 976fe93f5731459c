"""`autapse run FILE --task trees` and `autapse run sst`: what they print before and after the training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from autapse.tasks import TreeTask
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import TreeConfig

SHOWN = 3  # test trees that are printed
MOST_WORDS = 12  # of a tree that is printed
WITHOUT_VALIDATION: dict[str, Any] = {"early_stop": None, "schedule": "cosine", "epochs": 5.0}


def default_model() -> TreeConfig:
    """The network for trees with words."""
    return TreeConfig(hidden_size=(100,), input_dropout=0.3, output_dropout=0.5)


def default_training() -> TrainingConfig:
    """The training for trees with words: until validation does not improve any more."""
    return TrainingConfig(
        batch_size=25,
        optimizer="adamw",
        learning_rate=2e-3,
        weight_decay=0.05,
        epochs=20.0,
        clip_norm=5.0,
        early_stop=12,
        eval_every=150,
    )


def settled(config: RunConfig) -> RunConfig:
    """The config of a run. Without validation data nothing can stop early."""
    if not isinstance(config.task, TreeTask) or config.task.validation or config.training.early_stop is None:
        return config
    return replace(config, training=replace(config.training, **WITHOUT_VALIDATION))


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
