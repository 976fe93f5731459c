"""Iterative estimation, dual gates, lesions, discrimination and distances of weights, against loops over the states."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.diagnostics.classes import discrimination
from autapse.diagnostics.estimation import iterative_estimation
from autapse.diagnostics.gates import dual_gates
from autapse.diagnostics.lesions import lesion
from autapse.diagnostics.weights import WeightRecorder, weight_distance
from autapse.models import Classifier, Tagger

D, H, T, B = 3, 5, 9, 4
DOUBLE: Any = {"dtype": torch.float64}
LENGTHS = [9, 5, 0, 7]


def draw(*shape: int) -> Tensor:
    return torch.randn(*(shape or (T, B)), D, dtype=torch.float64)


# Iterative estimation -------------------------------------------------------------------------------------------------


def test_iterative_estimation_by_loops() -> None:
    layer, x = autapse.LSTM(D, H, **DOUBLE), draw()
    cells = layer(x, lengths=LENGTHS, return_states=True)[2][0][1][:, :, 0].detach().numpy()
    found = iterative_estimation(layer, x, LENGTHS, part=1)
    for t in range(T):
        here = [b for b in range(B) if t < LENGTHS[b]]
        to_end = np.stack([cells[t, b] - cells[LENGTHS[b] - 1, b] for b in here])
        change = np.stack([cells[t, b] - (cells[t - 1, b] if t else 0) for b in here])
        ends = [np.linalg.norm(cells[LENGTHS[b] - 1, b]) for b in here]
        np.testing.assert_allclose(found.to_end[t], to_end.mean(), atol=1e-14)
        np.testing.assert_allclose(found.to_end_variance[t], to_end.var(), atol=1e-14)
        np.testing.assert_allclose(found.to_end_units[t], to_end.mean(0), atol=1e-14)
        np.testing.assert_allclose(found.change[t], change.mean())
        np.testing.assert_allclose(found.change_variance[t], change.var())
        np.testing.assert_allclose(found.change_units[t], change.mean(0))
        np.testing.assert_allclose(found.residual[t], np.mean(np.linalg.norm(change, axis=1) / ends))
    assert found.growth(3) == pytest.approx(found.change_variance[-3:].mean() / found.change_variance[:-3].mean())
    assert np.isnan(found.growth(T))


def test_a_network_that_only_adds_its_input() -> None:
    """h_t = h_{t−1} + x_t: equation 3 holds if the input has mean zero, and the variance is that of the input."""
    layer = autapse.RNN(1, 1, nonlinearity="identity", bias=False, **DOUBLE)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1)
        layer.weight_hh_l0.fill_(1)
    x = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(5, 1)[:, :, None]
    found = iterative_estimation(layer, x)
    np.testing.assert_allclose(found.change, 0)
    np.testing.assert_allclose(found.change_variance, 1)
    np.testing.assert_allclose(found.to_end_variance, [16, 9, 4, 1, 0])
    np.testing.assert_allclose(found.residual, 0.2)


# Dual gates -----------------------------------------------------------------------------------------------------------

GATED = [
    ("LSTM", {}),
    ("LSTM", {"peepholes": True, "proj_size": 3}),
    ("GRU", {}),
    ("GRU", {"reset": "before"}),
    ("GRU", {"gates": "shared-reset"}),
    ("GRU", {"gates": "global-local"}),
    ("UGRNN", {}),
    ("FastGRNN", {}),
    ("FastRNN", {}),
    ("LeakyRNN", {"tau": (2.0, 9.0)}),
    ("Antisymmetric", {}),
    ("Antisymmetric", {"gated": True}),
    ("ERNN", {"eta": "per_step", "max_length": 4}),
    ("RNN", {}),
    ("RIN", {}),
]


@pytest.mark.parametrize(("name", "options"), GATED, ids=str)
def test_the_gates_make_the_states_and_the_contributions_sum_to_the_last(name: str, options: Any) -> None:
    layer, x = getattr(autapse, name)(D, H, **options, **DOUBLE), draw()
    gates = dual_gates(layer, x, LENGTHS)
    part = 1 if name == "LSTM" else 0
    states = layer(x, lengths=LENGTHS, return_states=True)[2][0][part][:, :, 0].detach().numpy()
    for b in range(B):
        h = np.zeros(H)
        for t in range(LENGTHS[b]):
            h = gates.candidate[t, b] * gates.transform[t, b] + h * gates.carry[t, b]  # equation 4
            np.testing.assert_allclose(h, states[t, b], atol=1e-12)
        # Equation 5, with h_0 = 0.
        total = sum(gates.candidate[t, b] * gates.transform[t, b] * gates.carried[t, b] for t in range(LENGTHS[b]))
        np.testing.assert_allclose(total, gates.last[b], atol=1e-12)
    np.testing.assert_allclose(gates.first + gates.contribution.sum(0), gates.last, atol=1e-12)
    assert gates.error < 1e-12
    assert (gates.carry[5:, 1] == 0).all()
    np.testing.assert_allclose(gates.share.sum(0), [1, 1, 0, 1])


def test_a_plain_network_sums_its_residuals() -> None:
    """Equation 11: without carry gates λ_T = h_T and the rest is zero, since nothing is carried."""
    gates = dual_gates(autapse.RNN(D, H, **DOUBLE), draw())
    assert (gates.carry == 0).all()
    assert (gates.transform == 1).all()
    assert (gates.contribution[:-1] == 0).all()
    np.testing.assert_allclose(gates.contribution[-1], gates.last)


def test_networks_without_gates_are_refused() -> None:
    for layer in (autapse.ERNN(D, H, inner_steps=2), autapse.Deep(D, H), autapse.EquilibriumTanh(D, H)):
        message = r"network must have a step of the form H ∘ T .* of several inner steps has none\."
        with pytest.raises(InputError, match=message):
            dual_gates(layer, torch.zeros(3, 1, D))


# Lesions --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["leave_out", "exchange"])
def test_lesions_by_cutting_the_sequences(kind: str) -> None:
    model, x, lengths = Classifier("gru", D, 2, hidden_size=H, **DOUBLE), draw(3, T), [9, 1, 6]
    found = lesion(model.train(), x, lambda output: output[:, 0].sum(), lengths, kind, steps=[0, 4, 7])
    assert model.training
    model.eval()
    for step, score in zip(found.steps, found.score, strict=True):
        expected = 0.0
        for b in range(3):
            rows = list(range(lengths[b]))
            if kind == "leave_out" and step < lengths[b] and lengths[b] > 1:
                rows.remove(step)
            if kind == "exchange" and step + 1 < lengths[b]:
                rows[step], rows[step + 1] = step + 1, step
            expected += float(model(x[b : b + 1, rows])[0, 0].detach())
        assert score == pytest.approx(expected)
    assert found.intact == pytest.approx(float(model(x, lengths)[:, 0].sum().detach()))
    np.testing.assert_allclose(found.change, found.score - found.intact)


def test_a_sum_does_not_mind_the_order() -> None:
    model = Classifier("gru", D, 2, hidden_size=H, **DOUBLE)
    x = torch.ones(2, 100, D, dtype=torch.float64)
    found = lesion(model, x, lambda output: output.sum(), kind="exchange")
    assert len(found.steps) == 64
    assert found.steps[[0, -1]].tolist() == [0, 98]
    np.testing.assert_allclose(found.change, 0, atol=1e-12)


# Discrimination and weights -------------------------------------------------------------------------------------------


def test_discrimination_by_pairs() -> None:
    layer, x, classes = autapse.GRU(D, H, **DOUBLE), draw(T, 5), [0, 1, 0, 1, 2]
    lengths = [9, 9, 9, 6, 9]
    states = layer(x)[0].detach().numpy()
    found = discrimination(layer, x, classes, lengths)
    for t in (0, 5, 8):
        within, between = [], []
        for a, b in itertools.combinations([n for n in range(5) if t < lengths[n]], 2):
            (within if classes[a] == classes[b] else between).append(np.linalg.norm(states[t, a] - states[t, b]))
        np.testing.assert_allclose(found.within[t], np.mean(within))
        np.testing.assert_allclose(found.between[t], np.mean(between))
        assert found.ratio[t] == pytest.approx(np.mean(within) / np.mean(between))


def test_distances_of_weights() -> None:
    layer = autapse.GRU(2, 3)
    recorder = WeightRecorder(layer)
    for amount in (0.0, 1.0, 2.0):
        with torch.no_grad():
            layer.weight_hh_l0.add_(amount)
            layer.bias_hh_l0.sub_(2 * amount)
        recorder.note()
    found = weight_distance(recorder.records)
    full = [np.sqrt(27 * n**2 + 9 * (2 * n) ** 2) for n in (3, 2, 0)]
    np.testing.assert_allclose(found.distance, full, rtol=1e-6)
    np.testing.assert_allclose(found.step, np.diff(full), rtol=1e-6)
    np.testing.assert_allclose(found.by_name["weight_hh_l0"], np.sqrt(27) * np.array([3, 2, 0]), rtol=1e-6)
    assert found.norm == pytest.approx(float(torch.cat([p.detach().flatten() for p in layer.parameters()]).norm()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: lesion(Tagger("gru", D, 2, hidden_size=4), draw(), torch.sum),
            "model must be a model with one output",
        ),
        (
            lambda: lesion(Classifier("gru", D, 2), draw(), torch.sum, kind="swap"),
            "kind must be one of leave_out, exch",
        ),
        (lambda: lesion(Classifier("gru", D, 2), draw(4, 1), torch.sum), "x must have shape (B, T, D) with at least"),
        (lambda: lesion(Classifier("gru", D, 2), torch.zeros(4, 5, D), list), "score must return a single number"),
        (lambda: discrimination(autapse.GRU(D, H, **DOUBLE), draw(), [0, 1]), "classes must have one class per"),
        (
            lambda: discrimination(autapse.GRU(D, H, **DOUBLE), draw(), [0] * B),
            "classes must have at least two classes",
        ),
        (lambda: weight_distance([]), "records must have at least one record"),
        (
            lambda: weight_distance([{"w": torch.zeros(2)}, {"w": torch.zeros(3)}]),
            "records must have w with shape (3,) in every record; got (2,)",
        ),
        (lambda: iterative_estimation(autapse.GRU(D, H, **DOUBLE), draw(), part=1), "part must be an integer of at"),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()
