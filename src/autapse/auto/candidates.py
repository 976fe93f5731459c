"""The handful of configurations that a search compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from autapse.auto.recipes import PER_STEP, recipe
from autapse.tasks.own import OwnData
from autapse.training.config import RunConfig

# Each differs from the recipe in one thing. The order is that of the trials, if time is short.
VARIANTS: dict[str, dict[str, Any]] = {
    "recurrent readout": {"model": {"readout_front": False}},
    "no front end": {"model": {"front": "none", "readout_front": False}},
    "lstm": {"model": {"cell": "lstm"}},
    "time warp": {"training": {"augment": "jitter=0.05, warp=0.2"}},
    "differences": {"task": {"differences": True}},
}
PER_SERIES: dict[str, dict[str, Any]] = {"scaling per series": {"task": {"scaling": "series"}}}
DIFFERENT_SCALES = 0.7  # series that differ by a factor of 2


@dataclass(frozen=True, eq=False)
class Variant:
    """A configuration with a name."""

    name: str
    config: RunConfig


def candidates(
    task: OwnData, spread: float, model: Mapping[str, Any], training: Mapping[str, Any], given: set[str]
) -> list[Variant]:
    """The recipe first, then its variants.

    Args:
        task: the task.
        spread: how much series differ in scale (`Look.series_spread`).
        model: settings of the network that are kept as they are.
        training: settings of the training that are kept as they are.
        given: names of the options that the user gave. No variant changes them.
    """
    base = recipe(task, model=model, training=training)
    automatic, by_series = task.scaling == "auto", bool(task.signature().level_mean)
    if base.reader.streaming and automatic and by_series:
        base = changed(base, {"task": {"scaling": "channel"}})  # the scale of a whole series is known only at its end
    variants = dict(VARIANTS)
    if spread > DIFFERENT_SCALES and automatic and not by_series and not base.reader.streaming:
        variants = {**PER_SERIES, **variants}
    if task.kind in PER_STEP:
        del variants["recurrent readout"]
        variants["no front end"] = {"model": {"front": "none"}}
    all_ = [Variant("recipe", base)]
    for name, change in variants.items():
        touched = {setting for part in change.values() for setting in part}
        if touched & given or (base.reader.front == "none" and {"front", "readout_front"} & touched):
            continue
        all_.append(Variant(name, changed(base, change)))
    return all_


def changed(config: RunConfig, change: Mapping[str, Mapping[str, Any]]) -> RunConfig:
    """A config with other settings."""
    return RunConfig(
        task=cast("OwnData", config.task).changed(**change["task"]) if "task" in change else config.task,
        model=replace(config.reader, **change.get("model", {})),
        training=replace(config.training, **change.get("training", {})),
    )
