"""What an implicit layer could not solve changes no gradient, and is predicted all the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.models import Classifier, Regressor, SequenceModel, Tagger
from autapse.solve import NotConvergedWarning, Solver, SolveReport, recommended

LENGTHS = [6, 5, 3, 0, 1]
BAD = 1  # the sequence of length 5, which is not solved
GOOD = [0, 2, 3, 4]
MODELS = {"classifier": Classifier, "regressor": Regressor, "tagger": Tagger}


class Fails(Solver):
    """The recommended chain, but a sequence of five steps is left far from its solution."""

    def solve(self, system: Any, start: Tensor | None = None, rtol: float | None = None) -> tuple[Tensor, SolveReport]:
        z, report = recommended().solve(system, start, rtol)
        failed = system.layout.lengths == 5
        z = z + 3.0 * system.groups.spread(failed.to(z.dtype), z)
        return z, dataclasses.replace(report, converged=report.converged & ~failed)


def build(kind: str, cell: str, layers: int) -> SequenceModel:
    model: SequenceModel = MODELS[kind](cell, 2, 3, hidden_size=4, num_layers=layers, dtype=torch.float64)
    model.layer.solving.solver = Fails()
    return model


def loss(kind: str, output: Tensor, target: Tensor, lengths: list[int]) -> Tensor:
    """A sum over sequences, or over their positions, as objectives are."""
    if kind == "regressor":
        return (output - F.one_hot(target, 3)).square().mean(-1).sum()
    if kind == "classifier":
        return F.cross_entropy(output, target, reduction="sum")
    inside = torch.arange(output.shape[1]) < torch.tensor(lengths)[:, None]
    tags = torch.where(inside, target[:, None], -100)
    return F.cross_entropy(output.flatten(0, 1), tags.flatten(), reduction="sum")


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["implicitgru:tolerance=1e-10", "implicitlstm:tolerance=1e-10"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.filterwarnings("ignore::autapse.solve.NotConvergedWarning")
def test_gradients_are_those_of_the_batch_without_it(kind: str, cell: str, layers: int) -> None:
    model = build(kind, cell, layers)
    x, target = torch.randn(5, 6, 2, dtype=torch.float64).requires_grad_(), torch.tensor([0, 1, 2, 0, 1])
    count = 5  # the loss is a mean over the whole batch, with the unsolved
    (loss(kind, model(x, LENGTHS), target, LENGTHS) / count).backward()
    assert model.layer.converged().tolist() == [n != BAD for n in range(5)]
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert x.grad is not None
    assert x.grad[BAD].abs().max() == 0
    model.zero_grad()
    rest = [LENGTHS[n] for n in GOOD]
    (loss(kind, model(x.detach()[GOOD], rest), target[GOOD], rest) / count).backward()
    assert model.layer.converged() is None
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-9, atol=1e-11)
        assert float(found[name].abs().max()) > 0 or "edges" in name


@pytest.mark.parametrize("kind", MODELS)
def test_outputs_and_predictions_are_there_for_all(kind: str) -> None:
    """Masking is of gradients alone: the values are the head on the states that the layer has."""
    model, x = build(kind, "implicitgru", 1).eval(), torch.randn(5, 6, 2, dtype=torch.float64)
    with pytest.warns(NotConvergedWarning, match="1 of 5 sequences did not converge"):
        output = model(x, LENGTHS)
    states, h_n = model.layer(x, lengths=LENGTHS)
    expected = model.head(states if kind == "tagger" else h_n[-1])
    assert torch.equal(output, expected)
    predicted = model.predict(x, LENGTHS)
    assert torch.equal(predicted, output if kind == "regressor" else output.argmax(-1))
    alone = model.predict(x[GOOD], [LENGTHS[n] for n in GOOD])
    torch.testing.assert_close(predicted[GOOD], alone, rtol=1e-6, atol=1e-9)


def test_a_batch_without_a_single_solution_has_gradients_of_zero() -> None:
    model, x = build("regressor", "implicitgru", 1), torch.randn(2, 5, 2, dtype=torch.float64)
    with pytest.warns(NotConvergedWarning):
        model(x, [5, 5]).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() == 0 for p in model.parameters())
