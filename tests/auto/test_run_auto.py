"""`autapse run FILE` from the look at the data to the command that repeats it."""

import json
import shlex

import numpy as np
import pytest

from command_line import mistake, said
from small import metadata_of

QUICK = ("--preset", "auto", "--steps", "3", "--batch-size", "4")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Twenty series of six steps: up or down."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [
        f"{n},{rng.normal() + step * (1 if n % 2 else -1):.3f},{'up' if n % 2 else 'down'}"
        for n in range(20)
        for step in range(6)
    ]
    (tmp_path / "my-series.csv").write_text("sequence,speed,target\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_it_looks_chooses_trains_and_says_how_to_repeat_it(own, capsys):
    text = said(capsys, "run", "my-series.csv", *QUICK)
    assert "16 for training, also for 4-fold cross-validation; 4 for the test" in text
    assert "channels 1: speed" in text
    assert "classes  2: down (8), up (8)" in text
    assert "* " in text  # the winner
    run = own / "runs" / "my-series-gru"
    assert f"run: {run.relative_to(own)}" in text
    choice = json.loads((run / "choice.json").read_text())
    assert choice["look"]["classes"] == {"down": 8, "up": 8}
    assert choice["tried"][0]["name"] == "recipe"
    assert f"to repeat it: {choice['command']}" in text
    summary = json.loads((run / "summary.json").read_text())

    words = shlex.split(choice["command"])[1:]
    said(capsys, *words, "--out", "again")
    again = json.loads((own / "again" / "summary.json").read_text())
    assert again["test"] == summary["test"]
    assert metadata_of(own / "again")["config"] == metadata_of(run)["config"]


def test_several_seeds_have_a_mean_and_a_deviation(own, capsys):
    text = said(capsys, "run", "my-series.csv", *QUICK, "--seeds", "2", "--out", "out")
    assert "2 seeds: test error rate" in text
    assert {"out-seed0", "out-seed1"} <= {path.name for path in own.iterdir()}
    assert text.split("to repeat it:")[1].split()[-2:] == ["--seeds", "2"]


def test_a_folder_that_exists_is_refused_before_the_search(own, capsys):
    (own / "out").mkdir()
    assert "out exists already and is not overwritten" in mistake(
        capsys, "run", "my-series.csv", *QUICK, "--out", "out"
    )


def test_the_preset_is_for_ones_own_data(own, capsys):
    assert "preset must be none for adding: auto is for classes and values to predict in your own data" in mistake(
        capsys, "run", "adding", "--preset", "auto"
    )
    assert "recipe is for classes and values to predict in your own data and some built-in series" in mistake(
        capsys, "run", "adding", "--preset", "recipe"
    )
    assert "seeds must be an integer of at least 1" in mistake(capsys, "run", "my-series.csv", "--seeds", "0")
