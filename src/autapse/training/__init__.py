"""Training by hand: config, loop, schedule, rescue, checkpoint, log. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.training.checkpoint import find_run, load, load_run, make_model
    from autapse.training.config import ModelConfig, RunConfig, TrainingConfig
    from autapse.training.evaluation import evaluate
    from autapse.training.feeds import Tensors
    from autapse.training.loop import Interrupted, Trainer, train
    from autapse.training.rescue import Diverged

__all__ = [
    "Diverged",
    "Interrupted",
    "ModelConfig",
    "RunConfig",
    "Tensors",
    "Trainer",
    "TrainingConfig",
    "evaluate",
    "find_run",
    "load",
    "load_run",
    "make_model",
    "train",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse.training.checkpoint": "find_run load load_run make_model",
        "autapse.training.config": "ModelConfig RunConfig TrainingConfig",
        "autapse.training.feeds": "Tensors",
        "autapse.training.evaluation": "evaluate",
        "autapse.training.loop": "Interrupted Trainer train",
        "autapse.training.rescue": "Diverged",
    },
)
