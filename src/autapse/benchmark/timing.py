"""Timing: two calls in turns, the best of several; and the rate of matrix products in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

Call = Callable[[], object]
SLICE = 0.05  # seconds for one turn of a short call
LEAST = 4  # rounds, unless `repeats` is smaller
GEMM = 1024  # rows and columns


class Best(NamedTuple):
    """The best time of several calls."""

    seconds: float  # of the fastest call
    calls: int  # how many calls were timed


def timed(call: Call) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def turn(call: Call) -> Best:
    """The fastest of the calls that fit into a slice of time; one call if it takes longer than that."""
    end = time.perf_counter() + SLICE
    best, calls = timed(call), 1
    while time.perf_counter() < end:
        best, calls = min(best, timed(call)), calls + 1
    return Best(best, calls)


def interleaved(first: Call, second: Call, repeats: int, seconds: float) -> tuple[Best, Best]:
    """First, second, first, second, …: `repeats` rounds, or as many as begin within `seconds`, at least `LEAST`."""
    end = time.perf_counter() + seconds
    rounds = [(turn(first), turn(second))]
    while len(rounds) < repeats and (len(rounds) < LEAST or time.perf_counter() < end):
        rounds.append((turn(first), turn(second)))
    one, two = zip(*rounds, strict=True)
    return _best(one), _best(two)


def _best(turns: tuple[Best, ...]) -> Best:
    return Best(min(turn.seconds for turn in turns), sum(turn.calls for turn in turns))


class Gemm:
    """The rate of torch.mm on large square matrices, measured several times during a run; the best counts."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.a, self.b = (torch.randn(GEMM, GEMM, generator=generator) for _ in range(2))
        self.out = torch.empty(GEMM, GEMM)
        self.seconds = float("inf")
        self.measure()

    def measure(self) -> None:
        self.seconds = min(self.seconds, turn(lambda: torch.mm(self.a, self.b, out=self.out)).seconds)

    @property
    def rate(self) -> float:
        """Operations per second."""
        return 2 * GEMM**3 / self.seconds
