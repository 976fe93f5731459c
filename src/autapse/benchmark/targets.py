"""The bars: how fast the library is to be, as data, and whether a result meets them.

They hold for two threads, with torch's denormals flushed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from autapse.benchmark.networks import LOOP, PACKAGE, TORCH
from autapse.benchmark.settings import FLUSHED
from autapse.benchmark.shapes import SHAPES

Row = dict[str, Any]
RATIO_SHAPES = ("pixel-mnist", "har", "adding", "tagging", "large", "batch-1")

# Training step: how many times quicker than (peer, network; None is every network that the peer has).
RATIOS: dict[tuple[str, str | None], tuple[float, ...]] = {
    (TORCH, "rnn"): (2.5, 2.5, 4, 2, 1.4, 20),
    (TORCH, "gru"): (3, 3, 5, 2, 1.6, 15),
    (TORCH, "lstm"): (2, 1.5, 1.5, 1.3, 1.15, 4),
    (LOOP, "antisymmetric"): (2.5, 2.5, 4, 2, 1.4, 20),
    (PACKAGE, None): (20, 10, 20, 4, 4, 30),
}
SHARE, SHARE_NETWORK, SHARE_SHAPES = 0.5, "antisymmetric", ("pixel-mnist", "large")  # of the rate of torch.mm
INFERENCE = 1.0  # times as quick as torch.nn, at every shape
RAGGED = 0.65  # of the full-length time, for lengths uniform in 1…T


class Verdict(NamedTuple):
    bar: str
    shape: str
    wanted: str
    found: str
    met: bool


def verdicts(results: Row) -> list[Verdict]:
    """One for each bar that the results have a number for; the worst number counts."""
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
            yield from _worst(name, shape, chosen, floor, min, "≥ {:g}×", "{:.2f}×")


def _shares(rows: Row) -> Iterator[Verdict]:
    for shape in SHARE_SHAPES:
        chosen = [
            (row["share"], row["network"])
            for row in rows["pairs"]
            if "share" in row and row["network"] == SHARE_NETWORK and row["shape"] == shape
        ]
        # The same layer was timed against each of its peers; its best time counts.
        name = f"share of torch.mm's rate, {SHARE_NETWORK}"
        yield from _worst(name, shape, [max(chosen)] if chosen else [], SHARE, min, "≥ {:.0%}", "{:.0%}")


def _inference(rows: Row) -> Iterator[Verdict]:
    for shape in SHAPES:
        chosen = [
            (row["infer"]["ratio"], row["network"])
            for row in (*rows["pairs"], *rows["streaming"])
            if "infer" in row and row["peer"] == TORCH and row["shape"] == shape
        ]
        yield from _worst(f"inference against {TORCH}", shape, chosen, INFERENCE, min, "≥ {:g}×", "{:.2f}×")


def _ragged(rows: Row) -> Iterator[Verdict]:
    for shape in SHAPES:
        chosen = [(row["ours"]["part"], row["network"]) for row in rows["ragged"] if row["shape"] == shape]
        yield from _worst("ragged against full length", shape, chosen, RAGGED, max, "≤ {:g}", "{:.2f}")


def _worst(
    bar: str,
    shape: str,
    chosen: list[tuple[float, str]],
    limit: float,
    worst: Callable[[list[tuple[float, str]]], tuple[float, str]],
    wanted: str,
    found: str,
) -> Iterator[Verdict]:
    if chosen:
        value, network = worst(chosen)
        met = value >= limit if worst is min else value <= limit
        yield Verdict(bar, shape, wanted.format(limit), f"{found.format(value)} ({network})", met)
