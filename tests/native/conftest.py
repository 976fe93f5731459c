"""What tests of kernels get by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autapse.native import library


@pytest.fixture(params=library.instruction_sets())
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kernels of each instruction set that this processor has, one after the other."""
    before = library.info()["instruction_set"]
    library.use(request.param)
    yield request.param
    library.use(before)
