"""What a measurement is asked to do; travels to the measuring processes, and into the results, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from autapse import checks
from autapse.benchmark.networks import LOOP, NETWORKS, PEERS, REFERENCE, TORCH, find_network, find_peer
from autapse.benchmark.shapes import SHAPES, find_shape

FLUSHED, DEFAULT = "flushed", "default"
MODES = {
    FLUSHED: "torch with denormals flushed",
    DEFAULT: "torch as users get it",
}
LISTS: dict[str, tuple[Callable[[str], object], Iterable[str]]] = {
    "shapes": (find_shape, SHAPES),
    "cells": (find_network, NETWORKS),
    "peers": (find_peer, PEERS),
}


@dataclass(frozen=True)
class Settings:
    shapes: tuple[str, ...] = tuple(SHAPES)
    cells: tuple[str, ...] = ("rnn", "gru", "lstm", "antisymmetric")
    peers: tuple[str, ...] = (TORCH, LOOP, REFERENCE)
    repeats: int = 3  # rounds of ours, peer, ours, peer, ...
    seconds: float = 2.0  # after which a pair has no further round
    threads: int | None = None  # torch's default
    ragged: bool = True  # sequences of different lengths too
    compile_seconds: float = 300.0  # after which torch.compile is given up
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
        """What users get without flushing is many times slower: torch.nn and the loop only, in fewer rounds."""
        kept = tuple(peer for peer in self.peers if peer in (TORCH, LOOP))
        if mode != DEFAULT or not kept:
            return self
        return replace(self, peers=kept, repeats=min(self.repeats, 3), ragged=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Settings:
        lists: dict[str, Any] = {name: tuple(content[name]) for name in LISTS}
        return cls(**{**content, **lists})


QUICK = Settings(seconds=1.5, ragged=False)
FULL = Settings(cells=tuple(NETWORKS), peers=tuple(PEERS), repeats=10, seconds=4.0)
TIMES = {QUICK: "a few minutes", FULL: "half an hour to an hour"}  # on two cores
