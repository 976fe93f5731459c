"""`autapse online`: it learns a stream that changes, and continues to the bit."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from autapse import checks
from autapse.cli.main import main
from autapse.tasks.drift import RADIUS, Drift
from autapse.training.online_config import OnlineConfig
from autapse.training.online_run import OnlineRun
from autapse.training.trainer import Interrupted


def test_the_stream_has_variance_one_and_the_noise_that_it_says() -> None:
    stream, steps = Drift(period=20_000), 80_000
    z, sigma = stream.values(steps, seed=0), stream.noise(steps, seed=0)
    assert z.var() == pytest.approx(1.0, rel=0.2)
    first = 2 * RADIUS * np.cos(stream.frequencies(steps, seed=0))
    residual = z[2:] - first[1:] * z[1:-1] + RADIUS**2 * z[:-2]
    for part in range(4):  # in each period, what the best predictor leaves is the noise
        rows = slice(part * 20_000, (part + 1) * 20_000 - 2)
        assert residual[rows].std() == pytest.approx(sigma[part * 20_000], rel=0.05)


def test_the_same_seed_gives_the_same_stream() -> None:
    stream = Drift(period=10)
    assert np.array_equal(stream.values(30, 1), stream.values(30, 1))
    assert not np.array_equal(stream.values(30, 1), stream.values(30, 2))


def test_learning_beats_the_value_before_and_a_network_that_stopped_to_learn() -> None:
    settings: dict[str, Any] = {"cell": "rnn", "hidden_size": (4,), "steps": 600, "period": 300, "record_every": 100}
    learning, frozen = (OnlineRun(OnlineConfig(learning_rate=0.02, **settings, learn=n)) for n in (None, 300))
    a, b = learning.run().windows, frozen.run().windows
    assert a[:3] == b[:3]  # the same until the second one stops
    assert a[-1].error < a[-1].trivial
    assert a[-1].error < b[-1].error


def stopped(run: OnlineRun, step: int) -> None:
    observe = run._step

    def stopping() -> None:
        observe()
        if run.progress.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    run._step = stopping  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match=f"Stopped at step {step}"):
        run.run()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_stopped_run_continues_to_the_bit(tmp_path: Path, optimizer: str, cell: str) -> None:
    config = OnlineConfig(cell=cell, hidden_size=(4, 3), steps=90, period=30, record_every=40, optimizer=optimizer)  # type: ignore[arg-type]
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = OnlineRun(config, tmp_path / "whole").start()
    whole.run()
    stopped(OnlineRun(config, tmp_path / "cut").start(), 57)
    cut = OnlineRun.resume(tmp_path / "cut")
    assert cut.progress.step == 57
    cut.run()
    assert cut.progress == whole.progress
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, cut.model.state_dict()[name])
    a, b = (safetensors.torch.load_file(tmp_path / name / "online.safetensors") for name in ("whole", "cut"))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    words = ["--cell", "rnn", "--hidden-size", "4", "--steps", "60", "--period", "20", "--record-every", "20"]
    assert main(["online", *words, "--out", out]) == 0
    said = capsys.readouterr().out
    assert "step 60  error" in said
    assert said.endswith(f"run: {out}\n")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 60
    assert summary["least"] < summary["trivial"]
    assert main(["resume", out]) == 0
    assert "continuing at step 60" in capsys.readouterr().out
    assert main(["resume", out, "--steps", "90"]) == 2
    assert "steps must be unset for a run that learns online" in capsys.readouterr().err
    assert main(["online", *words, "--out", out]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_second_half_of_a_period_needs_windows_inside_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"cell": "rnn", "hidden_size": (3,), "steps": 70, "period": 20}
    fine, coarse = (OnlineRun(OnlineConfig(record_every=n, **settings)) for n in (5, 20))
    windows = fine.run().windows
    late = [window.error for window in windows if window.step % 20 in (15, 0)]
    assert fine.summary()["error_late"] == pytest.approx(np.mean(late))
    everything = [w.error * n for w, n in zip(coarse.run().windows, (20, 20, 20, 10), strict=True)]
    assert coarse.summary()["error"] == pytest.approx(sum(everything) / 70)
    assert "error_late" not in coarse.summary()
    words = ["--cell", "rnn", "--hidden-size", "3", "--steps", "40", "--period", "20", "--record-every", "20"]
    assert main(["online", *words, "--out", str(tmp_path / "run")]) == 0
    assert "second half" not in capsys.readouterr().out


def test_a_layer_without_weights_trains_its_head() -> None:
    run = OnlineRun(OnlineConfig(cell="reservoir", hidden_size=(20,), steps=400, period=400, record_every=100))
    windows = run.run().windows
    assert windows[-1].error < windows[0].error


def test_divergence_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--cell", "rnn", "--hidden-size", "4", "--steps", "40", "--learning-rate", "1e30", "--optimizer", "sgd"]
    assert main(["online", *words, "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "Training diverged: the prediction at step" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cell", "skiprnn:budget=0.1"], "cell must add no penalty"),
        (["--cell", "implicitgru"], "layer must read a stream in one direction"),
        (["--cell", "gruu"], "gruu"),
        (["--learning-rate", "-1"], "learning_rate must be"),
        (["--learn", "30", "--steps", "20"], "learn must be"),
        (["--hidden-size", "400"], "influence matrix of at most"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["online", *words, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    config = OnlineConfig(cell="rnn", hidden_size=(3,), steps=4, record_every=2)
    OnlineRun(config, tmp_path).start().run()
    path = tmp_path / "online.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(checks.InputError, match="is damaged"):
        OnlineRun.resume(tmp_path)
    OnlineRun(config, tmp_path).start()
    (tmp_path / "online.json").write_text(json.dumps(config.to_json() | {"seed": 5}))
    with pytest.raises(checks.InputError, match="was changed"):
        OnlineRun.resume(tmp_path)
