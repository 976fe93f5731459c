"""Deep cells: what runs on the kernels, what their options mean, and what they refuse. networks.py has the equation."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.cells.maps import Map
from autapse.checks import InputError
from autapse.unfold import Parallel
from autapse.unfold.fused import prepare
from networks import COMPOSED_VARIANTS, D, H, Network, flat, perturb
from tolerance import close

T, B = 6, 3


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def deep(**options: Any) -> Any:
    return autapse.cells.Deep(D, H, dtype=torch.float64, **options)


# Forms and kernels --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({"cell": "gru", "transition_depth": 0, "input_depth": 1}, "gru"),
        ({"cell": "lstm", "transition_depth": 0, "output_depth": 2}, "lstm"),
        ({"cell": "ernn:inner_steps=2", "transition_depth": 0, "input_depth": 1, "output_depth": 1}, "leaky"),
        ({"cell": "lstm", "transition_depth": 0, "groups": 2, "group_input": "first"}, "lstm"),
        ({}, "chain"),
        ({"skip": True}, "chain"),
        ({"cell": "irnn", "groups": 2}, "chain"),
        ({"cell": "rin:transitions=2"}, "chain"),
        ({"cell": "orthogonalrnn:nonlinearity=relu"}, "chain"),
        ({"cell": "spectralrnn", "input_depth": 1}, "chain"),
        ({"cell": "rnn", "nonlinearity": "relu"}, None),  # another activation than the cell's
        ({"cell": "rin:transitions=2", "skip": True}, None),  # RIN's own second map has no skip connection
        ({"cell": "orthogonalrnn"}, None),  # modReLU
        ({"cell": "leakyrnn"}, None),  # the state is mixed with the old one
        ({"cell": "ernn:inner_steps=2"}, None),
        ({"cell": "gru"}, None),
        ({"cell": "equilibriumtanh", "transition_depth": 0, "input_depth": 1}, None),
    ],
    ids=str,
)
def test_what_runs_on_the_kernels(options: dict[str, Any], form: str | None) -> None:
    cell = deep(**options)
    assert cell.form() == form
    assert (prepare(cell).form is None) == (form is None)


@pytest.mark.parametrize("skip", [False, True])
def test_the_chain_is_the_plain_step(skip: bool) -> None:
    """The same cell, once as a chain and once as a step of the other cell with maps after it."""
    cell = perturb(deep(transition_depth=2, skip=skip))
    x, h = draw(B, D), draw(B, H)
    inner = cell.inner(x, h)
    for one in cell.transition_maps:
        inner = one(inner)
    close(cell(x, h), inner)


def test_rin_dt_is_a_case() -> None:
    """The RIN paper's equations 26–27, by RIN's own deep transition; also where both start."""
    rin = perturb(autapse.RIN(D, H, transitions=3, dtype=torch.float64))
    other = autapse.Deep(D, H, cell="rin", transition_depth=2, dtype=torch.float64)
    theirs, ours = rin.cells["l0"], other.cells["l0"]
    for one in ours.transition_maps:
        assert (one.weight - torch.eye(H)).abs().max() < 0.01  # U is normal with 10⁻³
        assert not one.bias.any()
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_h"):
            getattr(ours.inner, name).copy_(getattr(theirs, name))
        for i, one in enumerate(ours.transition_maps):
            one.weight.copy_(theirs.weight_deep[i] + torch.eye(H))
            one.bias.copy_(theirs.bias_deep[i])
    x = draw(T, B, D)
    assert repr(other) == f"Deep({D}, {H}, cell='rin', transition_depth=2)"
    close(other(x), rin(x))


@pytest.mark.parametrize("network", [n for n in COMPOSED_VARIANTS if n.name == "Deep"], ids=str)
def test_all_steps_at_once(network: Network) -> None:
    """Newton over the sequence solves the same recurrence, with the same gradients."""
    layer = network.layer()
    together = network.layer(unfold=Parallel())
    together.load_state_dict(layer.state_dict())
    x = 0.3 * draw(T, B, D)
    output, h_n = layer(x)
    found, found_h_n = together(x)
    torch.testing.assert_close([found, *flat(found_h_n)], [output, *flat(h_n)], rtol=1e-7, atol=1e-9)
    gradients = [torch.autograd.grad(one.square().sum(), each.parameters(), allow_unused=True)
                 for one, each in ((output, layer), (found, together))]  # fmt: skip
    assert sum(bool(g is not None and g.any()) for g in gradients[0]) > len(gradients[0]) / 2
    for expected, actual in zip(*gradients, strict=True):
        if expected is not None:
            torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-8)


# Which cell ---------------------------------------------------------------------------------------------------------


class Oscillator(autapse.Cell):
    """A cell of one's own with two states, an option and no form."""

    depends_on_position = False

    def __init__(self, input_size: int, hidden_size: int, rate: float = 0.1) -> None:
        super().__init__(input_size, hidden_size)
        self.rate = rate
        self.force = torch.nn.Linear(hidden_size, hidden_size)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size)

    def drive(self, x: Tensor) -> Tensor:
        return x.sum(-1, keepdim=True)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        h, z = state
        z = z + self.rate * torch.tanh(self.force(h) + u)
        return h + self.rate * z, z

    def output(self, state: tuple[Tensor, ...]) -> Tensor:
        return torch.cat(state, dim=-1)

    @property
    def output_size(self) -> int:
        return 2 * self.hidden_size


