"""Attention: at each step a decoder reads a weighted mean of the states of an encoder."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.cells.spec import parse_options
from autapse.models.attention_weights import additive_weights, monotonic_weights
from autapse.models.padding import softmax_inside

When = Literal["after", "before"]
NONE = "none"
FASTEST, NARROWEST = 5.0, 7.0  # limits of the logarithms of a window's step and width, so that nothing overflows


class Scoring(nn.Module):
    """The base of ways to weigh the steps of a source; not for direct use.

    Args:
        query_size: size of the decoder's output.
        memory_size: size of the encoder's output.
        where: device and dtype.
    """

    def __init__(self, query_size: int, memory_size: int, **where: Any) -> None:
        super().__init__()

    def keys(self, memory: Tensor) -> Tensor:  # [B, S, M] -> [B, S, A]
        """What is computed of a source once, for all steps of the decoder."""
        return memory

    @abstractmethod
    def weights(
        self, query: Tensor, keys: Tensor, sources: Tensor | None, state: Any, targets: Tensor | None = None
    ) -> tuple[Tensor, Any]:  # [B, T, H] -> [B, T, S]
        """The weights of the steps of the source, and what the next steps of the decoder need.

        Args:
            query: the decoder's outputs at some steps.
            keys: what `keys` gave.
            sources: [B] lengths of the sources; None if all have S steps.
            state: what the steps before gave; None at the start.
            targets: [B] lengths of the targets; None if all have T steps. Weights after the end of a target have no
                meaning, so they need not be computed.
        """


class Additive(Scoring):
    """e_ts = v·tanh(W·q_t + U·m_s + b): a hidden layer compares the decoder's output q with a state m of the encoder.

    Bahdanau, Cho and Bengio 2014. The cost is T·S·`size`, so the hidden layer is small.

    Args:
        query_size: size of the decoder's output.
        memory_size: size of the encoder's output.
        size: units of the hidden layer.
        where: device and dtype.

    >>> scoring = Additive(8, 6)
    >>> scoring.weights(torch.zeros(2, 5, 8), scoring.keys(torch.zeros(2, 7, 6)), None, None)[0].shape
    torch.Size([2, 5, 7])
    """

    def __init__(self, query_size: int, memory_size: int, size: int = 16, **where: Any) -> None:
        super().__init__(query_size, memory_size)
        self.size = checks.integer("size", size, minimum=1)
        self.query = nn.Linear(query_size, size, **where)
        self.key = nn.Linear(memory_size, size, bias=False, **where)
        self.vector = nn.Parameter(torch.empty(size, **where))
        nn.init.uniform_(self.vector, -1 / math.sqrt(size), 1 / math.sqrt(size))

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def weights(
        self, query: Tensor, keys: Tensor, sources: Tensor | None, state: Any, targets: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        return additive_weights(self.query(query), keys, self.vector, targets, sources), None


class Multiplicative(Scoring):
    """e_ts = (W·q_t)·(U·m_s) / √A: a scalar product of the decoder's output q with a state m of the encoder.

    Luong, Pham and Manning 2015 ("general"), with a matrix UᵀW of rank `size`, scaled as in Vaswani et al. 2017.

    Args:
        query_size: size of the decoder's output.
        memory_size: size of the encoder's output.
        size: the size A of the vectors that are multiplied.
        where: device and dtype.

    >>> scoring = Multiplicative(8, 6)
    >>> scoring.weights(torch.zeros(2, 5, 8), scoring.keys(torch.zeros(2, 7, 6)), None, None)[0].shape
    torch.Size([2, 5, 7])
    """

    def __init__(self, query_size: int, memory_size: int, size: int = 32, **where: Any) -> None:
        super().__init__(query_size, memory_size)
        self.size = checks.integer("size", size, minimum=1)
        self.query = nn.Linear(query_size, size, bias=False, **where)
        self.key = nn.Linear(memory_size, size, bias=False, **where)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def weights(
        self, query: Tensor, keys: Tensor, sources: Tensor | None, state: Any, targets: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        projected = F.linear(query, self.query.weight / math.sqrt(self.size))
        return softmax_inside(projected @ keys.transpose(1, 2), sources), None


class Monotonic(Scoring):
    """w_ts ∝ Σ_k a_k·exp(−b_k·(κ_tk − s)²), κ_t = κ_{t−1} + exp(·): windows that only move forward.

    Graves 2013, section 5.1; here the weights of a step are normalised, so that they sum to one. Heights a, widths b
    and steps of the windows come from the decoder's output by a linear map. At first a window moves about one step of
    the source per step of the target. The contents of the source have no part in the weights.

    Args:
        query_size: size of the decoder's output.
        memory_size: size of the encoder's output.
        windows: number of windows.
        where: device and dtype.

    >>> weights, places = Monotonic(8, 6, windows=2).weights(torch.zeros(1, 5, 8), torch.zeros(1, 7, 6), None, None)
    >>> weights.shape, places.shape
    (torch.Size([1, 5, 7]), torch.Size([1, 2]))
    """

    def __init__(self, query_size: int, memory_size: int, windows: int = 3, **where: Any) -> None:
        super().__init__(query_size, memory_size)
        self.windows = checks.integer("windows", windows, minimum=1)
        self.parameters_of = nn.Linear(query_size, 3 * windows, **where)

    def weights(
        self, query: Tensor, keys: Tensor, sources: Tensor | None, state: Any, targets: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        heights, widths, steps = self.parameters_of(query).chunk(3, dim=-1)  # [B, T, K] each
        places = steps.clamp(max=FASTEST).exp().cumsum(1)
        places = places if state is None else places + state[:, None]
        roots = (0.5 * widths.clamp(-NARROWEST, NARROWEST)).exp()  # √b
        return monotonic_weights(heights, roots, places, keys.shape[1], targets, sources), places[:, -1]


KINDS: dict[str, type[Scoring]] = {
    "additive": Additive,
    "multiplicative": Multiplicative,
    "monotonic": Monotonic,
}


class Attention(nn.Module):
    """f_t = tanh(q_t + W·c_t + b): features for the head from an output q_t and what was attended to, c_t.

    c_t is the mean of the encoder's states, with the weights of a `Scoring`. `after`: the weights come from q_t itself,
    after the recurrence, for all steps at once. `before`: they come from q_{t−1}, and the layer reads c_t at step t, so
    the steps are computed one after the other.

    Args:
        kind: `additive`, `multiplicative` or `monotonic`, with options as in `additive:size=64`.
        query_size: size of the decoder's output.
        memory_size: size of the encoder's output.
        when: `after` or `before` the recurrence.
        where: device and dtype.

    >>> attention = Attention("multiplicative", query_size=8, memory_size=6)
    >>> attend = attention.over(torch.zeros(2, 7, 6), torch.tensor([7, 3]))
    >>> features, _ = attend.after(torch.zeros(2, 5, 8), None)
    >>> features.shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, kind: str, query_size: int, memory_size: int, when: When = "after", **where: Any) -> None:
        super().__init__()
        self.when = checks.one_of("attend", when, get_args(When))
        self.scoring = make_scoring(kind, query_size, memory_size, **where)
        self.attended = nn.Linear(memory_size, query_size, **where)

    def over(self, memory: Tensor, lengths: Tensor | None = None, record: list[Tensor] | None = None) -> Attending:
        """Attention to these sources.

        Args:
            memory: [B, S, M] the encoder's outputs.
            lengths: [B] of the sources, if they differ.
            record: a list to which the weights of each call are added, [B, T, S].
        """
        return Attending(self, memory, self.scoring.keys(memory), lengths, record)


