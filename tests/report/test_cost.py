"""Multiply-accumulates against the sizes of the matrices."""

from __future__ import annotations

import pytest
import torch

from autapse.models import Classifier, Regressor
from autapse.report.cost import cost_of
from autapse.training.feeds import Batch

D, H, K, T = 3, 7, 2, 11


@pytest.mark.parametrize(("cell", "maps"), [("rnn", 1), ("gru", 3), ("lstm", 4), ("rin", 1), ("ugrnn", 2)])
def test_a_step_multiplies_with_each_matrix_once(cell: str, maps: int) -> None:
    model = Regressor(cell, D, K, hidden_size=H).eval()
    cost = cost_of(model, Batch(torch.randn(1, T, D), torch.zeros(1, K)))
    recurrent = H * H if cell == "rin" else maps * H * (D + H)
    if cell == "rin":  # its input is a linear map as well
        recurrent += H * D
    assert cost.macs == pytest.approx((T * recurrent + H * K) / T)
    assert cost.steps == T


def test_layers_and_directions_add_up() -> None:
    model = Classifier("lstm", D, K, hidden_size=(H, 5), bidirectional=True).eval()
    cost = cost_of(model, Batch(torch.randn(1, T, D), torch.zeros(1, dtype=torch.int64)))
    first, second = 2 * 4 * H * (D + H), 2 * 4 * 5 * (2 * H + 5)
    assert cost.macs is not None
    assert cost.macs * T == pytest.approx(T * (first + second) + 2 * 5 * K)


def test_parameters_and_bytes() -> None:
    model = Regressor("rnn", D, K, hidden_size=H, mean=[0.0] * D, scale=[1.0] * D)
    cost = cost_of(model, None)
    assert cost.parameters == H * D + H * H + 2 * H + K * H + K
    assert cost.size == 4 * (cost.parameters + sum(buffer.numel() for buffer in model.buffers()))
    assert cost.macs is None
