"""The model that a run's settings describe."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autapse import checks
from autapse.data.symbols import SymbolTable
from autapse.data.vocabulary import UNKNOWN
from autapse.models import (
    MODELS,
    Elements,
    EncoderDecoder,
    Generator,
    ImageClassifier,
    MemoryNetwork,
    Model,
    Segmenter,
    TreeTagger,
)
from autapse.models.decoder_model import DecoderModel
from autapse.models.feeding import parse_feeding
from autapse.tasks import IGNORE, Signature, Task
from autapse.tasks.base import ForecastShape
from autapse.training.config import RunConfig
from autapse.training.model_config import (
    AnswererConfig,
    CellConfig,
    DecoderStack,
    GridStack,
    ModelConfig,
    StackConfig,
    TranslatorConfig,
    TreeStack,
    fitted,
)

EMBEDDING = 64  # default size of the vectors of symbols

MEMORY = ("hops", "statements", "tying", "linear_start")  # the settings of a memory network


def build_model(config: RunConfig) -> Model:
    """A new model for a run, on its device."""
    return make_model(config.task, config.model, config.training.device)


def make_model(task: Task, model: CellConfig, device: str = "cpu", signature: Signature | None = None) -> Model:
    """A new model of the kind and the sizes that a task needs.

    Args:
        task: what the model is to learn.
        model: the settings of the network.
        device: where the model is to be.
        signature: the kind and the sizes of the task's data; by default `task.signature()`, which reads the data.

    Returns:
        A `Classifier`, `Regressor`, `StepRegressor`, `Tagger`, `LanguageModel`, `QuestionAnswering`, `MemoryNetwork`,
        `Forecaster`, `Generator`, `EncoderDecoder`, `Segmenter`, `ImageClassifier` or
        `TreeTagger`.

    >>> from autapse.tasks import Adding
    >>> from autapse.training import ModelConfig
    >>> model = make_model(Adding(), ModelConfig(cell="gru", hidden_size=(8,)))
    >>> type(model).__name__, model(torch.zeros(4, 50, 2)).shape
    ('Regressor', torch.Size([4, 1]))
    """
    known, model = signature or task.signature(), fitted(model, type(task))
    has_words = known.vocabularies or (known.written is not None and known.written.symbols)
    if model.embedding_size and not has_words:
        checks.fail("embedding_size", f"be omitted: {task.name} has features, not words", model.embedding_size)
    embedding = model.embedding_size or task.embedding_size
    build = next(build for kind, build in BUILDERS.items() if isinstance(model, kind))
    made = build(model, known, embedding, device)
    made.classes, made.channels = known.classes, known.channels
    if isinstance(made, TreeTagger):
        made.lower = getattr(task, "lower", False)
    if isinstance(made, DecoderModel) and known.written is not None:
        made.separator, made.columns, made.words = known.written.separator, known.written.columns, known.vocabularies
    if isinstance(made, EncoderDecoder):
        made.source, made.target = _texts(known)
    return made


def _texts(known: Signature) -> tuple[SymbolTable | None, SymbolTable | None]:
    """What the numbers of symbols stand for, in the texts that are read and in those that are written."""
    written, (words, *others) = known.written, known.vocabularies or ((),)
    assert written is not None, "a task of this kind says what is written"
    other = words.index(UNKNOWN) if UNKNOWN in words else IGNORE
    source = SymbolTable(words, written.source_separator, other) if words and not others else None
    return source, SymbolTable(known.classes, written.separator, IGNORE) if known.classes else None


def _stack(model: CellConfig) -> dict[str, Any]:
    """The settings that all recurrent layers share."""
    sizes = model.hidden_size
    return {
        "hidden_size": sizes[0] if len(sizes) == 1 else sizes,
        "num_layers": model.num_layers,
        "dropout": model.dropout,
        "initialisation": model.initialisation,
        "output_dropout": model.output_dropout,
        "input_dropout": model.input_dropout,
    }


def _scaling(known: Signature) -> dict[str, Any]:
    """How channels are scaled."""
    names = ("mean", "scale", "center", "spread", "level_mean", "level_scale", "difference_scale", "missing")
    return {name: getattr(known, name) for name in names}


def _reader(model: ModelConfig, known: Signature, embedding: tuple[int, ...], device: str) -> Model:
    """A model that reads a sequence and says something about it."""
    targets: dict[str, Any] = {"target_mean": known.target_mean, "target_scale": known.target_scale}
    hops = {name: getattr(model, name) for name in MEMORY} if isinstance(model, AnswererConfig) and model.hops else {}
    make = partial(
        MemoryNetwork if hops else MODELS[known.kind],
        model.cell,
        known.input_size,
        known.output_size,
        **_stack(model),
        **_scaling(known),
        bidirectional=model.bidirectional,
        vocabularies=[len(words) for words in known.vocabularies],
        embedding_size=embedding,
        input_noise=model.input_noise,
        front=model.front,
        readout=model.readout,
        readout_front=model.readout_front,
        output_norm=model.output_norm,
        streaming=model.streaming,
        length=known.length,
        device=device,
        **(targets if "regression" in known.kind else {}),
        **(_forecast(known, known.forecast) if known.forecast else {}),
        **hops,
    )
    return make().join(make() for _ in range(model.members - 1))


def _writer(model: Any, known: Signature, embedding: tuple[int, ...], device: str) -> Model:
    """A model that writes sequences. `embedding` has the sizes of the words that are read, then that of the symbols."""
    written = known.written
    assert written is not None, "a task of this kind says what is written"
    size = embedding[-1] if embedding else EMBEDDING
    shape = {name: getattr(written, name) for name in ("values", "binary", "mean", "scale", "gaps", "longest")}
    symbols = known.output_size if written.symbols else 0
    settings: dict[str, Any] = {
        **_stack(model),
        **{name: getattr(model, name) for name in ("condition", "context_map", "time_input")},
        "feeding": parse_feeding(model.feeding),
        "embedding_size": size,
        "device": device,
    }
    words = [len(names) for names in known.vocabularies]
    inputs = {**_scaling(known), "vocabularies": words, "embedding_size": (embedding or (size,))[: len(words)]}
    if isinstance(model, TranslatorConfig):
        names = ("encoder_size", "encoder_layers", "bidirectional", "attention", "attend")
        return EncoderDecoder(
            model.cell,
            Elements(symbols=symbols, **shape),
            known.input_size,
            encoder=None if model.encoder == "same" else model.encoder,
            inputs=inputs,
            **{name: getattr(model, name) for name in names},
            **settings,
        )
    elements = Elements(symbols=symbols, components=model.components, **shape)
    usual: Any = "given" if written.one_length else None
    ending: Any = usual if model.ending == "auto" else model.ending
    depends: Any = written.depends
    return Generator(model.cell, elements, depends, known.input_size, inputs=inputs, ending=ending, **settings)


def _image(model: Any, known: Signature, embedding: tuple[int, ...], device: str) -> Model:
    """A model of images."""
    names = [name for name in ("axes", "merge", "patch", "readout") if hasattr(model, name)]
    return (Segmenter if known.kind == "segmentation" else ImageClassifier)(
        model.cell,
        known.input_size,
        known.output_size,
        **_stack(model),
        **_scaling(known),
        **{name: getattr(model, name) for name in names},
        device=device,
    )


def _tree(model: Any, known: Signature, embedding: tuple[int, ...], device: str) -> Model:
    """A model of trees."""
    assert known.tree is not None, "a task of this kind says what its trees are like"
    if model.tree == "learned" and known.tree.targets != "root":
        checks.fail("tree", "be given unless only roots have targets", "learned", "Use targets='root'.")
    made = TreeTagger(
        model.cell,
        len(known.vocabularies[0]),
        known.output_size,
        **_stack(model),
        embedding_size=(embedding or (EMBEDDING,))[0],
        arity=known.tree.arity,
        tree=model.tree,
        device=device,
    )
    made.words = known.vocabularies[0]
    return made


def _forecast(known: Signature, shape: ForecastShape) -> dict[str, Any]:
    """The arguments of a Forecaster."""
    names = ("horizon", "window", "recursive", "intervals", "levels")
    order = [known.channels.index(name) for name in shape.columns]
    return {"known": len(shape.known), "order": order, **{name: getattr(shape, name) for name in names}}


BUILDERS: dict[type[StackConfig], Callable[[Any, Signature, tuple[int, ...], str], Model]] = {
    ModelConfig: _reader,
    GridStack: _image,
    TreeStack: _tree,
    DecoderStack: _writer,
}
