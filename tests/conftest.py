"""Every test starts from the same random state, whatever ran before it, and on one thread."""

from __future__ import annotations

import os
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


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20240229)
        yield
