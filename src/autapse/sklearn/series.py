"""SeriesEstimator: estimators that learn a target for each series, or for each of its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from autapse import checks
from autapse.data.missing import Missing
from autapse.sklearn import engine
from autapse.sklearn.base import RecurrentEstimator
from autapse.tasks import ArrayTask, Signature
from autapse.tasks.scaling import Scaling
from autapse.tasks.stored import Examples
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import ModelConfig

PRESETS = ("auto", "recipe", "none")
SECONDS = 120.0  # for the preset "auto"


@dataclass(kw_only=True, eq=False, repr=False)
class SeriesEstimator(RecurrentEstimator):
    """The base of estimators with targets; not for direct use.

    Args:
        preset: Where settings come from that are None. "auto" compares a handful of configurations by cross-validation.
            "recipe" takes settings that are good for many data sets, with sizes that follow the data. "none" takes the
            defaults of `ModelConfig` and `TrainingConfig`.
        time_limit: Seconds that `fit` may take. None is 120 with the preset "auto", and no limit otherwise.
        bidirectional: Whether the network reads sequences in both directions.
        front: What comes before the recurrent layer: "none", "frames:size=4" or "conv", with options.
        readout: What the head reads: "last", "mean", "max", "mean-max" or "attention".
        streaming: Make everything causal, so that `stream` can read one step at a time.
        scaling: How the model scales its inputs: "auto", "channel", "series", "robust" or "none".
        missing: What the model reads where a value is NaN: "mask", "forward" or "mean". With "error", NaN is an error.
            NaN in all channels at the end of a sequence is padding, and never read.
        differences: Add the change of each channel since the step before as further channels.
        augment: Random changes of the training sequences, as in "jitter=0.05".
        validation: Share of the sequences that is held out to choose the best weights. It must be 0 with the preset
            "auto", which uses cross-validation and then trains on all sequences.
    """

    preset: str = "auto"
    bidirectional: bool | None = None
    front: str | None = None
    readout: str | None = None
    streaming: bool = False
    scaling: Scaling = "auto"
    missing: Missing = "error"
    differences: bool | None = None
    augment: str | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None or self.preset == "auto"
        return tags

    def _require(self, y: Any) -> None:
        if y is None:
            name = type(self).__name__
            raise checks.InputError(f"{name} requires y to be passed, but the target y is None. Call fit(X, y).")

    def _fit(self, sequences: list[np.ndarray], targets: Any, classes: tuple[str, ...], weights: Any) -> Self:
        """Train a new model."""
        data = engine.examples_of(sequences, targets, weights)
        self.__dict__.pop("trials_", None)
        with engine.own_randomness(self.device):
            config = self._config(data, search=True)
            signature = _named(config.task.signature(), classes)
            self._trained = engine.train(config, signature, data, self.validation)
        return self

    def _fit_more(self, sequences: list[np.ndarray], targets: Any, classes: tuple[str, ...], weights: Any) -> Self:
        """Pass over the data once. The first call chooses the settings and the scaling."""
        data = engine.examples_of(sequences, targets, weights)
        before = getattr(self, "_trained", None)
        if before is None:
            config = self._config(data, search=False)
            signature = _named(config.task.signature(), classes)
        else:
            config, signature = before.config, before.signature
        with engine.own_randomness(self.device):
            self._trained = engine.train_more(before, config, signature, data)
        return self

    def _config(self, data: Examples, *, search: bool) -> RunConfig:
        """The config of a training, from the parameters, the preset and the data."""
        checks.one_of("preset", self.preset, PRESETS)
        checks.number("validation", self.validation, low=0.0, high=0.9)
        if self.preset == "auto" and self.validation:
            checks.fail("validation", 'be 0 with preset="auto", which uses cross-validation', self.validation)
        model, training = self._given()
        task = self._task(data)
        if self.preset == "none":
            return RunConfig(task=task, model=ModelConfig(**model), training=TrainingConfig(**training))
        from autapse import auto

        if self.preset == "recipe" or not search:
            return auto.recipe(task, model=model, training=training)
        fixed = {"differences": self.differences is not None, "scaling": self.scaling != "auto"}
        choice = auto.choose(
            task,
            seconds=self.time_limit or SECONDS,
            seed=training["seed"],
            model=model,
            training=training,
            given={name for name, given in fixed.items() if given},
            weights=data.weights,
        )
        self.trials_ = choice.table()
        return choice.config

    def _task(self, data: Examples) -> ArrayTask:
        inputs, targets = data.inputs, data.targets
        per_step = not isinstance(targets, np.ndarray)
        return ArrayTask(
            [inputs[n] for n in range(len(inputs))],
            [targets[n] for n in range(len(targets))] if per_step else targets,
            targets="step" if per_step else "series",
            test_share=0.0,
            validation=self.validation,
            scaling=self.scaling,
            missing=self.missing,
            differences=bool(self.differences),
            channels=tuple(map(str, getattr(self, "channel_names_in_", ()))),
        )

    def _given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        model, training = super()._given()
        return (model if self.streaming else {name: model[name] for name in model if name != "streaming"}), training

    def _weights(self, sample_weight: Any, count: int) -> np.ndarray | None:
        """The weights of the sequences, checked."""
        if sample_weight is None:
            return None
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != (count,):
            checks.fail("sample_weight", f"have shape ({count},), one per sequence", weights.shape)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            checks.fail("sample_weight", "have finite values of at least 0", sample_weight)
        return weights

    def stream(self, batch_size: int = 1) -> Any:
        """Read live signals, one step at a time. The model must be trained with `streaming=True`.

        Args:
            batch_size: number of signals that are read side by side.

        Returns:
            A stream of the model, `model_.stream(batch_size)`.
        """
        check_is_fitted(self)
        return self.model_.stream(batch_size)


def _named(signature: Signature, classes: tuple[str, ...]) -> Signature:
    """A signature with these classes, which may be more than those in the data."""
    return replace(signature, classes=classes, output_size=len(classes)) if classes else signature
