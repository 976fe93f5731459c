"""The kernel of a memory's heads against its reference in plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernels import BOUNDS, needs_kernels
from torch import Tensor

import autapse
from autapse.cells.heads import Heads
from autapse.checks import InputError
from autapse.native import heads as native
from autapse.native import library

KINDS = [
    Heads(1, 1, 5, 3),
    Heads(2, 3, 9, 17, similarity="dot", shifts=2),
    Heads(2, 1, 32, 16),
    Heads(1, 2, 4, 1, by_location=False),
    Heads(3, 1, 33, 20, by_location=False, similarity="dot"),
    Heads(2, 2, 7, 8, by_content=False, shifts=3),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=range(len(KINDS)))
pytestmark = needs_kernels


def arguments(kind: Heads, dtype: torch.dtype = torch.float64, batch: int = 4) -> list[Tensor]:
    numbers = 2 * torch.randn(batch, sum(kind.sizes), dtype=dtype)
    addresses = torch.softmax(3 * torch.randn(batch, kind.count, kind.slots, dtype=dtype), dim=-1)
    memory = torch.randn(batch, kind.slots, kind.width, dtype=dtype)
    memory[0, 0] = 0.0
    return [t.requires_grad_() for t in (numbers, memory, addresses)]


def differentiate(results: Any, leaves: list[Tensor], seed: int = 0) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    loss = sum((r * torch.randn(r.shape, generator=draw, dtype=r.dtype)).sum() for r in results)
    return torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True, materialize_grads=True)  # type: ignore[arg-type]


def agree(found: Any, expected: Any, bound: float) -> None:
    for a, e in zip(found, expected, strict=True):
        assert float((a - e).detach().abs().max()) <= bound * max(1.0, float(e.detach().abs().max()))


@every_kind
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.usefixtures("instruction_set")
def test_it_is_the_reference(kind: Heads, dtype: torch.dtype) -> None:
    leaves = arguments(kind, dtype)
    found, expected = kind.access(*leaves), kind.access_reference(*leaves)
    assert "Access" in type(found.memory.grad_fn).__name__, "the kernel did not run"
    values, gradients = BOUNDS[dtype]
    agree(found, expected, values)
    agree(differentiate(found, leaves), differentiate(expected, leaves), gradients)
    for part in range(3):  # a result that nobody uses has no gradient
        agree(
            differentiate(found[part : part + 1], leaves), differentiate(expected[part : part + 1], leaves), gradients
        )


@every_kind
def test_gradients_are_finite_differences(kind: Heads) -> None:
    leaves = arguments(kind, batch=2)
    assert torch.autograd.gradcheck(kind.access, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(kind.access, leaves, fast_mode=True)


@pytest.mark.usefixtures("instruction_set")
def test_extreme_numbers() -> None:
    """Heads that are sure, addresses that are exactly 0 or negative: the same as the reference, and nothing is NaN."""
    kind = KINDS[2]
    numbers, memory, addresses = arguments(kind, torch.float32)
    with torch.no_grad():
        numbers.mul_(40)
        addresses.copy_(torch.eye(kind.slots)[:4].unsqueeze(1).expand_as(addresses))
        addresses[1] = -addresses[1]
        memory[2] = 1e-6
    leaves = [numbers, memory, addresses]
    found, expected = kind.access(*leaves), kind.access_reference(*leaves)
    agree(found, expected, 1e-5)
    agree(differentiate(found, leaves), differentiate(expected, leaves), 1e-3)
    assert all(bool(t.isfinite().all()) for t in (*found, *differentiate(found, leaves)))


def test_nan_stays_in_its_row() -> None:
    kind = KINDS[0]
    numbers, memory, addresses = (t.detach().clone() for t in arguments(kind))
    clean = kind.access(numbers, memory, addresses)
    memory[1, 0, 0] = torch.nan
    found = kind.access(numbers, memory, addresses)
    assert all(bool(part[1].isnan().any()) for part in found)
    rows = [0, 2, 3]
    assert all(torch.equal(a[rows], b[rows]) for a, b in zip(found, clean, strict=True))


def test_the_same_bits_for_every_number_of_threads_and_batch() -> None:
    kind = KINDS[2]
    leaves = arguments(kind, torch.float32, batch=64)
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found = kind.access(*leaves)
        results.append([*found, *differentiate(found, leaves)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    alone = kind.access(*(t[5:6] for t in leaves))
    assert all(torch.equal(a[0], b[5]) for a, b in zip(alone, results[0], strict=False))


def test_tensors_of_other_shapes_are_refused() -> None:
    kind = KINDS[0]
    good = [t.detach() for t in arguments(kind)]
    for n in range(3):
        for other in (good[n][:3], good[n][..., :-1].contiguous(), good[n].unsqueeze(0)):
            with pytest.raises((InputError, IndexError)):
                native.access(kind._kind, kind.access_reference, *good[:n], other, *good[n + 1 :])
    with pytest.raises(InputError, match="dtype"):
        native.access(kind._kind, kind.access_reference, good[0], good[1].float(), good[2])
    with pytest.raises(InputError, match="slots must be an integer of at least 3"):
        native.access(kind._kind._replace(slots=2), kind.access_reference, good[0], good[1][:, :2], good[2][..., :2])


def test_without_the_library_a_layer_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = autapse.Memory(3, 6, slots=7, width=5, dtype=torch.float64), torch.randn(9, 2, 3, dtype=torch.float64)
    fused = layer(x)
    gradients = torch.autograd.grad(fused[0].square().sum(), list(layer.parameters()))
    monkeypatch.setattr(library, "available", lambda: False)
    monkeypatch.setattr(library, "warn_if_missing", lambda: None)
    plain = layer(x)
    agree([fused[0], *fused[1]], [plain[0], *plain[1]], 1e-12)
    agree(gradients, torch.autograd.grad(plain[0].square().sum(), list(layer.parameters())), 1e-10)
