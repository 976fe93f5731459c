"""Clipping at hidden states and the regulariser for information flow, against loops written from the equations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse import checks
from autapse.layers.backward import set_backward
from autapse.native.operands import KERNELS
from autapse.unfold import Parallel, Scan
from networks import (
    BESIDE_MEMORY,
    COMPOSED_VARIANTS,
    IN_PARTS,
    SOLVED,
    STEPPED_VARIANTS,
    VARIANTS,
    Network,
    perturb,
    raw,
)
from tolerance import close

D, H, LENGTHS = 3, 4, [5, 3, 1, 0]
# A network that decides to skip steps has an estimate of a gradient, which is not that of its equation.
STEPPED = [n for n in STEPPED_VARIANTS if n.name != "SkipRNN"]
EXPLICIT = [*VARIANTS, *COMPOSED_VARIANTS, *IN_PARTS, *STEPPED, *BESIDE_MEMORY]


def has_one_product(network: Network) -> bool:
    cell = network.cell()
    form = cell.fused(cell.prepare())
    return type(form) in KERNELS and form.reads_by_one_product


def made(network: Network, **options: Any) -> tuple[Any, Tensor, Tensor]:
    """A layer, its input, and what its outputs are multiplied by to give the loss."""
    layer = network.layer(D, H, **options)
    x = torch.randn(max(LENGTHS), len(LENGTHS), D, dtype=torch.float64)
    factor = torch.randn(max(LENGTHS), len(LENGTHS), network.output_size() * layer.directions, dtype=torch.float64)
    return layer, x, factor


def gradients_of(layer: Any, x: Tensor, factor: Tensor) -> dict[str, Tensor]:
    layer.zero_grad()
    (layer(x, lengths=LENGTHS)[0] * factor).sum().backward()
    return {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in layer.named_parameters()}


def run_by_equation(network: Network, parameters: Any, x: Tensor, factor: Tensor) -> tuple[Tensor, list[list[Any]]]:
    """The loss, and the states of each sequence before the first step and after each step."""
    loss, states = x.new_zeros(()), []
    for b, length in enumerate(LENGTHS):
        state = network.initial_state(parameters, H)
        path = [state]
        for t in range(length):
            new = network.step(parameters, x[t, b], state, t)
            count = network.traced
            # Copies, so that the gradient of one state of a step does not include the way through another one.
            state = (*(s.view_as(s) for s in new[:count]), *new[count:])
            path.append(state)
            loss = loss + (network.output(parameters, state[:count]) * factor[t, b]).sum()
        states.append(path)
    return loss, states


def gradients_by_equation(loss: Tensor, layer: Any) -> dict[str, Tensor]:
    named = dict(layer.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(named, found, strict=True))


@pytest.mark.parametrize("network", [*EXPLICIT, *SOLVED], ids=str)
def test_clipping_is_a_clamp_of_the_gradient_at_each_state(network: Network) -> None:
    layer, x, factor = made(network, clip_hidden=0.3)
    loss, states = run_by_equation(network, raw(layer, "l0"), x, factor)
    for path in states:
        for state in path[1:]:
            for part in state[: network.traced]:
                if part.requires_grad:
                    part.register_hook(lambda g: g.clamp(-0.3, 0.3))
    found, expected = gradients_of(layer, x, factor), gradients_by_equation(loss, layer)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-8 if network in SOLVED else 1e-10)


def test_clipping_changes_the_gradient_but_not_the_output() -> None:
    torch.manual_seed(0)
    layer = autapse.LSTM(D, H, dtype=torch.float64)
    clipped = autapse.LSTM(D, H, dtype=torch.float64, clip_hidden=0.01)
    clipped.load_state_dict(layer.state_dict())
    x = torch.randn(6, 2, D, dtype=torch.float64)
    close(layer(x)[0], clipped(x)[0])
    norms = []
    for each in (layer, clipped):
        each(x)[0].sum().backward()
        norms.append(each.weight_hh_l0.grad.norm())
    assert norms[1] < 0.1 * norms[0]


# Information flow -----------------------------------------------------------------------------------------------------


def gradient_at(loss: Tensor, state: Tensor) -> Tensor:
    """Zeros for a state without a gradient, such as a clock."""
    if not state.requires_grad:
        return torch.zeros_like(state)
    return torch.autograd.grad(loss, state, retain_graph=True, materialize_grads=True, allow_unused=True)[0]


def omega(network: Network, parameters: Any, x: Tensor, loss: Tensor, states: list[list[Any]]) -> Tensor:
    """Equation 10.16, the mean in place of the sum: gradients and states are constants, the parameters are not."""
    terms, count = [], network.traced
    for b, path in enumerate(states):
        for t in range(1, len(path) - 1):  # from the state after the first step on
            after, before = path[t + 1], path[t]
            g = tuple(gradient_at(loss, part) for part in after[:count])
            own = tuple(s.detach().requires_grad_() for s in before[:count])
            rest = tuple(s.detach() for s in before[count:])
            new = network.step(parameters, x[t, b], (*own, *rest), t)[:count]
            moving, back = zip(*[(n, v) for n, v in zip(new, g, strict=True) if n.requires_grad], strict=True)
            q = torch.autograd.grad(moving, own, back, create_graph=True, allow_unused=True, materialize_grads=True)
            lengths = [math.sqrt(sum(float(part.detach().square().sum()) for part in vector)) for vector in (g, q)]
            if min(lengths) > 0:
                terms.append((torch.cat(q).norm() / torch.cat(g).norm() - 1) ** 2)
    return sum(terms) / sum(max(0, n - 1) for n in LENGTHS)  # type: ignore[return-value]


@pytest.mark.parametrize("network", [n for n in EXPLICIT if n.name != "Dilated" and not has_one_product(n)], ids=str)
def test_information_flow_of_any_step_is_the_equations(network: Network) -> None:
    layer, x, factor = made(network, information_flow=0.5)
    parameters = raw(layer, "l0")
    loss, states = run_by_equation(network, parameters, x, factor)
    regulariser = 0.5 * omega(network, parameters, x, loss, states)
    plain, flow = gradients_by_equation(loss, layer), gradients_by_equation(regulariser, layer)
    assert any(value.abs().max() > 1e-6 for value in flow.values())
    found = gradients_of(layer, x, factor)
    for name in found:
        torch.testing.assert_close(found[name], plain[name] + flow[name], rtol=1e-7, atol=1e-9)


def sigmoid(a: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-a))


def rnn_jacobian(p: Any, x: Tensor, state: Any) -> Tensor:
    W = p["weight_hh"]
    h = torch.tanh(p["weight_ih"] @ x + p["bias_ih"] + W @ state[0] + p["bias_hh"]).detach()
    return torch.diag(1 - h**2) @ W


def gru_jacobian(p: Any, x: Tensor, state: Any) -> Tensor:
    (h,) = state
    a, b = (p["weight_ih"] @ x + p["bias_ih"]).detach(), (p["weight_hh"] @ h + p["bias_hh"]).detach()
    r, z = sigmoid(a[:H] + b[:H]), sigmoid(a[H : 2 * H] + b[H : 2 * H])
    n = torch.tanh(a[2 * H :] + r * b[2 * H :])
    W_r, W_z, W_n = p["weight_hh"].split(H)
    candidate = torch.diag(1 - n**2) @ (torch.diag(r) @ W_n + torch.diag(b[2 * H :] * r * (1 - r)) @ W_r)
    return torch.diag(z) + torch.diag((h - n) * z * (1 - z)) @ W_z + torch.diag(1 - z) @ candidate


def lstm_jacobian(p: Any, x: Tensor, state: Any) -> Tensor:
    h, c = state
    a = (p["weight_ih"] @ x + p["bias_ih"] + p["weight_hh"] @ h + p["bias_hh"]).detach()
    i, f, g, o = sigmoid(a[:H]), sigmoid(a[H : 2 * H]), torch.tanh(a[2 * H : 3 * H]), sigmoid(a[3 * H :])
    W_i, W_f, W_g, W_o = p["weight_hh"].split(H)
    squashed = torch.tanh(f * c + i * g)
    c_by_h = (g * i * (1 - i))[:, None] * W_i + (c * f * (1 - f))[:, None] * W_f + (i * (1 - g**2))[:, None] * W_g
    outer = (o * (1 - squashed**2))[:, None]
    upper = torch.cat([(squashed * o * (1 - o))[:, None] * W_o + outer * c_by_h, outer * torch.diag(f)], dim=1)
    return torch.cat([upper, torch.cat([c_by_h, torch.diag(f)], dim=1)])


JACOBIANS = {"RNN": rnn_jacobian, "GRU": gru_jacobian, "LSTM": lstm_jacobian}


@pytest.mark.parametrize("network", [n for n in VARIANTS if n.name in JACOBIANS and not n.options], ids=str)
@pytest.mark.parametrize("native", [True, False])
def test_information_flow_has_pascanus_gradient(
    network: Network, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States, activations and back-propagated vectors are numbers: only the recurrent matrix gets a gradient."""
    if not native:
        monkeypatch.setattr("autapse.unfold.scan.kernels_serve", lambda *tensors, **options: False)
    layer, x, factor = made(network, information_flow=0.5)
    parameters = raw(layer, "l0")
    loss, states = run_by_equation(network, parameters, x, factor)
    terms = []
    for b, path in enumerate(states):
        for t in range(1, len(path) - 1):
            g = torch.cat(torch.autograd.grad(loss, path[t + 1], retain_graph=True, materialize_grads=True))
            J = JACOBIANS[network.name](parameters, x[t, b], [s.detach() for s in path[t]])
            terms.append(((g @ J).norm() / g.norm() - 1) ** 2)
    regulariser = 0.5 * sum(terms) / sum(max(0, n - 1) for n in LENGTHS)
    plain, flow = gradients_by_equation(loss, layer), gradients_by_equation(regulariser, layer)
    assert flow["weight_hh_l0"].abs().max() > 1e-3
    found = gradients_of(layer, x, factor)
    for name in found:
        torch.testing.assert_close(found[name], plain[name] + flow[name], rtol=1e-9, atol=1e-11)


