"""What a kind of task adds to `autapse run`: its default settings, and what is printed before and after training."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes

from autapse import checks
from autapse.tasks import Task
from autapse.tasks.base import Preset
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.defaults import Defaults
from autapse.training.model_config import CellConfig, model_config

if TYPE_CHECKING:
    from autapse.training.summary import Summary

T = TypeVar("T", bound=Task)
M = TypeVar("M", bound=CellConfig)


@dataclass(kw_only=True)
class Train(Generic[T]):
    """The options that run and compare share."""

    @staticmethod
    def settings(task: type[Task]) -> type:
        """The class of the settings of a network, which depends on the task."""
        raise NotImplementedError

    task: OmitArgPrefixes[T]
    training: OmitArgPrefixes[TrainingConfig] = field(default_factory=TrainingConfig)
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder for the results. It must not exist yet; by default a numbered folder in runs/."""


@dataclass(kw_only=True)
class RunArguments(Train[T], Generic[T, M]):
    """Train one network on a task. The weights with the best validation score are kept and scored on the test set.

    For your own data, the preset auto looks at the data, compares a handful of networks by cross-validation, and trains
    the best one on all training data, within --seconds (120). Options that you give stay as they are.
    """

    model: OmitArgPrefixes[M]
    preset: Preset | None = None
    """auto: choose the settings by the data. recipe: settings that are good for many sets of series. none: use the
    settings as they are. By default auto for your own data, recipe for har, dsa and digits, and none for other tasks;
    none if --steps, --epochs or an option of the network is given."""
    seeds: int = 1
    """Train this many times with different seeds, and print the mean score and its standard deviation."""

    def __post_init__(self) -> None:
        checks.integer("seeds", self.seeds, minimum=1)

    @staticmethod
    def settings(task: type[Task]) -> type:
        return model_config(task)


class RunKind:
    """A kind of task. This class is for tasks without anything special."""

    arguments: ClassVar[type] = RunArguments
    """The options of `autapse run`."""
    defaults: ClassVar[Defaults[Any] | None] = None
    """The settings that differ from the usual defaults."""

    def settled(self, config: RunConfig, given: Collection[str] = ()) -> RunConfig:
        """The config of a run, with the options that were given. Without validation data, nothing can stop early."""
        return config if self.defaults is None else self.defaults.settled(config, given)

    def print_look(self, console: Any, config: RunConfig) -> None:
        """Print what is in the data."""

    def finish(self, console: Any, folder: Path, config: RunConfig, summary: Summary) -> None:
        """Print and draw what a trained model does with the test data."""
