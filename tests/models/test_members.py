"""Several models that answer together."""

import numpy as np
import pytest
import torch

import autapse
from autapse import checks
from autapse.models import Classifier, Forecaster, LanguageModel, Regressor, StepRegressor, Tagger
from autapse.tasks import ArrayTask
from autapse.training import ModelConfig, RunConfig, TrainingConfig, fit, train
from autapse.training.amounts import augmentation
from autapse.training.augment import changed_inputs
from autapse.training.loop import Loop

FRONT = {"front": "conv:channels=4:kernels=3:pool=2", "readout": "mean-max", "readout_front": True}


def make(kind, **settings):
    values = {"target_mean": [3.0, -1.0], "target_scale": [2.0, 5.0]} if issubclass(kind, Regressor) else {}
    front = {} if kind.every_step else FRONT
    return kind("gru", 3, 2, hidden_size=5, dtype=torch.float64, **front, **values, **settings).eval()


def perturbed(model):
    """Batch norms that are not at their start, so that the members differ there too."""
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.add_(0.1 * torch.rand_like(value))
    return model


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", [Classifier, Tagger, Regressor, StepRegressor])
def test_they_answer_with_the_mean(kind, x):
    members = [make(kind) for _ in range(3)]
    alone = torch.stack([one(x, [9, 4, 7, 1]) for one in members])
    joined = members[0].join(members[1:])(x, [9, 4, 7, 1])
    mean = alone.softmax(-1).mean(0) if kind.has_classes else alone.mean(0)
    torch.testing.assert_close(joined.softmax(-1) if kind.has_classes else joined, mean)


@pytest.mark.parametrize("kind", [Classifier, Tagger, Regressor, StepRegressor])
def test_a_stream_gives_what_they_answer_for_the_whole(kind, x):
    front = {} if kind.every_step else FRONT
    model = kind("gru", 3, 2, hidden_size=5, dtype=torch.float64, streaming=True, **front)
    others = [kind("gru", 3, 2, hidden_size=5, dtype=torch.float64, streaming=True, **front) for _ in range(2)]
    model = perturbed(model.join(others)).eval()
    stream = model.stream(batch_size=4)
    for t in range(x.shape[1]):
        scores = stream(x[:, t])
        whole = model(x[:, : t + 1])
        whole = whole[:, -1] if kind.every_step else whole
        torch.testing.assert_close(scores, (whole.softmax(-1) if kind.has_classes else whole).detach())


@pytest.mark.parametrize("kind", [Forecaster, LanguageModel])
def test_other_kinds_answer_alone(kind):
    made = [kind("gru", 1, 3, hidden_size=4) for _ in range(2)]
    with pytest.raises(checks.InputError, match=f"members must be 1 for a {kind.__name__}; got 2"):
        made[0].join(made[1:])


def test_cells_that_draw_answer_alone():
    made = [Classifier("memory:slots=3:hard=sample", 3, 2, hidden_size=4) for _ in range(2)]
    with pytest.raises(checks.InputError, match="members must be 1 for a cell that draws random numbers; got 2"):
        made[0].join(made[1:])


def small_task(kind: str) -> ArrayTask:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(12, 6, 2))
    targets = np.array(["a", "b", "c"] * 4) if kind == "classes" else inputs[:, :, 0].sum(1)
    return ArrayTask(inputs, targets, test_share=0.0, validation=0.0)


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_each_learns_by_itself(kind):
    """With plain gradient descent, k members at k times the rate have the weights of k trainings of one."""
    task = small_task(kind)
    training = {"optimizer": "sgd", "steps": 5, "batch_size": 6, "clip_norm": None, "eval_every": 5}

    def loop(members: int, rate: float) -> Loop:
        model = ModelConfig(hidden_size=(4,), members=members)
        return Loop(RunConfig(task=task, model=model, training=TrainingConfig(learning_rate=rate, **training)))

    together = loop(2, 0.2)
    start = [{name: value.clone() for name, value in own.items()} for own in map(own_weights, together.model.members)]
    together.run()
    for weights, member in zip(start, together.model.members, strict=True):
        alone = loop(1, 0.1)
        alone.model.load_state_dict(weights)
        alone.run()
        trained = own_weights(member)
        assert any(not torch.equal(trained[name], weights[name]) for name in weights)
        for name, value in alone.model.state_dict().items():
            torch.testing.assert_close(trained[name], value)


def own_weights(member) -> dict[str, torch.Tensor]:
    return {name: value for name, value in member.state_dict().items() if not name.startswith("others.")}


def test_a_run_keeps_them(tmp_path):
    model = ModelConfig(hidden_size=(4,), members=3)
    config = RunConfig(task=small_task("classes"), model=model, training=TrainingConfig(steps=3))
    train(config, tmp_path / "run")
    loaded, trained = autapse.load(tmp_path / "run"), fit(config).model
    assert len(loaded.members) == 3
    x = torch.randn(2, 6, 2)
    torch.testing.assert_close(loaded.predict_proba(x), trained.predict_proba(x))


def test_noise_is_drawn_for_each():
    """The same weights in both members: with jitter their outputs differ."""
    one, two = make(Classifier), make(Classifier)
    two.load_state_dict(one.state_dict())
    model = one.join([two]).train()
    x = torch.zeros(8, 9, 3, dtype=torch.float64)
    with changed_inputs(model, augmentation("jitter=0.5")):
        first, second = model(x)
    assert not torch.allclose(first, second)
