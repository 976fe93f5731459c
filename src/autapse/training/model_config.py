"""The settings of a network, explained where they are declared. Which there are depends on the kind of the task."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from autapse import checks
from autapse.tasks import Task

MOST_MEMBERS = 100  # a malicious file must not build networks for hours


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """The size of a network, for any cell and any task."""

    hidden_size: tuple[int, ...] = (64,)
    """Units: one size for all layers, or one size per layer."""
    num_layers: int | None = None
    """Number of layers; by default one per hidden size."""
    dropout: float = 0.0
    """Probability of dropping an output between layers."""
    embedding_size: tuple[int, ...] | None = None
    """Size of word vectors, one per vocabulary of the input; the last one is for the rest. By default the task's."""
    input_dropout: float = 0.0
    """Probability of dropping a feature that the first layer reads."""
    output_dropout: float = 0.0
    """Probability of dropping a feature that the head reads."""
    initialisation: str = "default"
    """Initial weights: default, glorot-orthogonal (rnn, lstm, gru), reservoir, or rules: weight=normal(0.1), …"""

    def __post_init__(self) -> None:
        check_words(self)
        sizes: Any = self.hidden_size
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        object.__setattr__(self, "hidden_size", sizes)  # a single integer is accepted too
        for size in sizes:
            checks.integer("hidden_size", size, minimum=1)
        if not sizes:
            checks.fail("hidden_size", "have at least one size", sizes)
        if self.num_layers is not None:
            checks.integer("num_layers", self.num_layers, minimum=1)
        if self.embedding_size is not None:
            given: Any = self.embedding_size
            given = (given,) if isinstance(given, int) else tuple(given)
            object.__setattr__(self, "embedding_size", given)
            for size in given:
                checks.integer("embedding_size", size, minimum=1)
        for name in ("dropout", "input_dropout", "output_dropout"):
            checks.number(name, getattr(self, name), low=0.0, high=1.0)
        if not isinstance(self.initialisation, str):
            checks.fail("initialisation", "be text", self.initialisation, kind=checks.KindError)
        if self.dropout and (self.num_layers or len(sizes)) == 1:
            checks.fail("dropout", "be 0 with one layer, since it acts between layers", self.dropout)


@dataclass(frozen=True, kw_only=True)
class ReaderStack(StackConfig):
    """The size of a network that reads a sequence and says something about it, for any cell."""

    bidirectional: bool = False
    """Read sequences in both directions."""
    input_noise: float = 0.0
    """Standard deviation of the Gaussian noise that training adds to the input of the first layer."""
    front: str = "none"
    """What comes before the recurrent layer: none; frames:size=4, where the features of 4 steps become one step; or
    conv, convolutions and pooling, with options as in conv:channels=64:kernels=7,5,3:steps=150."""
    readout: Literal["last", "mean", "max", "mean-max", "attention"] = "last"
    """What the head reads: the output at the last step, its mean or maximum over the steps, both, or attention: a
    weighted mean with one learned vector."""
    readout_front: bool = False
    """Also read the output of the front end in this way."""
    output_norm: bool = False
    """Batch normalisation of the features that the head reads."""
    streaming: bool = False
    """Make everything causal, so that the trained model can read one step at a time."""
    members: int = 1
    """Networks that are trained at the same time, each by itself, and answer together: the mean of their probabilities,
    or of their values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("members", self.members, minimum=1, maximum=MOST_MEMBERS)
        checks.number("input_noise", self.input_noise, low=0.0)
        if not isinstance(self.front, str):
            checks.fail("front", "be text", self.front, kind=checks.KindError)


@dataclass(frozen=True, kw_only=True)
class DecoderStack(StackConfig):
    """The settings of a network that reads what it wrote, for any cell."""

    context_map: Literal["linear", "mlp"] = "linear"
    """How a vector becomes the initial state: by a linear map, or by one with a hidden layer."""
    time_input: bool = False
    """Also read the number of the step."""
    feeding: str = "teacher"
    """What the network reads in training: the true element before (teacher); its own sample with a probability that
    grows (scheduled:end=0.5:shape=linear:own=sample; own=mean for its mean); or its own predictions for some steps
    (free:steps=5)."""


@dataclass(frozen=True, kw_only=True)
class WriterStack(DecoderStack):
    """The settings of a network that writes sequences, for any cell."""

    ending: Literal["auto", "end", "stop", "count", "given"] = "auto"
    """How the length of a sequence is modelled: a symbol ends it (end), a unit at each step says whether it stops
    there (stop), it is drawn first and the steps left are read (count), or it is given. By default end for symbols,
    stop for values, and given for sequences that depend on one of the same length."""
    components: int = 5
    """Values only: number of Gaussians of the mixture that they are drawn from."""
    condition: Literal["input", "state", "both"] = "both"
    """How a vector reaches the network: as an input at each step, as its initial state, or both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("components", self.components, minimum=1)


