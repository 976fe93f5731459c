import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import autapse as package
from autapse.cli.compare import split_cells
from autapse.cli.main import VERBS, main
from autapse.layers.registry import LAYERS
from autapse.tasks import TASKS, Adding
from command_line import said
from own_cells import write_module
from small import autapse, rewrite

SMALL = (
    "--length 8 --train-size 64 --validation-size 16 --test-size 16 --hidden-size 4 --steps 6 --eval-every 3".split()
)


def test_help_names_every_verb(capsys):
    text = said(capsys, "--help")
    assert all(verb in text for verb in VERBS)
    assert said(capsys) == text


def test_version(capsys):
    assert said(capsys, "--version").strip() == f"autapse {package.__version__}"


def test_cells_lists_every_layer_with_its_options(capsys):
    text = said(capsys, "cells")
    assert all(name in text for name in LAYERS)
    assert "inner_steps=1" in text
    assert "tanh((W − Wᵀ − γI)·h + V·x + b)" in text


def test_tasks_lists_every_task_with_its_baseline(capsys):
    text = said(capsys, "tasks")
    assert all(name in text and task.about() in text for name, task in TASKS.items())
    assert "trivial predictor: always the most frequent class, or the mean" in text  # as a file's targets are


@pytest.mark.parametrize("verb", ["run", "compare"])
def test_help_of_a_task_has_its_options(capsys, verb):
    for words, expected in (((verb, "--help"), "walk-variance"), ((verb, "adding", "--help"), "--markers")):
        assert main(words) == 0
        assert expected in capsys.readouterr().out


