"""The kernel of additive attention against its reference in plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernels import BOUNDS, needs_kernels, same_bits
from torch import Tensor

from autapse.checks import InputError
from autapse.models.additive import additive_reference, additive_weights
from autapse.native import attention

SIZES = [(3, 5, 4, 3), (2, 1, 1, 1), (3, 4, 100, 16), (2, 7, 37, 20), (4, 3, 70, 65)]  # B, T, S, A
every_size = pytest.mark.parametrize("sizes", SIZES, ids=str)
pytestmark = needs_kernels


def arguments(sizes: tuple[int, ...], dtype: torch.dtype = torch.float64, scale: float = 1.0) -> list[Tensor]:
    B, T, S, A = sizes
    shapes = ((B, T, A), (B, S, A), (A,))
    return [(scale * torch.randn(shape, dtype=dtype)).requires_grad_() for shape in shapes]


def lengths(sizes: tuple[int, ...]) -> list[Tensor]:
    """One sequence is whole, one has no step; targets and sources differ."""
    B, T, S, _ = sizes
    whole = [torch.randint(0, most + 1, (B,)) for most in (T, S)]
    whole[0][0], whole[1][0], whole[1][-1] = T, S, 0
    return whole


def with_gradients(weigh: Any, leaves: list[Tensor], ends: Any) -> list[Tensor]:
    weights = weigh(*leaves, *ends)
    factors = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0), dtype=weights.dtype)
    return [weights, *torch.autograd.grad(weights, leaves, factors)]


def agree(found: list[Tensor], expected: list[Tensor], dtype: torch.dtype) -> None:
    for n, (a, e) in enumerate(zip(found, expected, strict=True)):
        bound = BOUNDS[dtype][n > 0] * max(1.0, float(e.detach().abs().max()))
        assert float((a - e).detach().abs().max()) <= bound, n


@every_size
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["products", "tanh"])
@pytest.mark.usefixtures("instruction_set")
def test_it_is_the_reference(sizes: tuple[int, ...], dtype: torch.dtype, scale: float) -> None:
    """With large values, where products of exponentials would overflow, too."""
    leaves = arguments(sizes, dtype, scale)
    with torch.no_grad():
        leaves[2].div_(scale)
    for ends in ((None, None), lengths(sizes)):
        found = with_gradients(additive_weights, leaves, ends)
        assert "Additive" in type(found[0].grad_fn).__name__, "the kernel did not run"
        agree(found, with_gradients(additive_reference, leaves, ends), dtype)


def test_gradients_are_finite_differences() -> None:
    leaves, ends = arguments((2, 3, 5, 2)), [torch.tensor([3, 1]), torch.tensor([2, 5])]
    assert torch.autograd.gradcheck(lambda *given: additive_weights(*given, *ends), leaves)
    assert torch.autograd.gradgradcheck(lambda *given: additive_weights(*given, *ends), leaves)


def test_values_that_cancel() -> None:
    """tanh(100 − 100 + x): no product of exponentials has this value."""
    query, keys = torch.tensor([[[100.0]]]), torch.tensor([[[-100.0], [-99.5], [-150.0]]])
    expected = torch.tensor([0.0, 0.5, -50.0]).tanh().softmax(0)
    assert torch.allclose(additive_weights(query, keys, torch.ones(1))[0, 0], expected, rtol=1e-5)


def test_nan_stays_in_its_row() -> None:
    query, keys, vector = (t.detach() for t in arguments(SIZES[3]))
    clean = additive_weights(query, keys, vector)
    query[1, 2, 0] = torch.nan
    found = additive_weights(query, keys, vector)
    assert found[1, 2].isnan().all()
    assert torch.equal(found[0], clean[0])
    assert torch.allclose(found[1, 3:], clean[1, 3:], rtol=1e-12)


def test_the_same_bits_for_every_number_of_threads_batch_and_padding() -> None:
    sizes, before = (16, 30, 40, 16), torch.get_num_threads()
    leaves, ends = arguments(sizes, torch.float32), lengths(sizes)
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        results.append(with_gradients(additive_weights, leaves, ends))
    torch.set_num_threads(before)
    same_bits(*results)
    n, m = (int(part[5]) for part in ends)
    query, keys, vector = leaves
    alone = additive_weights(query[5:6, :n], keys[5:6, :m], vector)
    assert torch.equal(alone[0], results[0][0][5, :n, :m])


def test_tensors_of_other_shapes_are_refused() -> None:
    good: list[Any] = [t.detach() for t in arguments(SIZES[0])]
    ends = lengths(SIZES[0])
    for n in range(3):
        for other in (good[n][:2], good[n][..., :-1], good[n].unsqueeze(0), good[n].float()):
            with pytest.raises(InputError):
                attention.additive(None, *good[:n], other, *good[n + 1 :])  # type: ignore[arg-type]
    for n, most in enumerate((5, 4)):
        for other in (ends[n][:2], ends[n].int(), ends[n] - 100, ends[n] + most + 1):
            with pytest.raises(InputError):
                attention.additive(None, *good, *ends[:n], other, *ends[n + 1 :])  # type: ignore[arg-type]