def test_each_layer_and_direction_has_its_own_terms() -> None:
    """A stack is regularised as its layers are, one by one."""
    torch.manual_seed(1)
    options = {"num_layers": 2, "bidirectional": True, "dtype": torch.float64}
    stack = perturb(autapse.RNN(D, H, information_flow=0.5, **options))
    x, factor = torch.randn(5, 3, D, dtype=torch.float64), torch.randn(5, 3, 2 * H, dtype=torch.float64)

    def parts(key: str, size: int, weight: float) -> Any:
        layer = autapse.RNN(size, H, dtype=torch.float64, information_flow=weight)
        values = {name.replace(key, "l0"): value for name, value in stack.state_dict().items() if name.endswith(key)}
        layer.load_state_dict({name: value for name, value in values.items() if name in layer.state_dict()})
        return layer

    layers = [[parts(f"l{n}{end}", D if n == 0 else 2 * H, 0.5) for end in ("", "_reverse")] for n in (0, 1)]
    rows = x
    for forwards, backwards in layers:
        rows = torch.cat([forwards(rows)[0], backwards(rows.flip(0))[0].flip(0)], dim=-1)
    (rows * factor).sum().backward()
    (stack(x)[0] * factor).sum().backward()
    for n, pair in enumerate(layers):
        for end, layer in zip(("", "_reverse"), pair, strict=True):
            close(getattr(stack, f"weight_hh_l{n}{end}").grad, layer.weight_hh_l0.grad)
            close(getattr(stack, f"weight_ih_l{n}{end}").grad, layer.weight_ih_l0.grad)


