"""The training loop, to be read top to bottom."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks, files
from autapse.exit_codes import Ending
from autapse.tasks import Split, Task
from autapse.training import checkpoint, distributed
from autapse.training.checkpoint import OpenRun, Snapshot
from autapse.training.clipping import clip, finite
from autapse.training.config import RunConfig
from autapse.training.environment import Environment
from autapse.training.evaluation import Scores, evaluate, measure
from autapse.training.feeds import Batch, Tensors, make_feed
from autapse.training.loading import check_data, find_run
from autapse.training.log import MetricsLog, Quiet, Show
from autapse.training.model import make_model
from autapse.training.objectives import objective
from autapse.training.optimizers import make_optimizer
from autapse.training.progress import RunProgress
from autapse.training.rescue import Diverged, random_step
from autapse.training.schedule import learning_rate
from autapse.training.signals import stop_signals
from autapse.training.summary import Summary

LOG_EVERY = 10  # steps between training records


class Interrupted(Ending):
    """Ctrl-C, SIGTERM or SIGHUP stopped a run. It was saved, at this step unless gradients were not finite.

    Args:
        step: steps done.
        saved: the step of the last checkpoint.
        command: what continues the run.
        signal: the number of the signal; the exit code is 128 + signal.
    """

    def __init__(self, step: int, saved: int, command: str, signal: int) -> None:
        super().__init__(f"Stopped at step {step}, saved at step {saved}. To continue: {command}")
        self.step, self.saved, self.signal = step, saved, signal
        self.exit_code = 128 + signal  # as in shells: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP

    def continued_by(self, command: str) -> Interrupted:
        """The same, for a run that another command than `autapse resume` continues."""
        return Interrupted(self.step, self.saved, command, self.signal)


class Trainer:
    """One run in one folder, from its beginning or from its last checkpoint.

    The constructor checks and builds everything and writes no file. `start` begins a new run, `resume` continues one;
    then `train` trains it to the end.

    Args:
        config: the task, the model and the settings of the training.
        show: where progress is shown; nowhere by default.
        data: the splits "train" and "validation", if they are loaded already.
    """

    def __init__(self, config: RunConfig, show: Show | None = None, data: dict[str, Tensors] | None = None) -> None:
        self.config, self.settings = config, config.training
        self.world = distributed.join()
        self.show: Show = show or Quiet()
        self.objective = objective(config.task)
        data = data or load_splits(config)
        self.train_data, self.validation_data = data["train"], data["validation"]
        self.test_data = load_split(config, "test") if self.settings.record_test else None
        self.feed = make_feed(self.train_data, self.settings.batch_size, self.settings.seed, self.settings.bucket)
        if not len(self.validation_data) and (self.settings.early_stop or self.settings.schedule == "plateau"):
            rule = "be above 0 with early_stop or the plateau schedule, which use validation scores"
            checks.fail("validation", rule, getattr(config.task, "validation", 0))
        together = len(self.feed.sequences(0))
        if together < self.world.size:
            checks.fail("batch_size", f"be at least the number of processes, {self.world.size}", together)
        epochs = self.settings.epochs
        self.steps = self.settings.steps if epochs is None else max(1, round(epochs * self.feed.per_epoch))
        self.signature = config.task.signature()
        torch.manual_seed(self.settings.seed)
        self.model = make_model(config.task, config.model, self.settings.device, self.signature)
        if self.train_data.carry and self.model.depends_on_position:
            rule = "be the same at every step if the state is carried from span to span"
            checks.fail("cell", rule, config.model.cell, "Use eta=shared, or --no-carry to start every span from zero.")
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(self.settings, self.parameters)
        self.progress = RunProgress()
        self.best = self._weights()
        self.saved_step = 0
        self.carried: Any = None  # the state at the last position of a text
        self.log: MetricsLog | None = None
        self.lock: IO[bytes] | None = None

    # Start and resume ---------------------------------------------------------------------------------------------

    def start(self, folder: Path) -> Trainer:
        """Begin a new run.

        Args:
            folder: an empty folder, which exists.

        Returns:
            This trainer; call its `train()`.
        """
        if self.world.leads and any(folder.iterdir()):
            raise checks.InputError(f"{folder} is not empty, and is not overwritten. Choose another folder.")
        self.folder, self.progress.processes = folder, self.world.size
        try:
            if self.world.leads:
                files.write_json(folder / "config.json", self.config.to_json())
                self.lock = files.lock(folder / "config.json")
            self._open_log()
            self._save()
        except OSError as error:
            self._close()
            if not self.world.leads:
                raise
            shutil.rmtree(folder)  # without its first checkpoint there is nothing to resume
            reason = f"{error.strerror or error}: {error.filename or folder}. The run did not start"
            remedy = "Free some space, or choose another folder, and run again."
            raise checks.InputError(f"{reason}, and {folder} was removed. {remedy}") from None
        return self

    @classmethod
    def resume(
        cls, folder: Path, show: Show | None = None, *, trust: bool = False, task: Task | None = None
    ) -> Trainer:
        """Continue a run from its last checkpoint, to the same bits as without the stop.

        Args:
            folder: the folder of the run.
            show: where progress is shown; nowhere by default.
            trust: allow importing the module of a cell of your own.
            task: the task with its arrays, for a run on arrays in memory (`ArrayTask`).

        Returns:
            A trainer; call its `train()`.
        """
        return cls.resume_opened(checkpoint.open_run(find_run(folder), trust), show, task)

    @classmethod
    def resume_opened(cls, run: OpenRun, show: Show | None = None, task: Task | None = None) -> Trainer:
        """Continue a run that `checkpoint.open_run` locked and read. The trainer releases the lock."""
        try:
            run.check_unchanged()
            saved = run.snapshot
            if task is not None and task != saved.config.task:
                checks.fail("task", f"be the one of {run.folder}", task, "Its arrays must be the same.")
            trainer = cls(replace(saved.config, task=task) if task is not None else saved.config, show)
            trainer.folder, trainer.lock = run.folder, run.lock
            trainer._restore(saved)
            if run.lock:  # no other process writes here
                checkpoint.remove_leftovers(saved.path)
            trainer._open_log()
        except BaseException:
            run.close()
            raise
        return trainer

    def _restore(self, saved: Snapshot) -> None:
        """Take over the weights and everything else that a checkpoint holds."""
        check_data(self.signature, saved.signature, self.folder)
        device = self.settings.device
        checkpoint.load_weights(self.model, saved.model, saved.path)
        checkpoint.load_optimizer(self.optimizer, self.model, saved.optimizer)
        if self.model.solutions is not None:
            self.model.solutions.load_state_dict(saved.solutions)
        carried = {name: value.to(device) for name, value in saved.carried.items()}
        self.carried = mapped(self.world.own, checkpoint.unflatten(carried))
        self.best = {name: value.to(device) for name, value in saved.best.items()}
        self.progress = progress = saved.progress
        self.saved_step = progress.step
        if not progress.finished and progress.step >= self.steps:
            raise checks.InputError(f"{saved.path} is damaged: step {progress.step} is past the last, {self.steps}.")
        if progress.processes != self.world.size:
            words = f"started with {progress.processes} processes and continues with {self.world.size}"
            self.show.note(f"{self.folder} was {words}: the result is equal up to rounding, not to the bit.")
            progress.processes = self.world.size
        for change in saved.environment.changes(Environment.present()) if saved.environment else []:
            self.show.note(f"{self.folder} was {change}")

    # The loop ---------------------------------------------------------------------------------------------------

    def train(self) -> Summary | None:
        """Train to the end.

        Returns:
            The summary, which is also in summary.json; None in the processes of torchrun that do not write.
        """
        try:
            self._loop()
            return self.summarise()
        finally:
            self._close()

    def _loop(self) -> None:
        progress, settings = self.progress, self.settings
        clock, saved_at = time.perf_counter() - progress.seconds, time.perf_counter()
        self.show.begin(progress.step, self.steps)
        with stop_signals() as signals:
            while not progress.finished:
                indices = self.feed.sequences(progress.step)
                torch.manual_seed(_seed(settings.seed, progress.step, self.world.rank))  # dropout of this step
                loss = self._backward(indices)
                norm = clip(self.parameters, settings.clip_norm, settings.clip_value)
                rate = learning_rate(settings, progress.step, self.steps, progress.halvings)
                if finite(norm):
                    self._update(rate)
                else:
                    self._rescue(rate, indices)
                self.optimizer.zero_grad(set_to_none=True)
                progress.step += 1
                progress.seconds = time.perf_counter() - clock
                self._record(loss, norm, rate)
                late = self.world.agree(settings.seconds is not None and progress.seconds >= settings.seconds)
                if progress.step % settings.eval_every == 0 or progress.step == self.steps or late:
                    self._validate()
                    self._decide(bool(late))
                stop = int(self.world.agree(signals[0] if signals else 0))
                due = self.world.agree(time.perf_counter() - saved_at >= settings.checkpoint_seconds)
                if progress.finished or stop or due:
                    self._save()
                    saved_at = time.perf_counter()
                if stop and not progress.finished:
                    command = f"autapse resume {self.folder}"
                    raise Interrupted(progress.step, self.saved_step, command, stop)

    def _backward(self, indices: list[int]) -> float:
        """Compute gradients of the mean loss over the global batch; return this process's part of that mean."""
        share = self.world.share(indices)
        batch = self.feed.batch(self.progress.step, share)
        count = self.world.total(self.objective.count(batch.targets))
        loss = self.objective.loss(self._output(batch, share), batch.targets) / count
        self._note_solves()
        loss.backward()
        self.world.add_up([p.grad for p in self.parameters if p.grad is not None])
        return float(loss.detach())

    def _output(self, batch: Batch, sequences: list[int]) -> Tensor:
        if not self.model.carries:
            keys = {} if self.model.solutions is None else {"keys": sequences}
            return self.model(batch.inputs, batch.lengths, **keys)
        output, state = self.model(batch.inputs, batch.lengths, state=None if batch.fresh else self.carried)
        self.carried = mapped(Tensor.detach, state)  # gradients do not reach back into the piece before
        return output

    def _note_solves(self) -> None:
        """Count the sequences that a layer did not solve; the model excludes them from the gradient."""
        solved = self.model.converged()
        if solved is not None:
            if not self.progress.unsolved:
                self.show.note(f"Some sequences were not solved at step {self.progress.step}; they give no gradient.")
            self.progress.unsolved += int((~solved).sum())

    def _update(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.progress.rescues_in_a_row = 0

    def _rescue(self, rate: float, indices: list[int]) -> None:
        progress, settings = self.progress, self.settings
        progress.rescues += 1
        progress.rescues_in_a_row += 1
        self._write(event="rescue", step=progress.step, action=settings.rescue, in_a_row=progress.rescues_in_a_row)
        if progress.rescues == 1:
            self.show.note(f"A gradient was not finite at step {progress.step}: rescued by '{settings.rescue}'.")
        if progress.rescues_in_a_row > settings.max_rescues:
            self._write(event="diverged", step=progress.step, sequences=indices)
            last_good = checkpoint.path_of(self.folder, self.saved_step)
            raise Diverged(progress.step, progress.rescues_in_a_row, indices, last_good)
        self.carried = None  # a state that is not finite would make all later pieces not finite
        if settings.rescue == "random" and settings.clip_norm is not None:
            random_step(self.parameters, rate, settings.clip_norm, _seed(settings.seed, progress.step, 0))

    def _validate(self) -> None:
        progress, task = self.progress, self.config.task
        if self.test_data is not None:
            self._record_test(self.test_data)
        if not len(self.validation_data):  # the last weights count
            progress.best_step, self.best = progress.step, self._weights()
            return
        score, loss = self._measure(self.validation_data)
        self._write(step=progress.step, seconds=round(progress.seconds, 3), validation=_number(score))
        self.show.validated(progress.step, score)
        if math.isfinite(score) and (progress.best is None or score < progress.best):
            progress.best, progress.best_step, progress.waited = score, progress.step, 0
            self.best, better = self._weights(), True
        else:
            progress.waited += 1
            better = False
        if self.settings.plateau_by == "loss":
            better = progress.best_loss is None or loss < progress.best_loss
            progress.best_loss = loss if better else progress.best_loss
        self._watch_plateau(better)
        if progress.solved_step is None and task.solved is not None and score < task.solved:
            progress.solved_step = progress.step

    def _measure(self, data: Tensors) -> Scores:
        """Scores of the present weights: the first process computes them, and all get them."""
        scores = measure(self.model, data, self.objective) if self.world.leads else Scores(0.0, 0.0)
        return Scores(*map(self.world.agree, scores))

    def _watch_plateau(self, better: bool) -> None:
        progress, settings = self.progress, self.settings
        progress.since_halving = 0 if better else progress.since_halving + 1
        if settings.schedule == "plateau" and progress.since_halving > settings.plateau_patience:
            progress.halvings, progress.since_halving = progress.halvings + 1, 0

    def _record_test(self, data: Tensors) -> None:
        """Record the test score. Nothing is chosen by it."""
        score = self._measure(data).metric
        self._write(step=self.progress.step, test=_number(score))
        if math.isfinite(score) and (self.progress.best_test is None or score < self.progress.best_test):
            self.progress.best_test = score

    def _decide(self, late: bool) -> None:
        """Whether the run ends here, and why."""
        progress, settings = self.progress, self.settings
        reasons = {
            "steps": progress.step >= self.steps,
            "solved": settings.stop_when_solved and progress.solved_step is not None,
            "early stop": settings.early_stop is not None and progress.waited >= settings.early_stop,
            "time": late,
        }
        progress.stopped_by = next((reason for reason, holds in reasons.items() if holds), "")
        progress.finished = bool(progress.stopped_by)

    # Records ----------------------------------------------------------------------------------------------------

    def summarise(self) -> Summary | None:
        """Score the best weights on the test set and write summary.json; None in processes that do not write."""
        task, progress = self.config.task, self.progress
        self.model.load_state_dict(self.best)
        if not self.world.leads:
            return None
        test = task.split("test", self.settings.seed)
        tensors = Tensors.of(test, self.settings.device) if self.test_data is None else self.test_data
        floor = task.floor(test)
        summary = Summary(
            cell=self.config.model.cell,
            parameters=sum(p.numel() for p in self.parameters),
            metric=task.metric,
            test=_number(evaluate(self.model, tensors, self.objective)),
            best_test=progress.best_test,
            validation=progress.best,
            best_step=progress.best_step,
            baseline=task.baseline(test),
            floor=floor,
            solved_step=progress.solved_step,
            steps=progress.step,
            epochs=round(progress.step / self.feed.per_epoch, 4),
            stopped_by=progress.stopped_by,
            seconds=round(progress.seconds, 3),
            rescues=progress.rescues,
            unsolved=progress.unsolved,
            seed=self.settings.seed,
            processes=self.world.size,
        )
        files.write_json(self.folder / "summary.json", summary.to_json())
        return summary

    def _record(self, loss: float, norm: float, rate: float) -> None:
        progress = self.progress
        if progress.step % LOG_EVERY == 0:
            loss = self.world.total(loss)
            epoch = progress.step / self.feed.per_epoch
            numbers = {"loss": _number(loss), "norm": _number(norm), "rate": rate, "epoch": round(epoch, 4)}
            evaluations = self.model.evaluations()
            if evaluations is not None:
                numbers["evaluations"] = round(evaluations, 2)
            self._write(step=progress.step, seconds=round(progress.seconds, 3), **numbers)
            self.show.update(progress.step, loss)

    def _save(self) -> None:
        carried = mapped(self.world.gathered, self.carried)  # each process has the states of its own rows
        if not self.log:
            return
        # A run continues from its checkpoint, so none is taken while gradients are not finite.
        good = self.progress.rescues_in_a_row == 0 and all(bool(p.isfinite().all()) for p in self.parameters)
        if good or self.progress.finished:
            self.progress.metrics_bytes, self.progress.metrics_sha256 = self.log.flush()
            checkpoint.save(self._snapshot(carried))
            self.saved_step = self.progress.step

    def _snapshot(self, carried: Any) -> Snapshot:
        solutions = self.model.solutions
        return Snapshot(
            path=checkpoint.path_of(self.folder, self.progress.step),
            config=self.config,
            signature=self.signature,
            progress=self.progress,
            environment=Environment.present(),
            model=self.model.state_dict(),
            best=self.best,
            optimizer=checkpoint.optimizer_state(self.optimizer, self.model),
            solutions={} if solutions is None else solutions.state_dict(),
            carried=checkpoint.flatten(carried),
        )

    def _open_log(self) -> None:
        if self.world.leads:
            kept = self.progress.metrics_bytes, self.progress.metrics_sha256
            self.log = MetricsLog(self.folder / "metrics.jsonl", *kept)

    def _close(self) -> None:
        """Close the log; release the folder."""
        try:
            if self.log:
                self.log.close()
        finally:
            if self.lock:
                self.lock.close()

    def _write(self, **record: Any) -> None:
        if self.log:
            self.log.write(**record)

    # Data and weights -------------------------------------------------------------------------------------------

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}


