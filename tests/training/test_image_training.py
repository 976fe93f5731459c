"""Models of images are trained, resumed, loaded and compared as all others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.cli.main import main
from autapse.models import ImageClassifier, Segmenter
from autapse.tasks import MNISTImage, Shapes
from autapse.training import (
    ImageConfig,
    ModelConfig,
    RunConfig,
    SegmenterConfig,
    Trainer,
    TrainingConfig,
    make_model,
    train,
)

TASK = Shapes(smallest=8, largest=10, shapes=1, train_size=24, validation_size=8, test_size=8)
MODEL = SegmenterConfig(cell="rnn", hidden_size=(4, 4), dropout=0.2)
TRAINING = TrainingConfig(steps=6, batch_size=4, eval_every=3)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return autapse.load(folder).state_dict()


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    config = RunConfig(task=TASK, model=MODEL, training=TRAINING)
    train(config, tmp_path / "whole")
    short = RunConfig(task=TASK, model=MODEL, training=TrainingConfig(steps=3, batch_size=4, eval_every=3))
    train(short, tmp_path / "parts")
    Trainer.resume(tmp_path / "parts", steps=6).train()
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_loaded_model_segments(tmp_path: Path) -> None:
    summary = train(RunConfig(task=TASK, model=MODEL, training=TRAINING), tmp_path / "run")
    assert summary is not None
    assert summary.classes is not None
    model = autapse.load(tmp_path / "run")
    assert isinstance(model, Segmenter)
    (answer,) = model.predict([np.zeros((7, 11))])
    assert answer.shape == (7, 11)
    assert set(np.unique(answer)) <= set(TASK.signature().classes)


def test_a_network_learns_shapes() -> None:
    from autapse.training import fit

    task = Shapes(smallest=8, largest=10, shapes=1, noise=0.05, train_size=64, validation_size=16, test_size=16)
    settings = TrainingConfig(steps=60, batch_size=16, learning_rate=0.02, eval_every=60)
    history = fit(RunConfig(task=task, model=SegmenterConfig(hidden_size=8), training=settings)).history
    losses = [record["loss"] for record in history if "loss" in record]
    assert losses[-1] < 0.6 * losses[0]


def test_settings_are_those_of_the_kind() -> None:
    assert isinstance(RunConfig(task=TASK).model, SegmenterConfig)
    assert isinstance(RunConfig(task=MNISTImage()).model, ImageConfig)
    made = make_model(MNISTImage(), ImageConfig(hidden_size=3, patch=4))
    assert isinstance(made, ImageClassifier)
    assert made(torch.zeros(2, 28, 28, 1)).shape == (2, 10)
    with pytest.raises(InputError, match="bidirectional must keep its default for shapes"):
        RunConfig(task=TASK, model=ModelConfig(bidirectional=True))
    with pytest.raises(InputError, match="augment must be jitter or scaling for segmentation"):
        autapse.training.Loop(RunConfig(task=TASK, model=MODEL, training=TrainingConfig(augment="warp")))


def test_the_command_line_trains_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["--largest", "16", "--train-size", "8", "--validation-size", "4", "--test-size", "4", "--steps", "2"]
    assert main(["run", "shapes", "--axes", "rows", "--hidden-size", "3", *small, "--out", "run"]) == 0
    assert main(["eval", "run"]) == 0
    assert main(["compare", "shapes", "--cells", "rnn,gru", "--hidden-size", "3", *small]) == 0
