"""The kernels of attention against their references in plain PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from kernels import BOUNDS, needs_kernels, same_bits
from torch import Tensor

from autapse.checks import InputError
from autapse.models import attention_weights as weights_of
from autapse.native import attention

Sizes = tuple[int, int, int, int]  # B, T, S, A
SIZES = [(3, 5, 4, 3), (2, 1, 1, 1), (3, 4, 100, 16), (2, 7, 37, 20), (4, 3, 70, 65)]
every_size = pytest.mark.parametrize("sizes", SIZES, ids=str)
pytestmark = needs_kernels


class Kind(NamedTuple):
    """A kind of attention: how its arguments are made, and how it is called with them and with lengths."""

    name: str
    arguments: Callable[..., list[Tensor]]  # (sizes, dtype, scale)

    def call(self, function: Any, sizes: Sizes) -> Callable[..., Tensor]:
        """`function` of tensors and lengths."""
        if self.name == "additive":
            return function  # type: ignore[no-any-return]
        return lambda *given: function(*given[:3], sizes[2], *given[3:])

    def weights(self, sizes: Sizes) -> Callable[..., Tensor]:
        return self.call(getattr(weights_of, f"{self.name}_weights"), sizes)

    def reference(self, sizes: Sizes) -> Callable[..., Tensor]:
        return self.call(getattr(weights_of, f"{self.name}_reference"), sizes)

    def kernel(self, sizes: Sizes) -> Callable[..., Tensor]:
        def without_reference(*given: Any) -> Tensor:
            return getattr(attention, self.name)(None, *given)

        return self.call(without_reference, sizes)


def query_keys_vector(sizes: Sizes, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> list[Tensor]:
    """The energies are moderate for every scale."""
    B, T, S, A = sizes
    query, keys = (scale * torch.randn(shape, dtype=dtype) for shape in ((B, T, A), (B, S, A)))
    return [part.requires_grad_() for part in (query, keys, torch.randn(A, dtype=dtype))]


def windows(sizes: Sizes, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> list[Tensor]:
    """Windows in the source and around it; with a large scale they are narrow."""
    B, T, S, A = sizes
    heights, roots = torch.randn(B, T, A, dtype=dtype), (0.5 * torch.randn(B, T, A, dtype=dtype)).exp()
    places = (1.4 * torch.rand(B, T, A, dtype=dtype) - 0.2) * S
    return [part.requires_grad_() for part in (heights, roots * math.sqrt(scale), places)]


KINDS = [Kind("additive", query_keys_vector), Kind("monotonic", windows)]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def lengths(sizes: Sizes) -> list[Tensor]:
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


@every_kind
@every_size
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["moderate", "large"])
@pytest.mark.usefixtures("instruction_set")
def test_it_is_the_reference(kind: Kind, sizes: Sizes, dtype: torch.dtype, scale: float) -> None:
    """With large values, where additive attention's products of exponentials would overflow, too."""
    leaves = kind.arguments(sizes, dtype, scale)
    for ends in ((None, None), lengths(sizes)):
        found = with_gradients(kind.weights(sizes), leaves, ends)
        assert "Weights" in type(found[0].grad_fn).__name__, "the kernel did not run"
        agree(found, with_gradients(kind.reference(sizes), leaves, ends), dtype)


@every_kind
def test_gradients_are_finite_differences(kind: Kind) -> None:
    sizes, ends = (2, 3, 5, 2), [torch.tensor([3, 1]), torch.tensor([2, 5])]
    leaves, weigh = kind.arguments(sizes), kind.weights(sizes)
    assert torch.autograd.gradcheck(lambda *given: weigh(*given, *ends), leaves)
    assert torch.autograd.gradgradcheck(lambda *given: weigh(*given, *ends), leaves)


def test_values_that_cancel() -> None:
    """tanh(100 − 100 + x): no product of exponentials has this value."""
    query, keys = torch.tensor([[[100.0]]]), torch.tensor([[[-100.0], [-99.5], [-150.0]]])
    expected = torch.tensor([0.0, 0.5, -50.0]).tanh().softmax(0)
    assert torch.allclose(weights_of.additive_weights(query, keys, torch.ones(1))[0, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_windows_far_outside_of_the_source_attend_to_its_nearest_step(dtype: torch.dtype) -> None:
    """All energies are so low there that their exponentials are zero."""
    places = torch.tensor([[[-5000.0, -6000.0], [70000.0, 80000.0]]], dtype=dtype)
    leaves = [part.requires_grad_() for part in (torch.zeros_like(places), torch.ones_like(places), places)]
    found = with_gradients(KINDS[1].weights((1, 2, 50, 2)), leaves, ())
    assert torch.equal(found[0][0].argmax(1), torch.tensor([0, 49]))
    assert torch.allclose(found[0].max(2).values, torch.ones(1, 2, dtype=dtype))
    assert all(part.isfinite().all() for part in found)


@every_kind
def test_nan_stays_in_its_row(kind: Kind) -> None:
    sizes = SIZES[3]
    first, *others = (t.detach() for t in kind.arguments(sizes))
    clean = kind.weights(sizes)(first, *others)
    first[1, 2, 0] = torch.nan
    found = kind.weights(sizes)(first, *others)
    assert found[1, 2].isnan().all()
    assert torch.equal(found[0], clean[0])
    assert torch.allclose(found[1, 3:], clean[1, 3:], rtol=1e-12)


@every_kind
def test_the_same_bits_for_every_number_of_threads_batch_and_padding(kind: Kind) -> None:
    sizes = (16, 30, 40, 16)
    leaves, ends = kind.arguments(sizes, torch.float32), lengths(sizes)
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        results.append(with_gradients(kind.weights(sizes), leaves, ends))
    same_bits(*results)
    n, m = (int(part[5]) for part in ends)
    query, keys, vector = leaves
    additive = kind.name == "additive"
    given = [query[5:6, :n], keys[5:6, :m], vector] if additive else [part[5:6, :n] for part in leaves]
    alone = kind.weights((1, n, m, 16))(*given)
    assert torch.equal(alone[0], results[0][0][5, :n, :m])


@every_kind
def test_tensors_of_other_shapes_are_refused(kind: Kind) -> None:
    sizes = SIZES[0]
    good: list[Any] = [t.detach() for t in kind.arguments(sizes)]
    ends, weigh = lengths(sizes), kind.kernel(sizes)
    assert weigh(*good, *ends).shape == sizes[:3]
    for n in range(3):
        for other in (good[n][:2], good[n][..., :-1], good[n].unsqueeze(0), good[n].float()):
            with pytest.raises(InputError):
                weigh(*good[:n], other, *good[n + 1 :])
    with pytest.raises(InputError, match="got None"):
        weigh(*good[:2], None)
    for n, most in enumerate((5, 4)):
        for other in (ends[n][:2], ends[n].int(), ends[n] - 100, ends[n] + most + 1):
            with pytest.raises(InputError):
                weigh(*good, *ends[:n], other, *ends[n + 1 :])


@pytest.mark.parametrize("steps", [-1, 2.0, True, 2**62])
def test_a_number_of_steps_that_is_none_is_refused(steps: Any) -> None:
    with pytest.raises(InputError, match=r"sources must be an integer"):
        attention.monotonic(None, *windows(SIZES[0]), steps)  # type: ignore[arg-type]
