"""Solutions: the last solution of each sequence, kept by key within a bound of memory, where its next solve begins."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor

from autapse import checks
from autapse.sequences.batch import SequenceBatch
from autapse.sequences.red_black import RedBlack

MEGABYTE = 1 << 20


class Solutions:
    """States by (layer, key), as half precision: they are only where a solve begins.

    When the memory is full no new sequence is let in. Epochs go round and round, so to let in each new one for the
    oldest would lose every one of them just before it is wanted.
    """

    def __init__(self, megabytes: float) -> None:
        self.limit = int(megabytes * MEGABYTE)
        self.bytes = 0
        self.kept: dict[tuple[int, Hashable], Tensor] = {}  # [n, S], position by position

    def __len__(self) -> int:
        return len(self.kept)

    def open(self, keys: Sequence[Any] | Tensor | None, batch: SequenceBatch) -> Opened:
        """The part of the solutions that a batch is concerned with."""
        if keys is None:
            return Opened(self, None)
        names = keys.tolist() if isinstance(keys, Tensor) else list(keys)
        if len(names) != batch.count:
            checks.fail("keys", f"be one per sequence, {batch.count} in all", len(names))
        if not all(isinstance(name, Hashable) for name in names):
            checks.fail("keys", "be names that can be looked up, such as numbers or words", names[:3])
        if not self.limit:
            checks.fail(
                "keys", "go with a layer that keeps solutions", names[:3], "Build it with cache=256 (megabytes)."
            )
        order = range(batch.count) if batch.order is None else batch.order.tolist()
        return Opened(self, [names[n] for n in order])

    def clear(self) -> None:
        """Forget all, as where the weights are replaced."""
        self.kept.clear()
        self.bytes = 0

    def get(self, layer: int, key: Hashable) -> Tensor | None:
        return self.kept.get((layer, key))

    def put(self, layer: int, key: Hashable, states: Tensor) -> None:
        """Keep a copy, where there is room."""
        old = self.kept.pop((layer, key), None)
        self.bytes -= 0 if old is None else old.nbytes
        copy = states.half()
        if self.bytes + copy.nbytes <= self.limit and bool(copy.isfinite().all()):
            self.kept[layer, key] = copy
            self.bytes += copy.nbytes

    def state_dict(self) -> dict[str, Tensor]:
        """All of it as tensors by name, for a checkpoint; for keys that are integers."""
        return {f"{layer}.{key}": states for (layer, key), states in self.kept.items()}

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        self.clear()
        for name, states in tensors.items():
            layer, key = name.split(".")
            self.put(int(layer), int(key), states)


class Opened:
    """The solutions for one batch: `keys` are in the batch's own order of sequences."""

    def __init__(self, solutions: Solutions, keys: list[Hashable] | None) -> None:
        self.solutions, self.keys = solutions, keys

    def start(self, layer: int, lattice: RedBlack, size: int, like: Tensor) -> Tensor | None:  # [N, S]
        """What is known of the batch, zero where nothing is; None where nothing is of any."""
        if self.keys is None:
            return None
        found = [self.solutions.get(layer, key) for key in self.keys]
        fits = [
            states is not None and states.shape == (length, size)
            for states, length in zip(found, lattice.lengths.tolist(), strict=True)
        ]
        if not any(fits):
            return None
        begin = like.new_zeros(lattice.total, size)
        for n, (states, fit) in enumerate(zip(found, fits, strict=True)):
            if fit and states is not None:
                begin[lattice.rows_of(n)] = states.to(begin)
        return begin

    def store(self, layer: int, lattice: RedBlack, z: Tensor) -> None:
        """Keep what was found, where it was."""
        if self.keys is None:
            return
        states = z.detach()
        for n, key in enumerate(self.keys):
            self.solutions.put(layer, key, states[lattice.rows_of(n)])
