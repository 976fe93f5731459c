"""The training loop in memory, to be read top to bottom. `trainer.py` adds the run folder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.layers.backward import set_backward
from autapse.layers.noted import DRAWS, PENALTIES
from autapse.models import Model
from autapse.models.stepping import mapped
from autapse.tasks import Signature, Split
from autapse.training import augment, distributed
from autapse.training.amounts import augmentation
from autapse.training.average import Average, averaged
from autapse.training.clipping import clip, finite
from autapse.training.config import RunConfig
from autapse.training.curvature import LocalProblem, check_curvature, held_layers
from autapse.training.evaluation import Scores, measure
from autapse.training.feeds import Batch, Tensors, in_order, make_feed
from autapse.training.log import Quiet, Show
from autapse.training.model import make_model
from autapse.training.objectives import in_units, objective, of_each, training_loss, weighted
from autapse.training.optimizers import make_optimizer, set_rates, update
from autapse.training.penalties import check_orthogonality, orthogonality
from autapse.training.progress import RunProgress
from autapse.training.rescue import Diverged, random_step
from autapse.training.schedule import learning_rate, momentum, reached
from autapse.training.side_by_side import SideBySide

MANY = 1024  # sequences at a time, for weights that are computed from the data
LOG_EVERY = 10  # steps between training records
MOST_BATCHES = 50  # from which the statistics of batch norms are recomputed


class Fitted(NamedTuple):
    """A model that was trained in memory, with the course of its training."""

    model: Model
    """The model with the weights that were kept, in evaluation mode."""
    history: list[dict[str, Any]]
    """One record per 10 steps and per validation, as in metrics.jsonl."""
    progress: RunProgress
    """How the training went: steps, seconds, best validation score, what ended it."""


class Lesson(NamedTuple):
    """What a network learns from at one step."""

    batch: Batch
    mixed: augment.Mixed | None
    targets: float  # their number in the global batch
    share: list[int]  # the sequences
    part: float  # how much of the global batch they are
    weight: float  # of the network: 1 / number of those that answer together


class Loop:
    """One training. It writes no file.

    Args:
        config: the task, the model and the settings of the training.
        show: where progress is shown; nowhere by default.
        data: the splits "train" and "validation", if they are loaded already.
        signature: the signature of the data, if it is known already.
    """

    def __init__(
        self,
        config: RunConfig,
        show: Show | None = None,
        data: dict[str, Tensors] | None = None,
        signature: Signature | None = None,
    ) -> None:
        self.config, self.settings = config, config.training
        self.world = distributed.join()
        self.show: Show = show or Quiet()
        self.scoring = objective(config.task)
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
        self.signature = signature or config.task.signature()
        self.scoring = in_units(self.scoring, self.signature)
        loss = training_loss(self.scoring, self.settings, self.signature, self.train_data.targets)
        self.objective = self.scoring._replace(loss=loss)
        self.amounts = augmentation(self.settings.augment)
        augment.check_augmentation(self.amounts, self.signature)
        torch.manual_seed(self.settings.seed)
        self.model = make_model(config.task, config.model, self.settings.device, self.signature)
        if self.model.feeds_back and self.settings.information_flow:
            rule = f"be 0 for the task {config.task.name}, whose network reads what it writes, step by step"
            checks.fail("information_flow", rule, self.settings.information_flow)
        self._set_backward()
        parts = (partial(in_order, part, MANY) for part in (self.train_data, self.validation_data))
        began = time.perf_counter()
        self.needed_gain = self.model.start_from(*parts)
        self.solving_seconds = time.perf_counter() - began
        if self.train_data.carry and self.model.depends_on_position:
            rule = "be the same at every step if the state is carried from span to span"
            checks.fail("cell", rule, config.model.cell, "Use eta=shared, or --no-carry to start every span from zero.")
        if self.settings.optimizer == "hessian-free":
            check_curvature(self.model, self.world.size, self.settings.structural_damping)
        if self.settings.orthogonality:
            check_orthogonality(self.model, config.model.cell)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(self.settings, self.parameters)
        self.progress = RunProgress()
        self.best = self._weights()
        self.average = Average(self.model)
        self.side_by_side = SideBySide()
        self.carried: Any = None  # the state at the last position of a text
        self.history: list[dict[str, Any]] = []

    def _set_backward(self) -> None:
        """Give the layers what they do inside a backward pass."""
        members, hidden = len(self.model.members), self.settings.clip_hidden
        # Each of several networks has its share of the loss, so its gradients are smaller by their number. Ω does not
        # depend on the size of gradients; the gradients of all networks and processes are added.
        flow = self.settings.information_flow / (members * self.world.size)
        set_backward(self.model, None if hidden is None else hidden / members, flow)

    @property
    def steps(self) -> int:
        """The last step, unless something ends the training before it."""
        if self.progress.prolonged_to is not None:
            return self.progress.prolonged_to
        epochs = self.settings.epochs
        return self.settings.steps if epochs is None else max(1, round(epochs * self.feed.per_epoch))

    def run(self) -> None:
        """Train to the end, and give the model the weights that are kept."""
        with threads(self.settings.threads):
            self._run()
        self.model.load_state_dict(self.best)

    def _run(self) -> None:
        progress = self.progress
        clock = time.perf_counter() - progress.seconds
        self.show.begin(progress.step, self.steps)
        if self.needed_gain is not None and progress.step == 0:
            self._score()
            if self._is_solved():
                progress.seconds, progress.finished, progress.stopped_by = self.solving_seconds, True, "closed form"
                self._between_steps()
                return
            gain = self.needed_gain if math.isfinite(self.needed_gain) else 0.0
            progress.best_loss = None if progress.best_loss is None else progress.best_loss - gain
        while not progress.finished:
            loss, norm, rate = self._train_once()
            progress.step += 1
            progress.seconds = time.perf_counter() - clock
            self._record(loss, norm, rate)
            late = bool(self.world.agree(self._late()))
            ends = progress.step == self.steps or late
            if ends or progress.step % self.settings.eval_every == 0:
                self._validate(ends)
                self._decide(late)
            self._between_steps()

    def _is_solved(self) -> bool:
        """Whether the weights are those of the smallest loss, so that there is nothing to train."""
        settings = self.settings
        changed = settings.label_smoothing or settings.class_weights != "none" or any(vars(self.amounts).values())
        solved = self.needed_gain == math.inf and not changed and self.train_data.weights is None
        return solved and self.progress.prolonged_to is None

    def _train_once(self) -> tuple[float, float, float]:
        """Update the weights once. Returns the loss, the norm of its gradient, and the learning rate."""
        progress, settings = self.progress, self.settings
        indices = self.feed.sequences(progress.step)
        self._seed_step()
        seconds = float(self.world.agree(progress.seconds)) if self._limit() else 0.0
        self.model.set_progress(reached(settings, progress.step, self.steps, seconds) / self.steps)
        loss = self._backward(indices)
        norm = clip(self.parameters, settings.clip_norm, settings.clip_value)
        rate = learning_rate(settings, progress.step, self.steps, progress.halvings, seconds)
        if settings.random_above is not None and settings.random_above < norm < math.inf:
            self._step_randomly(rate)
        elif finite(norm):
            set_rates(self.optimizer, settings, rate, momentum(settings, progress.step, self.steps, seconds))
            self._update(indices)
        else:
            self._rescue(rate, indices)
        self.optimizer.zero_grad(set_to_none=True)
        self._average(seconds)
        return loss, norm, rate

    def _seed_step(self) -> None:
        """Begin the random numbers of this step, such as those of dropout."""
        seed = _seed(self.settings.seed, self.progress.step, self.world.rank)
        if self.settings.device == "cpu":
            # torch.manual_seed also notes a call for each kind of device that is not in use, with the whole stack.
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def _limit(self) -> float | None:
        """The time limit of the training, in seconds."""
        return None if self.progress.prolonged_to is not None else self.settings.seconds

    def _late(self) -> bool:
        limit = self._limit()
        return limit is not None and self.progress.seconds >= limit

    def _between_steps(self) -> None:
        """For a run folder: save, or stop."""

    def _backward(self, indices: list[int]) -> float:
        """Compute gradients of the mean loss over the global batch; return this process's part of that mean."""
        share = self.world.share(indices)
        batch, mixed, count = self._batch(share)
        members = self.model.members
        lesson = Lesson(batch, mixed, count, share, len(share) / len(indices), 1 / len(members))
        learn, aside = partial(self._learn, lesson), len(members) > 1 and self.settings.device == "cpu"
        with augment.changed_inputs(self.model, self.amounts), self.model.alone():
            learned = self.side_by_side.map(learn, members) if aside else [learn(member) for member in members]
        for _, solved in learned:
            self._note_solves(solved)
        self.world.add_up([p.grad for p in self.parameters if p.grad is not None])
        return math.fsum(loss for loss, _ in learned)

    def _learn(self, lesson: Lesson, member: Model) -> tuple[float, Tensor | None]:
        """Add the gradient of one network. Returns its part of the loss, and which sequences it solved."""
        batch, mixed, count, share, part, weight = lesson
        with DRAWS.noted() as draws, PENALTIES.noted() as paid:
            output = self._output(batch, share, member)
        loss = self._loss_of_one(batch, mixed, count, output)
        learned = loss + self._reinforced(draws, output, batch, mixed, count) if draws else loss
        penalty = self._penalty(paid, member)
        learned = learned if penalty is None else learned + part * penalty
        (learned if weight == 1 else weight * learned).backward()
        return weight * float(loss.detach()), member.converged()

    def _batch(self, share: Sequence[int]) -> tuple[Batch, augment.Mixed | None, float]:
        """Some sequences of this step, changed at random, and the number of targets of the global batch."""
        batch = self.feed.batch(self.progress.step, list(share))
        batch, mixed = augment.change_batch(batch, self.amounts, self.train_data.per_step)
        return batch, mixed, self.world.total(self.objective.count(batch))

    def _loss(self, batch: Batch, mixed: augment.Mixed | None, count: float, output: Any) -> Tensor:
        """The mean loss of a batch; for several models that answer together the mean of theirs."""
        losses = [self._loss_of_one(batch, mixed, count, each) for each in self.model.apart(output)]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def _loss_of_one(self, batch: Batch, mixed: augment.Mixed | None, count: float, output: Any) -> Tensor:
        loss = weighted(self.objective.loss, output, batch.targets, batch.weights) / count
        if mixed is not None:
            other = weighted(self.objective.loss, output, mixed.targets, mixed.weights) / count
            loss = (1 - mixed.share) * loss + mixed.share * other
        return loss

    def _problem(self, indices: list[int]) -> LocalProblem:
        """The loss of this step's batch as a function of the weights, with the same random numbers at each call."""
        settings = self.settings

        def evaluate(call: Callable[..., Any], sequences: Sequence[int]) -> Any:
            self._seed_step()
            batch, mixed, count = self._batch(sequences)
            with augment.changed_inputs(self.model, self.amounts):
                return self._output(batch, list(sequences), call), partial(self._loss, batch, mixed, count)

        states = held_layers(self.model) if settings.structural_damping else []
        return LocalProblem(self.model, evaluate, indices, states, settings.weight_decay, self._curved(indices))

    def _curved(self, indices: list[int]) -> list[int]:
        """The sequences of a batch for the curvature. A batch that is sorted by length gives some of every length."""
        count = min(self.settings.curvature_batch or len(indices), len(indices))
        if self.train_data.lengths is None or not self.settings.bucket:
            return indices[:count]
        return [indices[n * len(indices) // count] for n in range(count)]

    def _reinforced(
        self, draws: list[Tensor], output: Tensor, batch: Batch, mixed: augment.Mixed | None, count: float
    ) -> Tensor:
        """The term of the loss for the probabilities of what the layers drew."""
        losses, counts = of_each(self.objective, output, batch)
        if mixed is not None:
            others, _ = of_each(self.objective, output, batch._replace(targets=mixed.targets, weights=mixed.weights))
            losses = (1 - mixed.share) * losses + mixed.share * others
        term = self.model.surrogate(losses, counts, draws) / count
        if self.model.baseline is not None:
            self.model.baseline.update(self.world.total(float(losses.detach().sum())) / count)
        return term

    def _penalty(self, paid: list[Tensor], member: Model) -> Tensor | None:
        """The terms of the loss that depend on no target: of the cells, for each sequence, and of the weights."""
        terms = [each.mean() for each in paid]
        if self.settings.orthogonality:
            terms.append(self.settings.orthogonality * orthogonality(member))
        return torch.stack(terms).sum() if terms else None

    def _output(self, batch: Batch, sequences: list[int], call: Callable[..., Any]) -> Tensor:
        keys = {} if self.model.solutions is None else {"keys": sequences}
        if self.model.feeds_back:
            return call(batch.inputs, batch.lengths, targets=batch.padded_targets, **keys)
        if not self.model.carries:
            return call(batch.inputs, batch.lengths, **keys)
        output, state = call(batch.inputs, batch.lengths, state=None if batch.fresh else self.carried)
        self.carried = mapped(Tensor.detach, state)  # gradients do not reach back into the piece before
        return output

    def _note_solves(self, solved: Tensor | None) -> None:
        """Count the sequences that a layer did not solve; the model excludes them from the gradient."""
        if solved is not None:
            if not self.progress.unsolved:
                self.show.note(f"Some sequences were not solved at step {self.progress.step}; they give no gradient.")
            self.progress.unsolved += int((~solved).sum())

    def _update(self, indices: list[int]) -> None:
        update(self.optimizer, partial(self._problem, indices))
        self.progress.rescues_in_a_row = 0

    def _step_randomly(self, rate: float) -> None:
        """Take a random step in place of one along a gradient that is too long (the textbook's section 10.7.7)."""
        progress = self.progress
        progress.random_steps += 1
        progress.rescues_in_a_row = 0
        self._write(event="random step", step=progress.step)
        if progress.random_steps == 1:
            limit = self.settings.random_above
            self.show.note(f"The norm of a gradient was above {limit:g} at step {progress.step}: a random step.")
        self._random_step(rate)

    def _random_step(self, rate: float) -> None:
        settings = self.settings
        if settings.clip_norm is not None:
            random_step(self.parameters, rate, settings.clip_norm, _seed(settings.seed, self.progress.step, 0))

    def _average(self, seconds: float) -> None:
        """Include the weights in the average, if the training is near its end."""
        if self.settings.average:
            place = reached(self.settings, self.progress.step, self.steps, seconds)
            if place >= self.steps - self.settings.average * self.steps:
                self.average.add()
            else:
                self.average.reset()  # the run was prolonged
            self.progress.averaged = self.average.count

    def _rescue(self, rate: float, indices: list[int]) -> None:
        progress, settings = self.progress, self.settings
        progress.rescues += 1
        progress.rescues_in_a_row += 1
        self._write(event="rescue", step=progress.step, action=settings.rescue, in_a_row=progress.rescues_in_a_row)
        if progress.rescues == 1:
            self.show.note(f"A gradient was not finite at step {progress.step}: rescued by '{settings.rescue}'.")
        if progress.rescues_in_a_row > settings.max_rescues:
            self._write(event="diverged", step=progress.step, sequences=indices)
            raise Diverged(progress.step, progress.rescues_in_a_row, indices, self._last_good())
        self.carried = None  # a state that is not finite would make all later pieces not finite
        if settings.rescue == "random":
            self._random_step(rate)

    def _last_good(self) -> Path | None:
        """The last checkpoint."""
        return None

    def _validate(self, ends: bool) -> None:
        """Score the weights; at the end of the training their average."""
        if not (ends and self.average.count):
            self._score()
            return
        batches = (self.feed.batch(step, self.feed.sequences(step)) for step in self._some_steps())
        with averaged(self.model, self.average, batches):
            self._score()

    def _some_steps(self) -> Iterator[int]:
        """The steps of the last epoch, or some of them."""
        count = min(self.feed.per_epoch, self.progress.step, MOST_BATCHES)
        return iter(range(self.progress.step - count, self.progress.step))

    def _score(self) -> None:
        progress, task = self.progress, self.config.task
        if self.test_data is not None:
            self._record_test(self.test_data)
        if not len(self.validation_data):  # the last weights count
            self._keep()
            return
        score, loss = self._measure(self.validation_data)
        self._write(step=progress.step, seconds=round(progress.seconds, 3), validation=json_number(score))
        self.show.validated(progress.step, score)
        better = math.isfinite(score) and (progress.best is None or score < progress.best)
        lower = math.isfinite(loss) and (progress.best_loss is None or loss < progress.best_loss)
        chosen = {"score": better, "loss": lower, "last": True}[self.settings.select_by]
        if chosen:
            progress.best, progress.waited = json_number(score), 0
            self._keep()
        else:
            progress.waited += 1
        if "loss" in (self.settings.plateau_by, self.settings.select_by):
            progress.best_loss = loss if lower else progress.best_loss
        self._watch_plateau(lower if self.settings.plateau_by == "loss" else better)
        if progress.solved_step is None and task.solved is not None and score < task.solved:
            progress.solved_step = progress.step

    def _keep(self) -> None:
        """Keep the weights as the best."""
        self.progress.best_step, self.best = self.progress.step, self._weights()
        self.model.calibrate(self.best, partial(in_order, self.validation_data, MANY))

    def _measure(self, data: Tensors) -> Scores:
        """Scores of the present weights: the first process computes them, and all get them."""
        scores = measure(self.model, data, self.scoring) if self.world.leads else Scores(0.0, 0.0)
        return Scores(*map(self.world.agree, scores))

    def _watch_plateau(self, better: bool) -> None:
        progress, settings = self.progress, self.settings
        progress.since_halving = 0 if better else progress.since_halving + 1
        if settings.schedule == "plateau" and progress.since_halving > settings.plateau_patience:
            progress.halvings, progress.since_halving = progress.halvings + 1, 0

    def _record_test(self, data: Tensors) -> None:
        """Record the test score. Nothing is chosen by it."""
        score = self._measure(data).metric
        self._write(step=self.progress.step, test=json_number(score))
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

    def _record(self, loss: float, norm: float, rate: float) -> None:
        progress = self.progress
        if progress.step % LOG_EVERY == 0:
            loss = self.world.total(loss)
            epoch = progress.step / self.feed.per_epoch
            numbers = {"loss": json_number(loss), "norm": json_number(norm), "rate": rate, "epoch": round(epoch, 4)}
            evaluations = self.model.evaluations()
            if evaluations is not None:
                numbers["evaluations"] = round(evaluations, 2)
            self._write(step=progress.step, seconds=round(progress.seconds, 3), **numbers)
            self.show.update(progress.step, loss)

    def _write(self, **record: Any) -> None:
        self.history.append(record)

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}


def fit(
    config: RunConfig,
    data: dict[str, Tensors] | None = None,
    signature: Signature | None = None,
    show: Show | None = None,
) -> Fitted:
    """Train a model in memory, without a run folder.

    Args:
        config: the task, the model and the settings of the training.
        data: the splits "train" and "validation", if they are loaded already; an empty validation split is one of
            length 0.
        signature: the signature of the data, if it is known already.
        show: where progress is shown; nowhere by default.

    Returns:
        The model in evaluation mode, the history, and the progress.

    >>> from autapse.tasks import Adding
    >>> from autapse.training import ModelConfig, TrainingConfig
    >>> task = Adding(length=10, train_size=64, validation_size=16, test_size=16)
    >>> config = RunConfig(task=task, model=ModelConfig(hidden_size=(4,)), training=TrainingConfig(steps=20))
    >>> model, history, progress = fit(config)
    >>> progress.step, [record["step"] for record in history if "loss" in record]
    (20, [10, 20])
    """
    loop = Loop(config, show, data, signature)
    loop.run()
    return Fitted(loop.model.eval(), loop.history, loop.progress)


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


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let torch use this number of threads for a while; None for the number that it has."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _seed(*parts: int) -> int:
    """One seed from several integers, well mixed."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def json_number(value: float) -> float | None:
    """A value that JSON can hold: None if it is not finite."""
    return value if math.isfinite(value) else None
