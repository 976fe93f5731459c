import itertools
import math
import time

import pytest
import torch

from autapse import checks
from autapse.training import TrainingConfig, fit
from autapse.training.schedule import learning_rate
from small import small_config


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


def test_warm_up_rises_in_a_line_and_then_the_schedule_begins():
    config = TrainingConfig(learning_rate=1.0, schedule="cosine", warmup=0.2)
    rates = [learning_rate(config, step, 100, 0) for step in range(100)]
    assert rates[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    plain = TrainingConfig(learning_rate=1.0, schedule="cosine")
    assert rates[20:] == pytest.approx([learning_rate(plain, step, 80, 0) for step in range(80)])


def test_a_schedule_follows_the_time_if_that_ends_first():
    config = TrainingConfig(learning_rate=1.0, schedule="cosine", seconds=100)
    assert learning_rate(config, 10, 1000, 0, seconds=50.0) == pytest.approx(0.5)
    assert learning_rate(config, 10, 1000, 0, seconds=100.0) == pytest.approx(0.0, abs=1e-12)
    assert learning_rate(config, 500, 1000, 0, seconds=1.0) == pytest.approx(0.5)  # the steps end first
    drop = TrainingConfig(learning_rate=1.0, schedule="drop", seconds=90)
    assert [learning_rate(drop, 1, 1000, 0, seconds) for seconds in (59.0, 61.0)] == [1.0, 0.1]


def test_a_run_with_a_time_limit_ends_with_a_small_rate(monkeypatch):
    """By a clock that counts its own readings: a hundredth of a second each."""
    readings = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings) / 100)
    config = small_config(steps=1_000_000, seconds=1.0, schedule="cosine", learning_rate=1.0, clip_norm=0.01)
    _, history, progress = fit(config)
    rates = [record["rate"] for record in history if "rate" in record]
    assert progress.stopped_by == "time"
    assert rates[0] > 0.9
    assert rates[-1] < 0.02


def test_what_a_plateau_goes_by_needs_the_plateau_schedule():
    with pytest.raises(checks.InputError, match='plateau_by must be "score" without schedule="plateau"'):
        TrainingConfig(plateau_by="loss")


def test_a_period_goes_with_the_periodic_schedule():
    with pytest.raises(checks.InputError, match="period must be set with schedule"):
        TrainingConfig(period=10)
    with pytest.raises(checks.InputError, match="period must be set with schedule"):
        TrainingConfig(schedule="periodic")
