"""Checkpoints: safetensors for tensors, JSON for the rest; a crash at any moment leaves a whole one.

`checkpoint-<step>.safetensors` has the present weights (`model.`), the best ones (`best.`), the optimizer's state
(`optimizer.<parameter>.`), what an implicit layer keeps to start solves from (`solutions.`), the state in which a text
was left (`carried.`), and in its metadata the run's config and the signature of its data, so that the model can be
built where the data are not. `state.json`, renamed into place last, names the checkpoint that it belongs to and has its
checksum. There is no random state to save: the randomness of a step is drawn from (seed, step, process).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.optim import Optimizer

from autapse import checks, files
from autapse.models import MODELS, SequenceModel
from autapse.tasks import Signature, Task
from autapse.training.config import ModelConfig, RunConfig


@dataclass
class Progress:
    """Where a run stands, beside its tensors."""

    step: int = 0
    """Updates done."""
    seconds: float = 0.0
    """Time spent training, over all sessions."""
    best: float | None = None
    """Best validation score."""
    best_step: int = 0
    waited: int = 0
    """Validations since the best."""
    halvings: int = 0
    """Halvings of the plateau schedule."""
    since_halving: int = 0
    """Validations without improvement since the last halving."""
    best_loss: float | None = None
    """Least validation loss, where the plateau schedule goes by it."""
    best_test: float | None = None
    """Best test score at a validation, where the test set is scored too; nothing is chosen by it."""
    solved_step: int | None = None
    """First validation that counts as solved."""
    rescues: int = 0
    """Gradients that were not finite."""
    rescues_in_a_row: int = 0
    unsolved: int = 0
    """Training sequences whose states a solver did not find; they gave no gradient."""
    finished: bool = False
    stopped_by: str = ""
    """What ended a finished run: steps, time, early stop or solved."""
    processes: int = 1
    """Processes that train together; each draws its own dropout."""
    metrics_bytes: int = 0
    """Length of metrics.jsonl at this point; what is beyond was written after the checkpoint."""


def build_model(config: RunConfig) -> SequenceModel:
    """A fresh model for a run, on its device."""
    return make_model(config.task, config.model, config.training.device)


def make_model(
    task: Task, model: ModelConfig, device: str = "cpu", signature: Signature | None = None
) -> SequenceModel:
    """The model of a task's kind and sizes; with its signature, the task's data need not be there."""
    sizes, known = model.hidden_size, signature or task.signature()
    embedding = model.embedding_size or task.embedding_size
    if model.embedding_size and not known.vocabularies:
        checks.fail("embedding_size", f"be left out: {task.name} has numbers, not words", model.embedding_size)
    targets: dict[str, Any] = {"target_mean": known.target_mean, "target_scale": known.target_scale}
    return MODELS[known.kind](
        model.cell,
        known.input_size,
        known.output_size,
        hidden_size=sizes[0] if len(sizes) == 1 else sizes,
        num_layers=model.num_layers,
        dropout=model.dropout,
        bidirectional=model.bidirectional,
        vocabularies=[len(words) for words in known.vocabularies],
        embedding_size=embedding,
        mean=known.mean,
        scale=known.scale,
        input_dropout=model.input_dropout,
        output_dropout=model.output_dropout,
        input_noise=model.input_noise,
        initialisation=model.initialisation,
        device=device,
        **(targets if known.kind == "regression" else {}),
    )


def save(
    folder: Path,
    config: RunConfig,
    signature: Signature,
    progress: Progress,
    model: SequenceModel,
    best: dict[str, Tensor],
    optimizer: Optimizer,
    carried: Any = None,
) -> None:
    """Write a checkpoint, then the state that names it, then drop older ones."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    if model.solutions is not None:
        tensors |= {f"solutions.{name}": value for name, value in model.solutions.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{name}.{key}"] = value
    tensors |= {f"carried.{name}": value for name, value in flatten(carried).items()}
    content = safetensors.torch.save(
        {name: value.detach().cpu().contiguous() for name, value in tensors.items()},
        metadata={"config": json.dumps(config.to_json()), "signature": json.dumps(dataclasses.asdict(signature))},
    )
    path = path_of(folder, progress.step)
    files.write_bytes(path, content)
    state = {"checkpoint": path.name, "sha256": hashlib.sha256(content).hexdigest(), **dataclasses.asdict(progress)}
    files.write_json(folder / "state.json", state)
    for old in folder.glob("checkpoint-*.safetensors"):
        if old != path:
            old.unlink()


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"checkpoint-{step}.safetensors"


def read_state(folder: Path) -> tuple[Progress, Path, str]:
    """A run's progress, its checkpoint and that file's checksum."""
    path = folder / "state.json"
    if not path.exists():
        raise checks.InputError(f"{path} is missing: {folder} has no checkpoint. Remove it and run again.")
    state = files.read_json(path)
    try:
        checkpoint, checksum = folder / state.pop("checkpoint"), str(state.pop("sha256"))
        progress = Progress(**state)
    except (AttributeError, KeyError, TypeError) as error:
        raise checks.InputError(f"{path} is damaged: {error!r}.") from None
    for name, hint in get_type_hints(Progress).items():
        value = getattr(progress, name)
        if not isinstance(value, (int, float) if hint is float else hint):
            raise checks.InputError(f"{path} is damaged: {name} is {value!r}.")
    return progress, checkpoint, checksum


def flatten(state: Any, name: str = "") -> dict[str, Tensor]:
    """The tensors of a state, which is one or a tuple of states, by their places: "0.1" is the second of the first."""
    if state is None or isinstance(state, Tensor):
        return {} if state is None else {name or "all": state}
    return {
        key: tensor
        for place, part in enumerate(state)
        for key, tensor in flatten(part, f"{name}.{place}".strip(".")).items()
    }


def unflatten(tensors: dict[str, Tensor]) -> Any:
    """The state that `flatten` took apart."""
    if set(tensors) <= {"all", ""}:
        return next(iter(tensors.values()), None)
    places = sorted({int(name.partition(".")[0]) for name in tensors})
    return tuple(
        unflatten({n.partition(".")[2]: t for n, t in tensors.items() if int(n.partition(".")[0]) == place})
        for place in places
    )


def read_tensors(path: Path, checksum: str | None = None) -> tuple[dict[str, Tensor], RunConfig, Signature]:
    """The tensors of a checkpoint, the config and the signature in it; a damaged file gives one clear line."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None
    if checksum is not None and hashlib.sha256(content).hexdigest() != checksum:
        raise checks.InputError(f"{path} is damaged: its checksum is not the one in state.json.")
    try:
        tensors = safetensors.torch.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        config = json.loads(header["__metadata__"]["config"])
        signature = read_signature(json.loads(header["__metadata__"]["signature"]))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise checks.InputError(f"{path} is damaged, or no checkpoint of autapse: {reason}.") from None
    return tensors, RunConfig.from_json(config, path), signature


def read_signature(content: dict[str, Any]) -> Signature:
    """A signature from JSON, which has lists for tuples."""
    tuples: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    tuples["vocabularies"] = tuple(tuple(vocabulary) for vocabulary in content["vocabularies"])
    return Signature(**tuples)


def part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def load_optimizer(optimizer: Optimizer, model: SequenceModel, tensors: dict[str, Tensor]) -> None:
    """Give an optimizer the state that `save` took from it."""
    for name, parameter in model.named_parameters():
        state: dict[str, Any] = part(tensors, f"optimizer.{name}.")
        for key, value in state.items():
            # torch keeps step counters on the CPU and the rest beside the parameter.
            optimizer.state[parameter][key] = value if key == "step" else value.to(parameter.device)


def find_run(path: str | Path) -> Path:
    """The folder of a run, or a clear error."""
    folder = Path(path)
    if not (folder / "config.json").is_file():
        beside = folder.parent if folder.parent.is_dir() else Path()
        runs = sorted(str(config.parent) for config in beside.glob("*/config.json"))
        remedy = checks.closest(str(folder), runs) or "A run is a folder with config.json, as `autapse run` writes it."
        raise checks.InputError(f"There is no run at {folder}. {remedy}")
    return folder


def load(run_or_file: str | Path, device: torch.device | str = "cpu") -> SequenceModel:
    """A trained model, in evaluation mode, with its best weights: from a run's folder or from a checkpoint file.

    >>> model = autapse.load("runs/adding-gru")                                  # doctest: +SKIP
    >>> model.predict(x)                                                          # doctest: +SKIP
    """
    return load_run(run_or_file, device)[0]


def load_run(run_or_file: str | Path, device: torch.device | str = "cpu") -> tuple[SequenceModel, RunConfig, Signature]:
    """`load`, with the run's config and the signature of its data."""
    path, checksum = Path(run_or_file), None
    if not path.is_file():
        _, path, checksum = read_state(find_run(path))
    tensors, config, signature = read_tensors(path, checksum)
    model = make_model(config.task, config.model, str(device), signature)
    load_weights(model, part(tensors, "best."), path)
    return model.eval(), config, signature


def check_data(present: Signature, known: Signature, source: object) -> None:
    """The data must still be what a run was trained on, as far as its signature tells."""
    changed = [f.name for f in dataclasses.fields(known) if getattr(known, f.name) != getattr(present, f.name)]
    if changed:
        raise checks.InputError(
            f"The data of {source} changed since it was trained: {', '.join(changed)} differ. Put the old data back."
        )


def load_weights(model: SequenceModel, weights: dict[str, Tensor], path: Path) -> None:
    """`load_state_dict` with one clear line for what does not fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise checks.InputError(f"{path} does not fit the model in its config: {reason}") from None
