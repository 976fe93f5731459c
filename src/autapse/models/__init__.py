"""Models: recurrent layers with a head. Tasks train them, and they can be used on their own."""

from autapse.models.attention import Attention
from autapse.models.base import SequenceModel
from autapse.models.beam import Hypotheses
from autapse.models.classifier import Classifier
from autapse.models.decoder import Conditions, Decoder, Elements
from autapse.models.echo_state import EchoStateNetwork
from autapse.models.encoder_decoder import EncoderDecoder
from autapse.models.feeding import Free, Scheduled, Teacher
from autapse.models.forecaster import Forecaster
from autapse.models.generator import Generator
from autapse.models.heads import Draw
from autapse.models.images import ImageClassifier, Segmenter
from autapse.models.language_model import LanguageModel
from autapse.models.memory_network import MemoryNetwork
from autapse.models.model import Model
from autapse.models.padding import Padded
from autapse.models.question_answering import QuestionAnswering
from autapse.models.regressor import Regressor, StepRegressor
from autapse.models.stream import ModelStream
from autapse.models.tagger import Tagger
from autapse.models.texts import Translation
from autapse.models.trees import TreeTagger

MODELS: dict[str, type[SequenceModel]] = {  # those that read a sequence, by kind of task
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
    "Attention",
    "Classifier",
    "Conditions",
    "Decoder",
    "Draw",
    "EchoStateNetwork",
    "Elements",
    "EncoderDecoder",
    "Forecaster",
    "Free",
    "Generator",
    "Hypotheses",
    "ImageClassifier",
    "LanguageModel",
    "MemoryNetwork",
    "Model",
    "ModelStream",
    "Padded",
    "QuestionAnswering",
    "Regressor",
    "Scheduled",
    "Segmenter",
    "SequenceModel",
    "StepRegressor",
    "Tagger",
    "Teacher",
    "Translation",
    "TreeTagger",
]
