"""What to measure; the measuring processes and the results get it as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from autapse import checks
from autapse.benchmark.cases import LOOP, NETWORKS, PEERS, REFERENCE, SHAPES, TORCH, find_network, find_peer, find_shape
from autapse.records import Record

FLUSHED, DEFAULT = "flushed", "default"
MODES = {
    FLUSHED: "torch with denormals flushed",
    DEFAULT: "torch with its default settings",
}
LISTS: dict[str, tuple[Callable[[str], object], Iterable[str]]] = {
    "shapes": (find_shape, SHAPES),
    "cells": (find_network, NETWORKS),
    "peers": (find_peer, PEERS),
}


@dataclass(frozen=True)
class Settings(Record):
    """What to measure, and for how long."""

    shapes: tuple[str, ...] = tuple(SHAPES)
    cells: tuple[str, ...] = ("rnn", "gru", "lstm", "antisymmetric")
    peers: tuple[str, ...] = (TORCH, LOOP, REFERENCE)
    repeats: int = 3  # rounds of ours, peer, ours, peer, ...
    seconds: float = 2.0  # time limit per comparison: no round begins after it
    threads: int | None = None  # torch's default
    ragged: bool = True  # also measure sequences of different lengths
    compile_seconds: float = 300.0  # time limit of torch.compile
    compile_steps: int = 64  # longer loops are not compiled: the time to compile grows with T

    def __post_init__(self) -> None:
        for name, (find, choices) in LISTS.items():
            values = getattr(self, name)
            if not values:
                checks.fail(name, f"name at least one of {', '.join(choices)}", "")
            for value in values:
                find(value)
        checks.integer("repeats", self.repeats, minimum=1)
        checks.number("seconds", self.seconds, above=0.0)
        if self.threads is not None:
            checks.integer("threads", self.threads, minimum=1)

    def for_mode(self, mode: str) -> Settings:
        """Without flushing, torch is many times slower: only torch.nn and the loop then, in fewer rounds."""
        kept = tuple(peer for peer in self.peers if peer in (TORCH, LOOP))
        if mode != DEFAULT or not kept:
            return self
        return replace(self, peers=kept, repeats=min(self.repeats, 3), ragged=False)


QUICK = Settings(seconds=1.5, ragged=False)
FULL = Settings(cells=tuple(NETWORKS), peers=tuple(PEERS), repeats=10, seconds=4.0)
TIMES = {QUICK: "a few minutes", FULL: "one to two hours"}  # on two cores
