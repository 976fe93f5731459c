"""A diagnosis against the probes themselves, for models of several kinds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.diagnostics import dual_gates, gradient_flow, lesion, linear_memory, saturation
from autapse.diagnostics.diagnosis import PROBES, diagnose
from autapse.diagnostics.trajectories import trajectory
from autapse.models import Classifier, LanguageModel, QuestionAnswering, Regressor, Tagger

X, Y, LENGTHS = (6, 30, 2), (6, 1), torch.tensor([30, 30, 12, 30, 25, 30])


def found_in(model: Any, x: torch.Tensor, lengths: Any = None, **given: Any) -> tuple[dict[str, Any], dict[str, str]]:
    diagnosis = diagnose(model, x, lengths, **{"budget": 600.0} | given)  # a busy machine cuts nothing short
    for finding in diagnosis.findings:
        assert re.fullmatch(r"[A-Z0-9][^\n]*\.", finding.sentence), finding.sentence
    return {finding.name: finding for finding in diagnosis.findings}, diagnosis.skipped


def test_ten_numbers_of_a_network_with_gates() -> None:
    model, x, y = Regressor("gru", 2, 1, hidden_size=5), torch.randn(X), torch.randn(Y)
    named = []
    numbers, skipped = found_in(
        model,
        x,
        LENGTHS,
        loss=lambda output: (output - y).square().mean(),
        score=lambda output: (output - y).square().mean(),
        notify=named.append,
    )
    assert len(numbers) == 10
    assert set(skipped) == {"contraction", "implicit solves"}
    assert named == list(PROBES)
    flow = gradient_flow(model, x, LENGTHS)
    assert numbers["gradient_gain"].value == pytest.approx(flow.typical[-1])
    assert numbers["gradient_reach"].value == flow.reach(0.01)
    assert f"{flow.rate:.4f} per step" in numbers["gradient_gain"].sentence
    assert numbers["linear_memory"].value == linear_memory(model, x, LENGTHS).reach()
    flat = saturation(model, x, LENGTHS).flat
    assert flat is not None
    assert numbers["flat_activations"].value == pytest.approx(flat.mean())
    carry = dual_gates(model, x, LENGTHS).carry
    valid = np.arange(30)[:, None] < LENGTHS.numpy()
    assert numbers["carry"].value == pytest.approx(carry[valid].mean())
    change = lesion(model, x, lambda output: (output - y).square().mean(), LENGTHS).change
    assert numbers["lesion"].value == pytest.approx(change.max())


def test_an_orthogonal_network_keeps_its_gradients() -> None:
    layer = autapse.OrthogonalRNN(2, 6, nonlinearity="identity", batch_first=True)
    numbers, _ = found_in(Regressor(layer, 2, 1), torch.randn(X))
    assert numbers["gradient_gain"].value == pytest.approx(1, rel=1e-3)
    assert numbers["gradient_gain"].sentence.startswith("Gradients over 30 steps keep their size")
    assert numbers["gradient_reach"].sentence == "Gradients keep 1 % of their size over all 30 steps."
    assert numbers["lyapunov"].value == pytest.approx(0, abs=1e-3)
    assert "no carry gate" in numbers["carry"].sentence


@pytest.mark.parametrize("cell", ["lstm", "ernn:inner_steps=2", "equilibriumtanh", "deep", "memory:slots=4:width=3"])
def test_other_networks(cell: str) -> None:
    model = Classifier(cell, 2, 3, hidden_size=5, num_layers=2)
    numbers, skipped = found_in(model, torch.randn(4, 12, 2), [12, 5, 9, 12], layer=1)
    assert {"gradient_gain", "lyapunov", "linear_memory"} <= set(numbers)
    assert {"gradient of the loss", "lesions"} <= set(skipped)


def test_equilibria_and_implicit_networks() -> None:
    numbers, _ = found_in(Classifier("ernn:inner_steps=2", 2, 3, hidden_size=5), torch.randn(4, 12, 2))
    assert 0 <= numbers["contraction"].value <= 1
    midpoint = Classifier("implicitmidpoint:step=0.1", 2, 3, hidden_size=5)  # ‖ε/2·φ′·M‖ is far below 1
    assert found_in(midpoint, torch.randn(4, 12, 2), [12, 3, 0, 7])[0]["contraction"].value == 1
    numbers, skipped = found_in(Classifier("implicitgru", 2, 3, hidden_size=5), torch.randn(4, 12, 2))
    assert set(numbers) == {"evaluations", "spread", "linear_memory", "dead_units"}
    assert "take steps from one state to the next" in skipped["gradient flow"]


def test_models_whose_layer_reads_something_else_than_the_input() -> None:
    """Words, the outputs of other layers, and frames of several steps."""
    time = torch.tensor([[0, 0, 0, 1, 1]] * 4)
    story = torch.stack([torch.randint(0, 9, (4, 5)), time], dim=2)
    model = QuestionAnswering("gru", 1, 6, hidden_size=4, vocabularies=[30], embedding_size=[20])
    assert trajectory(model, story).inputs.shape == (5, 4, 4)
    assert "gradient_gain" in found_in(model, story)[0]
    words = torch.randint(0, 9, (4, 20, 1))
    numbers, _ = found_in(
        LanguageModel("gru", 1, 9, hidden_size=4, vocabularies=[9], embedding_size=[5]), words, loss=torch.sum
    )
    assert {"gradient_gain", "loss_gradient_at_start"} <= set(numbers)
    framed = Classifier("gru", 2, 3, hidden_size=4, front="frames:size=4")
    assert trajectory(framed, torch.randn(3, 20, 2)).inputs.shape == (5, 3, 8)


def test_a_budget_and_what_is_written() -> None:
    model = Tagger("gru", 2, 3, hidden_size=4)
    nothing = diagnose(model, torch.randn(X), budget=0.0)
    assert not nothing.findings
    assert set(nothing.skipped) == set(PROBES)
    assert nothing.skipped["units"] == "no time left of 0 s"
    assert (nothing.late, nothing.too_large) == (tuple(PROBES), ())
    written = diagnose(model, torch.randn(X)).to_json()
    assert set(written) == {"findings", "skipped", "late", "too_large", "cut", "seconds"}
    assert not written["cut"]
    assert not written["late"]
    assert set(written["findings"][0]) == {"name", "value", "sentence"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: diagnose(Regressor("gru", 2, 1), torch.zeros(0, 5, 2)), "x must have at least one sequence"),
        (lambda: diagnose(Regressor("feedforward", 2, 1), torch.zeros(2, 5, 2)), "network must have a recurrence"),
        (lambda: diagnose(Regressor("gru", 2, 1), torch.zeros(2, 5, 2), layer=1), "layer must be an integer"),
        (lambda: diagnose(Regressor("gru", 2, 1), torch.zeros(2, 5, 2), budget=-1), "budget must be a finite number"),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_budget_cuts_probes_short(ticking: None) -> None:
    """Each look at the clock is a second later: no probe takes more looks than it has seconds."""
    model, x, y = Regressor("gru", 2, 1, hidden_size=5), torch.randn(16, 60, 2), torch.randn(16, 1)
    goal = {name: lambda output: (output - y).square().mean() for name in ("loss", "score")}
    diagnosis = diagnose(model, x, **goal, budget=120.0)
    assert re.fullmatch(r"\d+ of 60 steps", diagnosis.cut["gradient flow"])
    lag = diagnosis.cut["gradient flow"].split()[0]
    first = diagnosis.findings[0].sentence
    assert first.startswith(f"Gradients over {lag} steps")
    assert first.endswith(f"(Cut short by the budget: {lag} of 60 steps.)")
    assert diagnosis.seconds < 120 + 3 * len(PROBES)  # a probe that has no time looks at the clock too
    skipped = {name for name, reason in diagnosis.skipped.items() if "no time left of 120 s" in reason}
    assert skipped
    assert diagnosis.to_json()["cut"] == diagnosis.cut
