"""Which training sequences validate which candidates: k folds of a small set, one part of a large one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autapse.data.ragged import Ragged, dense
from autapse.tasks import Data
from autapse.tasks.stored import Examples, held_out

FEW = 100  # sequences of a validation set, below which several folds are used
SHARE = 0.2  # of the sequences of a large set, for validation
MOST = 1000  # sequences for validation: more cost time and tell little
FOLDS = 4


@dataclass(frozen=True, eq=False)
class Folded:
    """Training data, and the fold of each sequence."""

    inputs: np.ndarray | Ragged
    targets: np.ndarray | Ragged
    fold: np.ndarray  # [N]; a sequence with the number `count` is in no validation set
    count: int
    """Number of folds that validate."""
    weights: np.ndarray | None = None  # [N] of each sequence in the loss; None for 1

    def split(self, number: int) -> dict[str, Data]:
        """The training and the validation data of a fold."""
        whole = Examples(self.inputs, self.targets, weights=self.weights)
        sides = {"train": self.fold != number, "validation": self.fold == number}
        return {name: whole.take(np.flatnonzero(side)).data() for name, side in sides.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as named arrays, for another process."""
        arrays = {"inputs": dense(self.inputs), "targets": dense(self.targets), "fold": self.fold}
        lengths = {"input_lengths": self.inputs, "target_lengths": self.targets}
        arrays |= {name: values.lengths for name, values in lengths.items() if isinstance(values, Ragged)}
        arrays |= {} if self.weights is None else {"weights": self.weights}
        return arrays | {"count": np.array([self.count])}

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> Folded:
        """What `arrays` gave."""
        values = {}
        for name in ("input", "target"):
            lengths = arrays.get(f"{name}_lengths")
            rows = arrays[f"{name}s"]
            values[f"{name}s"] = rows if lengths is None else Ragged(rows, lengths)
        return cls(**values, fold=arrays["fold"], count=int(arrays["count"][0]), weights=arrays.get("weights"))


def fold(examples: Examples, seed: int) -> Folded:
    """Divide training data.

    Args:
        examples: the training data. Sequences of one group are in one fold.
        seed: of the division.

    Returns:
        One validation part if it has at least 100 sequences; otherwise 4 folds, with all classes in proportion.
    """
    size = len(examples)
    if SHARE * size >= FEW:
        held = held_out(examples, min(SHARE, MOST / size), seed)
        return Folded(examples.inputs, examples.targets, np.where(held, 0, 1), 1, examples.weights)
    count = min(FOLDS, size if examples.groups is None else len(np.unique(examples.groups)))
    return Folded(examples.inputs, examples.targets, _folds(examples, count, seed), count, examples.weights)


def _folds(examples: Examples, count: int, seed: int) -> np.ndarray:  # [N]
    """Deal the sequences, or their groups, to the folds, class by class."""
    rng = np.random.default_rng([seed, 17])
    targets = dense(examples.targets)
    classes = not isinstance(examples.targets, Ragged) and targets.ndim == 1 and targets.dtype.kind == "i"
    unit = np.arange(len(examples)) if examples.groups is None else np.unique(examples.groups, return_inverse=True)[1]
    order = rng.permutation(int(unit.max()) + 1)
    if classes and examples.groups is None:
        order = order[np.argsort(targets[order], kind="stable")]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) % count
    return place[unit]
