"""The base of tasks with people's own data: sequences from a file or from arrays, with a target each or per step."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sized
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, get_args

import numpy as np

from autapse import checks
from autapse.data.formats.timeseries import Series
from autapse.data.missing import Missing
from autapse.data.ragged import Ragged
from autapse.docstrings import inherited
from autapse.tasks.base import IGNORE, Data, Kind, Metric, Preset, Signature, dense
from autapse.tasks.scaling import InputScaling, Scaling, choose
from autapse.tasks.stored import Examples, Parts, Stored, held_out, standardisation


@dataclass(frozen=True, kw_only=True)
class OwnData(Stored):
    """x_t are the channels of a sequence; y is its class or its values, or a class or values at every step.

    Args:
        validation: Share of the training sequences that is held out for validation; 0 trains on all of them.
        scaling: How the model scales its inputs: each channel, each channel of each series, robust against outliers, or
            none. With auto, the training data decides.
        missing: What the model reads where a value is missing: the mean of the channel and a second input that marks
            the gap (mask), the last value before it (forward), or the mean. With error, missing values are an error.
        differences: Add the change of each channel since the step before as further channels.
    """

    validation: float = 0.2
    scaling: Scaling = "auto"
    missing: Missing = "error"
    differences: bool = False

    preset: ClassVar[Preset] = "auto"
    older: ClassVar[dict[str, Any]] = {"scaling": "channel"}

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The help of a task also describes the options that all tasks with people's own data have."""
        super().__init_subclass__(**keywords)
        cls.__doc__ = inherited(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("scaling", self.scaling, get_args(Scaling))
        checks.one_of("missing", self.missing, get_args(Missing))
        checks.boolean("differences", self.differences)

    def changed(self, **options: Any) -> Self:
        """The same data with other options, also if the data is in memory and not in the options."""
        other = copy.copy(self)
        for name, value in options.items():
            checks.one_of("option", name, [field.name for field in fields(self)])
            object.__setattr__(other, name, value)
        other.__post_init__()
        return other

    @classmethod
    def about(cls) -> str:
        return "classification or regression; trivial predictor: always the most frequent class, or the mean"

    @abstractmethod
    def both(self) -> tuple[Series, Series]:
        """Training and test sequences."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return kind_of(self.both()[0])

    @property
    def metric(self) -> Metric:  # type: ignore[override]
        return "mean squared error" if "regression" in self.kind else "error rate"

    @property
    def baseline_text(self) -> str:  # type: ignore[override]
        values = "regression" in self.kind
        return "always the mean of the training targets" if values else "always the most frequent class"

    def parts(self) -> Parts:
        return Parts(*(Examples(series.inputs, series.targets) for series in self.both()))

    def signature(self) -> Signature:
        train, _ = self.both()
        targets = dense(train.targets)
        known = Signature(
            kind=self.kind,
            input_size=train.inputs.values.shape[1],
            output_size=len(train.labels) or targets.shape[1],
            channels=train.channels,
            time_step=train.time_step,
            classes=train.labels,
            length=int(np.median(train.inputs.lengths)),
            **self.input_scaling().fields(),
        )
        if train.labels:
            return known
        target_mean, target_scale = standardisation(targets)
        return replace(known, target_mean=target_mean, target_scale=target_scale)

    def input_scaling(self) -> InputScaling:
        """How the model scales its inputs, and why: from the training sequences, validation sequences included."""
        train, _ = self.both()
        empty = np.isnan(train.inputs.values).all(axis=0)  # [D]
        if empty.any():
            place = int(empty.argmax())
            name = train.channels[place] if train.channels else str(place + 1)
            remedy = "Leave it out (for a file, --channels names the others)."
            raise checks.InputError(f"Channel {name!r} has no values in the training data. {remedy}")
        key = (self.scaling, self.missing, self.differences)
        kept = self.__dict__.setdefault("_scalings", {})  # `changed` copies share it: a search asks many times
        if key not in kept or kept[key][0] is not train.inputs:
            kept[key] = train.inputs, choose(train.inputs, *key, train.channels)
        scaling: InputScaling = kept[key][1]
        return scaling

    def baseline(self, data: Data) -> float:
        if "regression" not in self.kind:
            train, targets = (_known(part) for part in (self.both()[0].targets, data.targets))
            return float((targets != np.bincount(train).argmax()).mean())
        mean = dense(self.both()[0].targets).mean(axis=0)
        return float(np.square(dense(data.targets) - mean).mean())


def _known(targets: np.ndarray | Ragged) -> np.ndarray:
    """The classes of all sequences or steps that have one."""
    flat = dense(targets)
    return flat[flat != IGNORE]


def kind_of(series: Series) -> Kind:
    """The kind of task, from the targets."""
    per_step = isinstance(series.targets, Ragged)
    if series.labels:
        return "tagging" if per_step else "classification"
    return "regression per step" if per_step else "regression"


def divided(series: Series, share: float) -> tuple[Series, Series]:
    """Split sequences into training and test. The split does not depend on the seed of a run."""
    held = held_out(Examples(series.inputs, series.targets), share, seed=0)
    return series.take(np.flatnonzero(~held)), series.take(np.flatnonzero(held))


def check_count(both: tuple[Sized, Sized], share: float, validation: float, name: str, remedy: str = "") -> None:
    """Check that there is a sequence for training, and one for each other split that has a share."""
    uses = ["training", *(["validation"] if validation else []), *(["test"] if share else [])]
    total = len(both[0]) + len(both[1])
    if total < len(uses):
        count = ("one", "two", "three")[len(uses) - 1]
        listed = " and ".join(filter(None, [", ".join(uses[:-1]), uses[-1]]))
        checks.fail(name, f"have at least {count} series, for {listed}", total, remedy)
