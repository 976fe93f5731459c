"""A clock for the tests of deadlines."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from autapse.diagnostics import deadline, diagnosis


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second later than the one before."""
    clock = count()
    for module in (deadline, diagnosis):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
