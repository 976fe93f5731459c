"""Default settings of a kind of task."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from autapse.tasks import Task
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import CellConfig

M = TypeVar("M", bound=CellConfig)


@dataclass(frozen=True)
class Defaults(Generic[M]):
    """The settings that suit a kind of task, where they differ from the usual defaults."""

    network: type[M]
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    without_validation: Mapping[str, Any]
    """Settings of the training that are different if no data is held out for validation."""

    def model_config(self, given: Mapping[str, Any] | None = None) -> M:
        return self.network(**{**self.model, **(given or {})})

    def training_config(self, given: Mapping[str, Any] | None = None) -> TrainingConfig:
        return TrainingConfig(**{**self.training, **(given or {})})

    def config(self, task: Task, model: Mapping[str, Any] | None, training: Mapping[str, Any] | None) -> RunConfig:
        """The settings of a run. What is given by name replaces the defaults."""
        config = RunConfig(task=task, model=self.model_config(model), training=self.training_config(training))
        return self.settled(config, keep=[*(model or {}), *(training or {})])

    def settled(self, config: RunConfig, keep: Collection[str] = ()) -> RunConfig:
        """The config with the defaults that depend on the task or on other settings.

        Without validation data, some settings of the training change, unless they differ from the defaults.

        `keep` has the names of the settings that were given. If steps are among them, they count, and not the epochs
        of the defaults.
        """
        usual = self.training_config()
        changes: dict[str, Any] = {}
        if not getattr(config.task, "validation", True):
            for name, value in self.without_validation.items():
                if name not in keep and getattr(config.training, name) == getattr(usual, name):
                    changes[name] = value
        if "steps" in keep and "epochs" not in keep:
            changes["epochs"] = None
        return replace(config, training=replace(config.training, **changes)) if changes else config
