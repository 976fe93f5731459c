"""A training in a run folder: start, resume, checkpoints, summary."""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from autapse import checks, files
from autapse.exit_codes import Ending
from autapse.models import Generator
from autapse.models.stepping import mapped
from autapse.tasks import Generation, Task
from autapse.training import checkpoint
from autapse.training.checkpoint import OpenRun, Snapshot
from autapse.training.config import RunConfig
from autapse.training.environment import Environment
from autapse.training.evaluation import measure
from autapse.training.feeds import Tensors
from autapse.training.generation_scores import generation_scores
from autapse.training.loading import check_data, find_run
from autapse.training.log import MetricsLog, Show
from autapse.training.loop import Loop, json_number, threads
from autapse.training.scores import make_tally
from autapse.training.signals import stop_signals
from autapse.training.summary import Summary


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


class Trainer(Loop):
    """One run in one folder, from its beginning or from its last checkpoint.

    The constructor checks and builds everything and writes no file. `start` begins a new run, `resume` continues one;
    then `train` trains it to the end.

    Args:
        config: the task, the model and the settings of the training.
        show: where progress is shown; nowhere by default.
        data: the splits "train" and "validation", if they are loaded already.
        signature: the signature of the data, if it is known already.
    """

    saved_step = 0
    log: MetricsLog | None = None
    lock: IO[bytes] | None = None

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
        cls,
        folder: Path,
        show: Show | None = None,
        *,
        trust: bool = False,
        task: Task | None = None,
        steps: int | None = None,
    ) -> Trainer:
        """Continue a run from its last checkpoint, to the same bits as without the stop.

        Args:
            folder: the folder of the run.
            show: where progress is shown; nowhere by default.
            trust: allow importing the module of a cell of your own.
            task: the task with its arrays, for a run on arrays in memory (`ArrayTask`).
            steps: train up to this step instead, also if the run is finished. The run's time limit no longer holds.

        Returns:
            A trainer; call its `train()`.
        """
        return cls.resume_opened(checkpoint.open_run(find_run(folder), trust), show, task, steps)

    @classmethod
    def resume_opened(
        cls, run: OpenRun, show: Show | None = None, task: Task | None = None, steps: int | None = None
    ) -> Trainer:
        """Continue a run that `checkpoint.open_run` locked and read. The trainer releases the lock."""
        try:
            run.check_unchanged()
            saved = run.snapshot
            if task is not None and task != saved.config.task:
                checks.fail("task", f"be the one of {run.folder}", task, "Its arrays must be the same.")
            trainer = cls(replace(saved.config, task=task) if task is not None else saved.config, show)
            trainer.folder, trainer.lock = run.folder, run.lock
            trainer._restore(saved)
            if steps is not None:
                trainer._prolong(steps)
            if run.lock:  # no other process writes here
                checkpoint.remove_leftovers(saved.path)
            trainer._open_log()
        except BaseException:
            run.close()
            raise
        return trainer

    def _prolong(self, steps: int) -> None:
        """Train up to another step than the config says."""
        progress = self.progress
        checks.integer("steps", steps)
        if steps <= progress.step:
            checks.fail("steps", f"be above {progress.step}, the steps that {self.folder} has", steps)
        progress.prolonged_to, progress.finished, progress.stopped_by, progress.waited = steps, False, "", 0
        progress.averaged = 0
        self.average.reset()

    def _restore(self, saved: Snapshot) -> None:
        """Take over the weights and everything else that a checkpoint holds."""
        check_data(self.signature, saved.signature, self.folder)
        device = self.settings.device
        checkpoint.load_weights(self.model, saved.model, saved.path)
        checkpoint.load_optimizer(self.optimizer, self.model, saved.optimizer)
        self.average.restore(saved.average, saved.progress.averaged)
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
        for change in saved.environment.changes(self._environment()) if saved.environment else []:
            self.show.note(f"{self.folder} was {change}")

    # The loop ---------------------------------------------------------------------------------------------------

    def train(self) -> Summary | None:
        """Train to the end.

        Returns:
            The summary, which is also in summary.json; None in the processes of torchrun that do not write.
        """
        try:
            with stop_signals() as self.signals:
                self.saved_at = time.perf_counter()
                self.run()
            return self.summarise()
        finally:
            self._close()

    def _between_steps(self) -> None:
        """Save if it is time or the end; stop if a signal asks for it."""
        progress = self.progress
        stop = int(self.world.agree(self.signals[0] if self.signals else 0))
        due = self.world.agree(time.perf_counter() - self.saved_at >= self.settings.checkpoint_seconds)
        if progress.finished or stop or due:
            self._save()
            self.saved_at = time.perf_counter()
        if stop and not progress.finished:
            raise Interrupted(progress.step, self.saved_step, f"autapse resume {self.folder}", stop)

    def _last_good(self) -> Path | None:
        return checkpoint.path_of(self.folder, self.saved_step)

    # Records ----------------------------------------------------------------------------------------------------

    def summarise(self) -> Summary | None:
        """Score the best weights on the test set and write summary.json; None in processes that do not write."""
        task, progress = self.config.task, self.progress
        self.model.load_state_dict(self.best)
        if not self.world.leads:
            return None
        test = task.split("test", self.settings.seed)
        tally = make_tally(self.signature) if len(test) else None
        tensors = Tensors.of(test, self.settings.device) if self.test_data is None else self.test_data
        score = measure(self.model, tensors, self.scoring, tally=tally).metric if len(test) else math.nan
        names = self.signature.classes or getattr(self.config.task, "target_column", ())
        scores = tally.scores(names) if tally else {}
        if isinstance(task, Generation) and isinstance(self.model, Generator) and len(test):
            scores |= generation_scores(self.model, task, test, score)
        summary = Summary(
            cell=self.config.model.network,
            parameters=sum(p.numel() for p in self.parameters),
            metric=task.metric,
            test=json_number(score),
            best_test=progress.best_test,
            validation=progress.best,
            best_step=progress.best_step,
            baseline=task.baseline(test) if len(test) else None,
            floor=task.floor(test) if len(test) else None,
            solved_step=progress.solved_step,
            steps=progress.step,
            epochs=round(progress.step / self.feed.per_epoch, 4),
            stopped_by=progress.stopped_by,
            seconds=round(progress.seconds, 3),
            rescues=progress.rescues,
            unsolved=progress.unsolved,
            seed=self.settings.seed,
            processes=self.world.size,
            **scores,
        )
        files.write_json(self.folder / "summary.json", summary.to_json())
        return summary

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
            environment=self._environment(),
            model=self.model.state_dict(),
            best=self.best,
            optimizer=checkpoint.optimizer_state(self.optimizer, self.model),
            average=self.average.mean,
            solutions={} if solutions is None else solutions.state_dict(),
            carried=checkpoint.flatten(carried),
        )

    def _environment(self) -> Environment:
        with threads(self.settings.threads):
            return Environment.present()

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
