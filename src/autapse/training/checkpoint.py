"""Checkpoints: safetensors for tensors, JSON for the rest; a crash at any moment leaves a whole one.

`checkpoint-<step>.safetensors` has the present weights (`model.`), the best ones (`best.`), the optimizer's state
(`optimizer.<parameter>.`), what an implicit layer keeps to start solves from (`solutions.`) and the state in which a
text was left (`carried.`). Its metadata has all else that a resumed run starts from: the config, the signature of the
data (so that the model can be built where the data are not), the progress and the environment. `state.json`, renamed
into place last, names the checkpoint and has its SHA-256. There is no random state to save: the randomness of a step is
drawn from (seed, step, process).

In older runs the progress is in `state.json`. They can still be read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.optim import Optimizer

from autapse import checks, files
from autapse.layers.registry import foreign_module
from autapse.models import MODELS, SequenceModel
from autapse.tasks import Signature, Task
from autapse.training import strict
from autapse.training.config import ModelConfig, RunConfig
from autapse.training.environment import Environment
from autapse.training.optimizers import state_of_one

NAME = re.compile(r"checkpoint-(\d+)\.safetensors")
T = TypeVar("T")


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
    metrics_sha256: str = ""
    """Checksum of metrics.jsonl up to there; empty in older runs."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and not 0 <= value <= checks.LARGEST:
                checks.fail(name, f"be from 0 to {checks.LARGEST}", value)
            if isinstance(value, float) and not math.isfinite(value):
                checks.fail(name, "be finite", value)
        checks.number("seconds", self.seconds, low=0.0)
        checks.integer("processes", self.processes, minimum=1)
        if self.best_step > self.step:
            checks.fail("best_step", f"be at most the step, {self.step}", self.best_step)


class Checkpoint(NamedTuple):
    """What a checkpoint file has, checked."""

    path: Path
    tensors: dict[str, Tensor]
    config: RunConfig
    signature: Signature
    progress: Progress
    environment: Environment | None
    """None in older files."""


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
    about = {
        "config": config.to_json(),
        "signature": dataclasses.asdict(signature),
        "progress": dataclasses.asdict(progress),
        "environment": dataclasses.asdict(Environment.present()),
    }
    content = safetensors.torch.save(
        {name: value.detach().cpu().contiguous() for name, value in tensors.items()},
        metadata={name: json.dumps(value) for name, value in about.items()},
    )
    path = path_of(folder, progress.step)
    files.write_bytes(path, content)
    files.write_json(folder / "state.json", {"checkpoint": path.name, "sha256": hashlib.sha256(content).hexdigest()})
    remove_superseded(path)


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left beside the checkpoint `path`. Only for the process that has the run's lock."""
    files.remove_parts(path.parent)
    remove_superseded(path)


def remove_superseded(path: Path) -> None:
    """Remove the older checkpoints beside `path`."""
    for old in path.parent.glob("checkpoint-*.safetensors"):
        if old != path and NAME.fullmatch(old.name):
            with suppress(OSError):  # what cannot be removed does no harm
                old.unlink()


def discard(folder: Path) -> None:
    """Remove a run that was stopped before its first checkpoint."""
    lock = files.lock(folder / "config.json") if (folder / "config.json").exists() else None
    try:
        if (folder / "state.json").exists():  # another process was just about to write it
            raise checks.InputError(f"{folder} has a checkpoint by now. Start again to resume it.")
        shutil.rmtree(folder)
    finally:
        if lock:
            lock.close()


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"checkpoint-{step}.safetensors"


def read_run(folder: Path, trust: bool = False) -> Checkpoint:
    """The last checkpoint of a run; `trust` lets it import the module of a cell of its own."""
    while True:
        state = _read_state(folder)
        path = folder / state["checkpoint"]
        try:
            content = files.read_bytes(path, follow=False)
        except FileNotFoundError:
            if _read_state(folder) != state:  # the run is being trained, and has a newer checkpoint by now
                continue
            raise checks.InputError(f"{path} is missing.") from None
        if hashlib.sha256(content).hexdigest() != state["sha256"]:
            raise checks.InputError(f"{path} is damaged: its checksum is not the one in state.json.")
        saved = _read_checkpoint(path, content, state["progress"], folder / "state.json", trust)
        if path != path_of(folder, saved.progress.step):
            raise checks.InputError(f"{path} is damaged: it was saved at step {saved.progress.step}.")
        return saved


