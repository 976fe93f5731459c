"""Every test starts from the same random state, whatever ran before it, and on one thread."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch

# Two workers on two cores: more threads than that only wait for each other, and small tensors gain nothing from them.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start


def pytest_configure(config: pytest.Config) -> None:
    # Where there is no compiler the tests run on plain PyTorch.
    config.addinivalue_line("filterwarnings", "ignore:autapse runs on plain PyTorch")
    # torch's own op says so once per process, for torch.nn.LSTM as for ours.
    config.addinivalue_line("filterwarnings", "ignore:LSTM with projections is not supported with oneDNN")


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
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20240229)
        yield
