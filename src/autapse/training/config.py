"""Every setting of a run, explained where it is declared. An unknown setting is an error."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from autapse import __version__, checks, records
from autapse.tasks import ArrayTask, ForecastArrays, Task, TextPairs, task_class
from autapse.training.amounts import augmentation
from autapse.training.model_config import CellConfig, ModelConfig, check_words, fitted, model_config

WITH_MOMENTUM = ("momentum", "nesterov")  # the optimizers that have it


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of the training. Every field is a keyword argument.

    Example:
        >>> TrainingConfig(steps=500, learning_rate=1e-3, schedule="cosine").schedule
        'cosine'
    """

    steps: int = 2000
    """Updates of the weights."""
    epochs: float | None = None
    """Passes over the training data, instead of steps."""
    seconds: float | None = None
    """Stop after this training time, if not before. The drop and cosine schedules then follow the time."""
    batch_size: int = 64
    """Sequences per update, over all processes together; for text: number of parallel streams."""
    bucket: bool = True
    """If sequences differ in length, make batches of similar lengths, in another order each epoch."""
    optimizer: Literal["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad", "hessian-free"] = "adam"
    """The optimizer; momentum and nesterov are SGD with momentum. hessian-free chooses the length of its steps
    itself, and needs large batches."""
    damping: float = 1.0
    """Initial damping λ of hessian-free, which then follows the Levenberg–Marquardt rule."""
    structural_damping: float = 0.0
    """Weight μ of the change of the states in the damping of hessian-free."""
    cg_steps: int = 100
    """Largest number of conjugate gradient steps per update of hessian-free."""
    curvature_batch: int | None = None
    """Largest number of sequences of a batch that hessian-free computes its curvature on; all by default."""
    momentum: float = 0.9
    """Momentum of the optimizers momentum and nesterov; with momentum_schedule sutskever, its largest value."""
    momentum_schedule: Literal["constant", "sutskever"] = "constant"
    """Momentum over time: constant; sutskever: 1 − 1/(2k) after k − 1 times 250 steps, and at most 0.9 in the last 1000
    steps (the last tenth of a short training)."""
    learning_rate: float = 2e-3
    """Initial learning rate."""
    weight_decay: float = 0.0
    """L2 penalty (decoupled from the gradient with adamw)."""
    orthogonality: float = 0.0
    """Weight of the penalty Σ‖RᵀR − I‖² over the recurrent matrices R of all layers, one per gate."""
    schedule: Literal["constant", "plateau", "periodic", "drop", "cosine"] = "constant"
    """Learning rate over time: constant; plateau: halved when validation stops improving; periodic: halved every
    period; drop: divided by 10 after two thirds of the training; cosine."""
    warmup: float = 0.0
    """Share of the training in which the learning rate rises from 0; the schedule follows."""
    period: int | None = None
    """Steps between halvings of the periodic schedule."""
    plateau_patience: int = 0
    """Validations without improvement that the plateau schedule accepts before it halves the rate."""
    plateau_by: Literal["score", "loss"] = "score"
    """What must improve: the task's score, or the validation loss (its exponential is the perplexity)."""
    label_smoothing: float = 0.0
    """Share of the target probability that is spread over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """Weight of a class in the loss: 1, or balanced: in inverse proportion to its frequency in the training data."""
    augment: str = "none"
    """Random changes of the training sequences, with amounts: jitter=0.05, scaling=0.1, slice=0.1, warp=0.2, mixup=0.2;
    a name alone has this amount. Each change applies to half of the sequences."""
    average: float = 0.0
    """Share of the training, at its end, over which the weights are averaged."""
    clip_norm: float | None = 1.0
    """Scale the gradient down to this norm if its norm is larger."""
    clip_value: float | None = None
    """Clip every entry of the gradient to [-clip_value, clip_value]."""
    clip_hidden: float | None = None
    """Clip the gradient at every hidden state to [-clip_hidden, clip_hidden], inside the backward pass."""
    information_flow: float = 0.0
    """Weight of the regulariser that keeps the length of back-propagated vectors (Pascanu et al. 2013)."""
    random_above: float | None = None
    """If the norm of a gradient is above this, take a random step with a gradient of norm clip_norm instead."""
    rescue: Literal["skip", "random"] = "skip"
    """If a gradient is not finite: take no step, or a random step with a gradient of norm clip_norm."""
    max_rescues: int = 20
    """Number of consecutive rescues after which the run stops."""
    eval_every: int = 100
    """Steps between validations."""
    select_by: Literal["score", "loss", "last"] = "score"
    """Which weights are kept: those with the best validation score, with the lowest validation loss, or the last."""
    early_stop: int | None = None
    """Stop after this many validations without improvement."""
    stop_when_solved: bool = False
    """Stop at the first validation score that the task counts as solved."""
    record_test: bool = False
    """Also score the test set at every validation, to compare with papers that report their best test epoch."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    seed: int = 0
    """Seed of the data, the initial weights, the order of batches and dropout."""
    device: str = "cpu"
    """Where to train: cpu, cuda, ..."""
    threads: int | None = None
    """Threads of the training; by default those that torch has. One is often the fastest for a small network."""

    def __post_init__(self) -> None:
        check_words(self)
        for name in ("steps", "batch_size", "eval_every", "max_rescues"):
            checks.integer(name, getattr(self, name), minimum=1)
        for name in ("period", "early_stop", "threads"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), minimum=1)
        checks.integer("plateau_patience", self.plateau_patience, minimum=0)
        checks.seed("seed", self.seed)
        checks.number("learning_rate", self.learning_rate, above=0.0)
        checks.number("weight_decay", self.weight_decay, low=0.0)
        self._check_momentum()
        self._check_curvature()
        checks.number("orthogonality", self.orthogonality, low=0.0)
        for name in ("warmup", "label_smoothing", "average"):
            checks.number(name, getattr(self, name), low=0.0, high=1.0)
        augmentation(self.augment)
        checks.number("checkpoint_seconds", self.checkpoint_seconds, low=0.0)
        checks.number("information_flow", self.information_flow, low=0.0)
        for name in ("clip_norm", "clip_value", "clip_hidden", "random_above", "epochs", "seconds"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), above=0.0)
        if (self.schedule == "periodic") != (self.period is not None):
            checks.fail("period", 'be set with schedule="periodic", and only then', self.period, "Set both or neither.")
        if self.plateau_patience and self.schedule != "plateau":
            checks.fail("plateau_patience", 'be 0 without schedule="plateau"', self.plateau_patience)
        if self.plateau_by != "score" and self.schedule != "plateau":
            checks.fail("plateau_by", 'be "score" without schedule="plateau"', self.plateau_by)
        if self.early_stop is not None and self.select_by == "last":
            checks.fail("early_stop", 'be None with select_by="last", which uses no validation', self.early_stop)
        if self.random_above is not None and self.clip_norm is None:
            checks.fail("clip_norm", "be set with random_above, which steps by it", None)
        if self.rescue == "random" and self.clip_norm is None:
            checks.fail("clip_norm", 'be set with rescue="random", which steps by it', None)

    def _check_momentum(self) -> None:
        if not 0 < checks.number("momentum", self.momentum) < 1:
            checks.fail("momentum", "be above 0 and below 1", self.momentum, 'Use optimizer="sgd" for none.')
        if self.optimizer not in WITH_MOMENTUM:
            self._check_unused("momentum", "momentum_schedule", rule=f"with optimizer={self.optimizer!r}")

    def _check_curvature(self) -> None:
        checks.number("damping", self.damping, above=0.0)
        checks.number("structural_damping", self.structural_damping, low=0.0)
        checks.integer("cg_steps", self.cg_steps, minimum=1)
        if self.curvature_batch is not None:
            checks.integer("curvature_batch", self.curvature_batch, minimum=1)
        rule = f"with optimizer={self.optimizer!r}"
        if self.optimizer != "hessian-free":
            self._check_unused("damping", "structural_damping", "cg_steps", "curvature_batch", rule=rule)
            return
        self._check_unused("orthogonality", "information_flow", "clip_hidden", "random_above", rule=rule)
        rule += ", which chooses its steps itself"
        remedy = "The defaults for your own data have both: add --schedule constant --warmup 0."
        self._check_unused("schedule", "warmup", rule=rule, remedy=remedy)
        self._check_unused("clip_value", rule=rule)
        for name, own in (("learning_rate", 1.0), ("clip_norm", None)):
            if getattr(self, name) not in (own, _default(name)):
                checks.fail(name, f"be unset {rule}", getattr(self, name))
            object.__setattr__(self, name, own)

    def _check_unused(self, *names: str, rule: str, remedy: str = "") -> None:
        """These settings must have their defaults. `rule` says when."""
        for name in names:
            if getattr(self, name) != _default(name):
                checks.fail(name, f"be unset, or {_default(name)!r}, {rule}", getattr(self, name), remedy)


