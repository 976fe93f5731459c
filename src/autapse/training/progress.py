"""How far a run has come: what the metadata of a checkpoint has under `progress`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autapse import checks
from autapse.records import Record


@dataclass
class RunProgress(Record):
    """How far a run has come, apart from its tensors."""

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
    """Lowest validation loss, if the plateau schedule or the choice of the weights uses the loss."""
    best_test: float | None = None
    """Best test score at any validation, if the test set is scored too. Nothing is chosen by it."""
    solved_step: int | None = None
    """Step of the first validation that counts as solved."""
    rescues: int = 0
    """Gradients that were not finite."""
    rescues_in_a_row: int = 0
    random_steps: int = 0
    """Gradients whose norm was above `random_above`."""
    unsolved: int = 0
    """Training sequences that a solver did not solve; they gave no gradient."""
    averaged: int = 0
    """Steps whose weights are in the average."""
    prolonged_to: int | None = None
    """The last step, if `resume --steps` changed it. The time limit of the config then no longer holds."""
    finished: bool = False
    stopped_by: str = ""
    """What ended a finished run: steps, time, early stop, solved, or closed form, if there was nothing to train."""
    processes: int = 1
    """Processes that train together; each has its own dropout."""
    metrics_bytes: int = 0
    """Length of metrics.jsonl at this point; later bytes were written after the checkpoint."""
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
