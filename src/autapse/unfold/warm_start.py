"""Solutions: the last solution of each sequence, kept by key in limited memory. Its next solve starts there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor

from autapse import checks
from autapse.sequences.batch import SequenceBatch
from autapse.sequences.red_black import RedBlackOrder

MEGABYTE = 1 << 20


class Solutions:
    """States by (layer, key), in half precision, which is enough for the start of a solve.

    When the memory is full, no new sequence is added. Training reads all sequences again and again, so replacing the
    oldest ones would remove each of them just before it is needed.
    """

    def __init__(self, megabytes: float) -> None:
        self.limit = int(megabytes * MEGABYTE)
        self.bytes = 0
        self.kept: dict[tuple[int, Hashable], Tensor] = {}  # [n, S], the states of n positions

    def __len__(self) -> int:
        return len(self.kept)

    def checked_keys(self, keys: Sequence[Any] | Tensor, batch: SequenceBatch) -> list[Hashable]:
        """The keys that a caller gave, in the order of the batch."""
        names = keys.tolist() if isinstance(keys, Tensor) else list(keys)
        if len(names) != batch.count:
            checks.fail("keys", f"be one per sequence, {batch.count} in all", len(names))
        if not all(isinstance(name, Hashable) for name in names):
            checks.fail("keys", "be hashable, such as numbers or words", names[:3])
        if not self.limit:
            checks.fail(
                "keys", "be used with a layer that has a cache", names[:3], "Build it with cache=256 (megabytes)."
            )
        return names if batch.order is None else [names[n] for n in batch.order.tolist()]

    def clear(self) -> None:
        """Remove all solutions, for example after new weights were loaded."""
        self.kept.clear()
        self.bytes = 0

    def put(self, layer: int, key: Hashable, states: Tensor) -> None:
        """Keep a copy, if there is enough memory."""
        old = self.kept.pop((layer, key), None)
        self.bytes -= 0 if old is None else old.nbytes
        copy = states.half()
        if self.bytes + copy.nbytes <= self.limit and bool(copy.isfinite().all()):
            self.kept[layer, key] = copy
            self.bytes += copy.nbytes

    def start(self, layer: int, keys: list[Hashable], order: RedBlackOrder, like: Tensor) -> Tensor | None:  # [N, S]
        """The last solutions, zero for sequences without one; None if no sequence has one. `like` has S columns."""
        size, first = like.shape[1], None
        for n, (key, length) in enumerate(zip(keys, order.lengths.tolist(), strict=True)):
            states = self.kept.get((layer, key))
            if states is not None and states.shape == (length, size):
                first = like.new_zeros(order.total, size) if first is None else first
                first[order.rows_of(n)] = states.to(first)
        return first

    def store(self, layer: int, keys: list[Hashable], order: RedBlackOrder, z: Tensor) -> None:
        """Keep the solutions z of a batch."""
        states = z.detach()
        for n, key in enumerate(keys):
            self.put(layer, key, states[order.rows_of(n)])

    def state_dict(self) -> dict[str, Tensor]:
        """All solutions as tensors by name, for a checkpoint. The keys must be integers."""
        return {f"{layer}.{key}": states for (layer, key), states in self.kept.items()}

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        self.clear()
        for name, states in tensors.items():
            layer, key = name.split(".")
            self.put(int(layer), int(key), states)