def test_information_flow_lengthens_the_gradients() -> None:
    """A tiny loss, so that descent is on Ω alone: the vectors that reach the first step become longer."""
    torch.manual_seed(0)
    layer = autapse.RNN(2, 16, information_flow=1.0)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(0.3)
    x = torch.randn(20, 8, 2)

    def reach() -> float:
        h0 = torch.zeros(1, 8, 16, requires_grad=True)
        layer.zero_grad()
        (1e-6 * layer(x, h0)[0][-1].sum()).backward()
        return float(h0.grad.norm())

    first = reach()
    for _ in range(30):
        reach()
        with torch.no_grad():
            layer.weight_hh_l0.sub_(0.1 * layer.weight_hh_l0.grad / layer.weight_hh_l0.grad.norm())
    assert reach() > 1e3 * first


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"clip_hidden": 0.0}, "clip_hidden"),
        ({"clip_hidden": -1.0}, "clip_hidden"),
        ({"information_flow": -0.1}, "information_flow"),
        ({"information_flow": math.nan}, "information_flow"),
        ({"information_flow": 0.1, "checkpoint_every": 2}, "information_flow"),
    ],
)
def test_bad_settings(options: dict[str, float], argument: str) -> None:
    with pytest.raises(checks.InputError, match=f"^{argument} must "):
        autapse.GRU(D, H, **options)