class Attending:
    """Attention to the sources of a batch; made by `Attention.over`.

    Args:
        attention: the weights.
        memory: [B, S, M] the encoder's outputs.
        keys: [B, S, A] what is computed of them once.
        lengths: [B] of the sources; None if all have S steps.
        record: a list to which weights are added; None for no list.
    """

    def __init__(
        self,
        attention: Attention,
        memory: Tensor,
        keys: Tensor,
        lengths: Tensor | None,
        record: list[Tensor] | None,
    ) -> None:
        self._attention, self._memory, self._keys = attention, memory, keys
        self._lengths, self._record = lengths, record
        self.reads_before = attention.when == "before"

    def after(
        self, output: Tensor, state: Any, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:  # [B, T, H] -> [B, T, F]
        """The features that the head reads."""
        if self.reads_before:
            attended = state[1][:, None]
        else:
            attended, state = self._read(output, state, lengths)
        return torch.tanh(output + self._attention.attended(attended)), state

    def before(self, output: Tensor, state: Any) -> tuple[Tensor, Any]:  # [B, H] -> [B, M]
        """What the layer reads at the next step, given its last output."""
        attended, carried = self._read(output[:, None], None if state is None else state[0])
        return attended[:, 0], (carried, attended[:, 0])

    def select(self, index: Tensor) -> Attending:  # [B']
        """The same for some sequences, in this order."""
        lengths = None if self._lengths is None else self._lengths[index.to(self._lengths.device)]
        return Attending(self._attention, self._memory[index], self._keys[index], lengths, self._record)

    def _read(
        self, query: Tensor, state: Any, targets: Tensor | None = None
    ) -> tuple[Tensor, Any]:  # [B, T, H] -> [B, T, M]
        weights, state = self._attention.scoring.weights(query, self._keys, self._lengths, state, targets)
        if self._record is not None:
            self._record.append(weights)
        return weights @ self._memory, state


def make_scoring(kind: str, query_size: int, memory_size: int, **where: Any) -> Scoring:
    """Make a way to weigh the steps of a source.

    Args:
        kind: `additive`, `multiplicative` or `monotonic`, with options as in `additive:size=64`.
        query_size: size of the decoder's output.
        memory_size: size of the encoder's output.
        where: device and dtype.

    Returns:
        The scoring.

    >>> make_scoring("monotonic:windows=5", 8, 6).windows
    5
    """
    if not isinstance(kind, str):
        checks.fail("attention", "be text, such as additive:size=64", kind, kind=checks.KindError)
    name, *words = kind.split(":")
    scoring = KINDS[checks.one_of("attention", name, KINDS)]
    known = dict(list(inspect.signature(scoring).parameters.items())[2:-1])  # the options come after the sizes
    return scoring(query_size, memory_size, **parse_options("attention", kind, name, words, known), **where)
