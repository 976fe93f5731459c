"""RecurrentEstimator: the parameters of the estimators, and how they become the config of a training."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from autapse import checks
from autapse.docstrings import inherited
from autapse.models import SequenceModel
from autapse.sklearn import engine, storage
from autapse.sklearn.arrays import read_sequences
from autapse.sklearn.engine import Trained, Weighted
from autapse.tasks import ArrayTask, Signature
from autapse.tasks.scaling import Missing, Scaling
from autapse.training.config import ModelConfig, RunConfig, TrainingConfig

PRESETS = ("auto", "recipe", "none")
SECONDS = 120.0  # for the preset "auto"
MODEL, TRAINING = ({field.name for field in dataclasses.fields(kind)} for kind in (ModelConfig, TrainingConfig))
ELSEWHERE = {  # settings that estimators have under another name, or do not have
    "seed": "Use random_state.",
    "seconds": "Use time_limit.",
    "class_weights": "Use class_weight.",
    "record_test": "An estimator has no test set.",
    "checkpoint_seconds": "An estimator writes no checkpoints.",
}


@dataclass(kw_only=True, eq=False, repr=False)
class RecurrentEstimator(BaseEstimator):  # type: ignore[misc]
    """The base of the estimators; not for direct use.

    Args:
        preset: Where settings come from that are None. "auto" compares a handful of configurations by cross-validation.
            "recipe" takes settings that are good for many data sets, with sizes that follow the data. "none" takes the
            defaults of `ModelConfig` and `TrainingConfig`.
        time_limit: Seconds that `fit` may take. None is 120 with the preset "auto", and no limit otherwise.
        cell: The cell, with options, as in "ernn:inner_steps=2".
        hidden_size: Units: one size for all layers, or one size per layer.
        num_layers: Number of layers.
        bidirectional: Whether the network reads sequences in both directions.
        front: What comes before the recurrent layer: "none", "frames:size=4" or "conv", with options.
        readout: What the head reads: "last", "mean", "max", "mean-max" or "attention".
        streaming: Make everything causal, so that `stream` can read one step at a time.
        scaling: How the model scales its inputs: "auto", "channel", "series", "robust" or "none".
        missing: What the model reads where a value is NaN: "mask", "forward" or "mean". With "error", NaN is an error.
            NaN in all channels at the end of a sequence is padding, and never read.
        differences: Add the change of each channel since the step before as further channels.
        steps: Updates of the weights.
        epochs: Passes over the training data, instead of `steps`.
        batch_size: Sequences per update.
        learning_rate: Initial learning rate.
        weight_decay: L2 penalty.
        augment: Random changes of the training sequences, as in "jitter=0.05".
        validation: Share of the sequences that is held out to choose the best weights. It must be 0 with the preset
            "auto", which uses cross-validation and then trains on all sequences.
        early_stop: Stop after this many validations without improvement.
        settings: Further settings of `ModelConfig` and `TrainingConfig` by name, as in {"optimizer": "sgd"}.
        layout: The order of the axes of X: "nct" for [n, channels, time], "ntc" for [n, time, channels].
        random_state: Seed of the initial weights, the order of batches and dropout. The same integer gives the same
            model, unless the time limit ends the training.
        device: Where to train and predict: "cpu", "cuda", ...
    """

    preset: str = "auto"
    time_limit: float | None = None
    cell: Any = None
    hidden_size: Any = None
    num_layers: int | None = None
    bidirectional: bool | None = None
    front: str | None = None
    readout: str | None = None
    streaming: bool = False
    scaling: Scaling = "auto"
    missing: Missing = "error"
    differences: bool | None = None
    steps: int | None = None
    epochs: float | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    augment: str | None = None
    validation: float = 0.0
    early_stop: int | None = None
    settings: Any = None
    layout: str = "nct"
    random_state: Any = None
    device: str = "cpu"

    kept: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_channels_in_", "feature_names_in_", "_table")
    """Attributes that are saved beside the model."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The help of an estimator also describes the parameters that all estimators have."""
        super().__init_subclass__(**keywords)
        cls.__doc__ = inherited(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None or self.preset == "auto"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_trained")

    # Fitted attributes ------------------------------------------------------------------------------------------

    @property
    def model_(self) -> SequenceModel:
        """The trained model, as `autapse.load` returns it."""
        return self._state.model

    @property
    def config_(self) -> RunConfig:
        """The settings that were used, without the data."""
        return self._state.config

    @property
    def signature_(self) -> Signature:
        """What the model knows about the data: channels, classes, scaling."""
        return self._state.signature

    @property
    def n_iter_(self) -> int:
        """Updates of the weights that were done."""
        return self._state.progress.step

    @property
    def history_(self) -> list[dict[str, Any]]:
        """The course of the training: one record per 10 steps and per validation."""
        return self._state.history

    @property
    def loss_curve_(self) -> list[float]:
        """The training loss at every tenth step."""
        return [record["loss"] for record in self.history_ if "loss" in record]

    @property
    def _state(self) -> Trained:
        check_is_fitted(self)  # its error is an AttributeError, so that hasattr(estimator, "model_") is False
        return self._trained

    # Training ---------------------------------------------------------------------------------------------------

    def _require(self, y: Any) -> None:
        if y is None:
            name = type(self).__name__
            raise checks.InputError(f"{name} requires y to be passed, but the target y is None. Call fit(X, y).")

    def _read(self, X: Any) -> list[np.ndarray]:
        """The sequences to predict, [T_n, channels] each."""
        check_is_fitted(self)
        return read_sequences(self, X, reset=False)

    def _fit(self, sequences: list[np.ndarray], targets: Any, classes: tuple[str, ...], weights: Any) -> Self:
        """Train a new model."""
        data = Weighted.of(sequences, targets, weights)
        self.__dict__.pop("trials_", None)
        with engine.own_randomness(self.device):
            config = self._config(data, search=True)
            signature = _named(config.task.signature(), classes)
            self._trained = engine.train(config, signature, data, self.validation)
        return self

    def _fit_more(self, sequences: list[np.ndarray], targets: Any, classes: tuple[str, ...], weights: Any) -> Self:
        """Pass over the data once. The first call chooses the settings and the scaling."""
        data = Weighted.of(sequences, targets, weights)
        before = getattr(self, "_trained", None)
        if before is None:
            config = self._config(data, search=False)
            signature = _named(config.task.signature(), classes)
        else:
            config, signature = before.config, before.signature
        with engine.own_randomness(self.device):
            self._trained = engine.train_more(before, config, signature, data)
        return self

    def _config(self, data: Weighted, *, search: bool) -> RunConfig:
        """The config of a training, from the parameters, the preset and the data."""
        checks.one_of("preset", self.preset, PRESETS)
        checks.number("validation", self.validation, low=0.0, high=0.9)
        if self.time_limit is not None:
            checks.number("time_limit", self.time_limit, above=0.0)
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
        )
        self.trials_ = choice.table()
        return choice.config

    def _task(self, data: Weighted) -> ArrayTask:
        inputs, targets = data.examples.inputs, data.examples.targets
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
        )

    def _given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the network and of the training that are given."""
        given = {name: _plain(value) for name, value in self.get_params(deep=False).items() if value is not None}
        given |= {} if self.streaming else {"streaming": None}
        further = {} if self.settings is None else self.settings
        if not isinstance(further, Mapping):
            checks.fail("settings", "be a dict of settings by name", self.settings, kind=checks.KindError)
        for name in further:
            if name in ELSEWHERE or name in given:
                checks.fail("settings", f"not have {name}", further[name], ELSEWHERE.get(name, "It is a parameter."))
            checks.one_of("a name in settings", name, sorted(MODEL | TRAINING))
        given = {name: value for name, value in {**given, **further}.items() if value is not None}
        given |= {"seed": self._seed()} | ({"seconds": self.time_limit} if self.time_limit is not None else {})
        model, training = ({name: given[name] for name in given if name in names} for names in (MODEL, TRAINING))
        return model, training

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _weights(self, sample_weight: Any, count: int) -> np.ndarray | None:
        """The weights of the sequences, checked."""
        if sample_weight is None:
            return None
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != (count,):
            checks.fail("sample_weight", f"have shape ({count},), one per sequence", weights.shape)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            checks.fail("sample_weight", "have finite values of at least 0", sample_weight)
        if not weights.any():
            checks.fail("sample_weight", "have at least one weight above zero", "only zeros")
        return weights

    # Files and streams ------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file, without pickle.

        Args:
            path: the file. `autapse.load` and `load` read it. An existing file is replaced.
        """
        check_is_fitted(self)
        storage.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu", trust: bool = False) -> Self:
        """Read an estimator that `save` wrote.

        Args:
            path: the file.
            device: where the model is to be.
            trust: allow importing the module of a cell of your own, as in `autapse.load`.

        Returns:
            The fitted estimator.
        """
        return storage.load(cls, Path(path), device, trust)

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


def _plain(value: Any) -> Any:
    """A numpy scalar, as parameter grids have them, as a Python number."""
    return value.item() if isinstance(value, np.generic) else value
