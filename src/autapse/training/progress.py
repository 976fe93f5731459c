"""Where a run stands, beside its tensors: what a checkpoint's metadata has under `progress`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autapse import checks
from autapse.records import Record


@dataclass
class RunProgress(Record):
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