def _default(name: str) -> Any:
    return TrainingConfig.__dataclass_fields__[name].default


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run; the same config gives the same weights.

    Args:
        task: what is learned, such as `autapse.tasks.Adding()`.
        model: the settings of the network.
        training: the settings of the training.

    >>> from autapse.tasks import Adding
    >>> config = RunConfig(task=Adding(length=50), model=ModelConfig(cell="rin"))
    >>> RunConfig.from_json(config.to_json()) == config
    True
    """

    task: Task
    model: CellConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", fitted(self.model, type(self.task)))

    @property
    def reader(self) -> ModelConfig:
        """The settings of a network that reads sequences, for a task that has one."""
        assert isinstance(self.model, ModelConfig), f"{self.task.name} has a network that writes"
        return self.model

    def to_json(self) -> dict[str, Any]:
        """The config as plain data, as config.json has it."""
        return {
            "autapse": __version__,
            "task": {"name": self.task.name, **dataclasses.asdict(self.task)},
            "model": dataclasses.asdict(self.model),
            "training": dataclasses.asdict(self.training),
        }

    @classmethod
    def from_json(cls, content: Any, source: object = "config.json") -> RunConfig:
        """The config that `to_json` wrote. Anything unknown, missing or out of range is an error.

        Args:
            content: the plain data.
            source: the name of the file, for error messages.
        """
        try:
            options = dict(content["task"])
            task = _task_class(options.pop("name"))
            return cls(
                task=records.read(task, {**task.older, **options}),
                model=records.read(model_config(task), content["model"]),
                training=records.read(TrainingConfig, content["training"]),
            )
        except checks.InputError as error:
            raise checks.InputError(f"{source}: {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise checks.InputError(f"{source} is damaged: {error!r}.") from None


def _task_class(name: str) -> type[Task]:
    unlisted: dict[str, type[Task]] = {kind.name: kind for kind in (ArrayTask, ForecastArrays, TextPairs)}
    return unlisted[name] if name in unlisted else task_class(name)
