"""The layout of a checkpoint: safetensors for tensors, JSON for the rest. A crash at any moment leaves a whole one.

`checkpoint-<step>.safetensors` has the tensors of a `Snapshot`, each under the name of its part: the present weights
(`model.`), the best ones (`best.`), the optimizer's state (`optimizer.<parameter>.`), the mean weights over the end of
the training (`average.`), the solutions that an implicit layer starts from (`solutions.`) and the state at the last
position of a text (`carried.`). Its metadata has the rest: the config, the signature of the data (so that the model can
be built without the data), the progress and the environment. `state.json`, which is renamed into place last, names the
checkpoint and has its SHA-256. There is no random state to save: the randomness of a step is drawn from (seed, step,
process).

In older runs the progress is in `state.json`. They can still be read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor
from torch.optim import Optimizer

from autapse import checks, files, records
from autapse.layers.registry import foreign_module
from autapse.models import Model
from autapse.tasks import Signature
from autapse.training import distributed
from autapse.training.config import RunConfig
from autapse.training.environment import Environment
from autapse.training.model import make_model
from autapse.training.model_config import TranslatorConfig
from autapse.training.optimizers import state_of_one
from autapse.training.progress import RunProgress

NAME = re.compile(r"checkpoint-(\d+)\.safetensors")
PARTS = ("model", "best", "optimizer", "average", "solutions", "carried")
NamedTensors = dict[str, Tensor]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """All that a checkpoint holds."""

    path: Path
    """The checkpoint's file."""
    config: RunConfig
    signature: Signature
    progress: RunProgress
    environment: Environment | None
    """Where it was trained; None in older files."""
    model: NamedTensors
    """Present weights."""
    best: NamedTensors
    """The weights that validated best."""
    optimizer: NamedTensors
    """The optimizer's state, by parameter and kind: `head.weight.exp_avg`."""
    average: NamedTensors
    """The mean weights over the end of the training; empty before it."""
    solutions: NamedTensors
    """What an implicit layer starts its solves from, by layer and sequence."""
    carried: NamedTensors
    """The state at the last position of a text, as `flatten` takes it apart."""

    def to_json(self) -> dict[str, Any]:
        """Everything but the tensors."""
        about = {
            "config": self.config.to_json(),
            "signature": dataclasses.asdict(self.signature),
            "progress": self.progress.to_json(),
        }
        return about if self.environment is None else about | {"environment": self.environment.to_json()}

    def tensors(self) -> NamedTensors:
        """All tensors, under the names that they have in the file."""
        return {f"{part}.{name}": value for part in PARTS for name, value in getattr(self, part).items()}


# Writing ------------------------------------------------------------------------------------------------------------


def packed(snapshot: Snapshot, **about: Any) -> bytes:
    """The content of a checkpoint file; `about` has further metadata, which `read_file` ignores."""
    return safetensors.torch.save(
        {name: value.detach().cpu().contiguous() for name, value in snapshot.tensors().items()},
        metadata={name: json.dumps(value) for name, value in {**snapshot.to_json(), **about}.items()},
    )


def save(snapshot: Snapshot) -> None:
    """Write a checkpoint, then the state that names it, then remove older ones."""
    path, content = snapshot.path, packed(snapshot)
    files.write_bytes(path, content)
    state = {"checkpoint": path.name, "sha256": hashlib.sha256(content).hexdigest()}
    files.write_json(path.parent / "state.json", state)
    remove_superseded(path)


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left beside the checkpoint `path`. Only for the process that has the run's lock."""
    files.remove_parts(path.parent)
    remove_superseded(path)


def remove_superseded(path: Path) -> None:
    """Remove the older checkpoints beside `path`."""
    for old in path.parent.glob("checkpoint-*.safetensors"):
        if old != path and NAME.fullmatch(old.name):
            with suppress(OSError):  # an old checkpoint that cannot be removed does no harm
                old.unlink()


def discard(folder: Path) -> None:
    """Remove a run that was stopped before its first checkpoint."""
    lock = files.lock(folder / "config.json") if (folder / "config.json").exists() else None
    try:
        if (folder / "state.json").exists():  # another process wrote it in the meantime
            raise checks.InputError(f"{folder} has a checkpoint by now. Start again to resume it.")
        shutil.rmtree(folder)
    finally:
        if lock:
            lock.close()


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"checkpoint-{step}.safetensors"


