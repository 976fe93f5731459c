"""The loss with label smoothing and class weights, against the equations."""

import dataclasses

import pytest
import torch

from autapse import checks
from autapse.tasks import IGNORE, Adding, Signature
from autapse.training import Loop, TrainingConfig, fit, objective
from autapse.training.amounts import augmentation
from autapse.training.augment import change_batch
from autapse.training.feeds import Batch
from autapse.training.loop import load_splits
from autapse.training.objectives import balanced_weights, training_loss, weighted
from small import small_config

CLASSES = Signature(kind="classification", input_size=1, output_size=3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labels(Adding):
    kind = "classification"
    metric = "error rate"


def test_balanced_weights_are_those_of_scikit_learn():
    """N / (K n_c), as in compute_class_weight("balanced"); ignored targets do not count."""
    targets = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 2, IGNORE])
    assert balanced_weights(targets, 3).tolist() == pytest.approx([9 / 18, 9 / 6, 9 / 3])


def test_smoothing_and_weights_are_in_the_loss_of_the_training_only():
    torch.manual_seed(0)
    goal, targets = objective(Labels()), torch.tensor([0, 0, 1, 2])
    settings = TrainingConfig(label_smoothing=0.3, class_weights="balanced")
    output = torch.randn(4, 3)
    logs = output.log_softmax(-1)
    weights = torch.tensor([4 / 6, 4 / 3, 4 / 3])
    # 0.7 of the probability is on the class, 0.1 on each of the three.
    smooth = torch.nn.functional.one_hot(targets, 3) * 0.7 + 0.1
    expected = -(smooth * logs * weights).sum()
    assert float(training_loss(goal, settings, CLASSES, targets)(output, targets)) == pytest.approx(float(expected))
    assert float(goal.loss(output, targets)) == pytest.approx(float(-logs[range(4), targets].sum()))


def test_a_plain_training_has_the_plain_loss():
    goal = objective(Labels())
    assert training_loss(goal, TrainingConfig(), CLASSES, torch.tensor([0])) is goal.loss


@pytest.mark.parametrize("setting", [{"label_smoothing": 0.1}, {"class_weights": "balanced"}])
def test_values_have_no_classes_to_smooth_or_weigh(setting):
    with pytest.raises(checks.InputError, match=f"{next(iter(setting))} must be used with classes only"):
        fit(small_config(**setting))


def test_a_weight_multiplies_the_loss_of_its_sequence():
    torch.manual_seed(0)
    output, targets = torch.randn(5, 7, 3), torch.randint(3, (5, 7))
    weights = torch.tensor([2.0, 0.5, 2.0, 0.0, 1.25])
    logs = torch.nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten(), reduction="none")
    expected = (logs.reshape(5, 7).sum(1) * weights).sum()
    loss = objective(Labels()).loss
    assert float(weighted(loss, output, targets, weights)) == pytest.approx(float(expected))
    assert weighted(loss, output, targets, None) == loss(output, targets)


def test_training_uses_the_weights_of_its_sequences():
    """With weight 0 for all but one sequence, the gradient is that of this sequence alone."""
    config = small_config(batch_size=200)
    data = load_splits(config)
    weights = torch.zeros(200)
    weights[17] = 200.0
    loop = Loop(config, data=data | {"train": dataclasses.replace(data["train"], weights=weights)})
    loop._backward(loop.feed.sequences(0))
    gradient = loop.model.head.weight.grad.clone()
    loop.model.zero_grad()
    batch = data["train"].take([17])
    (loop.model(batch.inputs, batch.lengths) - batch.targets).square().mean().backward()
    torch.testing.assert_close(gradient, loop.model.head.weight.grad)


def test_mixed_sequences_bring_their_weights():
    torch.manual_seed(0)
    batch = Batch(torch.randn(6, 4, 1), torch.arange(6.0)[:, None], weights=torch.arange(6.0))
    mixed = [mixed for _ in range(9) if (mixed := change_batch(batch, augmentation("mixup=0.5"), per_step=False)[1])]
    assert mixed
    assert all(torch.equal(one.weights, one.targets[:, 0]) for one in mixed)
