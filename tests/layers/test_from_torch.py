"""autapse.from_torch: a torch.nn module as ours, with everything that belongs to it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import autapse
from networks import D, H
from tolerance import TOLERANCE, close

MODULES: list[tuple[type, dict[str, Any]]] = [
    (torch.nn.RNN, {}),
    (torch.nn.RNN, {"nonlinearity": "relu", "num_layers": 2, "bidirectional": True}),
    (torch.nn.GRU, {"bias": False, "batch_first": True}),
    (torch.nn.GRU, {"num_layers": 3, "dropout": 0.5}),
    (torch.nn.LSTM, {"bidirectional": True}),
    (torch.nn.LSTM, {"proj_size": 2, "num_layers": 2, "batch_first": True}),
]
every_module = pytest.mark.parametrize(
    ("module_class", "options"), MODULES, ids=[f"{c.__name__}{o or ''}" for c, o in MODULES]
)


@every_module
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_same_results(module_class: type, options: dict[str, Any], dtype: torch.dtype, training: bool) -> None:
    theirs = module_class(D, H, dtype=dtype, **options).train(training)
    layer = autapse.from_torch(theirs)
    assert type(layer) is getattr(autapse, module_class.__name__)
    assert layer.training == training
    assert {p.dtype for p in layer.parameters()} == {dtype}
    x = torch.randn(4, 5, D, dtype=dtype)
    packed = pack_padded_sequence(x, torch.tensor([2, 5, 4, 1]), batch_first=True, enforce_sorted=False)
    for given in (x, x[0], packed):
        torch.manual_seed(0)
        expected = theirs(given)
        torch.manual_seed(0)
        found = layer(given)
        close(found[1], expected[1])
        close(getattr(found[0], "data", found[0]), getattr(expected[0], "data", expected[0]))


@every_module
def test_settings_are_kept(module_class: type, options: dict[str, Any]) -> None:
    theirs = module_class(D, H, **options)
    layer = autapse.from_torch(theirs)
    for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(layer, name) == getattr(theirs, name), name
    assert layer.proj_size == theirs.proj_size if module_class is torch.nn.LSTM else True


def test_weights_are_a_copy() -> None:
    theirs = torch.nn.GRU(D, H)
    layer = autapse.from_torch(theirs)
    with torch.no_grad():
        theirs.weight_hh_l0.zero_()
    assert layer.weight_hh_l0.abs().max() > 0


def test_frozen_weights_stay_frozen() -> None:
    theirs = torch.nn.LSTM(D, H, num_layers=2)
    theirs.weight_hh_l1.requires_grad_(False)
    layer = autapse.from_torch(theirs)
    frozen = [name for name, parameter in layer.named_parameters() if not parameter.requires_grad]
    assert frozen == ["weight_hh_l1"]


def test_random_state_is_untouched() -> None:
    theirs = torch.nn.GRU(D, H)
    before = torch.get_rng_state()
    autapse.from_torch(theirs)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_on_one_layer_does_not_warn_again() -> None:
    with pytest.warns(UserWarning, match="dropout"):
        theirs = torch.nn.GRU(D, H, dropout=0.5)
    assert autapse.from_torch(theirs).dropout == 0.5  # warnings are errors in these tests


@pytest.mark.parametrize(
    "module", [torch.nn.Linear(2, 2), torch.nn.GRUCell(2, 2), None], ids=["Linear", "Cell", "None"]
)
def test_other_modules_are_an_error(module: Any) -> None:
    message = f"module must be a torch.nn.RNN, GRU or LSTM; got '{type(module).__name__}'."
    with pytest.raises(TypeError, match=re.escape(message)):
        autapse.from_torch(module)