def flatten(state: Any, name: str = "") -> NamedTensors:
    """The tensors of a state, which is a tensor or a tuple of states, by position: "0.1" is the second of the first."""
    if state is None or isinstance(state, Tensor):
        return {} if state is None else {name or "all": state}
    return {
        key: tensor
        for place, part in enumerate(state)
        for key, tensor in flatten(part, f"{name}.{place}".strip(".")).items()
    }


def unflatten(tensors: NamedTensors) -> Any:
    """The state that `flatten` took apart."""
    if set(tensors) <= {"all", ""}:
        return next(iter(tensors.values()), None)
    if "" in tensors:
        rule = "have either a tensor or a tuple at each position"
        checks.fail("carried", rule, sorted(tensors), "The checkpoint is damaged.")
    places = sorted({int(name.partition(".")[0]) for name in tensors})
    return tuple(
        unflatten({n.partition(".")[2]: t for n, t in tensors.items() if int(n.partition(".")[0]) == place})
        for place in places
    )


def optimizer_state(optimizer: Optimizer, model: Model) -> NamedTensors:
    """What an optimizer keeps for each parameter of a model."""
    return {
        f"{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(optimizer: Optimizer, model: Model, tensors: NamedTensors) -> None:
    """Give an optimizer the state that `optimizer_state` took from it."""
    for name, parameter in model.named_parameters():
        for key, value in below(f"{name}.", tensors).items():
            # torch keeps step counters on the CPU and the rest beside the parameter.
            optimizer.state[parameter][key] = value if key == "step" else value.to(parameter.device)


def below(prefix: str, tensors: NamedTensors) -> NamedTensors:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def load_weights(model: Model, weights: NamedTensors, path: Path) -> None:
    """Load weights into a model; if they do not fit, the error is one line."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise checks.InputError(f"{path} does not fit the model in its config: {reason}") from None


# Reading ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A run that is about to continue: its last checkpoint, and the lock that keeps other processes out."""

    folder: Path
    snapshot: Snapshot
    lock: IO[bytes] | None
    """None in the processes of torchrun that do not write."""

    def check_unchanged(self) -> None:
        """Refuse to continue if config.json is no longer the config that the run was trained with."""
        path = self.folder / "config.json"
        if RunConfig.from_json(files.read_json(path, follow=False), path) != self.snapshot.config:
            remedy = "Start a new run for other settings; put the old ones back to resume."
            raise checks.InputError(f"{path} was changed since {self.snapshot.path.name} was written. {remedy}")

    def close(self) -> None:
        """Release the run."""
        if self.lock:
            self.lock.close()


def open_run(folder: Path, trust: bool = False) -> OpenRun:
    """Lock a run and read its last checkpoint; `trust` allows importing the module of a cell of your own."""
    lock = files.lock(folder / "config.json") if distributed.join().leads else None
    try:
        return OpenRun(folder, read_run(folder, trust), lock)
    except BaseException:
        if lock:
            lock.close()
        raise


def read_run(folder: Path, trust: bool = False) -> Snapshot:
    """The last checkpoint of a run; `trust` allows importing the module of a cell of your own."""
    while True:
        state = _read_state(folder)
        path = folder / state["checkpoint"]
        try:
            content = files.read_bytes(path, follow=False)
        except FileNotFoundError:
            if _read_state(folder) != state:  # the run is being trained, and has written a newer checkpoint
                continue
            raise checks.InputError(f"{path} is missing.") from None
        if hashlib.sha256(content).hexdigest() != state["sha256"]:
            raise checks.InputError(f"{path} is damaged: its checksum is not the one in state.json.")
        saved = _read_checkpoint(path, content, state["progress"], folder / "state.json", trust)
        if path != path_of(folder, saved.progress.step):
            raise checks.InputError(f"{path} is damaged: it was saved at step {saved.progress.step}.")
        return saved


def read_file(path: Path, trust: bool = False) -> Snapshot:
    """A checkpoint file by itself, in any folder."""
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


def _read_checkpoint(path: Path, content: bytes, old: dict[str, Any], source: Path, trust: bool) -> Snapshot:
    """Parse and check a checkpoint; `old` is the progress from `source`, which older runs have there."""
    try:
        tensors = safetensors.torch.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = {name: json.loads(text) for name, text in header["__metadata__"].items()}
        config, signature = about["config"], about["signature"]
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = _first_line(error)
        raise checks.InputError(f"{path} is damaged, or is not a checkpoint of autapse: {reason}.") from None
    if "progress" in about and old:
        raise checks.InputError(f"{source} is damaged: the progress is in {path.name}, not there.")
    for name in tensors:
        if name.partition(".")[0] not in PARTS:
            _does_not_fit(path, f"it has no use for {name}")
    saved = Snapshot(
        path=path,
        config=RunConfig.from_json(config, path),
        signature=_read_part(Signature, signature, path),
        progress=_read_part(RunProgress, about.get("progress", old), path if "progress" in about else source),
        environment=_read_part(Environment, about["environment"], path) if "environment" in about else None,
        **{part: below(f"{part}.", tensors) for part in PARTS},
    )
    _check_trust(saved, trust)
    _check_fit(saved)
    return saved


def _read_part(kind: type[T], content: Any, source: Path) -> T:
    try:
        return records.read(kind, content)
    except checks.InputError as error:
        raise checks.InputError(f"{source} is damaged: {error}") from None


def _check_trust(saved: Snapshot, trust: bool) -> None:
    """A run may name a module with a cell of its own. Importing it runs its code, so the user must allow it."""
    model = saved.config.model
    for cell in (model.cell, *([model.encoder] if isinstance(model, TranslatorConfig) else [])):
        try:
            module = foreign_module(cell)
        except checks.InputError as error:
            raise checks.InputError(f"{saved.path} is damaged: {error}") from None
        if module is not None and not trust:
            reason = f"{saved.path} was trained with the cell {cell}, and loading it would run the module {module}."
            remedy = "If you trust that module, pass trust=True (--trust), or import it first."
            raise checks.InputError(f"{reason} {remedy}")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


# Whether a checkpoint fits its own config ----------------------------------------------------------------------------


def _check_fit(saved: Snapshot) -> None:
    """The tensors must be those of the model in the config. This is checked before that model takes memory."""
    path, model = saved.path, saved.config.model
    counts, sizes = [model.num_layers or 1, len(model.hidden_size)], [*model.hidden_size]
    if isinstance(model, TranslatorConfig):
        counts += [model.encoder_layers or 1, len(model.encoder_size or ())]
        sizes += model.encoder_size or ()
    largest = max((size for tensor in saved.best.values() for size in tensor.shape), default=0)
    # A layer has at least one tensor, and one of them has at least a row for each unit.
    if max(counts) > len(saved.best) or max(sizes) > largest:
        _does_not_fit(path, f"it has no weights for {max(counts)} layers of up to {max(sizes)} units")
    shapes = _without_memory(saved)
    for part in ("best", "model"):
        _check_tensors(path, f"{part}.", getattr(saved, part), shapes.state_dict())
    parameters, kept = dict(shapes.named_parameters()), state_of_one(saved.config.training)
    for name, parameter in parameters.items():
        state = below(f"{name}.", saved.optimizer)  # empty before the first step
        expected = {key: parameter if one.dim() else one for key, one in kept.items()} if state else {}
        _check_tensors(path, f"optimizer.{name}.", state, expected)
    for name in saved.optimizer:
        if not name.startswith(tuple(f"{parameter}." for parameter in parameters)):
            _does_not_fit(path, f"it has no use for optimizer.{name}")
    _check_tensors(path, "average.", saved.average, dict(parameters) if saved.progress.averaged else {})
    for name, tensor in saved.solutions.items():  # [steps, units] by layer and sequence
        if shapes.solutions is None or tensor.dim() != 2 or not re.fullmatch(r"\d+\.\d+", name):
            _does_not_fit(path, f"it has no use for solutions.{name}")
    for name, tensor in saved.carried.items():  # [layers, rows, units] by position
        if not shapes.carries or tensor.dim() != 3 or not re.fullmatch(r"all|\d+(\.\d+)*", name):
            _does_not_fit(path, f"it has no use for carried.{name}")


def _without_memory(saved: Snapshot) -> Model:
    """The model of a checkpoint on the meta device, where tensors have shapes and no memory."""
    try:
        return make_model(saved.config.task, saved.config.model, "meta", saved.signature)
    except checks.InputError as error:
        raise checks.InputError(f"{saved.path}: {error}") from None
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, MemoryError) as error:
        reason = _first_line(error)
        raise checks.InputError(f"{saved.path} has a config that no model can be built from: {reason}.") from None


def _check_tensors(path: Path, prefix: str, tensors: NamedTensors, expected: NamedTensors) -> None:
    """The same names, with the same shapes and dtypes."""
    for name in sorted(tensors.keys() | expected.keys()):
        here, wanted = (_described(some.get(name)) for some in (tensors, expected))
        if here != wanted:
            _does_not_fit(path, f"{prefix}{name} is {here}, the model has {wanted}")


def _described(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _does_not_fit(path: Path, reason: str) -> NoReturn:
    raise checks.InputError(f"{path} does not fit the model in its config: {reason}.")
