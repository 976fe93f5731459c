"""What tests of kernels get by name."""

from __future__ import annotations

import pytest

from autapse.native import library


@pytest.fixture(params=library.instruction_sets())
def instruction_set(request: pytest.FixtureRequest) -> str:
    """The kernels of each instruction set that this processor has, one after the other."""
    library.use(request.param)
    return str(request.param)
