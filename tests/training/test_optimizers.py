import pytest
import torch

from autapse.training import TrainingConfig
from autapse.training.optimizers import OPTIMIZERS, make_optimizer

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
