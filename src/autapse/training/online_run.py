"""A network that learns online from a stream, in a run folder. It can be stopped and continued at any step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import nn

from autapse import checks, files, records
from autapse.exit_codes import Ending
from autapse.layers.registry import make_layer
from autapse.records import Record
from autapse.tasks.drift import Drift
from autapse.training.checkpoint import below, load_optimizer, load_weights, optimizer_state
from autapse.training.online import OnlineLearner
from autapse.training.online_config import OnlineConfig
from autapse.training.signals import stop_signals
from autapse.training.trainer import Interrupted

CONFIG, CHECKPOINT, SUMMARY = "online.json", "online.safetensors", "summary.json"
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


@dataclass(frozen=True)
class Window(Record):
    """Mean squared errors over `record_every` steps, of predictions that were made before the target was seen."""

    step: int
    """The last step."""
    error: float
    """Of the network."""
    trivial: float
    """Of the value before."""
    least: float
    """Of the best possible predictor."""


@dataclass
class OnlineProgress(Record):
    """How far a run has come."""

    step: int = 0
    """Values of the stream that were read."""
    error: float = 0.0
    """Sum of the squared errors since the last window."""
    windows: tuple[Window, ...] = ()


class StreamDiverged(Ending, RuntimeError):  # noqa: N818 (an outcome of training, not a programming error)
    """The predictions are not finite numbers any more.

    Args:
        step: the step of the first such prediction.
    """

    def __init__(self, step: int) -> None:
        words = "is not finite. Try a smaller learning rate or a smaller clip_norm."
        super().__init__(f"Training diverged: the prediction at step {step} {words}")


class OnlineRun:
    """A learner, its stream and its folder.

    Args:
        config: the settings.
        folder: where checkpoints are written; None for nowhere.
        show: called with each new window.

    >>> run = OnlineRun(OnlineConfig(cell="rnn", hidden_size=(4,), steps=40, record_every=20))
    >>> [window.step for window in run.run().windows]
    [20, 40]
    """

    def __init__(
        self, config: OnlineConfig, folder: Path | None = None, show: Callable[[Window], None] | None = None
    ) -> None:
        self.config, self.folder, self.show = config, folder, show
        torch.manual_seed(config.seed)
        layer = make_layer(config.cell, 1, list(config.hidden_size))
        if layer.pays_penalty:
            checks.fail("cell", "add no penalty, which is computed at the end of a sequence", config.cell)
        self.model = nn.ModuleDict({"layer": layer, "head": nn.Linear(layer.output_size, 1)})
        self.optimizer = OPTIMIZERS[config.optimizer](self.model.parameters(), lr=config.learning_rate)  # type: ignore[call-arg]
        self.learner = OnlineLearner(layer, self.model["head"], optimizer=self.optimizer, clip_norm=config.clip_norm)
        stream = Drift(period=config.period)
        self.values = torch.from_numpy(stream.values(config.steps, config.seed)).float()
        self.least = stream.noise(config.steps, config.seed) ** 2
        self.progress = OnlineProgress()

    def run(self) -> OnlineProgress:
        """Read the stream to its end."""
        lock = None if self.folder is None else files.lock(self.folder / CONFIG)  # keeps other processes out
        try:
            self._run()
        finally:
            if lock is not None:
                lock.close()
        if self.folder is not None:
            files.write_json(self.folder / SUMMARY, self.summary())
        return self.progress

    def _run(self) -> None:
        progress, every = self.progress, self.config.record_every
        with stop_signals() as signals:
            while progress.step < self.config.steps:
                self._step()
                ends = progress.step % every == 0 or progress.step == self.config.steps
                if ends:
                    self._note()
                if ends or signals:
                    self._save()
                if signals:
                    raise Interrupted(progress.step, progress.step, f"autapse resume {self.folder}", signals[0])

    def _step(self) -> None:
        t = self.progress.step
        x, target = self.values[t : t + 1], self.values[t + 1 : t + 2]
        learns = self.config.learn is None or t < self.config.learn
        # The error is that of the prediction before anything is learned from its target.
        prediction = self.learner.observe(x, target).prediction if learns else self.learner.predict(x)
        error = float((prediction - target).square())
        if not math.isfinite(error):
            raise StreamDiverged(t)
        self.progress.error += error
        self.progress.step += 1

    def _note(self) -> None:
        """Close a window."""
        progress = self.progress
        done = progress.windows[-1].step if progress.windows else 0
        now, after = (self.values[done + shift : progress.step + shift].double().numpy() for shift in (0, 1))
        trivial, least = np.square(after - now).mean(), self.least[done : progress.step].mean()
        window = Window(progress.step, progress.error / (progress.step - done), float(trivial), float(least))
        progress.windows, progress.error = (*progress.windows, window), 0.0
        if self.show is not None:
            self.show(window)

    def summary(self) -> dict[str, Any]:
        """The errors over the whole stream, and over the second half of each period, when the network has adapted.

        The second half needs windows that are not longer than half a period.
        """
        windows = self.progress.windows
        lengths = np.diff([0, *(window.step for window in windows)])
        chosen = {"": np.ones(len(windows), dtype=bool), "_late": self._late(lengths)}
        means = {
            f"{name}{end}": float(np.average([getattr(window, name) for window in windows], weights=lengths * some))
            for end, some in chosen.items()
            for name in ("error", "trivial", "least")
            if some.any()
        }
        parameters = sum(p.numel() for p in self.model.parameters())
        return {"cell": self.config.cell, "parameters": parameters, "steps": self.progress.step, **means}

    def _late(self, lengths: np.ndarray) -> np.ndarray:  # [windows] bool
        """Which windows are in the second half of a period, with all of their steps."""
        last, period = np.cumsum(lengths) - 1, self.config.period
        first = last - lengths + 1
        return (first % period >= period // 2) & (first // period == last // period)

    # The folder -------------------------------------------------------------------------------------------------

    def start(self) -> OnlineRun:
        """Write the settings and the first checkpoint into the folder."""
        assert self.folder is not None
        files.write_json(self.folder / CONFIG, self.config.to_json())
        self._save()
        return self

    def _save(self) -> None:
        """Write a checkpoint, whole or not at all."""
        if self.folder is None:
            return
        parts = {
            "model": self.model.state_dict(),
            "optimizer": optimizer_state(self.optimizer, self.model),  # type: ignore[arg-type]
            "learner": self.learner.tensors(),
        }
        tensors = {f"{part}.{name}": t.contiguous() for part, some in parts.items() for name, t in some.items()}
        about = {"config": json.dumps(self.config.to_json()), "progress": json.dumps(self.progress.to_json())}
        files.write_bytes(self.folder / CHECKPOINT, safetensors.torch.save(tensors, about))

    @classmethod
    def resume(cls, folder: Path, show: Callable[[Window], None] | None = None) -> OnlineRun:
        """Continue from the checkpoint in a folder."""
        path = folder / CHECKPOINT
        content = files.read_bytes(path, follow=False)
        try:
            tensors = safetensors.torch.load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
            config, progress = (json.loads(header[name]) for name in ("config", "progress"))
        except (SafetensorError, ValueError, LookupError, TypeError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise checks.InputError(f"{path} is damaged, or is not a checkpoint of autapse: {reason}.") from None
        if files.read_json(folder / CONFIG, follow=False) != config:
            raise checks.InputError(f"{folder / CONFIG} was changed since {path.name} was written.")
        run = cls(records.read(OnlineConfig, config, path), folder, show)
        run.progress = records.read(OnlineProgress, progress, path)
        load_weights(run.model, below("model.", tensors), path)  # type: ignore[arg-type]
        load_optimizer(run.optimizer, run.model, below("optimizer.", tensors))  # type: ignore[arg-type]
        run.learner.load(below("learner.", tensors))
        return run
