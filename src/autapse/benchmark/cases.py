"""What is measured: networks, what each is compared with, and the shapes of their input."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from autapse import checks

# Networks -------------------------------------------------------------------------------------------------------------

TORCH, LOOP, COMPILED, PACKAGE, REFERENCE = "torch.nn", "loop", "compiled", "torchrecurrent", "reference"
PEERS = {
    TORCH: "torch.nn's layer of the same name",
    LOOP: "a careful PyTorch loop: the drive of all steps by one addmm, then one addmm per step",
    COMPILED: "the same loop under torch.compile",
    PACKAGE: "the package torchrecurrent",
    REFERENCE: "autapse's own scan in plain PyTorch",
}


class Network(NamedTuple):
    """A network that is measured."""

    name: str  # as `autapse run --cell` takes it
    form: str
    recurrent: int  # products with an H×H matrix per step
    inputs: int  # products with an H×D matrix per step
    peers: tuple[str, ...]


NETWORKS = {
    network.name: network
    for network in (
        Network("rnn", "leaky", 1, 1, (TORCH,)),
        Network("gru", "gru", 3, 3, (TORCH,)),
        Network("lstm", "lstm", 4, 4, (TORCH,)),
        Network("antisymmetric", "leaky", 1, 1, (LOOP, COMPILED, PACKAGE)),
        Network("fastrnn", "leaky", 1, 1, (PACKAGE,)),
        Network("fastgrnn", "shared gate", 1, 1, (REFERENCE, PACKAGE)),
        Network("ugrnn", "ugrnn", 2, 2, (REFERENCE, PACKAGE)),
        Network("lstm:peepholes=True", "lstm", 4, 4, (REFERENCE, PACKAGE)),
        Network("gru:reset=before", "gru", 3, 3, (REFERENCE,)),
        Network("rin:transitions=2", "chain", 2, 1, (REFERENCE,)),
        Network("ernn:inner_steps=3", "leaky", 3, 1, (REFERENCE,)),
    )
}


def find_network(name: str) -> Network:
    """A network by its full name."""
    return NETWORKS[checks.one_of("cell", name, NETWORKS)]


def networks_of(name: str) -> tuple[str, ...]:
    """The full names that a name stands for: a layer without options stands for all its networks.

    >>> networks_of("ernn"), networks_of("gru"), networks_of("gru:reset=before")
    (('ernn:inner_steps=3',), ('gru',), ('gru:reset=before',))
    """
    below = tuple(known for known in NETWORKS if known.partition(":")[0] == name)
    return below if below and name not in NETWORKS else (find_network(name).name,)


def find_peer(name: str) -> str:
    """The name of a peer, if there is such a peer."""
    return checks.one_of("peer", name, PEERS)


def operations(network: Network, steps: int, batch: int, inputs: int, hidden: int) -> int:
    """Multiplications and additions in the matrix products of a training step.

    The forward pass and the gradient of the weights have both kinds of product. The gradient of the state has only the
    recurrent ones, since the input needs no gradient.
    """
    recurrent, driving = network.recurrent * hidden * hidden, network.inputs * hidden * inputs
    return 2 * steps * batch * (3 * recurrent + 2 * driving)


# Shapes ---------------------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """The sizes of an input and a layer."""

    name: str
    steps: int  # T
    batch: int  # B
    inputs: int  # D
    hidden: int  # H

    def __str__(self) -> str:
        sizes = f"T{self.steps} B{self.batch} D{self.inputs} H{self.hidden}"
        return f"{self.name} ({sizes})" if self.name in SHAPES else sizes


STREAMING = "streaming"  # one step at a time, batch 1, with the state kept: `layer.stream()`
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("pixel-mnist", 784, 128, 1, 128),
        Shape("har", 128, 128, 9, 80),
        Shape("adding", 400, 32, 2, 100),
        Shape("tagging", 40, 20, 256, 256),
        Shape("large", 100, 64, 64, 512),
        Shape("batch-1", 784, 1, 1, 128),
        Shape(STREAMING, 1, 1, 9, 80),
    )
}


def find_shape(name: str) -> Shape:
    """A shape by its name, or any sizes as TxBxDxH.

    >>> find_shape("12x4x3x5")
    Shape(name='12x4x3x5', steps=12, batch=4, inputs=3, hidden=5)
    """
    sizes = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", name)
    if sizes:
        return Shape(name, *map(int, sizes.groups()))
    if name not in SHAPES:
        rule = f"be TxBxDxH, as in 50x8x3x64, or one of {', '.join(SHAPES)}"
        checks.fail("shape", rule, name, checks.closest(name, SHAPES))
    return SHAPES[name]


def find_shapes(names: Iterable[str]) -> list[Shape]:
    return [find_shape(name) for name in names]
