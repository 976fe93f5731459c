import math

import pytest
import torch

from autapse import checks
from autapse.training import TrainingConfig
from autapse.training.schedule import learning_rate


def test_constant():
    config = TrainingConfig(learning_rate=0.3)
    assert [learning_rate(config, step, 2000, 5) for step in (0, 7, 1999)] == [0.3] * 3


def test_periodic_halves_at_each_period():
    config = TrainingConfig(learning_rate=1.0, schedule="periodic", period=10)
    assert [learning_rate(config, step, 100, 0) for step in (0, 9, 10, 19, 20, 35)] == [1, 1, 0.5, 0.5, 0.25, 0.125]


def test_plateau_halves_per_halving():
    config = TrainingConfig(learning_rate=0.8, schedule="plateau")
    assert [learning_rate(config, 100, 2000, halvings) for halvings in range(3)] == [0.8, 0.4, 0.2]


def test_drop_is_a_tenth_after_two_thirds():
    config = TrainingConfig(learning_rate=0.5, schedule="drop")
    assert [learning_rate(config, step, 300, 0) for step in (0, 199, 200, 299)] == [0.5, 0.5, 0.05, 0.05]


def test_cosine_is_torchs():
    config = TrainingConfig(learning_rate=0.1, schedule="cosine")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for step in range(20):
        assert math.isclose(learning_rate(config, step, 20, 0), scheduler.get_last_lr()[0], rel_tol=1e-12)
        optimizer.step()
        scheduler.step()


def test_what_a_plateau_goes_by_needs_the_plateau_schedule():
    with pytest.raises(checks.InputError, match='plateau_by must be "score" without schedule="plateau"'):
        TrainingConfig(plateau_by="loss")


def test_a_period_goes_with_the_periodic_schedule():
    with pytest.raises(checks.InputError, match="period must be set with schedule"):
        TrainingConfig(period=10)
    with pytest.raises(checks.InputError, match="period must be set with schedule"):
        TrainingConfig(schedule="periodic")
