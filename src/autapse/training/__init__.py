"""Training: config, loop, schedule, rescue, checkpoint, log. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse.training.config import RunConfig, TrainingConfig
    from autapse.training.evaluation import evaluate
    from autapse.training.feeds import Tensors
    from autapse.training.forecast_scores import ForecastErrors, ForecastReport, forecast_errors, forecast_report
    from autapse.training.forecast_settings import forecast_config
    from autapse.training.generate_settings import generate_config
    from autapse.training.loading import find_run, load, load_run
    from autapse.training.loop import Fitted, Loop, fit
    from autapse.training.model import make_model
    from autapse.training.model_config import (
        AnswererConfig,
        ImageConfig,
        ModelConfig,
        SegmenterConfig,
        TranslatorConfig,
        TreeConfig,
        WriterConfig,
    )
    from autapse.training.objectives import Objective, objective
    from autapse.training.rescue import Diverged
    from autapse.training.summary import Summary
    from autapse.training.trainer import Interrupted, Trainer, train
    from autapse.training.translate_settings import translate_config

__all__ = [
    "AnswererConfig",
    "Diverged",
    "Fitted",
    "ForecastErrors",
    "ForecastReport",
    "ImageConfig",
    "Interrupted",
    "Loop",
    "ModelConfig",
    "Objective",
    "RunConfig",
    "SegmenterConfig",
    "Summary",
    "Tensors",
    "Trainer",
    "TrainingConfig",
    "TranslatorConfig",
    "TreeConfig",
    "WriterConfig",
    "evaluate",
    "find_run",
    "fit",
    "forecast_config",
    "forecast_errors",
    "forecast_report",
    "generate_config",
    "load",
    "load_run",
    "make_model",
    "objective",
    "train",
    "translate_config",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse.training.loading": "find_run load load_run",
        "autapse.training.model": "make_model",
        "autapse.training.objectives": "Objective objective",
        "autapse.training.summary": "Summary",
        "autapse.training.config": "RunConfig TrainingConfig",
        "autapse.training.model_config": "AnswererConfig ImageConfig ModelConfig SegmenterConfig "
        "TranslatorConfig TreeConfig WriterConfig",
        "autapse.training.feeds": "Tensors",
        "autapse.training.forecast_scores": "ForecastErrors ForecastReport forecast_errors forecast_report",
        "autapse.training.forecast_settings": "forecast_config",
        "autapse.training.generate_settings": "generate_config",
        "autapse.training.evaluation": "evaluate",
        "autapse.training.loop": "Fitted Loop fit",
        "autapse.training.trainer": "Interrupted Trainer train",
        "autapse.training.rescue": "Diverged",
        "autapse.training.translate_settings": "translate_config",
    },
)
