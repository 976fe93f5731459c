"""Dropout acts between layers, in training, and nowhere else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import autapse
from networks import D, H, Network, every_layer, flat
from tolerance import close

T, B = 4, 3


@every_layer
def test_only_in_training(network: Network) -> None:
    torch.manual_seed(0)
    plain = network.layer(num_layers=2)
    torch.manual_seed(0)
    dropping = network.layer(num_layers=2, dropout=0.5)
    x = torch.randn(T, B, D, dtype=torch.float64)
    close(dropping.eval()(x), plain(x))
    assert not torch.allclose(dropping.train()(x)[0], plain(x)[0])


@every_layer
def test_the_first_layer_and_the_output_are_untouched(network: Network) -> None:
    """With everything dropped, the first layer's states are as ever, and the second one runs on zeros."""
    torch.manual_seed(0)
    plain = network.layer(num_layers=2)
    torch.manual_seed(0)
    dropping = network.layer(num_layers=2, dropout=1.0)
    x = torch.randn(T, B, D, dtype=torch.float64)
    _, _, expected = plain(x, return_states=True)
    _, _, found = dropping(x, return_states=True)
    close(found[0], expected[0])
    silent = [tuple(s.detach() for s in found[1])]
    _, _, again = dropping(torch.randn_like(x), return_states=True)
    close([tuple(again[1])], silent)  # whatever the input, the second layer sees nothing of it


@every_layer
def test_what_is_dropped_between_the_layers(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number between two layers is 0 or 1/(1 − p) times what it was, about half of each."""
    layer = network.layer(D, [64, 2], dropout=0.5)
    seen: list[Tensor] = []
    drive = network.cell_class.drive
    monkeypatch.setattr(network.cell_class, "drive", lambda self, x: seen.append(x) or drive(self, x))
    _, _, states = layer(torch.randn(T, B, D, dtype=torch.float64), return_states=True)
    before = states[0][0].reshape(T * B, -1)
    alive = before.abs() > 1e-9
    ratio = seen[1][alive] / before[alive]
    dropped = ratio == 0
    close(ratio[~dropped], torch.full_like(ratio[~dropped], 2.0))
    assert 0.35 < dropped.double().mean() < 0.65


@every_layer
def test_each_call_draws_anew_and_a_seed_repeats(network: Network) -> None:
    layer, x = network.layer(D, 16, num_layers=2, dropout=0.5), torch.randn(T, B, D, dtype=torch.float64)
    torch.manual_seed(1)
    first, second = layer(x), layer(x)
    torch.manual_seed(1)
    again = layer(x)
    assert not torch.equal(first[0], second[0])
    assert torch.equal(first[0], again[0])
    assert all(torch.equal(a, b) for a, b in zip(flat(first[1]), flat(again[1]), strict=True))


def test_on_one_layer_it_warns_as_torch_does() -> None:
    with pytest.warns(UserWarning, match="dropout"):
        torch.nn.GRU(D, H, dropout=0.5)
    with pytest.warns(UserWarning, match=r"dropout=0.5 has no effect: it acts between layers and num_layers is 1"):
        autapse.GRU(D, H, dropout=0.5)