def read_unchanged(folder: Path, trust: bool = False) -> Checkpoint:
    """The last checkpoint of a run whose config.json is still the one that it was trained with."""
    saved, path = read_run(folder, trust), folder / "config.json"
    if RunConfig.from_json(files.read_json(path, follow=False), path) != saved.config:
        remedy = "Start a new run for other settings; put the old ones back to resume."
        raise checks.InputError(f"{path} was changed since {saved.path.name} was written. {remedy}")
    return saved


def read_file(path: Path, trust: bool = False) -> Checkpoint:
    """A checkpoint file by itself, wherever it is."""
    try:
        return _read_checkpoint(path, files.read_bytes(path), {}, path, trust)
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None


def _read_state(folder: Path) -> dict[str, Any]:
    """The name and the checksum of a run's checkpoint; in older runs also the progress."""
    path = folder / "state.json"
    if not path.exists():
        raise checks.InputError(f"{path} is missing: {folder} has no checkpoint. Remove it and run again.")
    state = files.read_json(path, follow=False)
    if not isinstance(state, dict) or not isinstance(state.get("sha256"), str):
        raise checks.InputError(f"{path} is damaged: it has no checksum.")
    name = state.get("checkpoint")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise checks.InputError(f"{path} is damaged: it names no checkpoint.")
    rest = {key: value for key, value in state.items() if key not in ("checkpoint", "sha256")}
    return {"checkpoint": name, "sha256": state["sha256"], "progress": rest}


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
    if "" in tensors:
        checks.fail("carried", "have a tensor or a tuple at each place", sorted(tensors), "The checkpoint is damaged.")
    places = sorted({int(name.partition(".")[0]) for name in tensors})
    return tuple(
        unflatten({n.partition(".")[2]: t for n, t in tensors.items() if int(n.partition(".")[0]) == place})
        for place in places
    )


def _read_checkpoint(path: Path, content: bytes, old: dict[str, Any], source: Path, trust: bool) -> Checkpoint:
    """Parse and check a checkpoint; `old` is the progress from `source`, where older runs have it."""
    try:
        tensors = safetensors.torch.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = {name: json.loads(text) for name, text in header["__metadata__"].items()}
        config, signature = about["config"], about["signature"]
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = _first_line(error)
        raise checks.InputError(f"{path} is damaged, or no checkpoint of autapse: {reason}.") from None
    if "progress" in about and old:
        raise checks.InputError(f"{source} is damaged: the progress is in {path.name}, not there.")
    saved = Checkpoint(
        path,
        tensors,
        RunConfig.from_json(config, path),
        _read_part(Signature, signature, path),
        _read_part(Progress, about.get("progress", old), path if "progress" in about else source),
        _read_part(Environment, about["environment"], path) if "environment" in about else None,
    )
    _check_trust(saved, trust)
    check_fit(saved)
    return saved


def _check_trust(saved: Checkpoint, trust: bool) -> None:
    """A run may name a module with a cell of its own. To import it runs its code, so the user must say so."""
    cell = saved.config.model.cell
    module = foreign_module(cell)
    if module is not None and not trust:
        reason = f"{saved.path} was trained with the cell {cell}, and loading it would run the module {module}."
        raise checks.InputError(f"{reason} If you trust that module, pass trust=True (--trust), or import it first.")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _read_part(kind: type[T], content: Any, source: Path) -> T:
    try:
        return strict.read(kind, content)
    except (checks.InputError, TypeError) as error:  # TypeError: something is missing
        raise checks.InputError(f"{source} is damaged: {error}") from None


