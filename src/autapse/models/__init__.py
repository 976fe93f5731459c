"""Models: a recurrent layer with a linear head. Tasks train them, and they can be used on their own."""

from autapse.models.base import SequenceModel
from autapse.models.classifier import Classifier
from autapse.models.forecaster import Forecaster
from autapse.models.language_model import LanguageModel
from autapse.models.memory_network import MemoryNetwork
from autapse.models.question_answering import QuestionAnswering
from autapse.models.regressor import Regressor, StepRegressor
from autapse.models.stream import ModelStream
from autapse.models.tagger import Tagger

MODELS: dict[str, type[SequenceModel]] = {
    "classification": Classifier,
    "regression": Regressor,
    "regression per step": StepRegressor,
    "tagging": Tagger,
    "language": LanguageModel,
    "question answering": QuestionAnswering,
    "forecasting": Forecaster,
}

__all__ = [
    "MODELS",
    "Classifier",
    "Forecaster",
    "LanguageModel",
    "MemoryNetwork",
    "ModelStream",
    "QuestionAnswering",
    "Regressor",
    "SequenceModel",
    "StepRegressor",
    "Tagger",
]
