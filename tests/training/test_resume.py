"""SIGKILL at any moment, then `autapse resume`: bit-identical final weights, dropout on."""

import json
import subprocess
import sys
import time

import torch

from autapse.cli.main import main
from autapse.training import checkpoint
from small import autapse, final_tensors, small_config, step_of, stopped_at

OPTIONS = (
    "--length 12 --train-size 300 --validation-size 50 --test-size 50 --hidden-size 8 8 --dropout 0.3 "
    "--steps 200 --batch-size 16 --eval-every 25 --checkpoint-seconds 0"
).split()


def start(tmp_path, name):
    command = [sys.executable, "-m", "autapse", "run", "adding", "--cell", "ernn", *OPTIONS, "--out", name]
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def records(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def test_killed_and_resumed_equals_never_stopped(tmp_path):
    whole = start(tmp_path, "whole")
    assert whole.wait(timeout=300) == 0
    process = start(tmp_path, "cut")
    reached = []
    for kill in range(3):
        while step_of(tmp_path / "cut") < 40 * (kill + 1) and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()
        reached.append(step_of(tmp_path / "cut"))
        assert 0 < reached[-1] < 200
        command = [sys.executable, "-m", "autapse", "resume", "cut"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.wait(timeout=300) == 0
    a, b = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert records(tmp_path / "whole") == records(tmp_path / "cut")
    assert not list((tmp_path / "cut").glob(".*part"))


def test_resuming_a_finished_run_says_so(tmp_path):
    options = [*OPTIONS, "--steps", "20"]
    assert autapse("run", "adding", *options, "--out", "done", cwd=tmp_path).returncode == 0
    before = (tmp_path / "done" / "state.json").read_bytes()
    again = autapse("resume", "done", cwd=tmp_path)
    assert again.returncode == 0
    assert "is finished, at step 20" in again.stdout
    assert (tmp_path / "done" / "state.json").read_bytes() == before


def test_the_command_reads_the_checkpoint_once(tmp_path, monkeypatch, capsys):
    stopped_at(7, tmp_path / "run", small_config())
    read, calls = checkpoint.read_run, []
    monkeypatch.setattr(checkpoint, "read_run", lambda *words: calls.append(words) or read(*words))
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert len(calls) == 1
