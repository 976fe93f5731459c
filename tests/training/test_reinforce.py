"""Networks that draw: the loop adds REINFORCE's term, and a run that is stopped and resumed ends with the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from autapse.layers.noted import DRAWS
from autapse.models import Classifier
from autapse.tasks import Adding, RepeatCopy
from autapse.training import Loop, ModelConfig, RunConfig, Tensors, Trainer, TrainingConfig, objective
from autapse.training.feeds import Batch
from autapse.training.objectives import of_each, weighted
from small import final_tensors, stopped_at

TASK = RepeatCopy(longest=2, repeats=2, symbols=2, train_size=64, validation_size=16, test_size=16)


def config_of(cell: str, steps: int = 12, **training: object) -> RunConfig:
    model = ModelConfig(cell=f"memory:slots=4:width=3:controller=gru:{cell}", hidden_size=(6,))
    settings = {"steps": steps, "batch_size": 8, "eval_every": 6, **training}
    return RunConfig(task=TASK, model=model, training=TrainingConfig(**settings))  # type: ignore[arg-type]


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    config = config_of("hard=sample", checkpoint_seconds=0)
    (tmp_path / "whole").mkdir()
    Trainer(config).start(tmp_path / "whole").train()
    stopped_at(5, tmp_path / "cut", config)
    Trainer.resume(tmp_path / "cut").train()
    whole, cut = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    assert float(whole["model.baseline.steps"]) == 12
    assert float(whole["model.baseline.mean"]) > 0


def test_the_gradient_of_a_step_is_that_of_the_surrogate() -> None:
    loop = Loop(config_of("hard=sample"))
    indices = loop.feed.sequences(0)
    batch = loop.feed.batch(0, indices)
    assert loop.model.baseline is not None
    loop.model.baseline.update(0.7)
    torch.manual_seed(3)
    with DRAWS.noted() as draws:
        output = loop.model(batch.inputs, batch.lengths)
    count = objective(TASK).count(batch)
    expected = loop.objective.loss(output, batch.targets)
    for n in range(len(output)):
        loss = torch.nn.functional.cross_entropy(output[n], batch.targets[n], reduction="sum")
        targets = int((batch.targets[n] >= 0).sum())
        expected = expected + (float(loss.detach()) - 0.7 * targets) * sum(d[n] for d in draws)
    wanted = torch.autograd.grad(expected / count, loop.parameters)
    torch.manual_seed(3)
    reported = loop._backward(indices)
    for parameter, gradient in zip(loop.parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)
    mean = float(loop.objective.loss(output, batch.targets).detach()) / count
    assert reported == pytest.approx(mean, rel=1e-5), "the term is not part of the loss that is reported"
    assert float(loop.model.baseline.mean) == pytest.approx(0.7 + (mean - 0.7) / 2, rel=1e-5)


@pytest.mark.parametrize("cell", ["hard=no", "hard=straight-through"])
def test_other_networks_have_no_baseline(cell: str) -> None:
    loop = Loop(config_of(cell))
    loop._train_once()
    assert loop.model.baseline is None
    assert not any("baseline" in name for name in loop.model.state_dict())


def test_the_loss_of_each_sequence_adds_up_to_the_loss() -> None:
    goal, data = objective(TASK), Tensors.of(TASK.split("test", seed=0), "cpu").take(list(range(6)))
    output, weights = torch.randn(*data.targets.shape, TASK.output_size), torch.tensor([1.0, 2.0, 0.5, 1.0, 1.0, 2.0])
    losses, counts = of_each(goal, output, data._replace(weights=weights))
    torch.testing.assert_close(losses.sum(), weighted(goal.loss, output, data.targets, weights))
    assert int(counts.sum()) == goal.count(data)
    adding = Adding(length=5)
    losses, counts = of_each(objective(adding), torch.zeros(3, 1), Batch(torch.zeros(3, 5, 2), torch.ones(3, 1)))
    assert (losses.tolist(), counts.tolist()) == ([1.0, 1.0, 1.0], [1, 1, 1])


def test_a_hard_memory_learns_what_it_can_only_learn_from_its_draws() -> None:
    """The vector that is written at the first step must be read at the last one. The heads choose the slot."""
    torch.manual_seed(0)
    x, y = torch.zeros(64, 3, 2), torch.randint(0, 2, (64,))
    x[torch.arange(64), 0, y] = 1.0
    cell = "memory:slots=3:width=4:controller=feedforward:addressing=location:hard=sample:initial_address=uniform"
    model = Classifier(cell, 2, 2, hidden_size=8)
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(150):
        with DRAWS.noted() as draws:
            losses = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
        loss = losses.mean() + model.surrogate(losses, torch.ones(64), draws) / 64
        assert model.baseline is not None
        model.baseline.update(float(losses.detach().mean()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float((model.eval()(x).argmax(1) != y).float().mean()) < 0.05
