"""LearnedTree: a recursive network that chooses its own tree over a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.cells.tree import Children, TreeCell
from autapse.layers.tree import tree_cell
from autapse.sequences.lengths import checked_lengths


class LearnedTree(nn.Module):
    """j* = argmax_j q·cell(h_j, h_{j+1}); h_{j*} and h_{j*+1} are replaced by their composition, until one is left.

    The tree is chosen greedily, in the spirit of Choi et al. 2018 (Gumbel Tree-LSTM). All neighbours are composed, a
    learned vector q scores the results, and the best pair is merged. The forward pass takes one pair; the gradient is
    that of the softmax (straight-through). In training, Gumbel noise is added to the scores, so that a pair is drawn
    with the probability that the softmax gives it.

    Args:
        cell: a tree cell for two children, by name with options or as a class: `n-ary-lstm`, `affine`, `tensor`, ….
        input_size: features of an element.
        hidden_size: units.
        temperature: of the softmax in the gradient; small values are closer to the choice.
        device: where the parameters are.
        dtype: type of the parameters.

    Called with:
        x: sequences, [B, T, D].
        lengths: [B], the length of each sequence, if they differ; at least 1.

    Returns:
        roots: [B, H], the states of the roots.
        merges: [B, T − 1] integers, the place of the left one of the two neighbours that were merged in each step,
            among those that were left; −1 after the last step of a sequence.

    >>> layer = autapse.LearnedTree("n-ary-lstm", 3, 8)
    >>> roots, merges = layer(torch.randn(2, 5, 3), lengths=[5, 3])
    >>> roots.shape, merges[1, 2:].tolist()
    (torch.Size([2, 8]), [-1, -1])
    """

    def __init__(
        self,
        cell: str | type[TreeCell],
        input_size: int,
        hidden_size: int,
        temperature: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = checks.integer("input_size", input_size, minimum=1)
        self.temperature = checks.number("temperature", temperature, above=0.0)
        kind, options = tree_cell(cell)
        self.cell = kind(input_size, hidden_size, **options, device=device, dtype=dtype)
        if self.cell.arity not in (None, 2):
            checks.fail("cell", "be for two children", self.cell.arity, "Leave out its arity.")
        self.query = nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))
        self.output_size = hidden_size
        nn.init.uniform_(self.query, -(hidden_size**-0.5), hidden_size**-0.5)

    def forward(self, x: Tensor, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """Merge neighbours. The docstring of the class explains the arguments and the result."""
        if not isinstance(x, Tensor) or x.dim() != 3 or x.shape[2] != self.input_size or not x.shape[1]:
            rule = f"be a tensor of shape (B, T, {self.input_size})"
            got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            checks.fail("input", rule, got, kind=checks.ShapeError)
        batch, steps = x.shape[:2]
        ends = torch.full((batch,), steps) if lengths is None else checked_lengths(lengths, steps, batch)
        if bool((ends < 1).any()):
            checks.fail("lengths", "be at least 1", int(ends.min()))
        ends = ends.to(x.device)
        flat = self.cell.compose(self.cell.drive(x.flatten(0, 1)), None)
        states = [state.view(batch, steps, -1) for state in flat]
        merges = []
        for step in range(steps - 1):
            states, place = self._merge(states, ends - step)
            merges.append(place)
        chosen = torch.stack(merges, dim=1) if merges else ends.new_empty(batch, 0)
        return states[0][:, 0], chosen

    def _merge(self, states: list[Tensor], left: Tensor) -> tuple[list[Tensor], Tensor]:
        """One merge in each sequence that has more than one element left, [B]: n elements become n − 1."""
        made = self._composed(states)
        pairs = torch.arange(made[0].shape[1], device=left.device) < (left - 1)[:, None]  # [B, n − 1]
        weights, place = self._chosen(made[0] @ self.query, pairs)
        after = weights.cumsum(1) - weights  # 1 to the right of the merged pair
        before = 1 - after - weights  # 1 to the left of it, and everywhere if nothing is merged
        new = [
            before[..., None] * old[:, :-1] + weights[..., None] * one + after[..., None] * old[:, 1:]
            for old, one in zip(states, made, strict=True)
        ]
        return new, place

    def _composed(self, states: list[Tensor]) -> list[Tensor]:  # [B, n, S] -> [B, n − 1, S]
        """The composition of all neighbours. Inner nodes have no input."""
        batch, count = states[0].shape[0], states[0].shape[1] - 1
        pairs = tuple(torch.stack([s[:, :-1], s[:, 1:]], dim=2).flatten(0, 2) for s in states)
        parent = torch.arange(batch * count, device=pairs[0].device).repeat_interleave(2)
        children = Children(pairs, parent, parent.new_tensor([0, 1]).repeat(batch * count), batch * count, 2)
        nothing = self.cell.drive(pairs[0].new_zeros(1, self.input_size)).expand(batch * count, -1)
        return [state.view(batch, count, -1) for state in self.cell.compose(nothing, children)]

    def _chosen(self, scores: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:  # [B, n − 1], bool
        """1 for the chosen pair of each sequence, with the gradient of the softmax; and its place, or −1."""
        if self.training:
            noise = torch.rand_like(scores).clamp_(min=torch.finfo(scores.dtype).tiny)
            scores = scores - torch.log(-torch.log(noise))
        some = pairs.any(1)
        scores = torch.where(pairs, scores, torch.finfo(scores.dtype).min)
        place = scores.argmax(1)
        hard = F.one_hot(place, scores.shape[1]).to(scores.dtype)
        soft = torch.softmax(scores / self.temperature, dim=1)
        weights = (hard + (soft - soft.detach())) * some[:, None].to(scores.dtype)
        return weights, torch.where(some, place, -1)


def merged(merges: Tensor, items: Sequence[Any]) -> Any:
    """The tree that merges made over the elements of a sequence, as nested tuples.

    Args:
        merges: [T − 1], the merges of one sequence.
        items: its elements.

    Returns:
        The tree.

    >>> merged(torch.tensor([1, 0]), "abc")
    ('a', ('b', 'c'))
    """
    left = list(items)
    for place in merges[: len(left) - 1].tolist():
        left[place : place + 2] = [(left[place], left[place + 1])]
    return left[0]