class Delayed(autapse.Cell):
    stencil = (-1, -3)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        before, earlier = state
        return (torch.tanh(0.5 * before + 0.4 * earlier + u),)


def test_a_cell_of_ones_own() -> None:
    layer = autapse.Deep(
        D, H, cell=(Oscillator, {"rate": 0.5}), input_depth=1, output_depth=1, skip=True, width=5, dtype=torch.float64
    )
    assert repr(layer).endswith(
        "cell='test_deep:Oscillator:rate=0.5', input_depth=1, output_depth=1, skip=True, width=5)"
    )
    cell = perturb(layer).cells["l0"]
    x, h, z = draw(T, B, D), torch.zeros(B, H, dtype=torch.float64), torch.zeros(B, H, dtype=torch.float64)
    output, (h_n, z_n) = layer(x)
    for t in range(T):
        h, z = cell.inner(cell.input_maps(x[t]), (h, z))
        h = cell.transition_maps(h)
        close(output[t], cell.output_maps(torch.cat([h, z], dim=-1)))
    close([h_n[0], z_n[0]], [h, z])
    stream = layer.stream(B)
    close(torch.stack([stream(x_t) for x_t in x]), output.detach())


def test_a_cell_with_delays() -> None:
    layer = perturb(autapse.Deep(D, D, cell=Delayed, transition_depth=1, dtype=torch.float64))
    cell, x = layer.cells["l0"], draw(T, B, D)
    output, h_n = layer(x, lengths=[T, 2, 0])
    states = [torch.zeros(B, D, dtype=torch.float64)] * 3
    for t in range(T):
        new = cell.transition_maps(torch.tanh(0.5 * states[-1] + 0.4 * states[-3] + x[t]))
        close(output[t, 0], new[0])
        states.append(new)
    assert len(h_n) == 3
    carried = tuple(torch.randn(B, D, dtype=torch.float64) for _ in range(3))
    jacobian = autapse.Cell._jacobian(cell, cell.drive(x[0]), carried, cell.prepare(), 0)
    flat_step = torch.autograd.functional.jacobian(
        lambda joined: torch.cat(cell(x[0, 0], joined.split(D))), torch.cat([c[0] for c in carried])
    )
    close(jacobian[0], flat_step)


@pytest.mark.parametrize("name", ["equilibriumtanh", "equilibriumlinear", "implicitmidpoint"])
def test_equilibria(name: str) -> None:
    layer = perturb(autapse.Deep(D, H, cell=name, input_depth=1, skip=True, dtype=torch.float64), 0.1)
    cell, x = layer.cells["l0"], draw(T, B, D)
    output, _ = layer(x)
    assert layer.reports[0].all_converged
    h = None
    for t in range(T):
        h = cell.transition_maps(cell.inner(cell.input_maps(x[t]), h))
        close(output[t], h)


def test_a_deep_cell_inside_a_deep_cell() -> None:
    layer = autapse.Deep(D, H, cell="deep:cell=(gru:reset=before):output_depth=1", input_depth=1, dtype=torch.float64)
    cell, x = perturb(layer).cells["l0"], draw(T, B, D)
    output, _ = layer(x)
    h = torch.zeros(B, H, dtype=torch.float64)
    for t in range(T):
        h = cell.inner.inner(cell.input_maps(x[t]), h)
        h = cell.transition_maps(cell.inner.transition_maps(h))
        close(output[t], cell.inner.output_maps(h))
    assert cell.inner.inner.reset == "before"


@pytest.mark.parametrize("given", ["ernn:inner_steps=2", (autapse.cells.ERNN, {"inner_steps": 2})], ids=str)
def test_a_name_and_a_class_mean_the_same(given: Any) -> None:
    assert repr(autapse.Deep(D, H, cell=given)) == f"Deep({D}, {H}, cell='ernn:inner_steps=2')"


