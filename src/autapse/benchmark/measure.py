"""The measurements: each checks that results are equal, then takes times, and returns one row of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from autapse.benchmark.candidate import (
    OUTPUT,
    Candidate,
    NotMeasured,
    Unequal,
    check_equal,
    check_tensors,
    own_gradients,
)
from autapse.benchmark.cases import STREAMING, TORCH, Network, Shape, find_network, find_shapes, operations
from autapse.benchmark.peers import STREAMING_PEERS, make_ours, make_peer, own_step, peer_step, torch_layer
from autapse.benchmark.settings import Settings
from autapse.benchmark.timing import Best, Gemm, interleaved, timed

Row = dict[str, Any]
SLOW = 4.0  # seconds; a longer training step of a peer is timed once
RAGGED_BATCH = 32  # sequences; ragged lengths are measured for batches of at least this size
RAGGED_CELLS = ("rnn", "gru", "lstm", "antisymmetric")


def measure_all(settings: Settings, tell: Callable[[str], None]) -> dict[str, Any]:
    """All rows that the settings ask for, and the rate of matrix products in the same run; `tell` announces each."""
    gemm = Gemm()
    results: dict[str, Any] = {"pairs": [], "ragged": [], "streaming": []}
    for kind, row in _rows(settings, tell):
        results[kind].append(row)
        gemm.measure()
    for row in results["pairs"]:
        if "train" in row:
            row["share"] = row["operations"] / row["train"]["ours"] / gemm.rate
    return results | {"gemm": {"seconds": gemm.seconds, "rate": gemm.rate}}


def _rows(settings: Settings, tell: Callable[[str], None]) -> Iterator[tuple[str, Row]]:
    for shape in find_shapes(settings.shapes):
        for network in map(find_network, settings.cells):
            for peer in (peer for peer in network.peers if peer in settings.peers):
                tell(f"{shape.name}  {network.name}  {peer}")
                if shape.name != STREAMING:
                    yield "pairs", guarded(pair, shape, network, peer, settings)
                elif peer in STREAMING_PEERS:
                    yield "streaming", guarded(streaming, shape, network, peer, settings)
            if settings.ragged and shape.batch >= RAGGED_BATCH and network.name in RAGGED_CELLS:
                tell(f"{shape.name}  {network.name}  ragged")
                yield "ragged", ragged(shape, network, settings)


def guarded(measure: Callable[..., Row], shape: Shape, network: Network, peer: str, settings: Settings) -> Row:
    """A row, with the reason if a peer cannot be measured; results that differ are an error that names the case."""
    row: Row = {"shape": shape.name, "network": network.name, "peer": peer}
    try:
        return row | measure(shape, network, peer, settings)
    except NotMeasured as reason:
        return row | {"reason": str(reason)}
    except Unequal as error:
        raise Unequal(f"{network.name} at {shape}: {error}") from error


# A layer over whole sequences -----------------------------------------------------------------------------------------


def pair(shape: Shape, network: Network, kind: str, settings: Settings) -> Row:
    """Ours and a peer: a training step and inference."""
    ours = make_ours(network, shape)
    peer = make_peer(kind, network, shape, ours, settings)
    x, gradient = data(shape)
    error = check_equal(ours, peer, x, gradient)
    once = timed(lambda: peer.train(x, gradient))
    if once > SLOW:
        train = interleaved(lambda: ours.train(x, gradient), lambda: None, 1, settings.seconds)[0], Best(once, 1)
    else:
        train = _both(ours, peer, lambda c: lambda: c.train(x, gradient), settings)
    worst = check_tensors("output in inference", ours.infer(x), peer.infer(x), OUTPUT, peer.name)
    infer = _both(ours, peer, lambda c: lambda: c.infer(x), settings)
    return {
        "against": peer.name,
        "checked": "outputs and gradients",
        "error": max(error, worst),
        "operations": operations(network, *shape[1:]),
        "train": _numbers(*train),
        "infer": _numbers(*infer),
    }


def data(shape: Shape) -> tuple[Tensor, Tensor]:
    """An input [T, B, D] and a dense gradient of the output [T, B, H]."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape.steps, shape.batch, shape.inputs, generator=generator)
    return x, torch.randn(shape.steps, shape.batch, shape.hidden, generator=generator)


def _both(
    ours: Candidate, peer: Candidate, call: Callable[[Candidate], Callable[[], object]], settings: Settings
) -> tuple[Best, Best]:
    return interleaved(call(ours), call(peer), settings.repeats, settings.seconds)


def _numbers(ours: Best, peer: Best) -> dict[str, float]:
    """Seconds, the number of calls that each is the best of, and how many times faster ours is."""
    ratio = peer.seconds / ours.seconds
    return {
        "ours": ours.seconds,
        "peer": peer.seconds,
        "ratio": ratio,
        "ours_calls": ours.calls,
        "peer_calls": peer.calls,
    }


# Sequences of different lengths ---------------------------------------------------------------------------------------


def ragged(shape: Shape, network: Network, settings: Settings) -> Row:
    """A training step on lengths uniform in 1…T and on the full batch: ours, and torch's with packing and unpacking."""
    x, gradient = data(shape)
    lengths = spread(shape)
    full = make_ours(network, shape)
    short = with_lengths(full, lengths)
    row: Row = {"shape": shape.name, "network": network.name, "valid": lengths.sum().item() / shape.steps / shape.batch}
    pairs = {"ours": (short, full)}
    if TORCH in network.peers:
        layer: Any = full.module
        theirs = torch_layer(network.name, layer)
        packing = packed(theirs, lengths)
        row |= {"error": check_equal(short, packing, x, gradient), "checked": "outputs and gradients"}
        pairs["torch"] = (packing, theirs)
    for name, (part, whole) in pairs.items():
        times = _both(part, whole, lambda c: lambda: c.train(x, gradient), settings)
        row[name] = {"ragged": times[0].seconds, "full": times[1].seconds, "part": times[0].seconds / times[1].seconds}
    return row


def spread(shape: Shape) -> Tensor:
    """Evenly spaced lengths in 1…T, shuffled: 32 random draws may be far from uniform."""
    order = torch.randperm(shape.batch, generator=torch.Generator().manual_seed(2))
    return torch.linspace(1, shape.steps, shape.batch).round().long()[order]


def with_lengths(ours: Candidate, lengths: Tensor) -> Candidate:
    layer: Any = ours.module
    return Candidate("autapse, lengths", layer, lambda x: layer(x, lengths=lengths)[0], own_gradients(layer))


def packed(theirs: Candidate, lengths: Tensor) -> Candidate:
    layer: Any = theirs.module

    def forward(x: Tensor) -> Tensor:
        sequences = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return pad_packed_sequence(layer(sequences)[0], total_length=x.shape[0])[0]

    return Candidate(f"{theirs.name}, packed", layer, forward, theirs.gradients)


# One step at a time ---------------------------------------------------------------------------------------------------


def streaming(shape: Shape, network: Network, kind: str, settings: Settings) -> Row:
    """A single step of batch 1, with the state kept."""
    ours = make_ours(network, shape)
    mine = own_step(ours)
    name, theirs = peer_step(kind, network, ours)
    inputs = torch.randn(20, 1, shape.inputs, generator=torch.Generator().manual_seed(1))
    error = max(check_tensors("output of a step", mine(x), theirs(x), OUTPUT, name) for x in inputs)
    x = inputs[0]
    times = interleaved(lambda: mine(x), lambda: theirs(x), settings.repeats, settings.seconds)
    return {"against": name, "checked": "outputs of 20 steps", "error": error, "infer": _numbers(*times)}
