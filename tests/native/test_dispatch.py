"""Kernel or reference, and with or without PyTorch's dispatcher: each state of PyTorch gets the right answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernels import as_operands, make_case, named, needs_kernels
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from autapse.native import ops
from autapse.native.dispatch import is_plain, kernels_serve


class Subclass(Tensor):
    """A tensor that wants to see the functions called with it."""


class Recorder(TorchDispatchMode):
    """The names of the ops that PyTorch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(op))
        return op(*args, **(kwargs or {}))


def in_mode(mode: Any) -> bool:
    x = torch.ones(2)
    with mode:
        return is_plain(x)


def in_transform(transform: Callable[..., Any]) -> bool:
    answers = []

    def function(x: Tensor) -> Tensor:
        answers.append(is_plain(torch.ones(2)))
        return x.sum()

    transform(function)(torch.ones(3))
    return answers[0]


def in_trace() -> bool:
    answers = []

    def function(x: Tensor) -> Tensor:
        answers.append(is_plain(torch.ones(2)))
        return x + 1

    torch.jit.trace(function, torch.ones(2), check_trace=False)
    return answers[0]


def escaped() -> Tensor:
    """A wrapper of torch.func that outlives its transform."""
    kept = []
    torch.func.grad(lambda x: (kept.append(x), x.sum())[1])(torch.ones(2))
    return kept[0]


def fake() -> Tensor:
    with FakeTensorMode():
        return torch.ones(2)


def inference_tensor() -> Tensor:
    with torch.inference_mode():
        return torch.ones(2)


def test_plain_tensors_need_no_dispatcher() -> None:
    leaf = torch.ones(2, requires_grad=True)
    tensors = (torch.ones(2), torch.nn.Parameter(torch.ones(2)), leaf, leaf * 2, torch.ones(3)[1:], None)
    assert is_plain(*tensors)
    assert is_plain(inference_tensor())
    with torch.inference_mode(), torch.autocast("cpu"):
        assert is_plain(torch.ones(2))


@pytest.mark.parametrize(
    "make",
    [
        fake,
        escaped,
        lambda: torch._neg_view(torch.ones(2)),
        lambda: torch._efficientzerotensor(2),
        lambda: torch.ones(2).as_subclass(Subclass),
        lambda: torch.ones(2, device="meta"),
    ],
    ids=["fake", "torch.func", "negated", "zero", "subclass", "meta"],
)
def test_other_tensors_need_the_dispatcher(make: Callable[[], Tensor]) -> None:
    assert not is_plain(torch.ones(2), make())


def test_modes_transforms_and_traces_need_the_dispatcher() -> None:
    assert not in_mode(Recorder())
    assert not in_mode(FakeTensorMode(allow_non_fake_inputs=True))
    assert not in_mode(TorchFunctionMode())
    assert not in_transform(torch.func.grad)
    assert not in_transform(torch.func.vmap)
    with pytest.warns(DeprecationWarning, match="jit"):
        assert not in_trace()


@needs_kernels
def test_a_negated_view_is_read_with_its_sign() -> None:
    """Its memory has the opposite sign, and only the dispatcher materialises it."""
    operands, sizes, kind = as_operands(make_case(named("GRU"), 3, 4, (5, 2)))
    negated = operands._replace(x=torch._neg_view(-operands.x.detach()))
    with torch.no_grad():
        expected = ops.scan(operands, sizes, kind, True, False)
        results = ops.scan(negated, sizes, kind, True, False)
    assert all(torch.equal(r, e) for r, e in zip(results, expected, strict=True))


@needs_kernels
def test_a_mode_sees_the_op_and_gets_the_same_bits() -> None:
    operands, sizes, kind = as_operands(make_case(named("LSTM"), 3, 4, (5, 2)))
    with torch.no_grad():
        expected = ops.scan(operands, sizes, kind, True, True)
        with Recorder() as recorder:
            results = ops.scan(operands, sizes, kind, True, True)
    assert "autapse.scan.default" in recorder.names
    assert all(torch.equal(r, e) for r, e in zip(results, expected, strict=True))


@needs_kernels
def test_fake_tensors_get_fake_results() -> None:
    operands, sizes, kind = as_operands(make_case(named("GRU"), 3, 4, (5, 2)))
    real = ops.scan(operands, sizes, kind, True, True)
    with FakeTensorMode() as mode:
        made = type(operands)(*(None if t is None else mode.from_tensor(t) for t in operands))
        results = ops.scan(made, mode.from_tensor(sizes), kind, True, True)
    assert [tuple(r.shape) for r in results] == [tuple(r.shape) for r in real]
    assert all(type(r).__name__ == "FakeTensor" for r in results)


@needs_kernels
def test_kernels_serve_what_they_can() -> None:
    x = torch.ones(2)
    assert kernels_serve(x)
    assert kernels_serve(x, torch.ones(3))
    assert not kernels_serve(x, torch.ones(3, dtype=torch.float64))
    assert not kernels_serve(x, torch.ones(3, device="meta"))
    assert not kernels_serve(x.half())
    assert not kernels_serve(torch.ones(2, device="meta"))
    with torch.autocast("cpu"):
        assert not kernels_serve(x)
    with forward_ad.dual_level():
        assert not kernels_serve(x)
    answers = []
    torch.func.vmap(lambda row: (answers.append(kernels_serve(x)), row)[1])(torch.ones(2, 3))
    assert answers == [False]
