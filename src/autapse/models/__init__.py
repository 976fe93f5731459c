"""Layers with a head: usable from Python on their own, and what the tasks train."""

from autapse.models.base import SequenceModel
from autapse.models.classifier import Classifier
from autapse.models.regressor import Regressor
from autapse.models.tagger import Tagger

MODELS: dict[str, type[SequenceModel]] = {"classification": Classifier, "regression": Regressor, "tagging": Tagger}

__all__ = ["MODELS", "Classifier", "Regressor", "SequenceModel", "Tagger"]
