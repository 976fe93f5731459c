"""What is measured: one network or more of every form, and what each is compared with."""

from __future__ import annotations

from typing import NamedTuple

from autapse import checks

TORCH, LOOP, COMPILED, PACKAGE, REFERENCE = "torch.nn", "loop", "compiled", "torchrecurrent", "reference"
PEERS = {
    TORCH: "torch.nn's layer of the same name",
    LOOP: "a careful PyTorch loop: the drive of all steps by one addmm, then one addmm per step",
    COMPILED: "the same loop under torch.compile",
    PACKAGE: "the package torchrecurrent",
    REFERENCE: "autapse's own scan in plain PyTorch",
}


class Network(NamedTuple):
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
    return NETWORKS[checks.one_of("cell", name, NETWORKS)]


def find_peer(name: str) -> str:
    return checks.one_of("peer", name, PEERS)


def operations(network: Network, steps: int, batch: int, inputs: int, hidden: int) -> int:
    """Multiplications and additions in the matrix products of a training step.

    Forward and the gradient of the weights have both kinds of product. The gradient of the state has the recurrent ones
    only, since the input needs no gradient.
    """
    recurrent, driving = network.recurrent * hidden * hidden, network.inputs * hidden * inputs
    return 2 * steps * batch * (3 * recurrent + 2 * driving)