def train(config: RunConfig, folder: str | Path, show: Show | None = None) -> Summary | None:
    """Train a model in a new folder.

    Args:
        config: the task, the model and the settings of the training.
        folder: where config.json, metrics.jsonl, checkpoints and summary.json go. It must not exist.
        show: where progress is shown; nowhere by default.

    Returns:
        The summary: `summary.test` or `summary["test"]` is the test score of the best weights. None in the processes
        of torchrun that do not write.

    >>> import tempfile
    >>> from autapse.tasks import Adding
    >>> from autapse.training import ModelConfig, TrainingConfig
    >>> task = Adding(length=10, train_size=64, validation_size=16, test_size=16)
    >>> config = RunConfig(task=task, model=ModelConfig(hidden_size=(4,)), training=TrainingConfig(steps=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = train(config, f"{folder}/run")
    ...     model = autapse.load(f"{folder}/run")
    >>> summary.steps, model.predict(torch.zeros(3, 10, 2)).shape
    (2, torch.Size([3, 1]))
    """
    trainer = Trainer(config, show)
    return trainer.start(files.new_folder(Path(folder))).train()


def load_splits(config: RunConfig) -> dict[str, Tensors]:
    """The training and validation sets of a run, on its device."""
    splits: tuple[Split, ...] = ("train", "validation")
    return {split: load_split(config, split) for split in splits}


def load_split(config: RunConfig, split: Split) -> Tensors:
    """One split of a run's data, on its device."""
    device = checked_device(config.training.device)
    return Tensors.of(config.task.split(split, config.training.seed), device)


def checked_device(name: str) -> torch.device:
    """The device of a name, if torch finds it here."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        checks.fail("device", f"be one that torch finds here ({reason})", name, "Leave it out for the CPU.")
    return device


def mapped(change: Callable[[Tensor], Tensor], state: Any) -> Any:
    """A state with `change` applied to each of its tensors. A state is None, a tensor or a tuple of states."""
    if state is None or isinstance(state, Tensor):
        return None if state is None else change(state)
    return tuple(mapped(change, part) for part in state)


def _seed(*parts: int) -> int:
    """One seed from several integers, well mixed."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def _number(value: float) -> float | None:
    """A value that JSON can hold: None if it is not finite."""
    return value if math.isfinite(value) else None
