"""Heads on fixed networks: they are solved from the data, and are those of scikit-learn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model
import torch
from torch import Tensor, nn

import autapse
from autapse.models import Classifier, Regressor, StepRegressor, Tagger
from autapse.models.solved_head import CLASS_PENALTIES, is_solvable
from autapse.tasks import Adding, ArrayTask
from autapse.training import ModelConfig, RunConfig, TrainingConfig, train


def batches(x: Tensor, y: Tensor, lengths: Tensor | None = None, size: int = 16) -> Any:
    """What the training loop gives to `start_from`."""

    def made() -> list[SimpleNamespace]:
        rows = torch.arange(len(x)).split(size)
        return [
            SimpleNamespace(inputs=x[r], targets=y[r], lengths=None if lengths is None else lengths[r]) for r in rows
        ]

    return made


def none() -> list[Any]:
    return []


def test_which_models_are_solved() -> None:
    assert is_solvable(Classifier("reservoir", 2, 3))
    assert is_solvable(Classifier("reservoir", 2, 3, num_layers=2, readout="mean"))
    for cell, options in (
        ("gru", {}),
        ("reservoir:learn=true", {}),
        ("reservoir", {"output_dropout": 0.1}),
        ("reservoir", {"input_dropout": 0.1}),
        ("reservoir", {"num_layers": 2, "dropout": 0.1}),
        ("reservoir", {"output_norm": True}),
        ("reservoir", {"input_noise": 0.1}),
    ):
        assert not is_solvable(Classifier(cell, 2, 3, **options)), (cell, options)


def test_values_at_the_end_and_at_every_step() -> None:
    x = torch.randn(400, 9, 2)
    y = torch.stack([x[:, -1, 0], x[:, -2, 1].square()], dim=1)
    ends = Regressor("reservoir", 2, 2, hidden_size=20, target_mean=(1.0, 2.0), target_scale=(3.0, 0.5))
    assert ends.start_from(batches(x, y), none) == float("inf")
    H = ends.features(x).double()
    least = sklearn.linear_model.LinearRegression().fit(H, y).predict(H)
    errors = [np.square(each - y.numpy()).mean() for each in (ends(x).detach().numpy(), least)]
    assert errors[0] < 1.1 * errors[1] < 0.7 * float(y.var())

    steps, lengths = StepRegressor("reservoir", 2, 1, hidden_size=20), torch.randint(1, 10, (400,))
    y = torch.where(torch.arange(9)[None] < lengths[:, None], x[:, :, 0], torch.nan)[..., None]
    assert steps.start_from(batches(x, y, lengths), none) == float("inf")
    known = ~y[..., 0].isnan()
    assert float((steps(x, lengths) - y).detach()[known].square().mean()) < 0.05


@pytest.mark.parametrize("kind", [Classifier, Tagger])
def test_classes(kind: type) -> None:
    x = torch.randn(200, 6, 2)
    y = (x.sum(-1) > 0).long() if kind is Tagger else (x[:, -1].sum(-1) > 0).long()
    if kind is Tagger:
        y[:, -1] = -100  # IGNORE
    model = kind("reservoir", 2, 2, hidden_size=15)
    assert model.start_from(batches(x[:100], y[:100]), batches(x[100:], y[100:])) == float("inf")
    wrong = (model(x[100:]).argmax(-1) != y[100:]) & (y[100:] >= 0)
    assert float(wrong.float().mean()) < 0.12

    H, known = model.features(x).double().numpy(), (y >= 0).numpy()
    losses = []
    for penalty in CLASS_PENALTIES:
        rows = H[:100][known[:100]]
        mean, scale = rows.mean(0), rows.std(0)
        truth = sklearn.linear_model.LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=5000)
        truth.fit((rows - mean) / scale, y[:100][known[:100]].numpy())
        chances = truth.predict_proba((H[100:][known[100:]] - mean) / scale)
        losses.append(-np.log(chances[range(len(chances)), y[100:][known[100:]].numpy()]).mean())
    ours = model(x[100:])[torch.from_numpy(known[100:])].softmax(-1).detach().numpy()
    # scikit-learn has one weight vector for two classes, which amounts to half of the penalty.
    assert -np.log(ours[range(len(ours)), y[100:][known[100:]].numpy()]).mean() < min(losses) + 0.02


def test_a_run_ends_without_a_step(tmp_path: Any) -> None:
    task = Adding(length=6, train_size=300, validation_size=50, test_size=50)
    config = RunConfig(task=task, model=ModelConfig(cell="reservoir", hidden_size=(60,)))
    summary = train(config, tmp_path / "run")
    assert summary["stopped_by"] == "closed form"
    assert summary["steps"] == 0
    assert summary["test"] < 0.5 * summary["baseline"]
    model = autapse.load(tmp_path / "run")
    data = task.split("test", 0)
    error = model(torch.from_numpy(data.inputs)).detach().numpy() - data.targets
    assert np.square(error).mean() == pytest.approx(summary["test"], rel=1e-4)


def test_other_losses_are_trained(tmp_path: Any) -> None:
    """Label smoothing is not what logistic regression minimises: the solution is only the start."""
    x = np.random.default_rng(0).normal(size=(60, 5, 2))
    task = ArrayTask(x, np.where(x[:, -1, 0] > 0, "up", "down"))
    training = TrainingConfig(steps=3, eval_every=3, label_smoothing=0.1)
    summary = train(RunConfig(task=task, model=ModelConfig(cell="reservoir"), training=training), tmp_path / "run")
    assert summary["steps"] == 3


def test_the_head_alone_changes() -> None:
    x, y = torch.randn(30, 5, 2), torch.randn(30, 1)
    model = Regressor("reservoir", 2, 1, hidden_size=10)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.start_from(batches(x, y), none)
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert changed == ["head.weight", "head.bias"]
    assert isinstance(model.head, nn.Linear)
