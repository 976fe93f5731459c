"""Echo state networks in files: safetensors, with the settings as JSON in the metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from autapse import checks, files
from autapse.layers.registry import foreign_module, spec_of
from autapse.readouts import LinearReadout, Logistic, RecursiveLeastSquares, Ridge

SETTINGS = (
    *("hidden_size", "washout", "penalty", "choose", "relative", "feedback", "read_input", "standardise", "seed"),
)
FITTED = ("inputs", "outputs", "flat", "classes", "per_series")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
READOUTS = {kind.__name__: kind for kind in (Logistic, RecursiveLeastSquares, Ridge)}


def save(network: Any, path: Path) -> None:
    """Write a fitted network."""
    about = {name: getattr(network, name) for name in (*SETTINGS, "options", *FITTED)}
    about["cell"] = network.cell if isinstance(network.cell, str) else spec_of(network.cell)
    about["dtype"] = str(network.dtype).removeprefix("torch.")
    about["readout"] = type(network.readout).__name__
    if isinstance(network.readout, RecursiveLeastSquares):
        about["forgetting"] = network.readout.forgetting
    try:
        written = json.dumps(about)
    except TypeError as error:
        checks.fail("options", f"be numbers and words, so that they can be saved ({error})", list(network.options))
    tensors = {f"layer.{name}": value for name, value in network.layer.state_dict().items()}
    tensors |= {f"readout.{name}": value for name, value in network.readout.state_dict().items()}
    tensors |= {"mean": network.mean, "scale": network.scale}
    if network.error is not None:
        tensors["error"] = torch.from_numpy(network.error)
    whole = {name: value.contiguous().clone() for name, value in tensors.items()}
    files.write_bytes(path, safetensors.torch.save(whole, {"echo state network": written}))


def load(kind: Any, path: Path, trust: bool) -> Any:
    """Read a network."""
    try:
        with safe_open(path, framework="pt") as opened:
            about = json.loads((opened.metadata() or {})["echo state network"])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
        module = foreign_module(about["cell"])
        if module and not trust:
            checks.fail("trust", f"be True to import the module {module}, which runs its code", trust)
        settings = {name: about[name] for name in SETTINGS}
        network = kind(about["cell"], **settings, dtype=DTYPES[about["dtype"]], **about["options"])
        _restore(network, about, tensors)
    except checks.InputError:
        raise
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError, AttributeError, TypeError) as error:
        checks.fail("path", "be a file that EchoStateNetwork.save has written", f"{path} ({error})")
    return network


def _restore(network: Any, about: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    for name in FITTED:
        setattr(network, name, about[name])
    network.register_buffer("mean", tensors.pop("mean"))
    network.register_buffer("scale", tensors.pop("scale"))
    error = tensors.pop("error", None)
    network.error = None if error is None else np.asarray(error)
    given = _below("layer.", tensors)
    wanted = network._make(len(network.mean), device="meta").state_dict()  # takes no memory, whatever the file says
    if {name: value.shape for name, value in given.items()} != {name: value.shape for name, value in wanted.items()}:
        raise ValueError("its weights are not those of its settings")
    network.layer = network._make(len(network.mean))
    network.layer.load_state_dict(given)
    readout: LinearReadout = READOUTS[about["readout"]]()
    for name, value in _below("readout.", tensors).items():
        setattr(readout, name, value)
    if readout.weight is None or readout.weight.shape != network.readout_shape:
        raise ValueError(f"its readout must have shape {network.readout_shape}; fit the network again")
    if isinstance(readout, RecursiveLeastSquares):
        readout.forgetting = about["forgetting"]
    network.readout = readout


def _below(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
