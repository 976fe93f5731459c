import math

import pytest
import torch

from autapse.checks import InputError
from autapse.training import TrainingConfig
from autapse.training.optimizers import OPTIMIZERS, make_optimizer, set_rates
from autapse.training.schedule import momentum

RATE = 0.1


def trajectory(name: str, gradients: list[float]) -> list[float]:
    p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = make_optimizer(TrainingConfig(optimizer=name, learning_rate=RATE), [p])
    values = []
    for g in gradients:
        p.grad = torch.full_like(p, g)
        optimizer.step()
        values.append(p.item())
    return values


def test_sgd_is_its_formula():
    assert trajectory("sgd", [1.0, 2.0]) == pytest.approx([-0.1, -0.3])


def test_momentum_is_its_formula():
    # v = 0.9 v + g: 1, then 2.9
    assert trajectory("momentum", [1.0, 2.0]) == pytest.approx([-0.1, -0.1 - 0.29])


def test_nesterov_is_its_formula():
    # g + 0.9 v: 1 + 0.9, then 2 + 0.9·2.9
    assert trajectory("nesterov", [1.0, 2.0]) == pytest.approx([-0.19, -0.19 - 0.461])


def test_adagrad_is_its_formula():
    assert trajectory("adagrad", [1.0, 2.0]) == pytest.approx([-0.1, -0.1 - 0.2 / 5**0.5], rel=1e-6)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adams_first_step_is_the_rate(name):
    assert trajectory(name, [123.0]) == pytest.approx([-0.1])


def test_rmsprop_is_its_formula():
    # v = 0.01 g² at first, so the step is rate / √0.01
    assert trajectory("rmsprop", [3.0]) == pytest.approx([-1.0], rel=1e-6)


def test_only_adamw_decouples_its_decay():
    moved = {}
    for name in OPTIMIZERS:
        p = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        optimizer = make_optimizer(TrainingConfig(optimizer=name, learning_rate=RATE, weight_decay=0.5), [p])
        p.grad = torch.zeros_like(p)
        optimizer.step()
        moved[name] = 1 - p.item()
    assert moved["adamw"] == pytest.approx(RATE * 0.5)
    assert moved["sgd"] == pytest.approx(RATE * 0.5)
    assert moved["adam"] == pytest.approx(RATE)  # the decay went through the normalised gradient


def test_nesterov_with_a_changing_momentum_is_its_formula():
    config = TrainingConfig(optimizer="nesterov", learning_rate=RATE, momentum=0.95, momentum_schedule="sutskever")
    p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer, expected, v = make_optimizer(config, [p]), 0.0, 0.0
    for step, g in zip((0, 249, 250, 10_000), (1.0, 2.0, -1.0, 0.5), strict=True):
        mu = min(1 - 2 ** (-1 - math.log2(step // 250 + 1)), 0.95)  # equation 5 of the paper
        v = mu * v + g
        expected -= RATE * (g + mu * v)
        set_rates(optimizer, config, RATE, momentum(config, step, 100_000))
        p.grad = torch.full_like(p, g)
        optimizer.step()
        assert p.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("steps", "last"), [(50_000, 1000), (2000, 200)])
def test_the_momentum_falls_at_the_end(steps, last):
    config = TrainingConfig(optimizer="nesterov", momentum=0.99, momentum_schedule="sutskever")
    before, after = (momentum(config, steps - last + n, steps) for n in (-1, 0))
    assert before == min(1 - 1 / (2 * ((steps - last - 1) // 250 + 1)), 0.99)
    assert after == 0.9


def test_momentum_is_constant_by_default():
    assert {momentum(TrainingConfig(), step, 1000) for step in (0, 500, 999)} == {0.9}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer": "nesterov", "momentum": 1.0}, "momentum must be above 0 and below 1; got 1.0"),
        ({"optimizer": "nesterov", "momentum": -0.5}, "momentum must be above 0 and below 1; got -0.5"),
        ({"optimizer": "adam", "momentum": 0.5}, "momentum must be unset, or 0.9, with optimizer='adam'; got 0.5"),
        ({"optimizer": "sgd", "momentum_schedule": "sutskever"}, "momentum_schedule must be unset"),
    ],
)
def test_momentum_that_does_not_apply_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        TrainingConfig(**settings)