@dataclass(frozen=True, kw_only=True)
class TranslatorStack(DecoderStack):
    """The settings of a network that reads one sequence and writes another, for any cell."""

    encoder: str = "same"
    """The network that reads, with options as in `cell`; by default the same as the one that writes."""
    encoder_size: tuple[int, ...] | None = None
    """Units of the network that reads: one size for all layers, or one per layer; by default those of the writer."""
    encoder_layers: int | None = None
    """Number of layers of the network that reads; by default one per size, or as many as the writer has."""
    bidirectional: bool = False
    """The network that reads does so in both directions."""
    attention: str = "none"
    """What the writer reads of the reader's states at each step: none; or their mean, with weights that are additive,
    multiplicative or monotonic (windows that only move forward), with options as in additive:size=64."""
    attend: Literal["after", "before"] = "after"
    """When the writer attends: after its recurrence, for all steps at once, or before it, one step after the other."""
    condition: Literal["input", "state", "both", "none"] = "both"
    """How the reader's final state reaches the writer: as an input at each step, as its initial state, both, or, with
    attention, not at all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_size is not None:
            given: Any = self.encoder_size
            given = (given,) if isinstance(given, int) else tuple(given)
            object.__setattr__(self, "encoder_size", given)
            for size in given:
                checks.integer("encoder_size", size, minimum=1)
        if self.encoder_layers is not None:
            checks.integer("encoder_layers", self.encoder_layers, minimum=1)


@dataclass(frozen=True, kw_only=True)
class GridStack(StackConfig):
    """The settings of a network that gives a class to every pixel of an image, for any cell."""

    hidden_size: tuple[int, ...] = (32,)
    """Units of each direction: one size for all layers, or one size per layer."""
    axes: Literal["both", "rows", "columns"] = "both"
    """What is read: rows and columns, each in both directions, or only one of the two."""
    merge: Literal["concat", "sum", "linear"] = "concat"
    """What becomes of the directions: side by side, their sum, or a linear map of them to the hidden size."""
    patch: int = 1
    """The features of this many × this many pixels are one point of the grid."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("patch", self.patch, minimum=1)


@dataclass(frozen=True, kw_only=True)
class ImageStack(GridStack):
    """The settings of a network that gives a class to an image, for any cell."""

    readout: Literal["mean", "max", "mean-max", "attention"] = "mean-max"
    """What the head reads: the mean of all points of the grid, their maximum, both, or a weighted mean with one learned
    vector."""


@dataclass(frozen=True, kw_only=True)
class TreeStack(StackConfig):
    """The settings of a network that gives a class to every node of a tree, for any cell."""

    tree: Literal["given", "learned"] = "given"
    """The tree: the one that is given, or one that the network chooses over the words; it then needs --targets root."""


@dataclass(frozen=True, kw_only=True)
class CellConfig(StackConfig):
    """The cell, and the size of its network."""

    cell: str = "gru"
    """The cell, with options as in ernn:inner_steps=2 (`autapse cells` lists them), or your own, my_module:MyCell."""

    def __post_init__(self) -> None:
        super().__post_init__()
        cell: Any = self.cell
        if isinstance(cell, type):  # from Python a class is accepted too
            from autapse.layers.registry import spec_of

            object.__setattr__(self, "cell", spec_of(cell))

    @property
    def network(self) -> str:
        """What the network is called in results: its cell."""
        return self.cell


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ReaderStack, CellConfig):
    """The settings of the network. Every field is a keyword argument.

    Example:
        >>> ModelConfig(cell="ernn:inner_steps=2", hidden_size=(32, 32)).hidden_size
        (32, 32)
    """


