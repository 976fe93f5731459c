"""One step of every cell against its equation, written in networks.py from the raw parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import autapse
from networks import (
    BASIC,
    INTEGRATED,
    MEMORY_VARIANTS,
    SOLVED_VARIANTS,
    VARIANTS,
    D,
    H,
    Network,
    every_form_variant,
    every_layer,
    every_variant,
    raw,
)
from tolerance import close

B = 3


def as_tuple(state: Any) -> tuple[torch.Tensor, ...]:
    return (state,) if isinstance(state, torch.Tensor) else state


def by_equation(network: Network, cell: Any, x: torch.Tensor, state: tuple[torch.Tensor, ...], t: int = 0) -> list[Any]:
    rows = [network.step(raw(cell), x[b], tuple(s[b] for s in state), t) for b in range(len(x))]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


# forget_bias needs a bias, and says so: see test_cell_errors.py
WITH_AND_WITHOUT_BIAS = [
    (n, bias)
    for n in [*VARIANTS, *SOLVED_VARIANTS, *MEMORY_VARIANTS, *INTEGRATED]
    for bias in (True, False)
    if bias or "forget_bias" not in n.options
]


@pytest.mark.parametrize(("network", "bias"), WITH_AND_WITHOUT_BIAS, ids=str)
def test_a_step_is_the_equation(network: Network, bias: bool) -> None:
    cell = network.cell(bias=bias)
    assert bias == any("bias" in name for name, _ in cell.named_parameters())
    x, state = torch.randn(B, D, dtype=torch.float64), network.random_state(B)
    new = as_tuple(cell(x, state))
    assert all(s.abs().max() > 1e-3 for s in new), "a dead step would compare zeros"
    close(new, by_equation(network, cell, x, state))


@every_variant
def test_a_step_has_the_gradients_of_the_equation(network: Network) -> None:
    cell = network.cell()
    x, state = torch.randn(B, D, dtype=torch.float64), network.random_state(B)
    leaves = [x.requires_grad_(), *[s.requires_grad_() for s in state], *cell.parameters()]

    def gradients(new: Any) -> Any:
        weight = torch.linspace(-1, 2, sum(s.numel() for s in new), dtype=torch.float64)
        loss = torch.cat([s.flatten() for s in new]) @ weight
        return torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)

    actual, expected = gradients(as_tuple(cell(x, state))), gradients(by_equation(network, cell, x, state))
    assert sum(g.abs().max() > 0 for g in expected) >= len(leaves) / 2  # half if every sequence skips the step
    close(actual, expected)


@pytest.mark.parametrize("position", [0, 1, 2, 3, 40])
@pytest.mark.parametrize("inner_steps", [1, 2])
def test_a_step_of_ernn_takes_the_rate_of_its_position_and_holds_the_last(position: int, inner_steps: int) -> None:
    options = {"eta": "per_step", "max_length": 3, "inner_steps": inner_steps}
    network = next(n for n in BASIC if n.name == "ERNN")
    network = Network("ERNN", options, network.equation)
    cell = network.cell()
    x, state = torch.randn(B, D, dtype=torch.float64), network.random_state(B)
    close(cell(x, state, t=position), by_equation(network, cell, x, state, position)[0])


@every_variant
def test_the_state_has_a_default(network: Network) -> None:
    cell, x = network.cell(), torch.randn(B, D, dtype=torch.float64)
    start = tuple(part.expand(B, -1) for part in network.initial_state(raw(cell)))
    close(as_tuple(cell(x)), by_equation(network, cell, x, start))


@every_variant
def test_an_unbatched_step_is_a_row_of_a_batched_one(network: Network) -> None:
    cell = network.cell()
    x, state = torch.randn(B, D, dtype=torch.float64), network.random_state(B)
    batched = as_tuple(cell(x, state))
    alone = as_tuple(cell(x[1], tuple(s[1] for s in state)))
    close(alone, [s[1] for s in batched])


@every_variant
def test_drive_prepare_and_step_make_up_the_cell(network: Network) -> None:
    """The protocol of the design: drive for all steps at once, prepare once, step by step."""
    cell = network.cell()
    x, state = torch.randn(5, B, D, dtype=torch.float64), network.random_state(B)
    drive, weights = cell.drive(x), cell.prepare()
    for t in range(5):
        expected = by_equation(network, cell, x[t], state, t)
        state = cell.advance(drive[t], state, weights, t)  # the step, on the states of its stencil
        close(state, expected)
    assert cell.carried_sizes == network.state_sizes()
    if cell.outputs_state:
        assert cell.output(state) is state[0]
    outputs = [network.output(raw(cell), tuple(s[b] for s in state)) for b in range(B)]
    close(cell.output(state), torch.stack(outputs))
    assert cell.output_size == network.output_size()
    close(cell.driver()(x), drive)


@every_variant
def test_float32_is_float64_to_rounding(network: Network) -> None:
    cell = network.cell()
    x, state = torch.randn(B, D, dtype=torch.float64), network.random_state(B)
    expected = as_tuple(cell(x, state))
    single = as_tuple(cell.float()(x.float(), tuple(s.float() for s in state)))
    close(single, [s.float() for s in expected])


@every_layer
def test_each_layer_has_its_cell_beside_it(network: Network) -> None:
    layer = network.layer()
    assert layer.cell_class is network.cell_class
    assert issubclass(network.cell_class, autapse.Cell)
    assert type(layer.cells["l0"]) is network.cell_class


@every_layer
def test_hidden_size_one(network: Network) -> None:
    cell = network.cell(2, 1)
    x, state = torch.randn(B, 2, dtype=torch.float64), network.random_state(B, hidden_size=1)
    close(as_tuple(cell(x, state)), by_equation(network, cell, x, state))


def test_forms_are_those_of_the_design() -> None:
    names = {network.name: network.cell().form() for network in BASIC}
    leaky = ["RNN", "IRNN", "RIN", "FastRNN", "Antisymmetric", "ERNN", "OrthogonalRNN", "SpectralRNN", "LeakyRNN"]
    assert names == dict.fromkeys([*leaky, "Reservoir"], "leaky") | {
        "LSTM": "lstm",
        "GRU": "gru",
        "UGRNN": "ugrnn",
        "Intersection": "crossing",
        "FastGRNN": "shared_gate",
        "CFN": "chaos_free",
        "GORU": "gru",
        "KRU": "complex",
    }
    assert autapse.cells.OrthogonalRNN(D, H, field="complex").form() == "complex"
    assert autapse.cells.OrthogonalRNN(D, H, field="complex", nonlinearity="tanh").form() == "leaky"
    assert autapse.cells.KRU(D, H, field="real").form() == "leaky"
    assert autapse.cells.Antisymmetric(D, H, integrator="rk4").form() is None
    assert autapse.cells.RIN(D, H, transitions=2).form() == "chain"
    assert autapse.cells.Antisymmetric(D, H, gated=True).form() == "shared_gate"


@every_form_variant
def test_form_is_what_prepare_builds(network: Network) -> None:
    cell = network.cell()
    assert cell.prepare().name == cell.form()