@pytest.mark.parametrize(
    ("layer", "argument"),
    [
        (lambda: autapse.ImplicitGRU(D, H), "clip_hidden"),
        (lambda: autapse.Feedforward(D, H), "clip_hidden"),
        (lambda: autapse.GRU(D, H, unfold=Parallel()), "information_flow"),
        (lambda: autapse.EquilibriumTanh(D, H), "information_flow"),
        (
            lambda: autapse.Dilated(D, H, cell="gru", dilation=3),
            "information_flow",
        ),  # it does not read the state before
        (lambda: torch.nn.Linear(D, H), "clip_hidden"),
    ],
)
def test_networks_without_it(layer: Any, argument: str) -> None:
    with pytest.raises(checks.InputError, match=f"^{argument} must ") as error:
        set_backward(layer(), **{argument: 0.5})
    assert "\n" not in str(error.value)


def test_a_given_strategy_gets_the_settings() -> None:
    layer = autapse.GRU(D, H, unfold=Scan(checkpoint_every=3))
    set_backward(layer, clip_hidden=0.5)
    assert layer.strategy == Scan(checkpoint_every=3, clip_hidden=0.5)


@pytest.mark.parametrize("native", [True, False])
def test_no_second_derivative(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr("autapse.unfold.scan.kernels_serve", lambda *tensors, **options: False)
    layer = autapse.GRU(D, H, information_flow=0.1)
    output = layer(torch.randn(4, 2, D))[0].sum()
    with pytest.raises(NotImplementedError, match="information_flow has no second derivative"):
        torch.autograd.grad(output, list(layer.parameters()), create_graph=True)


@pytest.mark.parametrize("native", [True, False])
def test_vectors_that_almost_vanish(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32, gradients of 1e-25 have squares that are 0. Ω depends on their directions only."""
    if not native:
        monkeypatch.setattr("autapse.unfold.scan.kernels_serve", lambda *tensors, **options: False)
    torch.manual_seed(0)
    wide = autapse.RNN(2, 8, information_flow=1.0, dtype=torch.float64)
    with torch.no_grad():
        wide.weight_hh_l0.mul_(0.5)
    narrow = autapse.RNN(2, 8, information_flow=1.0)
    narrow.load_state_dict(wide.state_dict())
    x, found = torch.randn(40, 3, 2, dtype=torch.float64), []
    for layer, given in ((wide, x), (narrow, x.float())):
        (1e-12 * layer(given)[0][-1].sum()).backward()
        found.append(layer.weight_hh_l0.grad)
    torch.testing.assert_close(found[1].double(), found[0], rtol=2e-3, atol=2e-3 * float(found[0].abs().max()))
    assert found[0].abs().max() > 1e-3
