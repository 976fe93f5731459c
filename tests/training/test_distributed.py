"""One process and two give the same model on the same global batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autapse.training.distributed import World, join
from autapse.training.log import read_metrics
from command_line import mistake
from damage import message
from small import final_tensors

OPTIONS = {
    "adding": "--length 12 --train-size 300 --validation-size 50 --test-size 50",
    "walk": "--max-length 9 --train-size 300 --validation-size 50 --test-size 50",  # ragged: shares differ in tokens
}
COMMON = "--cell rin --hidden-size 8 --steps 40 --batch-size 15 --eval-every 20"


def torchrun(processes, words, cwd, program=("-m", "autapse")):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={processes}",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", *program, *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, env=environment, check=False)


@pytest.mark.parametrize("rank", [0, 1])
def test_restored_rows_lie_as_computed_ones_do(rank):
    """Side by side, or plain PyTorch's products would round differently after a resume."""
    whole = torch.randn(2, 5, 3)
    own = World(rank, 2).own(whole)
    assert own.is_contiguous()
    assert torch.equal(own, whole[:, rank::2])


@pytest.mark.parametrize("task", list(OPTIONS))
def test_two_processes_train_the_model_of_one(tmp_path, task):
    for processes, name in ((1, "one"), (2, "two")):
        words = ["run", task, *OPTIONS[task].split(), *COMMON.split(), "--out", name]
        done = torchrun(processes, words, tmp_path)
        assert done.returncode == 0, done.stderr
    one, two = final_tensors(tmp_path / "one"), final_tensors(tmp_path / "two")
    fresh = [n for n in one if n.startswith("model.")]
    for name in fresh:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-6)
    logged = [
        [r["loss"] for r in read_metrics(tmp_path / name / "metrics.jsonl") if "loss" in r] for name in ("one", "two")
    ]
    assert logged[0] == pytest.approx(logged[1], rel=1e-4)
    assert '"processes": 2' in (tmp_path / "two" / "summary.json").read_text()


def test_each_line_is_said_once_and_resume_joins_too(tmp_path):
    words = ["run", "adding", *OPTIONS["adding"].split(), *COMMON.split(), "--out", "two"]
    assert torchrun(2, words, tmp_path).stdout.count("run: two") == 1
    done = torchrun(2, ["resume", "two"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is finished, at step 40") == 1


PARTING = """
import pathlib, sys
from autapse.cli.main import main

code = main(sys.argv[1:])
left = [task.read_text().strip() for task in pathlib.Path("/proc/self/task").glob("*/comm")]
assert not any("gloo" in name for name in left), left
sys.exit(code)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="names of threads are read from /proc")
def test_processes_that_have_parted_keep_no_thread_that_could_abort_them_at_the_end(tmp_path):
    (tmp_path / "parting.py").write_text(PARTING)
    words = ["run", "adding", *OPTIONS["adding"].split(), *COMMON.split(), "--out", "two"]
    done = torchrun(2, words, tmp_path, program=["parting.py"])
    assert done.returncode == 0, done.stderr


def test_divergence_is_told_once_and_names_the_checkpoint(tmp_path):
    words = ["run", "adding", *OPTIONS["adding"].split(), *COMMON.split(), "--out", "two", "--max-rescues", "2"]
    done = torchrun(2, [*words, "--cell", "irnn", "--learning-rate", "1e30"], tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("Training diverged") == 1
    assert "two/checkpoint-0.safetensors" in done.stderr
    assert "AttributeError" not in done.stderr


def test_comparing_is_for_one_process(tmp_path):
    done = torchrun(2, ["compare", "adding", "--cells", "rin"], tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("runs in one process only") == 1


def test_a_mistake_under_torchrun_is_told_once(tmp_path):
    done = torchrun(2, ["run", "adding", "--cell", "grru"], tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("Did you mean 'gru'?") == 1


ALONE = """
import importlib, os, sys, time

cli = importlib.import_module("autapse.cli.main")
cli.PATIENCE = 1.0
if os.environ["RANK"] == "0":
    time.sleep(60)
sys.exit(cli.main(["compare", "adding", "--cells", "rin"]))
"""


def test_a_mistake_of_one_process_alone_is_told_too(tmp_path):
    (tmp_path / "alone.py").write_text(ALONE)
    done = torchrun(2, [], tmp_path, program=["alone.py"])
    assert done.returncode != 0
    assert done.stderr.count("runs in one process only") == 1


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"WORLD_SIZE": "x"}, "the environment variable WORLD_SIZE must be an integer of at least 1; got 'x'."),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE must be an integer of at least 1; got '0'."),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE must be an integer of at least 1; got ''."),
        ({"WORLD_SIZE": "2"}, "the environment variable RANK must be an integer of at least 0; got ''."),
        ({"WORLD_SIZE": "2", "RANK": "-1"}, "RANK must be an integer of at least 0; got '-1'."),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK must be below WORLD_SIZE, 2; got 2."),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "the environment variable MASTER_ADDR is not set."),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost"}, "MASTER_PORT must be an integer of at least 1"),
    ],
    ids=str,
)
def test_variables_that_torchrun_would_not_set_so(monkeypatch, variables, said):
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert said in message(join)
    assert "unset WORLD_SIZE to train in one process" in message(join)


@pytest.mark.parametrize("words", [["run", "adding"], ["compare", "adding"], ["resume", "old_run"]], ids=str)
def test_every_verb_checks_them(monkeypatch, capsys, words):
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setenv("WORLD_SIZE", "x")
    assert "WORLD_SIZE must be an integer" in mistake(capsys, *words)
