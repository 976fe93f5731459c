"""Answers to questions about stories, with the statements of a story as memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from autapse import checks
from autapse.layers.noise import Dropout
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import make_layer
from autapse.models.base import UNITS, Network, SequenceModel
from autapse.models.baseline import check_no_draws
from autapse.models.initialise import initialise
from autapse.models.inputs import Inputs, check_input
from autapse.models.model import Model

ENCODERS = ("position", "bag", "cell")
TYINGS = ("adjacent", "layer-wise")
MOST = 50  # statements that are remembered, the last ones
NOISE = 0.1  # empty memories per statement that training adds


class Places(NamedTuple):
    """Where the words of a batch are. Segment 0 is the question, segment 1 the last statement, 2 the one before it."""

    used: Tensor  # [B, T] bool, False after the end and for statements that are too old
    segment: Tensor  # [B, T]
    position: Tensor  # [B, T], of the word in its segment, from 0
    words: Tensor  # [B, segments], how many words each segment has
    memories: Tensor  # [B], how many there are: the segment of the oldest statement


class MemoryNetwork(SequenceModel):
    """Logits of the answer, [B, output_size]. p = softmax(mᵀu), u ← u + Σ pᵢcᵢ, `hops` times; the head reads u.

    The end-to-end memory network (Sukhbaatar et al. 2015), the textbook's section 10.7.5. Each statement of the story
    is a memory, with a vector m to be found by and a vector c to be read. u starts as the vector of the question. A
    vector of a statement is the weighted sum of its words' vectors, or what the final state of a layer is mapped to,
    plus a learned vector for its age. Each hop has its own vectors.

    The input has two columns, a word and its time: first the words of the story, where the time of the last statement
    is 0, of the one before it −1 and so on; then those of the question, with time 1.

    Args:
        cell: the network that reads a statement, if `statements` is "cell".
        input_size: 1, the column with words.
        output_size: number of answers.
        hidden_size: units of the layer that reads a statement.
        num_layers: number of its layers.
        dropout: probability of dropping an output between them.
        bidirectional: read statements in both directions.
        vocabularies: number of words, a list with one number.
        embedding_size: size of u, m and c, a list with one number.
        input_dropout: probability of dropping a number of a word vector.
        output_dropout: probability of dropping a number of u before the head.
        initialisation: other initial weights of the layer; see `autapse.models.initialise`.
        hops: how many times the memory is read.
        statements: how the words of a statement become a vector: "position", a sum in which the place of a word in
            the statement weighs its vector; "bag", a plain sum; "cell", the final state of a layer.
        tying: "adjacent": c of a hop is m of the next one. "layer-wise": all hops have the same m and c, and
            u ← H·u + Σ pᵢcᵢ.
        linear_start: share of the training, at its beginning, without the softmax.
        noise: empty memories per statement that training adds at random places, so that the ages vary.
        device: where the parameters are.
        dtype: their type.
        others: other settings of models. They do not apply here, and must have their defaults.

    >>> model = MemoryNetwork("gru", 1, 6, vocabularies=[30], embedding_size=[20], hops=3)
    >>> time = torch.tensor([[-1, -1, 0, 0, 1, 1]])
    >>> model(torch.stack([torch.ones_like(time), time], dim=2)).shape
    torch.Size([1, 6])
    """

    plain: ClassVar[bool] = True

    linear: Tensor

    def __init__(
        self,
        cell: Network,
        input_size: int,
        output_size: int,
        hidden_size: int | Sequence[int] = UNITS,
        num_layers: int | None = None,
        dropout: float = 0.0,
        bidirectional: bool = False,
        vocabularies: Sequence[int] = (),
        embedding_size: Sequence[int] = (),
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        initialisation: str = "default",
        hops: int = 3,
        statements: str = "position",
        tying: str = "adjacent",
        linear_start: float = 0.0,
        noise: float = NOISE,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **others: Any,
    ) -> None:
        Model.__init__(self)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        _check_defaults(others)
        if (input_size, len(vocabularies), len(embedding_size)) != (1, 1, 1):
            rule = "have one column of words, with one vocabulary and one embedding_size"
            checks.fail("input", rule, (input_size, vocabularies, embedding_size))
        self.hops = checks.integer("hops", hops, minimum=1)
        self.statements = checks.one_of("statements", statements, ENCODERS)
        self.tying = checks.one_of("tying", tying, TYINGS)
        self.linear_start = checks.number("linear_start", linear_start, low=0.0, high=1.0)
        self.noise = checks.number("noise", noise, low=0.0, high=1.0)
        self.size = checks.integer("embedding_size", embedding_size[0], minimum=1)
        self.tables = hops + 1 if tying == "adjacent" else 3  # of vectors per statement
        by_cell = statements == "cell"
        width = self.size if by_cell else self.tables * self.size
        self.inputs = Inputs(1, vocabularies, [width], dropout=input_dropout, **where)
        stack = {"num_layers": num_layers, "dropout": dropout, "bidirectional": bidirectional}
        self.reader = self._make_reader(cell, hidden_size, stack | where, initialisation) if by_cell else None
        self.views = nn.Linear(self.reader.output_size, self.tables * self.size, **where) if self.reader else None
        self.ages = nn.Parameter(torch.empty(self.tables, MOST, self.size, **where).normal_(std=0.1))
        self.carried = nn.Linear(self.size, self.size, bias=False, **where) if tying == "layer-wise" else None
        self.register_buffer("linear", torch.zeros((), dtype=torch.bool, device=device))
        self.output_dropout = Dropout(output_dropout)
        self.head = nn.Linear(self.size, checks.integer("output_size", output_size, minimum=1), **where)
        self.front = self.readout = self.front_readout = self.output_norm = None
        self.streaming = False
        self.others = nn.ModuleList()

    def _make_reader(self, cell: Network, hidden_size: Any, stack: dict[str, Any], initialisation: str) -> Recurrent:
        if isinstance(cell, Recurrent):
            checks.fail("cell", "be a name or a cell class", cell)
        sizes = hidden_size if isinstance(hidden_size, int) else list(hidden_size)
        reader = make_layer(cell, self.size, sizes, batch_first=True, **stack)
        initialise(reader, initialisation)
        check_no_draws(reader, "it reads statement by statement")
        return reader

    def layers(self) -> list[Recurrent]:
        return [] if self.reader is None else [self.reader]

    @property
    def columns(self) -> int:
        return 2

    @property
    def solutions(self) -> None:
        """None: a story has many sequences here, one per statement."""

    def set_progress(self, share: float) -> None:
        # A buffer: weights that were trained without the softmax are evaluated without it.
        self.linear.fill_(share < self.linear_start)

    # Forward ----------------------------------------------------------------------------------------------------------

    def forward(self, x: Tensor, lengths: Any = None, keys: Any = None) -> Tensor:  # [B, T, 2] -> [B, answers]
        check_input(x, self.columns, dimensions=(3,))
        places = self._places(x, lengths)
        return self._headed(self._after_hops(self._vectors(x[..., :1], places), places.memories))

    def _places(self, x: Tensor, lengths: Any) -> Places:
        steps = torch.arange(x.shape[1], device=x.device)
        ends = torch.full((len(x),), x.shape[1]) if lengths is None else torch.as_tensor(lengths)
        segment = (1 - x[..., 1]).long().clamp(min=0)
        used = (steps < ends.to(x.device)[:, None]) & (segment <= MOST)
        segment = torch.where(used, segment, 0)
        begins = torch.ones_like(used)
        begins[:, 1:] = segment[:, 1:] != segment[:, :-1]
        position = steps - torch.where(begins, steps, 0).cummax(1).values
        if self.training and self.noise:
            segment = self._spread(segment)
            used, segment = used & (segment <= MOST), torch.where(segment <= MOST, segment, 0)
        count = torch.where(used, segment, 0).amax(1)
        words = torch.zeros(len(x), int(count.max()) + 1, dtype=torch.int64, device=x.device)
        return Places(used, segment, position, words.scatter_add(1, segment, used.long()), count)

    def _spread(self, segment: Tensor) -> Tensor:
        """The segments with empty ones between them, at random."""
        empty = torch.rand(len(segment), int(segment.max()) + 1, device=segment.device) < self.noise
        empty[:, 0] = False  # the question stays
        return segment + empty.long().cumsum(1).gather(1, segment)

    def _vectors(self, x: Tensor, places: Places) -> Tensor:  # [B, segments, tables, size]
        """All vectors of the question and of each statement, without its age."""
        shape = (*places.words.shape, self.tables, self.size)
        vectors = self.inputs(x)  # [B, T, ...]
        if self.reader is not None:
            return self._read_statements(vectors, places).view(shape)
        weights = places.used[..., None].to(vectors.dtype)
        if self.statements == "position":
            weights = (weights * self._by_position(places, vectors)).repeat(1, 1, self.tables)
        index = places.segment[..., None].expand_as(vectors)
        total = vectors.new_zeros(*places.words.shape, vectors.shape[-1])
        return total.scatter_add(1, index, vectors * weights).view(shape)

    def _by_position(self, places: Places, like: Tensor) -> Tensor:  # [B, T, size]
        """(1 − j/J) − (k/d)(1 − 2j/J), for the j-th of J words and the k-th of d numbers of its vector."""
        words = places.words.gather(1, places.segment).clamp(min=1)
        place = ((places.position + 1).to(like.dtype) / words)[..., None]
        k = torch.arange(1, self.size + 1, device=like.device, dtype=like.dtype) / self.size
        return (1 - place) - k * (1 - 2 * place)

    def _read_statements(self, vectors: Tensor, places: Places) -> Tensor:  # [B, segments, tables·size]
        """What the layer's final state at the end of each segment is mapped to; zero without words."""
        assert self.reader is not None
        assert self.views is not None
        batch, segments = places.words.shape
        rows = torch.arange(batch, device=vectors.device)[:, None] * segments + places.segment
        longest = max(int(places.words.max()), 1)
        sentences = vectors.new_zeros(batch * segments, longest, self.size)
        sentences = sentences.index_put((rows[places.used], places.position[places.used]), vectors[places.used])
        words = places.words.flatten()
        _, h_n = self.read(self.reader, sentences, lengths=words)
        known = (words > 0).view(batch, segments, 1)
        return torch.where(known, self.views(self.reader.final_output(h_n)).view(batch, segments, -1), 0)

    def _after_hops(self, vectors: Tensor, count: Tensor) -> Tensor:  # [B, size]
        """u after all hops."""
        u, statements = vectors[:, 0, 0], vectors[:, 1:]
        memories = statements.shape[1]
        known = torch.arange(memories, device=count.device) < count[:, None]  # [B, memories]
        statements = statements + self.ages[:, :memories].transpose(0, 1)
        for hop in range(self.hops):
            keys, values = (hop, hop + 1) if self.carried is None else (1, 2)
            scores = torch.einsum("bsd,bd->bs", statements[:, :, keys], u)
            if not self.linear:
                # The lowest finite value rather than −∞: a question without a story must not become NaN.
                scores = torch.softmax(scores.masked_fill(~known, torch.finfo(scores.dtype).min), dim=1)
            answer = torch.einsum("bs,bsd->bd", torch.where(known, scores, 0), statements[:, :, values])
            u = answer + (u if self.carried is None else self.carried(u))
        return u


def _check_defaults(settings: dict[str, Any]) -> None:
    """Settings of other models must have their defaults: none of them applies here."""
    words = {"front": "none", "readout": "last", "missing": "error"}
    for name, value in settings.items():
        if value != words.get(name, value) or (name not in words and value):
            checks.fail(name, "keep its default with hops", value)
