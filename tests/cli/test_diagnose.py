"""`autapse diagnose RUN`: what it prints and writes, and its errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autapse.cli.main import main
from autapse.report.inside import some_sequences
from autapse.training import load_run, train
from autapse.training.feeds import Tensors
from command_line import said
from small import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose") / "run"
    train(small_config(steps=4, eval_every=2), folder)
    return folder


def test_sentences_and_numbers(run: Path, capsys: Any) -> None:
    text = said(capsys, "diagnose", str(run), "--sequences", "8")
    written = json.loads((run / "diagnosis.json").read_text())
    assert [*text.splitlines()[:-1]] == [finding["sentence"] for finding in written["findings"]]
    assert text.splitlines()[-1].startswith(f"{len(written['findings'])} numbers from 8 sequences in ")
    assert (written["split"], written["sequences"], written["steps"], written["layer"]) == ("test", 8, 10, 0)
    assert {finding["name"] for finding in written["findings"]} >= {"gradient_gain", "lesion", "loss_gradient_at_start"}


def test_no_progress_where_nobody_looks(run: Path, capsys: Any) -> None:
    assert main(["diagnose", str(run), "--sequences", "2"]) == 0
    assert capsys.readouterr().err == ""


def test_a_network_that_is_too_large_for_matrices(tmp_path: Path, capsys: Any) -> None:
    """Gradients are measured by vectors, and the probes that need matrices are named."""
    config = small_config(cell="rnn", steps=1, eval_every=1)
    train(replace(config, model=replace(config.model, hidden_size=(1025,))), tmp_path / "run")
    text = said(capsys, "diagnose", str(tmp_path / "run"), "--sequences", "4")
    assert text.startswith("Gradients over 10 steps ")
    lines = text.splitlines()
    assert lines[-2] == "Too many units for: Lyapunov exponent, fixed points. They need a state of at most 1024 units."


def test_a_layer_a_split_and_a_file(run: Path, tmp_path: Path, capsys: Any) -> None:
    (checkpoint,) = run.glob("checkpoint-*.safetensors")
    out = tmp_path / "numbers.json"
    said(capsys, "diagnose", str(checkpoint), "--split", "validation", "--layer", "1", "--out", str(out))
    written = json.loads(out.read_text())
    assert (written["split"], written["sequences"], written["layer"]) == ("validation", 32, 1)


def test_the_sequences_are_from_all_over_the_data(run: Path) -> None:
    _, config, _ = load_run(run)
    data = Tensors.of(config.task.split("test", 0), "cpu")
    assert (some_sequences(data, 3).inputs == data.inputs[[0, 20, 39]]).all()
    assert len(some_sequences(data, 100).inputs) == 40
    assert len(some_sequences(data, 1).inputs) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-run"], "There is no run at no-such-run"),
        ([], "autapse: `autapse diagnose` needs RUN. `autapse diagnose --help` explains."),
        (["FOLDER"], "It has runs inside, such as "),
        (["RUN", "--sequences", "0"], "sequences must be an integer of at least 1; got 0"),
        (["RUN", "--layer", "2"], "layer must be an integer of at least 0 and at most 1; got 2"),
        (["RUN", "--budget", "-1"], "budget must be a finite number at least 0"),
    ],
)
def test_errors_are_one_line(run: Path, capsys: Any, words: list[str], message: str) -> None:
    places = {"RUN": str(run), "FOLDER": str(run.parent)}
    assert main(["diagnose", *(places.get(word, word) for word in words)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "\n" not in said.strip()