@dataclass(frozen=True, kw_only=True)
class AnswererConfig(ModelConfig):
    """The settings of a network that answers questions. Every field is a keyword argument.

    Example:
        >>> AnswererConfig(hops=3, embedding_size=20).hops
        3
    """

    hops: int = 0
    """How many times a memory network reads its memory; 0 for three recurrent layers instead."""
    statements: Literal["position", "bag", "cell"] = "position"
    """With hops: how words become the vector of a statement: a sum weighted by position, a plain sum, or the cell."""
    tying: Literal["adjacent", "layer-wise"] = "adjacent"
    """With hops: whether neighbouring hops share a set of vectors, or all hops share all."""
    linear_start: float = 0.0
    """With hops: share of the training, at its beginning, without the softmax over the memories."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("hops", self.hops, minimum=0)
        checks.number("linear_start", self.linear_start, low=0.0, high=1.0)
        of_memory = ("statements", "tying", "linear_start")
        of_cell = ("cell", "hidden_size", "num_layers", "dropout", "bidirectional", "initialisation")
        unused = of_cell if self.hops and self.statements != "cell" else () if self.hops else of_memory
        rule = 'keep its default with hops, unless statements="cell"' if self.hops else "keep its default without hops"
        for setting in fields(self):  # a setting that would have no effect is an error
            if setting.name in unused and getattr(self, setting.name) != setting.default:
                checks.fail(setting.name, rule, getattr(self, setting.name))

    @property
    def network(self) -> str:
        """The cell, or memory-network if no cell is in use."""
        return "memory-network" if self.hops and self.statements != "cell" else self.cell


@dataclass(frozen=True, kw_only=True)
class WriterConfig(WriterStack, CellConfig):
    """The settings of a network that writes sequences. Every field is a keyword argument.

    Example:
        >>> WriterConfig(cell="lstm", ending="stop", feeding="scheduled:end=0.3").ending
        'stop'
    """


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(TranslatorStack, CellConfig):
    """The settings of a network that reads one sequence and writes another. Every field is a keyword argument.

    Example:
        >>> TranslatorConfig(cell="gru", bidirectional=True, encoder="lstm").encoder
        'lstm'
    """


@dataclass(frozen=True, kw_only=True)
class SegmenterConfig(GridStack, CellConfig):
    """The settings of a network that gives a class to every pixel. Every field is a keyword argument.

    Example:
        >>> SegmenterConfig(cell="lstm", hidden_size=(16, 16)).axes
        'both'
    """


@dataclass(frozen=True, kw_only=True)
class ImageConfig(ImageStack, CellConfig):
    """The settings of a network that gives a class to an image. Every field is a keyword argument.

    Example:
        >>> ImageConfig(patch=2).readout
        'mean-max'
    """


@dataclass(frozen=True, kw_only=True)
class TreeConfig(TreeStack, CellConfig):
    """The settings of a network that gives a class to every node of a tree. Every field is a keyword argument.

    Example:
        >>> TreeConfig(hidden_size=150).cell
        'tree-lstm'
    """

    cell: str = "tree-lstm"
    """The cell, with options: tree-lstm, n-ary-lstm, affine or tensor."""


READER = (ReaderStack, ModelConfig)
KINDS: dict[str, tuple[type[StackConfig], type[CellConfig]]] = {
    "question answering": (ReaderStack, AnswererConfig),
    "generation": (WriterStack, WriterConfig),
    "translation": (TranslatorStack, TranslatorConfig),
    "segmentation": (GridStack, SegmenterConfig),
    "image classification": (ImageStack, ImageConfig),
    "trees": (TreeStack, TreeConfig),
}


def stack_config(task: type[Task]) -> type[StackConfig]:
    """The class of the settings of a network for a task, apart from the cell."""
    return _configs(task)[0]


def model_config(task: type[Task]) -> type[CellConfig]:
    """The class of the settings of a network for a task."""
    return _configs(task)[1]


def _configs(task: type[Task]) -> tuple[type[StackConfig], type[CellConfig]]:
    # The kind of one's own data is a property, which reads the data. Those kinds have the usual settings.
    return KINDS.get(task.kind, READER) if isinstance(task.kind, str) else READER


def fitted(model: CellConfig, task: type[Task]) -> CellConfig:
    """Settings of a network as the class that a task needs. What is missing gets its default.

    Args:
        model: the settings.
        task: the task.

    Returns:
        The same settings. A setting that the task does not have must have its default; otherwise it is an error.
    """
    wanted = model_config(task)
    if type(model) is wanted:
        return model
    known = {field.name for field in fields(wanted)}
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name not in known and value != field.default:
            checks.fail(field.name, f"keep its default for {task.name}, which has no such setting", value)
    # A default is left out: the other class may have another one.
    given = {field.name: value for field in fields(model) if (value := getattr(model, field.name)) != field.default}
    return wanted(**given)


def check_words(config: Any) -> None:
    """Check choices and switches against their annotations, which Python itself does not."""
    for name, hint in get_type_hints(type(config)).items():
        if get_origin(hint) is Literal:
            checks.one_of(name, getattr(config, name), get_args(hint))
        elif hint is bool:
            checks.boolean(name, getattr(config, name))
