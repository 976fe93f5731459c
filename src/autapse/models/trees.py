"""A class for every node of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from autapse import checks
from autapse.data.trees import Trees
from autapse.data.vocabulary import UNKNOWN, Vocabulary
from autapse.layers.learned_tree import LearnedTree, merged
from autapse.layers.recurrent import Recurrent
from autapse.layers.tree import Tree, cell_arguments, tree_cell
from autapse.models.initialise import initialise
from autapse.models.inputs import Inputs
from autapse.models.model import Model
from autapse.sequences.lengths import checked_lengths
from autapse.sequences.tree_batch import ROOT, make_trees

TOGETHER = 256  # trees that are predicted at a time


class TreeTagger(Model):
    """Logits of a class at every node, [B, T, output_size]: word vectors, a recursive network, a linear head.

    Args:
        cell: the network: `tree-lstm`, `n-ary-lstm`, `affine` or `tensor`, with options; or a subclass of
            `autapse.cells.TreeCell`.
        vocabulary: number of words; word 0 stands for a node without a word.
        output_size: classes.
        hidden_size: units, one size for all layers or one per layer.
        num_layers: number of layers; by default one per hidden size.
        dropout: probability of dropping a value between layers.
        embedding_size: size of the word vectors.
        arity: the largest number of children of a node.
        tree: `given`: read the given trees; `learned`: choose a tree over the words. Then only roots have
            outputs; those of other nodes are 0.
        input_dropout: probability of dropping an entry of a word vector.
        output_dropout: probability of dropping a feature that the head reads.
        initialisation: other initial weights of the network; see `autapse.models.initialise`.
        device: where the parameters are.
        dtype: their type.

    The model is called as `model(x, lengths)`: `x` is [B, T, 2], a row per node, children before parents: the word, and
    how many rows later the parent is, 0 for the root; `lengths` [B] has the number of nodes of each tree.

    >>> model = TreeTagger("tree-lstm", vocabulary=10, output_size=5, hidden_size=8, embedding_size=4)
    >>> model(torch.tensor([[[3, 2], [7, 1], [0, 0]]])).shape  # (3 7)
    torch.Size([1, 3, 5])
    """

    words: tuple[str, ...] = ()
    """The words, in the order of their numbers; empty if they have no names."""
    lower: bool = False
    """Whether words are read in lower case."""

    def __init__(
        self,
        cell: Any,
        vocabulary: int,
        output_size: int,
        hidden_size: int | Sequence[int] = 64,
        num_layers: int | None = None,
        dropout: float = 0.0,
        embedding_size: int = 100,
        arity: int = 2,
        tree: str = "given",
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        initialisation: str = "default",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.tree = checks.one_of("tree", tree, ("given", "learned"))
        self.inputs = Inputs(1, [vocabulary], [embedding_size], dropout=input_dropout, **where)
        self.layer: Tree | LearnedTree
        if tree == "learned":
            self.layer = self._learned(cell, hidden_size, num_layers, embedding_size, where)
        else:
            kind, options = tree_cell(cell)
            if "arity" in cell_arguments(kind) and "arity" not in options:
                options["arity"] = checks.integer("arity", arity, minimum=1)
            self.layer = Tree(kind, embedding_size, hidden_size, num_layers, dropout, **where, **options)
        initialise(self.layer, initialisation)
        self.output_dropout = nn.Dropout(output_dropout)
        self.head = nn.Linear(self.layer.output_size, checks.integer("output_size", output_size, minimum=1), **where)

    @staticmethod
    def _learned(
        cell: Any, hidden_size: Any, num_layers: int | None, embedding_size: int, where: dict[str, Any]
    ) -> LearnedTree:
        sizes = [hidden_size] if isinstance(hidden_size, int) else list(hidden_size)
        if num_layers not in (None, 1) or len(sizes) != 1:
            checks.fail("num_layers", "be 1 with a learned structure", num_layers or len(sizes))
        return LearnedTree(cell, embedding_size, sizes[0], **where)

    def layers(self) -> list[Recurrent]:
        """None of the layers reads sequences."""
        return []

    def forward(self, x: Tensor, lengths: Any = None) -> Tensor:  # [B, T, 2] -> [B, T, classes]
        if not isinstance(x, Tensor) or x.dim() != 3 or x.shape[2] != 2 or x.is_floating_point():
            rule = "be a tensor of integers of shape (B, T, 2): a word and the distance of the parent for each node"
            checks.fail("input", rule, tuple(getattr(x, "shape", ())), kind=checks.ShapeError)
        batch, steps = x.shape[:2]
        ends = torch.full((batch,), steps) if lengths is None else checked_lengths(lengths, steps, batch)
        known = torch.arange(steps) < ends[:, None]
        rows = known.flatten().nonzero()[:, 0].to(x.device)
        nodes = x.flatten(0, 1).index_select(0, rows)
        vectors = torch.where(nodes[:, :1] > 0, self.inputs(nodes[None, :, :1])[0], 0.0)
        parents = parents_of(nodes[:, 1].cpu().numpy(), ends.numpy())
        places, states = rows, vectors
        if isinstance(self.layer, LearnedTree):
            places = rows.index_select(0, torch.from_numpy(np.cumsum(ends.numpy()) - 1).to(x.device))
            states, _ = self._over_words(vectors, nodes, ends)
        else:
            states, _ = self.layer(vectors, make_trees(parents, x.device))
        scores = self.head(self.output_dropout(states))
        return scores.new_zeros(batch * steps, scores.shape[1]).index_copy(0, places, scores).view(batch, steps, -1)

    def _over_words(self, vectors: Tensor, nodes: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """The states of the roots of learned trees over the words of each tree, and the merges."""
        pieces = [
            own[tree[:, 0] > 0]
            for own, tree in zip(vectors.split(ends.tolist()), nodes.split(ends.tolist()), strict=True)
        ]
        counts = torch.tensor([len(piece) for piece in pieces])
        if not bool((counts > 0).all()):
            checks.fail("input", "have a word in each tree for a learned structure", 0)
        roots, merges = self.layer(pad_sequence(pieces, batch_first=True), counts)
        return roots, merges

    # Use of a trained model -------------------------------------------------------------------------------------------

    def predict(self, trees: Any) -> list[np.ndarray]:
        """The most probable class of each node, in evaluation mode.

        Args:
            trees: `autapse.Trees`; or a list of trees, in brackets (`"(_ (_ it) (_ works))"`, `"(it works)"`) or as
                nested tuples of words; with a learned structure, of lists of words.

        Returns:
            For each tree an array with the class of each node, children before parents, the root last: names from
            `classes`, or numbers if they have no names. With a learned structure only the class of the root.
        """
        answers = [scores.argmax(-1) for scores in self.scores(trees)]
        return [np.array(self.classes)[one] if self.classes else one for one in answers]

    def predict_proba(self, trees: Any) -> list[np.ndarray]:
        """The probability of each class at each node, [nodes, classes] for each tree of `predict`."""
        return [torch.from_numpy(one).double().softmax(-1).numpy() for one in self.scores(trees)]

    @torch.no_grad()
    def scores(self, trees: Any) -> list[np.ndarray]:
        """The logits of each node, [nodes, classes] for each tree."""
        read = as_trees(trees)
        made: list[np.ndarray] = []
        with self.evaluating():
            for first in range(0, len(read), TOGETHER):
                x, ends = self._rows(read.take(range(first, min(first + TOGETHER, len(read)))))
                output = self(x.to(self.device), ends).cpu().numpy()
                start = -1 if self.tree == "learned" else 0
                made += [one[:end][start:] for one, end in zip(output, ends.tolist(), strict=True)]
        return made

    @torch.no_grad()
    def learned_trees(self, trees: Any) -> Trees:
        """The trees that a model with a learned structure chooses over the words of trees."""
        if self.tree != "learned":
            raise checks.InputError("This model reads given trees. Train one with tree='learned'.")
        read = as_trees(trees)
        x, ends = self._rows(read)
        with self.evaluating():
            nodes = torch.cat([row[:end] for row, end in zip(x, ends.tolist(), strict=True)]).to(self.device)
            merges = self._over_words(self.inputs(nodes[None, :, :1])[0], nodes, ends)[1]
        return Trees.of_nested([merged(row, read.sentence(n)) for n, row in enumerate(merges)])

    def _rows(self, trees: Trees) -> tuple[Tensor, Tensor]:
        """What the model reads of trees with words, [B, T, 2] and [B]."""
        if not self.words:
            raise checks.InputError("This model has no names of words. Call it with numbers: model(x, lengths).")
        known = Vocabulary(self.words, UNKNOWN if UNKNOWN in self.words else None)
        words = (self.words[0] if word is None else word.lower() if self.lower else word for word in trees.words)
        rows = torch.from_numpy(np.stack([known.ids(words), trees.distances], axis=1))
        ends = torch.from_numpy(trees.lengths)
        return pad_sequence(list(rows.split(trees.lengths.tolist())), batch_first=True), ends


def parents_of(distances: np.ndarray, ends: np.ndarray) -> np.ndarray:  # [N], [B] -> [N]
    """Parents among all nodes of a batch, from distances. Each tree must have one root, its last node."""
    place = np.arange(len(distances))
    last = np.repeat(np.cumsum(ends), ends) - 1  # the root of each node's tree
    bad = np.flatnonzero((distances < 0) | (place + distances > last) | ((distances == 0) != (place == last)))
    if len(bad):
        rule = "be trees: the parent of a node comes after it in its tree, and only the last node is a root"
        checks.fail("input", rule, f"distance {int(distances[bad[0]])} at node {int(bad[0])}")
    return np.where(distances == 0, ROOT, place + distances)


def as_trees(trees: Any) -> Trees:
    """What people pass, as trees."""
    if isinstance(trees, Trees):
        return trees
    if isinstance(trees, str) or not isinstance(trees, list | tuple) or not trees:
        rule, remedy = "be Trees, or a list with at least one tree", "Put a single tree into a list."
        checks.fail("trees", rule, type(trees).__name__, remedy, checks.KindError)
    if all(isinstance(tree, str) for tree in trees):
        return Trees.of_brackets(trees, source="tree")
    return Trees.of_nested(trees)
