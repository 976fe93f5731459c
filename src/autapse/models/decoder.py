"""Decoder: a recurrent layer that reads what it generated, with a distribution over its next element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import make_layer
from autapse.models.base import Network
from autapse.models.baseline import check_no_draws
from autapse.models.bridge import Bridge, Map
from autapse.models.heads import MISSING, Categorical, Draw, Head, Mixture
from autapse.models.initialise import initialise
from autapse.models.padding import Padded, ragged_lengths
from autapse.models.previous import Previous, PreviousSymbol, PreviousValues
from autapse.models.stepping import check_causal

Ending = Literal["end", "stop", "count", "given"]
Condition = Literal["input", "state", "both", "none"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)
WRITES = "the model writes sequences"
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
CLOCK = {"count": 2}  # inputs that tell the steps left


@dataclass(frozen=True, kw_only=True)
class Elements:
    """What a decoder generates: symbols, or vectors of values.

    Args:
        symbols: number of symbols; 0 for values.
        values: number of columns with values.
        binary: number of columns that are 0 or 1. They come last.
        components: Gaussians of the mixture that values are drawn from.
        mean: mean of each column with values; by default 0.
        scale: deviation of each column with values; by default 1.
        gaps: whether elements may be missing: a symbol −100, or a value NaN.
        longest: length of the longest sequence that can be generated.

    >>> Elements(symbols=28, longest=40).symbols
    28
    """

    symbols: int = 0
    values: int = 0
    binary: int = 0
    components: int = 1
    mean: Sequence[float] = ()
    scale: Sequence[float] = ()
    gaps: bool = False
    longest: int = 100

    def __post_init__(self) -> None:
        for name in ("symbols", "values", "binary"):
            checks.integer(name, getattr(self, name), minimum=0)
        checks.integer("longest", self.longest, minimum=1)
        if bool(self.symbols) == bool(self.values + self.binary):
            checks.fail("symbols, values", "have exactly one of them above 0", (self.symbols, self.values))


class Conditions(NamedTuple):
    """What the sequences of a batch depend on; what is None is not there.

    Args:
        context: [B, C] one vector per sequence.
        aligned: [B, T, G] features at every step.
        attend: attention to something else.

    >>> Conditions(context=torch.zeros(4, 8)).aligned is None
    True
    """

    context: Tensor | None = None
    aligned: Tensor | None = None
    attend: Attend | None = None

    def select(self, index: Tensor) -> Conditions:  # [B']
        """The same for some sequences, in this order."""
        return Conditions(
            None if self.context is None else self.context[index],
            None if self.aligned is None else self.aligned[index],
            None if self.attend is None else self.attend.select(index),
        )


class Attend(Protocol):
    """Attention of a decoder to something else. `state` is what it carries from step to step; None at the start."""

    reads_before: bool
    """Whether the layer reads what was attended to, so that steps must be computed one after the other."""

    def after(self, output: Tensor, state: Any, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """The features that the head reads, [B, T, H], for the layer's outputs [B, T, H] of some steps.

        Steps from `lengths` [B] on need not be computed.
        """

    def before(self, output: Tensor, state: Any) -> tuple[Tensor, Any]:
        """What the layer reads besides, [B, A], given its last output [B, H]."""

    def select(self, index: Tensor) -> Attend:
        """The same for some sequences, in this order."""


class Decoder(nn.Module):
    """p(y_1 … y_T | given): at each step the layer reads the element before, and the head predicts the next one.

    The length T of a sequence is modelled in one of four ways. `end`: a further symbol ends the sequence. `stop`: a
    sigmoid at each step says whether this element is the last. `count`: T is drawn first, and the layer reads how many
    steps are left. `given`: T is known.

    Args:
        cell: the network, as in other models.
        elements: what is generated.
        hidden_size: units, one size for all layers or one per layer.
        num_layers: number of layers; by default one per hidden size.
        dropout: probability of dropping an output between layers.
        ending: how the length is modelled.
        context_size: size of the vector that a sequence depends on; 0 if there is none.
        condition: how the vector reaches the layer: as an `input` at each step, as its initial `state`, `both`, or not
            at all (`none`), for a decoder with attention. A layer that reads no state, such as `feedforward`, has no
            initial state: it reads the vector as an input.
        context_map: how the vector becomes a state: `linear`, or an `mlp` with a hidden layer.
        aligned_size: features of a sequence of the same length that each step depends on; 0 if there is none.
        attends: whether attention makes the features that the head reads. The vector is then optional.
        attended_size: features that attention adds to the input of each step; 0 if there are none.
        embedding_size: size of the vectors of symbols.
        time_input: also read the number of the step.
        input_dropout: probability of dropping a feature that the layer reads.
        output_dropout: probability of dropping a feature that the head reads.
        initialisation: other initial weights of the layer; see `autapse.models.initialise`.
        device: where the parameters are.
        dtype: their type.

    >>> decoder = Decoder("gru", Elements(symbols=5), hidden_size=16)
    >>> y = Padded(torch.tensor([[0, 3, 1], [2, -100, -100]]), torch.tensor([3, 1]))
    >>> decoder.teacher_forced(y, Conditions()).shape  # the log-likelihood of each element, and of the end
    torch.Size([2, 4])
    """

    def __init__(
        self,
        cell: Network,
        elements: Elements,
        hidden_size: int | Sequence[int] = 64,
        num_layers: int | None = None,
        dropout: float = 0.0,
        *,
        ending: Ending = "end",
        context_size: int = 0,
        condition: Condition = "both",
        context_map: Map = "linear",
        aligned_size: int = 0,
        attends: bool = False,
        attended_size: int = 0,
        embedding_size: int = 64,
        time_input: bool = False,
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        initialisation: str = "default",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.elements, self.ending = elements, checks.one_of("ending", ending, ENDINGS)
        self.condition = checks.one_of("condition", condition, CONDITIONS)
        if condition == "none" and context_size and not attends:
            checks.fail("condition", "be input, state or both without attention", condition)
        self.time_input = checks.boolean("time_input", time_input)
        if ending == "end" and not elements.symbols:
            checks.fail("ending", "be stop, count or given for values, which have no end symbol", ending)
        self.previous = self._make_previous(embedding_size, where)
        self._reads_context = condition in ("input", "both")
        clock = CLOCK.get(ending, 0) + self.time_input
        size = self.previous.size + context_size * self._reads_context + aligned_size + attended_size + clock
        self.layer = self._make_layer(cell, size, hidden_size, num_layers, dropout, where)
        self.bridge = Bridge(context_size, self.layer, context_map, **where) if self._starts(context_size) else None
        self.input_dropout, self.output_dropout = nn.Dropout(input_dropout), nn.Dropout(output_dropout)
        features = self.layer.output_size
        self.head = self._make_head(features, where)
        self.stop = nn.Linear(features, 1, **where) if ending == "stop" else None
        self.count = nn.Linear(context_size or 1, elements.longest, **where) if ending == "count" else None
        initialise(self.layer, initialisation)

    def _starts(self, context_size: int) -> bool:
        if self.condition == "state" and not self.layer.reads_state:
            rule = f"be input for {self.layer.cell_class.__name__}, which reads no state"
            checks.fail("condition", rule, self.condition)
        return context_size > 0 and self.condition in ("state", "both") and self.layer.reads_state

    def _make_previous(self, embedding_size: int, where: dict[str, Any]) -> Previous:
        made = self.elements
        if made.symbols:
            return PreviousSymbol(made.symbols, embedding_size, **where)
        mean = [*(made.mean or [0.0] * made.values), *[0.0] * made.binary]
        scale = [*(made.scale or [1.0] * made.values), *[1.0] * made.binary]
        return PreviousValues(mean, scale, made.gaps, **where)

    @staticmethod
    def _make_layer(cell: Any, size: int, hidden_size: Any, num_layers: Any, dropout: float, where: Any) -> Recurrent:
        if isinstance(cell, Recurrent):
            if cell.input_size != size:
                checks.fail("cell", f"have input_size {size}, the features that the decoder reads", cell.input_size)
            layer = cell
        else:
            sizes = hidden_size if isinstance(hidden_size, int) else list(hidden_size)
            stack = {"num_layers": num_layers, "dropout": dropout, "batch_first": True}
            layer = make_layer(cell, size, sizes, **stack, **where)
        check_causal(layer)
        check_no_draws(layer, WRITES)
        return layer

    def _make_head(self, features: int, where: dict[str, Any]) -> Head:
        made = self.elements
        if made.symbols:
            return Categorical(features, made.symbols, self.ending == "end", **where)
        return Mixture(features, made.values, made.binary, made.components, made.mean, made.scale, **where)

    # All steps at once ------------------------------------------------------------------------------------------

    def teacher_forced(self, y: Padded, given: Conditions, read: Tensor | None = None) -> Tensor:  # [B, T], [B, T + 1]
        """The log-likelihood of each element, given those before it; 0 after the end of a sequence.

        With `end` there is one more step, that of the end. `stop` and `count` add the likelihood of the length to that
        of the elements. `read` has elements that are read in place of the true ones.
        """
        wanted = self.wanted(y)
        before = wanted if read is None else self.wanted(Padded(read, y.lengths))
        inputs = self.inputs(self.fed(before), wanted.lengths, given)
        output, _ = self.run(inputs, wanted.lengths, given)
        features, _ = given.attend.after(output, None, wanted.lengths) if given.attend else (output, None)
        return self.log_likelihood(features, wanted, given)

    def wanted(self, y: Padded) -> Padded:
        """The targets of all steps: the elements, and with `end` the end symbol after them."""
        if self.ending != "end":
            if self.ending != "given" and len(y.lengths) and int(y.lengths.min()) < 1:
                remedy = "Use ending=end." if self.elements.symbols else ""
                checks.fail("sequences", f"have at least one element with ending={self.ending}", 0, remedy)
            return y
        values = F.pad(y.values, (0, 1), value=MISSING)
        ends = y.lengths[:, None].to(values.device)
        return Padded(values.scatter(1, ends, self.elements.symbols), y.lengths + 1)

    def fed(self, wanted: Padded) -> Tensor:  # [B, T, feed]
        """The element before each step; at the first step the start."""
        before = wanted.values[:, :-1]
        if self.elements.symbols:  # the end symbol is never read, and has no vector
            before = torch.where(before == self.elements.symbols, MISSING, before)
        return self.previous.from_start(before)[:, : wanted.values.shape[1]]

    def inputs(
        self, fed: Tensor, lengths: Tensor, given: Conditions, first: int = 0
    ) -> Tensor:  # [B, T, feed] -> [B, T, D]
        """What the layer reads at the steps from `first` on, apart from attention."""
        steps = fed.shape[1]
        context = None if given.context is None else given.context[:, None].expand(-1, steps, -1)
        aligned = None if given.aligned is None else given.aligned[:, first : first + steps]
        step = torch.arange(first, first + steps, device=fed.device)
        return self._read(fed, context, aligned, lengths.to(fed.device)[:, None], step)

    def inputs_at(self, fed: Tensor, row: Tensor, step: Tensor, lengths: Tensor, given: Conditions) -> Tensor:  # [N, D]
        """The same at some steps of some sequences.

        Args:
            fed: [N, feed] what is read of the element before.
            row: [N] the numbers of the sequences.
            step: [N] the numbers of the steps.
            lengths: [B] of all sequences.
            given: what they depend on.
        """
        context = None if given.context is None else given.context[row]
        aligned = None if given.aligned is None else given.aligned[row, step]
        return self._read(fed, context, aligned, lengths.to(fed.device)[row], step)

    def _read(
        self, fed: Tensor, context: Tensor | None, aligned: Tensor | None, lengths: Tensor, step: Tensor
    ) -> Tensor:
        parts = [fed]
        parts += [context] if context is not None and self._reads_context else []
        parts += [] if aligned is None else [aligned]
        longest, clock = self.elements.longest, list[Tensor]()
        if self.ending in CLOCK:  # the steps left, as a share of the longest sequence and as a signal near the end
            left = (lengths - step).clamp(min=0).to(fed)
            clock += [left / longest, torch.exp(1 - left)]
        clock += [step.to(fed) / longest] if self.time_input else []
        parts += [one.expand(fed.shape[:-1])[..., None] for one in clock]
        return self.input_dropout(torch.cat(parts, dim=-1) if len(parts) > 1 else fed)

    def run(self, inputs: Tensor, lengths: Tensor | None, given: Conditions, **keywords: Any) -> tuple[Tensor, Any]:
        """The layer's output at all steps, [B, T, H], and its final state, or what it returns with `return_states`."""
        known = ragged_lengths(lengths, inputs)  # None if all are as long as the batch, which is faster
        x = inputs if self.layer.batch_first else inputs.transpose(0, 1)
        output, *rest = self.layer(x, self.initial(given), lengths=known, **keywords)
        output = output if self.layer.batch_first else output.transpose(0, 1)
        return output, rest[-1]

    def initial(self, given: Conditions) -> Any:
        """h0 for the layer, or None for zeros."""
        return None if self.bridge is None else self.bridge(given.context)

    def log_likelihood(self, features: Tensor, wanted: Padded, given: Conditions) -> Tensor:  # [B, T, F] -> [B, T]
        """The log-likelihood of each element, with that of the length; 0 after the end of a sequence."""
        each = self.elements_likelihood(features, wanted)
        return each + self.length_likelihood(given, wanted.lengths, each)

    def elements_likelihood(self, features: Tensor, wanted: Padded) -> Tensor:  # [B, T, F] -> [B, T]
        """The log-likelihood of each element, and with `stop` of the decision to continue or to stop there."""
        features = self.output_dropout(features)
        steps = torch.arange(features.shape[1], device=features.device)
        lengths = wanted.lengths.to(features.device)[:, None]
        each = self.head.log_likelihood(features, wanted.values)
        if self.stop is not None:
            last = (steps == lengths - 1).to(features)
            each = each - F.binary_cross_entropy_with_logits(self.stop(features)[..., 0], last, reduction="none")
        return torch.where(steps < lengths, each, 0)

    def length_likelihood(self, given: Conditions, lengths: Tensor, like: Tensor) -> Tensor:  # [B, T]
        """With `count`, the log-likelihood of the length at the first step; zeros elsewhere."""
        if self.count is None:
            return torch.zeros_like(like)
        if len(lengths) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= self.elements.longest:
            span = (int(lengths.min()), int(lengths.max()))
            checks.fail("lengths", f"be from 1 to {self.elements.longest}, which the model of lengths knows", span)
        chances = self.count_logits(given, len(like)).log_softmax(-1)
        return F.pad(chances.gather(1, lengths[:, None].to(like.device) - 1), (0, like.shape[1] - 1))

    def count_logits(self, given: Conditions, count: int) -> Tensor:  # [B, longest]
        """Logits of the lengths 1 … longest."""
        assert self.count is not None, "only with ending=count"
        return self.count(self.count.weight.new_zeros(count, 1) if given.context is None else given.context)

    def drawn_or_over(self, features: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:  # [B, F] -> element, [B] bool
        """A sample of each element, and whether its sequence is over."""
        if self.stop is None:
            assert isinstance(self.head, Categorical), "values have no end symbol"
            symbol = self.head.sample_or_end(features, draw)
            over = symbol == self.elements.symbols
            return torch.where(over, 0, symbol), over
        chance = (self.stop(features)[:, 0].double() / draw.temperature).sigmoid()
        limit = torch.full_like(chance, 0.5)
        limit = limit if draw.mean else limit.uniform_(generator=draw.generator)
        return self.head.sample(features, draw), limit < chance
