import time

import pytest
import torch

from autapse.benchmark import denormals
from autapse.benchmark.candidate import NotMeasured
from autapse.benchmark.peers import time_limit
from autapse.benchmark.timing import LEAST, SLICE, Gemm, interleaved


def test_two_calls_take_turns():
    order = []

    def call(name):
        order.append(name)
        time.sleep(SLICE)

    first, second = interleaved(lambda: call("a"), lambda: call("b"), repeats=3, seconds=60)
    assert order == ["a", "b"] * 3
    assert (first.calls, second.calls) == (3, 3)
    assert first.seconds >= SLICE


def test_a_slow_pair_has_few_rounds():
    first, second = interleaved(lambda: time.sleep(SLICE), lambda: time.sleep(SLICE), repeats=9, seconds=SLICE / 2)
    assert (first.calls, second.calls) == (LEAST, LEAST)


def test_the_best_call_counts():
    pauses = iter([0.03, 0.01, 0.03] + [0.0] * 100)
    best, _ = interleaved(lambda: time.sleep(next(pauses) or SLICE), lambda: None, repeats=1, seconds=1)
    assert 0.01 <= best.seconds < 0.03


def test_the_rate_is_that_of_the_best_product():
    gemm = Gemm()
    gemm.seconds = 2 * 1024**3 / 1e9
    assert gemm.rate == pytest.approx(1e9)


def test_denormals_are_seen():
    """This process runs at torch's defaults, so they are kept, whatever some threads would do elsewhere."""
    assert denormals.workers_keep_denormals() == (True, True)
    bits = torch.tensor([0, 1 << 10], dtype=torch.int32).view(torch.float32)
    assert denormals._kept(bits) is None


def test_a_compiler_that_fails_or_takes_too_long_is_no_error():
    with pytest.raises(NotMeasured, match=r"took longer than 0.05 s"), time_limit(0.05, "took longer than"):
        time.sleep(5)
    with pytest.raises(NotMeasured, match="not compiled: KeyError: 'no such op'"), time_limit(5, ""):
        raise KeyError("no such op")