def check_fit(saved: Checkpoint) -> None:
    """The tensors must be those of the model in the config; this is found out before that model takes memory."""
    path, model = saved.path, saved.config.model
    best = part(saved.tensors, "best.")
    layers = max(model.num_layers or 1, len(model.hidden_size))
    largest = max((size for tensor in best.values() for size in tensor.shape), default=0)
    # A layer has at least one tensor, and one of them has at least a row for each unit.
    if layers > len(best) or max(model.hidden_size) > largest:
        sizes = f"{layers} layers of up to {max(model.hidden_size)} units"
        raise checks.InputError(f"{path} does not fit the model in its config: it has no weights for {sizes}.")
    try:
        shapes = make_model(saved.config.task, model, "meta", saved.signature)
    except checks.InputError as error:
        raise checks.InputError(f"{path}: {error}") from None
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, MemoryError) as error:
        reason = _first_line(error)
        raise checks.InputError(f"{path} has a config that no model can be built from: {reason}.") from None
    expected = shapes.state_dict()
    for prefix in ("best.", "model."):
        _check_tensors(path, prefix, part(saved.tensors, prefix), expected)
    kept = state_of_one(saved.config.training)
    for name, parameter in shapes.named_parameters():
        state = part(saved.tensors, f"optimizer.{name}.")  # empty before the first step
        expected = {key: parameter if one.dim() else one for key, one in kept.items()} if state else {}
        _check_tensors(path, f"optimizer.{name}.", state, expected)
    prefixes = ["best.", "model.", *(f"optimizer.{name}." for name, _ in shapes.named_parameters())]
    prefixes += ["solutions."] if shapes.solutions is not None else []
    prefixes += ["carried."] if shapes.carries else []
    for name, tensor in saved.tensors.items():
        if not name.startswith(tuple(prefixes)) or not _may_be(name, tensor):
            raise checks.InputError(f"{path} does not fit the model in its config: it has no use for {name}.")


def _may_be(name: str, tensor: Tensor) -> bool:
    """Solutions are [steps, units] by layer and sequence, carried states [layers, rows, units] by place."""
    if name.startswith("solutions."):
        return tensor.dim() == 2 and re.fullmatch(r"solutions\.\d+\.\d+", name) is not None
    if name.startswith("carried."):
        return tensor.dim() == 3 and re.fullmatch(r"carried\.(all|\d+(\.\d+)*)", name) is not None
    return True


def _check_tensors(path: Path, prefix: str, tensors: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """The same names, with the same shapes and dtypes."""
    for name in sorted(tensors.keys() | expected.keys()):
        here, wanted = (_described(some.get(name)) for some in (tensors, expected))
        if here != wanted:
            problem = f"{prefix}{name} is {here}, the model has {wanted}"
            raise checks.InputError(f"{path} does not fit the model in its config: {problem}.")


def _described(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


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


def load(run_or_file: str | Path, device: torch.device | str = "cpu", trust: bool = False) -> SequenceModel:
    """A trained model, in evaluation mode, with its best weights.

    Args:
        run_or_file: the folder of a run, or a checkpoint file.
        device: where the model goes.
        trust: import the module of the cell, if the run was trained with a cell of your own (`my_module:MyCell`). Only
            for runs from people whom you trust: to import a module runs its code.

    Returns:
        The model. `model.predict(x)` takes values as they were in the training data.

    >>> model = autapse.load("runs/adding-gru")                                  # doctest: +SKIP
    >>> model.predict(x)                                                          # doctest: +SKIP
    """
    return load_run(run_or_file, device, trust)[0]


def load_run(
    run_or_file: str | Path, device: torch.device | str = "cpu", trust: bool = False
) -> tuple[SequenceModel, RunConfig, Signature]:
    """`load`, with the run's config and the signature of its data."""
    path = Path(run_or_file)
    saved = read_file(path, trust) if path.is_file() else read_run(find_run(path), trust)
    model = make_model(saved.config.task, saved.config.model, str(device), saved.signature)
    load_weights(model, part(saved.tensors, "best."), saved.path)
    return model.eval(), saved.config, saved.signature


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
