"""A peer that computes something else is found before anything is timed."""

import math

import pytest
import torch

from autapse.benchmark import measure
from autapse.benchmark.candidate import Unequal, check_equal
from autapse.benchmark.cases import NETWORKS, PACKAGE, TORCH, Shape, operations
from autapse.benchmark.peers import make_ours, make_peer
from autapse.benchmark.settings import FULL, Settings

SMALL = Shape("small", 7, 3, 2, 5)
PAIRS = [(network, peer) for network in NETWORKS.values() for peer in network.peers if peer != "compiled"]


def both(name, kind=None):
    network = NETWORKS[name]
    ours = make_ours(network, SMALL)
    return ours, make_peer(kind or network.peers[0], network, SMALL, ours, FULL)


@pytest.mark.parametrize(("network", "kind"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_every_peer_equals_ours(network, kind):
    if kind == PACKAGE:
        pytest.importorskip("torchrecurrent")
    ours, peer = both(network.name, kind)
    assert check_equal(ours, peer, *measure.data(SMALL)) < 1e-5


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm", "antisymmetric", "ugrnn"])
def test_a_wrong_weight_is_caught(name):
    ours, peer = both(name)
    with torch.no_grad():
        next(peer.module.parameters()).mul_(1.01)
    with pytest.raises(Unequal, match="output differs from that of"):
        check_equal(ours, peer, *measure.data(SMALL))


def test_a_wrong_gradient_is_caught():
    ours, peer = both("gru")
    right = peer.gradients
    peer.gradients = lambda: {name: -g if name == "bias_hh_l0" else g for name, g in right().items()}
    with pytest.raises(Unequal, match="gradient of bias_hh_l0 differs"):
        check_equal(ours, peer, *measure.data(SMALL))


def test_a_missing_gradient_and_nan_are_caught():
    ours, peer = both("gru")
    right, forward = peer.gradients, peer.forward
    peer.gradients = lambda: {name: g for name, g in right().items() if name != "bias_hh_l0"}
    with pytest.raises(Unequal, match="has gradients for"):
        check_equal(ours, peer, *measure.data(SMALL))
    peer.forward = lambda x: forward(x) * math.nan
    with pytest.raises(Unequal, match="output differs"):
        check_equal(ours, peer, *measure.data(SMALL))


def test_nothing_is_timed_where_results_differ(monkeypatch):
    """The network and the shape are named."""

    def wrong(*arguments):
        peer = make_peer(*arguments)
        torch.nn.init.zeros_(next(peer.module.parameters()))
        return peer

    monkeypatch.setattr(measure, "make_peer", wrong)
    monkeypatch.setattr(measure, "interleaved", lambda *_: pytest.fail("timed all the same"))
    with pytest.raises(Unequal, match=r"gru at T7 B3 D2 H5: output differs from that of torch.nn.GRU"):
        measure.guarded(measure.pair, SMALL, NETWORKS["gru"], TORCH, Settings())


def test_operations_of_a_gru_by_hand():
    T, B, D, H = 2, 3, 5, 7
    G = 3 * H
    assert operations(NETWORKS["gru"], T, B, D, H) == 2 * T * B * (G * (H + D) + G * H + G * (H + D))
