"""The option `--seed-shift` of the test configuration: it reaches every kind of seed, in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
# Three seeds each. The largest seed of torch stays valid.
DRAWS = """
import random, numpy, torch
def first(kind, seed):
    if kind == "torch":
        torch.manual_seed(seed)
        return torch.rand(()).item()
    if kind == "generator":
        return torch.rand((), generator=torch.Generator().manual_seed(seed)).item()
    if kind == "numpy":
        return numpy.random.default_rng(seed).random()
    if kind == "numpy list":
        return numpy.random.default_rng([seed, 3]).random()
    if kind == "random":
        random.seed(seed)
        return random.random()
    return random.Random(seed).random()
KINDS = "torch", "generator", "numpy", "numpy list", "random", "Random"
draws = {kind: [first(kind, seed) for seed in (0, 1, 2**64 - 1)] for kind in KINDS}
"""
CHILD = DRAWS + "import json; print(json.dumps(draws))"
TEST = f"""
import json, subprocess, sys
import pytest
from hypothesis import given, settings, strategies
from pathlib import Path
{DRAWS}

def put(name, value):
    Path(name).write_text(json.dumps(value))

def child():
    return json.loads(subprocess.run([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, check=True).stdout)

def test_draws():
    put("here.json", draws)
    put("child.json", child())

@pytest.mark.fixed_seed("as an example")
def test_fixed():
    put("fixed.json", {{kind: [first(kind, seed) for seed in (0, 1, 2**64 - 1)] for kind in KINDS}})
    put("fixed child.json", child())

seen = []

@given(strategies.integers(0, 10**6))
@settings(max_examples=5)
def collect(number):
    seen.append(number)

def test_hypothesis():
    collect()
    put("hypothesis.json", seen)
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "--rootdir", str(folder), *options]
    environment = {k: v for k, v in os.environ.items() if k != "AUTAPSE_TEST_SEED_SHIFT"} | {"PYTHONPATH": str(TESTS)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def draws(folder: Path, *options: str) -> dict[str, Any]:
    """What the tests above drew, by the name of the file."""
    folder.mkdir()
    (folder / "test_draws.py").write_text(TEST, encoding="utf-8")
    done = run_pytest(folder, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}


def test_the_shift_reaches_every_seed_in_every_process(tmp_path: Path) -> None:
    plain = draws(tmp_path / "plain", "-n", "0")
    shifted = draws(tmp_path / "shifted", "-n", "0", "--seed-shift", "1")
    worker = draws(tmp_path / "worker", "-n", "1", "--seed-shift", "1")
    assert plain["here"] == plain["child"] == plain["fixed"]
    for kind, numbers in shifted["here"].items():
        assert len({*numbers, *plain["here"][kind]}) == 6, f"{kind}: all seeds, shifted or not, should differ"
    assert shifted["here"] == shifted["child"] == worker["here"] == worker["child"]
    assert shifted["fixed"] == shifted["fixed child"] == worker["fixed"] == worker["fixed child"] == plain["here"]
    assert shifted["hypothesis"] == worker["hypothesis"] != plain["hypothesis"]


def test_an_invalid_shift_is_refused(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "-n", "0", "--seed-shift", "-1")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--seed-shift must be from 0 to 4095; got -1" in done.stderr
