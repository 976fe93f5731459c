"""A form that is rebuilt from its operands is the same recurrence."""

from __future__ import annotations

import pytest
import torch

from autapse.forms import Form, Leaky
from autapse.native.operands import KERNELS, Operands
from networks import VARIANTS, D, H, Network
from tolerance import close

FORMED = [network for network in VARIANTS if network.cell_class(D, H, **network.options).form() is not None]


def operands_of(form: Form, start: int, steps: int = 3) -> tuple[Operands, int]:
    own, kind = form.operands(steps, start)
    nothing = torch.zeros(0)
    return Operands(nothing, None, None, nothing, None, *own), kind


@pytest.mark.parametrize("network", FORMED, ids=str)
@pytest.mark.parametrize("start", [0, 2])
def test_a_form_is_rebuilt_from_its_operands(network: Network, start: int) -> None:
    cell = network.cell_class(D, H, dtype=torch.float64, **network.options)
    form = cell.fused(cell.prepare())
    assert form is not None
    operands, kind = operands_of(form, start)
    rebuilt = KERNELS[kind.form].from_operands(operands, kind)
    assert type(rebuilt) is type(form)
    state = cell.initial_state(2, torch.zeros((), dtype=torch.float64))
    again = state
    for t in range(3):
        u = cell.drive(torch.randn(2, D, dtype=torch.float64))
        state, again = form.step(u, state, start + t), rebuilt.step(u, again, t)
        for one, other in zip(state, again, strict=True):
            close(one, other)


def test_coefficients_past_the_last_row_are_those_of_the_last_row() -> None:
    alpha = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    operands, _ = operands_of(Leaky(torch.eye(3), alpha=alpha, beta=0.5, inner_steps=2), start=1)
    assert operands.alpha.tolist() == [[3.0, 4.0]] * 3
    assert operands.beta.tolist() == [[0.5, 0.5]] * 3


def test_a_form_without_a_kernel_says_so() -> None:
    class Own(Form):
        name = "own"

    with pytest.raises(NotImplementedError, match="no kernel for the form own"):
        Own().operands(1, 0)
