"""Estimators in files: a checkpoint of the model, with the parameters of the estimator in its metadata. No pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from autapse import checks, files, records
from autapse.models.base import as_reader
from autapse.sklearn.engine import Trained
from autapse.tasks import Signature
from autapse.training.checkpoint import Snapshot, load_weights, packed, read_file
from autapse.training.environment import Environment
from autapse.training.model import make_model

OPTIONAL = {"feature_names_in_", "channel_names_in_"}  # attributes of estimators that got names


@dataclass(frozen=True)
class Saved:
    """What a file has about the estimator, beside its model."""

    estimator: str
    """The name of its class."""
    params: dict[str, Any]
    attributes: dict[str, Any]


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator to a file."""
    trained: Trained = estimator._trained
    params = estimator.get_params(deep=False)
    if not isinstance(params["random_state"], int | np.integer | None):
        params["random_state"] = None  # the state of a generator
    if params["cell"] is not None:
        params["cell"] = trained.config.model.cell  # the name of a class
    attributes = {name: getattr(estimator, name) for name in estimator.kept if hasattr(estimator, name)}
    about = Saved(type(estimator).__name__, _written(params), _written(attributes))
    weights = trained.model.state_dict()
    snapshot = Snapshot(
        path=path,
        config=trained.config,
        signature=trained.signature,
        progress=replace(trained.progress, averaged=0),  # the weights are the average already
        environment=Environment.present(),
        model=weights,
        best={name: value.clone() for name, value in weights.items()},  # two names may not share memory in a file
        optimizer=trained.optimizer,
        average={},
        solutions={},
        carried={},
    )
    files.write_bytes(path, packed(snapshot, estimator=asdict(about)))


def load(kind: type[Any], path: Path, device: str, trust: bool) -> Any:
    """Read an estimator of this class from a file."""
    snapshot = read_file(path, trust)
    with safe_open(path, framework="pt") as file:
        content = file.metadata().get("estimator")
    if content is None:
        raise checks.InputError(f"{path} has a model, but no estimator. autapse.load reads it.")
    saved = records.read(Saved, json.loads(content), path)
    if saved.estimator != kind.__name__:
        raise checks.InputError(f"{path} has a {saved.estimator}, not a {kind.__name__}. Use {saved.estimator}.load.")
    try:
        estimator = kind(**{**_read(saved.params), "device": device})
        attributes = _read(saved.attributes)
        _check(attributes, kind.kept, snapshot.signature)
    except (TypeError, ValueError, KeyError) as error:
        raise checks.InputError(f"{path} is damaged: {error}.") from None
    vars(estimator).update(attributes)
    model = as_reader(make_model(snapshot.config.task, snapshot.config.model, device, snapshot.signature))
    load_weights(model, snapshot.best, path)
    estimator._trained = Trained(
        model.eval(), snapshot.config, snapshot.signature, snapshot.progress, [], snapshot.optimizer
    )
    return estimator


def _check(attributes: dict[str, Any], names: tuple[str, ...], signature: Signature) -> None:
    """Raise a ValueError if the attributes of an estimator are not those of its class and its model."""
    if set(attributes) | OPTIONAL != {*names} | OPTIONAL:
        raise ValueError(f"an estimator has the attributes {', '.join(names)}, not {', '.join(attributes)}")
    for name, value in attributes.items():
        kind = np.ndarray if name in {"classes_", *OPTIONAL} else bool if name.startswith("_") else int
        if not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r}")
    if attributes["n_channels_in_"] != signature.input_size:
        raise ValueError("its channels are not those of its model")
    if "classes_" in attributes and attributes["classes_"].shape != (len(signature.classes),):
        raise ValueError("its classes are not those of its model")


def _written(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters and attributes as JSON can hold them: arrays with their type, dicts as pairs."""
    return {name: _plain(name, value) for name, value in values.items()}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, dict):
        return {"pairs": [[_plain(name, key), _plain(name, one)] for key, one in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(name, one) for one in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return checks.fail(name, "be a number, text, a list or a dict, to be saved", value, "pickle can save it.")


def _read(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `_written`."""
    return {name: _value(value) for name, value in values.items()}


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "pairs" in value:
        return {key: _value(one) for key, one in value["pairs"]}
    return np.array(value["array"], dtype=np.dtype(value["dtype"]))
