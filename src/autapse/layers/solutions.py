"""Solutions: the last solution of each sequence, kept by key within a bound of memory, to start the next solve from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor

from autapse import checks
from autapse.layers.batch import Batch
from autapse.unfold.lattice import Lattice

MEGABYTE = 1 << 20


class Solutions:
    """States by (layer, key); those not used for longest make room."""

    def __init__(self, megabytes: float) -> None:
        self.limit = int(megabytes * MEGABYTE)
        self.bytes = 0
        self.kept: OrderedDict[tuple[int, Hashable], Tensor] = OrderedDict()  # [n, S], position by position

    def __len__(self) -> int:
        return len(self.kept)

    def open(self, keys: Sequence[Any] | Tensor | None, batch: Batch) -> Opened:
        """The part of the solutions that a batch is concerned with."""
        if keys is None:
            return Opened(self, None)
        names = keys.tolist() if isinstance(keys, Tensor) else list(keys)
        if len(names) != batch.count:
            checks.fail("keys", f"be one per sequence, {batch.count} in all", len(names))
        if not self.limit:
            checks.fail("keys", "go with a layer that keeps solutions", names[:3], "Build it with cache=256 (megabytes).")
        order = range(batch.count) if batch.order is None else batch.order.tolist()
        return Opened(self, [names[n] for n in order])

    def clear(self) -> None:
        """Forget all, as where the weights are replaced."""
        self.kept.clear()
        self.bytes = 0

    def get(self, layer: int, key: Hashable) -> Tensor | None:
        found = self.kept.get((layer, key))
        if found is not None:
            self.kept.move_to_end((layer, key))
        return found

    def put(self, layer: int, key: Hashable, states: Tensor) -> None:
        """Keep a copy, where it fits at all."""
        old = self.kept.pop((layer, key), None)
        self.bytes -= 0 if old is None else old.nbytes
        if states.nbytes > self.limit:
            return
        self.kept[layer, key] = states
        self.bytes += states.nbytes
        while self.bytes > self.limit:
            self.bytes -= self.kept.popitem(last=False)[1].nbytes


class Opened:
    """The solutions for one batch: `keys` are in the batch's own order of sequences."""

    def __init__(self, solutions: Solutions, keys: list[Hashable] | None) -> None:
        self.solutions, self.keys = solutions, keys

    def start(self, layer: int, lattice: Lattice, size: int, like: Tensor) -> Tensor | None:  # [N, S]
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

    def store(self, layer: int, lattice: Lattice, z: Tensor) -> None:
        """Keep what was found, where it was."""
        if self.keys is None:
            return
        states = z.detach()
        for n, key in enumerate(self.keys):
            self.solutions.put(layer, key, states[lattice.rows_of(n)])
