"""A fixed number of random calls of the native library; `make fuzz` tries many more, under AddressSanitizer."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from autapse.native import ops as native_ops
from fuzz import ops
from native.kernels import needs_kernels

pytestmark = [needs_kernels, pytest.mark.filterwarnings("ignore")]


def test_random_calls_are_computed_as_the_reference_does_or_refused() -> None:
    counted = ops.run(600, seed=1)
    assert {target for target, _ in counted} == {target.__name__ for target in ops.TARGETS}
    for end in (ops.REFUSED, ops.COMPUTED, ops.RIGHT):
        assert sum(count for (_, how), count in counted.items() if how == end) > 20, end


def fuzz_scans() -> None:
    for number in range(40):
        ops.fuzz_scan(random.Random(number))


def test_a_wrong_result_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = native_ops.scan
    monkeypatch.setattr(native_ops, "scan", lambda *given: tuple(1.001 * result + 0.001 for result in scan(*given)))
    with pytest.raises(ops.WrongError, match="is off by"):
        fuzz_scans()


def test_a_refused_right_call_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise ops.InputError("no")

    monkeypatch.setattr(native_ops, "scan", refuse)
    with pytest.raises(ops.WrongError, match="right call was refused"):
        fuzz_scans()


def test_a_case_is_always_the_same() -> None:
    first = [ops.run_case(0, number) for number in range(30)]
    state = torch.get_rng_state()
    assert [ops.run_case(0, number) for number in range(30)] == first
    assert torch.equal(torch.get_rng_state(), state)