def test_the_command_line_answers_without_torch():
    code = (
        "import sys; from autapse.cli.main import main\n"
        "for line in ('--help', 'tasks', 'run --help', 'run addign', 'run adding --lenght 3'):\n"
        "    main(line.split())\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_warning_is_one_line_without_our_code():
    code = (
        "import sys, types, warnings; from autapse.cli.main import main\n"
        "sys.modules['autapse.cli.cells'] = types.SimpleNamespace(main=lambda rest: warnings.warn('Take care.'))\n"
        "usual = warnings.formatwarning\n"
        "sys.exit(main(['cells']) or warnings.formatwarning is not usual)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "autapse: Take care.\n")


def test_run_eval_predict(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = said(capsys, "run", "adding", "--cell", "rin:transitions=2", *SMALL)
    assert "run: runs/adding-rin" in text
    summary = json.loads((tmp_path / "runs/adding-rin/summary.json").read_text())
    assert f"test mean squared error {summary['test']:.4g}" in text
    assert "always 1, the mean of the sum): 0.1667" in text
    assert f"{summary['test']:.6g}" in said(capsys, "eval", "runs/adding-rin")
    assert f"{summary['validation']:.6g}" in said(capsys, "eval", "runs/adding-rin", "--split", "validation")

    data = Adding(length=8, train_size=64, validation_size=16, test_size=16).split("test", 0)
    np.savez("x.npz", inputs=data.inputs, lengths=np.full(16, 8))
    assert "16 predictions: y.npy" in said(capsys, "predict", "runs/adding-rin", "x.npz", "--out", "y.npy")
    squared = (np.load("y.npy") - data.targets) ** 2
    assert squared.mean() == pytest.approx(summary["test"], rel=1e-5)
    np.savetxt("one.csv", data.inputs[0], delimiter=",")
    printed = said(capsys, "predict", "runs/adding-rin", "one.csv")
    assert json.loads(printed) == pytest.approx(np.load("y.npy")[0].tolist(), rel=1e-5)


def test_tags_end_with_their_sequence(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    walk = "--max-length 6 --train-size 64 --validation-size 16 --test-size 16 --hidden-size 4 --steps 6 --eval-every 3"
    said(capsys, "run", "walk", *walk.split())
    np.savez("x.npz", inputs=np.zeros((2, 6, 8)), lengths=np.array([5, 2]))
    lines = said(capsys, "predict", "runs/walk-gru", "x.npz").splitlines()
    assert [len(json.loads(line)) for line in lines] == [5, 2]
    np.savez("x.npz", inputs=np.zeros((2, 6, 8)), lengths=np.array([5.0, 2.7]))
    assert main(("predict", "runs/walk-gru", "x.npz")) == 2
    assert "x.npz: lengths must be integers of shape [N] = (2,); got float64" in capsys.readouterr().err


def test_default_folders_are_numbered(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said(capsys, "run", "adding", *SMALL)
    assert "run: runs/adding-gru-2" in said(capsys, "run", "adding", *SMALL)


def test_compare_ends_in_a_table_and_a_figure(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    text = said(capsys, "compare", "adding", "--cells", "rin,leakyrnn:tau=(1,9),lstm", *SMALL)
    results = json.loads((tmp_path / "runs/compare-adding/comparison.json").read_text())["results"]
    for cell, result in zip(["rin", "leakyrnn:tau=(1,9)", "lstm"], results, strict=True):
        assert result["cell"] == cell
        (row,) = [line for line in text.splitlines() if line.startswith(f" {cell} ")]
        assert f"{result['test']:.5f}" in row
        assert f"{result['parameters']:,}" in row
    assert "0.167" in text
    figure = tmp_path / "runs/compare-adding/curves.png"
    assert f"figure: {figure.relative_to(tmp_path)}" in text
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_compare_and_run_give_the_same_weights(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said(capsys, "compare", "adding", "--cells", "gru,rin", *SMALL)
    said(capsys, "run", "adding", "--cell", "rin", *SMALL)
    a, b = package.load("runs/compare-adding/rin"), package.load("runs/adding-rin")
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def test_one_network_that_diverges_does_not_spoil_a_comparison(tmp_path):
    """With weights of 1e12 a ReLU network overflows; a GRU's states are bounded, and so is its cross-entropy."""
    options = [*SMALL, "--steps", "60", "--max-rescues", "2", "--learning-rate", "1e12", "--optimizer", "sgd"]
    words = ["compare", "walk-variance", "--cells", "rnn:nonlinearity=relu,gru", *options, "--out", "c"]
    done = autapse(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "rnn:nonlinearity=relu: Training diverged" in done.stdout
    content = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert content["diverged"] == ["rnn:nonlinearity=relu"]
    assert [result["cell"] for result in content["results"]] == ["gru"]
    assert (tmp_path / "c" / "curves.png").exists()


def test_a_trivial_score_of_zero_is_no_error(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "compare walk-variance --cells rin --length 5 --train-size 10 --validation-size 5 --test-size 1 --steps 2"
    assert "(always the more frequent class): 0.000" in said(capsys, *words.split())  # of one sequence


def test_a_solved_head_is_not_reported_as_training(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = said(capsys, "run", "adding", "--cell", "reservoir", *SMALL)
    assert "all weights that can learn were solved in" in text
    assert "best at step" not in text


def test_resuming_with_another_number_of_processes_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said(capsys, "run", "adding", *SMALL, "--out", "run")
    (tmp_path / "run" / "summary.json").unlink()
    rewrite(tmp_path / "run", lambda about, _: about["progress"].update(processes=2))
    assert "started with 2 processes and continues with 1: the result is equal up to rounding" in said(
        capsys, "resume", "run"
    )


def test_split_cells():
    assert split_cells("rin, leakyrnn:tau=(1,50),gru") == ["rin", "leakyrnn:tau=(1,50)", "gru"]
    assert split_cells("deep:cell=(leakyrnn:tau=(1,50)),gru") == ["deep:cell=(leakyrnn:tau=(1,50))", "gru"]


def test_a_reader_who_leaves_is_no_error(tmp_path):
    done = subprocess.run(
        f"{sys.executable} -m autapse cells | head -1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_divergence_is_one_line_and_code_1(tmp_path):
    words = [
        "run",
        "adding",
        "--cell",
        "irnn",
        *SMALL,
        "--steps",
        "400",
        "--max-rescues",
        "2",
        "--learning-rate",
        "1e30",
    ]
    done = autapse(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Training diverged" in done.stderr
    assert "checkpoint-" in done.stderr


def test_a_cell_of_ones_own_from_the_command_line(tmp_path):
    """Named by its module, trained, listed nowhere, and loaded again with --trust only."""
    name = write_module(tmp_path)
    words = ["run", "adding", *SMALL, "--cell", f"{name}:Mean:weight=0.25", "--out", "run"]
    done = autapse(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    refused = autapse("eval", "run", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"would run the module {name}" in refused.stderr
    trusted = autapse("eval", "run", "--trust", cwd=tmp_path)
    assert trusted.returncode == 0, trusted.stderr
    assert "test mean squared error" in trusted.stdout
    absent = autapse("run", "adding", "--cell", f"{name}:Means", cwd=tmp_path)
    assert absent.returncode == 2
    assert "Did you mean 'Mean'?" in absent.stderr
