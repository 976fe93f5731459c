"""How fast the library is meant to be, as data, and whether a result reaches it.

The targets are for two threads, with torch's denormals flushed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from autapse.benchmark.cases import LOOP, PACKAGE, SHAPES, TORCH
from autapse.benchmark.settings import FLUSHED

Row = dict[str, Any]
RATIO_SHAPES = ("pixel-mnist", "har", "adding", "tagging", "large", "batch-1")

# Training step: how many times faster than (peer, network; None is every network that the peer has).
RATIOS: dict[tuple[str, str | None], tuple[float, ...]] = {
    (TORCH, "rnn"): (2.5, 2.5, 4, 2, 1.4, 20),
    (TORCH, "gru"): (3, 3, 5, 2, 1.6, 15),
    (TORCH, "lstm"): (2, 1.5, 1.5, 1.3, 1.15, 4),
    (LOOP, "antisymmetric"): (2.5, 2.5, 4, 2, 1.4, 20),
    (PACKAGE, None): (20, 10, 20, 4, 4, 30),
}
SHARE, SHARE_NETWORK, SHARE_SHAPES = 0.5, "antisymmetric", ("pixel-mnist", "large")  # relative to the rate of torch.mm
INFERENCE = 1.0  # times as fast as torch.nn, at every shape
RAGGED = 0.65  # time relative to that of full lengths, for lengths uniform in 1…T


class Target(NamedTuple):
    """A limit for a measured value."""

    limit: float
    at_least: bool  # or at most
    style: str  # how the limit and the value are written

    def verdict(self, name: str, shape: str, values: list[tuple[float, str]]) -> Iterator[Verdict]:
        """Whether the worst of (value, network) reaches the target; nothing if there is no value."""
        if values:
            value, network = min(values) if self.at_least else max(values)
            met = value >= self.limit if self.at_least else value <= self.limit
            sign, limit = ("≥" if self.at_least else "≤"), self._written(self.limit, short=True)
            yield Verdict(name, shape, f"{sign} {limit}", f"{self._written(value)} ({network})", met)

    def _written(self, value: float, short: bool = False) -> str:
        if self.style == "%":
            return f"{value:.0%}"
        return (f"{value:g}" if short else f"{value:.2f}") + self.style


class Verdict(NamedTuple):
    """A target and what was measured."""

    target: str
    shape: str
    wanted: str
    measured: str
    met: bool


def verdicts(results: Row) -> list[Verdict]:
    """One for each target that the results have a number for; the worst number counts."""
    rows = results["modes"][FLUSHED]
    return [*_ratios(rows), *_shares(rows), *_inference(rows), *_ragged(rows)]


def _ratios(rows: Row) -> Iterator[Verdict]:
    for (peer, network), floors in RATIOS.items():
        for shape, floor in zip(RATIO_SHAPES, floors, strict=True):
            chosen = [
                (row["train"]["ratio"], row["network"])
                for row in rows["pairs"]
                if "train" in row
                and row["peer"] == peer
                and row["shape"] == shape
                and network in (None, row["network"])
            ]
            name = f"training, {network or 'each cell'} against {peer}"
            yield from Target(floor, True, "×").verdict(name, shape, chosen)


def _shares(rows: Row) -> Iterator[Verdict]:
    for shape in SHARE_SHAPES:
        chosen = [
            (row["share"], row["network"])
            for row in rows["pairs"]
            if "share" in row and row["network"] == SHARE_NETWORK and row["shape"] == shape
        ]
        # The same layer was timed with each of its peers; its best time counts.
        name = f"share of torch.mm's rate, {SHARE_NETWORK}"
        yield from Target(SHARE, True, "%").verdict(name, shape, [max(chosen)] if chosen else [])


def _inference(rows: Row) -> Iterator[Verdict]:
    for shape in SHAPES:
        chosen = [
            (row["infer"]["ratio"], row["network"])
            for row in (*rows["pairs"], *rows["streaming"])
            if "infer" in row and row["peer"] == TORCH and row["shape"] == shape
        ]
        yield from Target(INFERENCE, True, "×").verdict(f"inference against {TORCH}", shape, chosen)


def _ragged(rows: Row) -> Iterator[Verdict]:
    for shape in SHAPES:
        chosen = [(row["ours"]["part"], row["network"]) for row in rows["ragged"] if row["shape"] == shape]
        yield from Target(RAGGED, False, "").verdict("ragged against full length", shape, chosen)