def test_the_maps_take_the_activation_of_the_cell() -> None:
    assert {one.activation for one in deep(cell="rin", input_depth=1).input_maps} == {"relu"}
    assert {one.activation for one in deep(cell="lstm", input_depth=1).input_maps} == {"tanh"}
    assert {one.activation for one in deep(cell="orthogonalrnn").transition_maps} == {"tanh"}
    assert {one.activation for one in deep(cell="rin", nonlinearity="sigmoid").transition_maps} == {"sigmoid"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transition_depth": 0}, "input_depth, transition_depth or output_depth must be at least 1 in one place, or"),
        ({"transition_depth": -1}, "transition_depth must be an integer of at least 0; got -1."),
        ({"input_depth": 1.5}, "input_depth must be an integer of at least 0; got 1.5."),
        ({"output_depth": True}, "output_depth must be an integer of at least 0; got True."),
        ({"skip": 1}, "skip must be True or False; got 1."),
        ({"transition_depth": 0, "groups": 2, "skip": True}, "skip must be used with a depth above 0; got True."),
        ({"transition_depth": 0, "groups": 2, "nonlinearity": "relu"}, "nonlinearity must be used with a depth above"),
        ({"nonlinearity": "modrelu"}, "nonlinearity must be one of tanh, relu, sigmoid, identity; got 'modrelu'."),
        ({"width": 5}, "width must be used with input_depth or output_depth; got 5."),
        ({"width": 0, "input_depth": 1}, "width must be an integer of at least 1; got 0."),
        ({"groups": 0}, "groups must be an integer of at least 1; got 0."),
        ({"groups": H + 1}, f"groups must be at most hidden_size = {H}; got {H + 1}."),
        ({"group_input": "first"}, "group_input must be \"all\" without groups; got 'first'."),
        ({"group_output": "last"}, "group_output must be \"all\" without groups; got 'last'."),
        ({"groups": 2, "group_input": "last"}, "group_input must be one of all, first; got 'last'."),
        ({"groups": 2, "cell": "ernn"}, "groups must be 1 for ernn: its units are not connected by one full matrix"),
        ({"groups": 2, "cell": "lstm:proj_size=2"}, "groups must be 1 for lstm:proj_size=2: its units are not"),
        ({"groups": 2, "cell": "fastgrnn:hidden_rank=4"}, "groups must be 1 for fastgrnn:hidden_rank=4"),
        ({"groups": 2, "cell": "orthogonalrnn"}, "groups must be 1 for orthogonalrnn"),
        ({"groups": 2, "cell": "antisymmetric"}, "groups must be 1 for antisymmetric"),
        ({"groups": 2, "cell": "deep"}, "groups must be 1 for deep"),
        ({"cell": "grru"}, "cell must be one of rnn, irnn, "),
        (
            {"cell": "gru:size=3"},
            "cell must be gru with options from: reset, gates, longest, as in gru:option=value; got 'gru:size=3'.",
        ),
        ({"cell": "implicitgru"}, "cell must look back: a network that looks ahead has no single step; got"),
        ({"cell": autapse.cells.ImplicitLSTM}, "cell must look back"),
        ({"cell": autapse.cells.GRU(D, H)}, "cell must be a name, a cell class, or a pair of a class and its options"),
        ({"cell": autapse.GRU}, "cell must be a name, a cell class, or a pair of a class and its options"),
        (
            {"cell": (autapse.cells.GRU, {"rest": "before"})},
            "option of GRU must be one of: reset, gates, longest; got 'rest'. Did",
        ),
    ],
    ids=str,
)
def test_what_does_not_apply_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        deep(**options)


# Where the maps start -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["tanh", "relu", "identity"])
@pytest.mark.parametrize("skip", [False, True])
def test_square_maps_start_as_the_identity(activation: str, skip: bool) -> None:
    one = Map(100, 100, True, activation, skip, dtype=torch.float64)
    g = 0.1 * torch.rand(50, 100, dtype=torch.float64)
    assert not one.bias.any()
    assert (one(g) - g).abs().max() < 0.005


@pytest.mark.parametrize(("activation", "variance"), [("tanh", 1.0), ("identity", 1.0), ("relu", 2.0)])
@pytest.mark.parametrize(("inputs", "outputs"), [(300, 200), (100, 400)])
def test_other_maps_keep_the_size_of_signals(activation: str, variance: float, inputs: int, outputs: int) -> None:
    one = Map(inputs, outputs, True, activation, False, dtype=torch.float64)
    assert one.weight.var().item() == pytest.approx(variance / inputs, rel=0.05)
    assert one.shortcut is None
    g = 0.1 * draw(200, inputs)  # small, where tanh is linear
    assert one(g).square().mean().sqrt().item() == pytest.approx(0.1, rel=0.05)


def test_a_skip_between_other_sizes_is_a_matrix() -> None:
    one = Map(300, 200, True, "tanh", True, dtype=torch.float64)
    assert one.shortcut.var().item() == pytest.approx(1 / 300, rel=0.05)
    assert one.weight.std().item() == pytest.approx(1e-3, rel=0.05)
    assert Map(3, 3, False, "tanh", True).bias is None


def test_a_deep_transition_starts_where_the_cell_alone_does() -> None:
    """With skip connections the first output is that of the other cell, up to the noise of 10⁻³."""
    torch.manual_seed(3)
    alone = autapse.GRU(D, 20)
    torch.manual_seed(3)
    layer = autapse.Deep(D, 20, cell="gru", transition_depth=3, output_depth=2, skip=True)
    x = torch.randn(20, B, D)
    assert (layer(x)[0] - alone(x)[0]).abs().max() < 0.15
    assert (layer(x)[0] - alone(x)[0]).abs().max() > 0
