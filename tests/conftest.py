"""Every test starts from the same random state, threads and instruction set, whatever ran before it."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from autapse.native import library

# Two workers on two cores: more threads than that only wait for each other, and small tensors gain nothing from them.
if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start

SEED_SHIFT = "AUTAPSE_TEST_SEED_SHIFT"  # seed_shift/sitecustomize.py reads it

# The same examples in every run; `--seed-shift` gives others.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "change every random seed of the tests and of the processes that they start (default: 0, no change)"
    parser.addoption("--seed-shift", type=int, default=0, metavar="N", help=text)


def pytest_configure(config: pytest.Config) -> None:
    # Where there is no compiler the tests run on plain PyTorch.
    config.addinivalue_line("filterwarnings", "ignore:autapse runs on plain PyTorch")
    # torch's own op says so once per process, for torch.nn.LSTM as for ours.
    config.addinivalue_line("filterwarnings", "ignore:LSTM with projections is not supported with oneDNN")
    config.addinivalue_line("markers", "fixed_seed(reason): --seed-shift does not change the seeds of this test")
    if config.getoption("--seed-shift"):
        shift_seeds(config.getoption("--seed-shift"))


def shift_seeds(shift: int) -> None:
    """In this process, in the workers of pytest-xdist, and in every process that tests start."""
    if not 0 <= shift < 2**12:  # the shift changes the upper 12 of the 32 bits that torch's generator uses
        raise pytest.UsageError(f"--seed-shift must be from 0 to {2**12 - 1}; got {shift}.")
    folder = str(Path(__file__).parent / "seed_shift")
    os.environ[SEED_SHIFT] = str(shift)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *paths])
    importlib.import_module("seed_shift.sitecustomize")


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """Whoever waits for the other end of a pipe is stopped."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    usual = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, usual)


@pytest.fixture(autouse=True)
def _same_machine() -> Iterator[None]:
    """A test may change the number of threads and the instruction set. The next one must not notice."""
    before = library.info()
    yield
    after = library.info()
    if after["threads"] != before["threads"]:
        torch.set_num_threads(before["threads"])
    if after["instruction_set"] != before["instruction_set"]:
        library.use(before["instruction_set"])


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng(devices=[]):
        if request.node.get_closest_marker("fixed_seed"):
            patch.setenv(SEED_SHIFT, "0")
        torch.manual_seed(20240229)
        yield
