"""Layers as nn.Modules: saving, copying, moving, replacing parameters, showing themselves."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import pydoc
from typing import Any

import pytest
import torch
from torch.nn.utils import parametrize

import autapse
from networks import COMPOSED_VARIANTS, SOLVED, VARIANTS, D, H, Network, every_layer, every_variant, flat
from tolerance import close

T, B = 4, 3


def draw(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(T, B, D, dtype=dtype)


def assert_equal(found: Any, expected: Any) -> None:
    assert all(torch.equal(a, b) for a, b in zip(flat(found), flat(expected), strict=True))


@every_variant
def test_state_dict_round_trip(network: Network) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    other = network.layer(num_layers=2, bidirectional=True)
    x = draw()
    assert not torch.equal(layer(x)[0], other(x)[0])
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert_equal(other(x), layer(x))


def test_sampled_time_constants_are_in_the_state_dict() -> None:
    assert "cells.l0.rate" in autapse.LeakyRNN(D, H, tau=(2.0, 50.0)).state_dict()


@every_layer
def test_a_wrong_state_dict_is_an_error(network: Network) -> None:
    layer = network.layer()
    state = dict(layer.state_dict())
    name = next(iter(state))
    with pytest.raises(RuntimeError, match="Missing key"):
        layer.load_state_dict({k: v for k, v in state.items() if k != name})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        layer.load_state_dict(state | {"nonsense": state[name]})
    with pytest.raises(RuntimeError, match="size mismatch"):
        layer.load_state_dict(state | {name: torch.zeros(7, 7)})


@every_variant
@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_are_equal_and_independent(network: Network, how: Any) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    x = draw()
    before = layer(x)
    layer(x)[0].sum().backward()  # a module that has been used copies as well
    twin = how(layer)
    assert repr(twin) == repr(layer)
    assert_equal(twin(x), before)
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in layer.named_parameters()]
    assert not {p.data_ptr() for p in twin.parameters()} & {p.data_ptr() for p in layer.parameters()}
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    assert_equal(layer(x), before)
    assert not torch.equal(twin(x)[0], before[0])
    twin.reset_parameters()
    assert_equal(layer(x), before)


def dtypes_of(layer: Any) -> set[torch.dtype]:
    """Those of the weights. A sparse matrix also has indices."""
    return {p.dtype for p in [*layer.parameters(), *layer.buffers()] if p.is_floating_point()}


@every_variant
def test_dtype_moves(network: Network) -> None:
    layer, x = network.layer(num_layers=2, bidirectional=True), draw()
    expected = layer(x)
    single = copy.deepcopy(layer).to(torch.float32)
    assert dtypes_of(single) == {torch.float32}
    output, h_n = single(x.float())
    close([output, *flat(h_n)], [e.float() for e in [expected[0], *flat(expected[1])]])
    assert {p.dtype for p in single.double().parameters()} == {torch.float64}
    close([v.float() for v in [single(x)[0]]], [output])


@every_variant
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dtype_at_construction(network: Network, dtype: torch.dtype) -> None:
    layer = network.layer_class(D, H, dtype=dtype, **network.options)
    assert dtypes_of(layer) == {dtype}
    output, h_n = layer(draw(dtype))
    assert {v.dtype for v in [output, *flat(h_n)]} == {dtype}


@every_variant
def test_meta_device(network: Network) -> None:
    """Built without memory, shaped, then given memory and weights."""
    hollow = network.layer_class(D, H, num_layers=2, bidirectional=True, device="meta", **network.options)
    assert {p.device.type for p in [*hollow.parameters(), *hollow.buffers()]} == {"meta"}
    output, h_n = hollow(torch.zeros(T, B, D, device="meta"))
    real = network.layer_class(D, H, num_layers=2, bidirectional=True, **network.options)
    x = draw(torch.float32)
    expected = real(x)
    assert [v.shape for v in [output, *flat(h_n)]] == [v.shape for v in [expected[0], *flat(expected[1])]]
    filled = hollow.to_empty(device="cpu")
    filled.load_state_dict(real.state_dict())
    assert_equal(filled(x), expected)


@every_layer
def test_reset_parameters_redraws_all(network: Network) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    identity = {name: id(p) for name, p in layer.named_parameters()}
    layer.reset_parameters()
    for name, parameter in layer.named_parameters():
        assert not torch.equal(parameter, before[name]), name
        assert id(parameter) == identity[name], "an optimizer must keep its hold on the parameter"


@every_layer
def test_functional_call(network: Network) -> None:
    layer, x = network.layer(num_layers=2, bidirectional=True), draw()
    other = network.layer(num_layers=2, bidirectional=True)
    before = layer(x)
    assert_equal(torch.func.functional_call(layer, dict(other.named_parameters()), (x,)), other(x))
    assert_equal(layer(x), before)


@every_layer
def test_per_sample_gradients(network: Network) -> None:
    """torch.func.grad through functional_call gives what backward gives."""
    layer, x = network.layer(), draw()
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(values: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(layer, values, (x,))[0].square().sum()

    found = torch.func.grad(loss)(parameters)
    layer(x)[0].square().sum().backward()
    close([found[name] for name in parameters], [p.grad for p in layer.parameters()])


@every_layer
@pytest.mark.parametrize("assign", [True, False])
def test_load_state_dict_takes_effect(network: Network, assign: bool) -> None:
    layer, other, x = network.layer(num_layers=2), network.layer(num_layers=2), draw()
    state = {name: value.clone() for name, value in other.state_dict().items()}
    layer.load_state_dict(state, assign=assign)
    assert_equal(layer(x), other(x))
    shared = {v.data_ptr() for v in state.values()} & {p.data_ptr() for p in layer.parameters()}
    assert bool(shared) == assign
    layer(x)[0].sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


class Halved(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("reference", [False, True])
def test_parametrization_of_a_torch_compatible_layer(name: str, reference: bool) -> None:
    layer = getattr(autapse, name)(D, H, dtype=torch.float64)
    halved = copy.deepcopy(layer)
    with torch.no_grad():
        halved.weight_hh_l0.div_(2)
    parametrize.register_parametrization(layer, "weight_hh_l0", Halved())
    x = draw()
    found, expected = layer(x, return_states=reference), halved(x)
    close(found[:2], expected)
    found[0].sum().backward()
    expected[0].sum().backward()
    close(layer.parametrizations.weight_hh_l0.original.grad, halved.weight_hh_l0.grad / 2)
    parametrize.remove_parametrizations(layer, "weight_hh_l0", leave_parametrized=True)
    close(layer(x), expected)


def test_parametrization_of_any_other_layer() -> None:
    layer = autapse.RIN(D, H, dtype=torch.float64)
    halved = copy.deepcopy(layer)
    with torch.no_grad():
        halved.cells["l0"].weight_hh.div_(2)
    parametrize.register_parametrization(layer.cells["l0"], "weight_hh", Halved())
    x = draw()
    close(layer(x), halved(x))


def test_replacing_a_parameter_takes_effect() -> None:
    layer = autapse.GRU(D, H, dtype=torch.float64)
    x = draw()
    layer.weight_hh_l0 = torch.nn.Parameter(torch.zeros(3 * H, H, dtype=torch.float64))
    theirs = torch.nn.GRU(D, H, dtype=torch.float64)
    theirs.load_state_dict(layer.state_dict())
    close(layer(x), theirs(x))


@every_layer
def test_optimizers_reach_every_parameter(network: Network) -> None:
    layer, x = network.layer(num_layers=2), draw()
    before = layer(x)[0].square().sum()
    before.backward()
    slope = torch.cat([parameter.grad.flatten() for parameter in layer.parameters()]).norm()
    # A step of one length, whatever the gradient: near a fold of an equilibrium the gradient has no limit.
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-5 / float(slope))
    optimizer.step()
    assert layer(x)[0].square().sum() < before


@every_layer
def test_parameters_are_registered_once(network: Network) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    pointers = [p.data_ptr() for p in layer.parameters()]
    assert len(pointers) == len(set(pointers))
    assert len(list(layer.named_parameters(remove_duplicate=False))) == len(pointers)


@every_variant
def test_repr_is_one_line(network: Network) -> None:
    words = repr(network.layer_class(D, H, num_layers=2, bidirectional=True, batch_first=True, **network.options))
    assert "\n" not in words
    assert words.startswith(f"{network.name}({D}, {H}, num_layers=2, batch_first=True, bidirectional=True")
    for name in network.options:
        assert f"{name}=" in words


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (autapse.RIN(D, H), f"RIN({D}, {H})"),
        (autapse.RIN(D, [5, 6]), f"RIN({D}, [5, 6], num_layers=2)"),
        (autapse.GRU(D, H, bias=False), f"GRU({D}, {H}, bias=False)"),
        (autapse.GRU(D, H, 2, dropout=0.5), f"GRU({D}, {H}, num_layers=2, dropout=0.5)"),
        (autapse.Antisymmetric(D, H, step=0.5, gated=True), f"Antisymmetric({D}, {H}, step=0.5, gated=True)"),
        (autapse.Recurrent(autapse.cells.RIN, D, H, transitions=2), f"Recurrent(RIN, {D}, {H}, transitions=2)"),
    ],
    ids=str,
)
def test_repr_shows_what_differs_from_the_defaults(layer: Any, expected: str) -> None:
    assert repr(layer) == expected


COMMON = "input_size hidden_size num_layers bias batch_first dropout bidirectional device dtype".split()
COMMON += ["checkpoint_every", "clip_hidden", "information_flow", "unfold"]
EQUILIBRIUM = {
    "solver": None, "rtol": None, "gradient": None, "inner_steps": None, "eta": "shared", "max_length": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RNN", {"nonlinearity": "tanh"}),
        ("IRNN", {}),
        ("RIN", {"transitions": 1}),
        ("LSTM", {"peepholes": False, "forget_bias": None, "proj_size": 0, "longest": None}),
        ("GRU", {"reset": "after", "gates": "local", "longest": None}),
        ("UGRNN", {}),
        ("FastRNN", {"nonlinearity": "tanh"}),
        ("FastGRNN", {"input_rank": None, "hidden_rank": None}),
        (
            "Antisymmetric",
            {
                "step": 0.1,
                "diffusion": 0.01,
                "gated": False,
                "structured": True,
                "init_scale": 1.0,
                "nonlinearity": "tanh",
                "integrator": "euler",
            },
        ),
        ("CFN", {}),
        ("GORU", {"parametrization": "rotations", "capacity": None}),
        ("KRU", {"factors": None, "nonlinearity": "modrelu", "field": "complex"}),
        (
            "ERNN",
            {"inner_steps": 1, "eta": "shared", "max_length": None, "nonlinearity": "relu", "alignment": "first_order"},
        ),
        ("OrthogonalRNN", {"parametrization": "exp", "capacity": None, "nonlinearity": "modrelu", "field": "real"}),
        ("SpectralRNN", {"radius": 0.01, "reflections": None, "nonlinearity": "tanh"}),
        ("LeakyRNN", {"tau": 10.0, "learn_tau": False, "nonlinearity": "tanh", "form": "state", "groups": None}),
        ("Delayed", {"cell": "rnn", "delays": (1, 8)}),
        ("Clockwork", {"periods": (1, 2, 4, 8), "nonlinearity": "tanh"}),
        (
            "Deep",
            {
                "cell": "rnn",
                "input_depth": 0,
                "transition_depth": 1,
                "output_depth": 0,
                "skip": False,
                "width": None,
                "nonlinearity": None,
                "groups": 1,
                "group_input": "all",
                "group_output": "all",
            },
        ),
        ("EquilibriumTanh", {"floor": 1e-3, **EQUILIBRIUM}),
        ("EquilibriumLinear", {"alignment": "exact", **EQUILIBRIUM}),
    ],
)
def test_signature_and_help_show_the_contract(name: str, options: dict[str, Any]) -> None:
    layer_class = getattr(autapse, name)
    parameters = inspect.signature(layer_class).parameters
    assert list(parameters) == [*COMMON, *options]
    assert {option: parameters[option].default for option in options} == options
    defaults = {"num_layers": None, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
    assert {n: parameters[n].default for n in defaults} == defaults
    text = pydoc.plain(pydoc.render_doc(layer_class))
    assert getattr(autapse.cells, name).__doc__.splitlines()[0] in text, "the equation should be in help()"


@every_layer
def test_named_in_the_package(network: Network) -> None:
    assert network.name in dir(autapse)
    assert network.layer_class.__name__ == network.name
    assert issubclass(network.layer_class, autapse.Recurrent)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'autapse' has no attribute 'Nonsense'"):
        _ = autapse.Nonsense


@pytest.mark.parametrize(
    "network",
    [n for n in [*VARIANTS, *SOLVED, *COMPOSED_VARIANTS] if n.name != "LSTM" or "peepholes" in n.options],
    ids=str,
)
def test_autocast(network: Network) -> None:
    """Mixed precision: float32 weights and input, products in bfloat16, and gradients in float32.

    Not for torch's own LSTM op, which on some processors has no bfloat16, in torch.nn.LSTM either.
    """
    layer = network.layer(num_layers=2, bidirectional=True, dtype=torch.float32)
    x = draw(torch.float32)
    expected = layer(x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(x)[0]
    assert (output.float() - expected).abs().max() < 0.2 * max(1.0, float(expected.detach().abs().max()))
    output.float().square().sum().backward()
    assert {p.grad.dtype for p in layer.parameters() if p.grad is not None} == {torch.float32}
