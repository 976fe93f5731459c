"""RecurrentEstimator: the parameters of the estimators, and how they become the config of a training."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from autapse import checks
from autapse.docstrings import inherited
from autapse.models import SequenceModel
from autapse.sklearn import storage
from autapse.sklearn.arrays import read_sequences
from autapse.sklearn.engine import Trained
from autapse.tasks import Signature
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import ModelConfig

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
        time_limit: Seconds that `fit` may take; None for no limit.
        cell: The cell, with options, as in "ernn:inner_steps=2".
        hidden_size: Units: one size for all layers, or one size per layer.
        num_layers: Number of layers.
        steps: Updates of the weights.
        epochs: Passes over the training data, instead of `steps`.
        batch_size: Sequences per update.
        learning_rate: Initial learning rate.
        weight_decay: L2 penalty.
        validation: Share of the data that is held out to choose the best weights.
        early_stop: Stop after this many validations without improvement.
        settings: Further settings of `ModelConfig` and `TrainingConfig` by name, as in {"optimizer": "sgd"}.
        layout: The order of the axes of X: "nct" for [n, channels, time], "ntc" for [n, time, channels].
        random_state: Seed of the initial weights, the order of batches and dropout. The same integer gives the same
            model, unless the time limit ends the training.
        device: Where to train and predict: "cpu", "cuda", ...
    """

    time_limit: float | None = None
    cell: Any = None
    hidden_size: Any = None
    num_layers: int | None = None
    steps: int | None = None
    epochs: float | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    validation: float = 0.0
    early_stop: int | None = None
    settings: Any = None
    layout: str = "nct"
    random_state: Any = None
    device: str = "cpu"

    kept: ClassVar[tuple[str, ...]] = (
        "n_features_in_",
        "n_channels_in_",
        "feature_names_in_",
        "channel_names_in_",
        "_table",
    )
    """Attributes that are saved beside the model."""
    fixed_length: ClassVar[bool] = True
    """Whether the rows of a two-dimensional X must be as long as in `fit`."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The help of an estimator also describes the parameters that all estimators have."""
        super().__init_subclass__(**keywords)
        cls.__doc__ = inherited(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = self.random_state is None
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

    # Settings ---------------------------------------------------------------------------------------------------

    def _read(self, X: Any) -> list[np.ndarray]:
        """The sequences to predict, [T_n, channels] each."""
        check_is_fitted(self)
        return read_sequences(self, X, reset=False)

    def _given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the network and of the training that are given."""
        given = {name: _plain(value) for name, value in self.get_params(deep=False).items() if value is not None}
        further = {} if self.settings is None else self.settings
        if not isinstance(further, Mapping):
            checks.fail("settings", "be a dict of settings by name", self.settings, kind=checks.KindError)
        for name in further:
            if name in ELSEWHERE or name in given:
                checks.fail("settings", f"not have {name}", further[name], ELSEWHERE.get(name, "It is a parameter."))
            checks.one_of("a name in settings", name, sorted(MODEL | TRAINING))
        given = {name: value for name, value in {**given, **further}.items() if value is not None}
        if self.time_limit is not None:
            checks.number("time_limit", self.time_limit, above=0.0)
        given |= {"seed": self._seed()} | ({"seconds": self.time_limit} if self.time_limit is not None else {})
        model, training = ({name: given[name] for name in given if name in names} for names in (MODEL, TRAINING))
        return model, training

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    # Files ----------------------------------------------------------------------------------------------------

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


def _plain(value: Any) -> Any:
    """A numpy scalar, as parameter grids have them, as a Python number."""
    return value.item() if isinstance(value, np.generic) else value
