"""The functions of addressing.py against closed forms, in float32, also where a careless formula gives NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from autapse.cells import addressing
from tolerance import close

BOTH = (torch.float32, torch.float64)
every_dtype = pytest.mark.parametrize("dtype", BOTH, ids=str)


def one_hot(slot: int, slots: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.eye(slots, dtype=dtype)[slot].view(1, 1, slots)


@every_dtype
def test_cosine_is_that_of_numpy(dtype: torch.dtype) -> None:
    keys, memory = torch.randn(2, 3, 5, dtype=dtype), torch.randn(2, 4, 5, dtype=dtype)
    k, m = keys.double().numpy(), memory.double().numpy()
    angles = k @ m.swapaxes(1, 2) / np.linalg.norm(k, axis=2)[:, :, None] / np.linalg.norm(m, axis=2)[:, None]
    found = addressing.cosine(keys, memory)
    torch.testing.assert_close(found.double(), torch.from_numpy(angles), rtol=1e-4, atol=1e-5)  # ε is 1e-3
    close(addressing.cosine(1000 * keys, 500 * memory), addressing.cosine(2000 * keys, 4000 * memory))


@pytest.mark.parametrize("kind", addressing.SIMILARITIES)
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-6, 1.0, 1e15])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 1e4, 1e30])
def test_nothing_is_nan_in_float32(kind: str, size: float, sharpness: float) -> None:
    keys, memory = torch.randn(2, 2, 5), size * torch.randn(2, 4, 5)
    keys[0, 0] = 0.0
    memory[0, 1] = 0.0
    leaves = [keys.requires_grad_(), memory.requires_grad_(), torch.full((2, 2, 1), sharpness, requires_grad=True)]
    weights = addressing.by_content(addressing.SIMILARITIES[kind](leaves[0], leaves[1]), leaves[2])
    found = torch.autograd.grad((weights * torch.randn_like(weights)).sum(), leaves)
    overflows = kind == "dot" and size * sharpness > 1e37  # the product itself is infinite then
    assert overflows or all(bool(t.isfinite().all()) for t in (weights, *found))
    assert overflows or torch.allclose(weights.sum(-1), torch.ones(()))


def test_a_zero_vector_has_no_direction() -> None:
    memory = torch.randn(1, 3, 4)
    assert not addressing.cosine(torch.zeros(1, 1, 4), memory).any()
    assert not addressing.cosine(torch.randn(1, 1, 4), torch.zeros(1, 3, 4)).any()


@every_dtype
@pytest.mark.parametrize("reach", [1, 2])
def test_a_shift_moves_along_the_circle(dtype: torch.dtype, reach: int) -> None:
    for slot in range(6):
        for n, move in enumerate(range(reach, -reach - 1, -1)):
            amounts = torch.eye(2 * reach + 1, dtype=dtype)[n].view(1, 1, -1)
            close(addressing.shift(one_hot(slot, 6, dtype), amounts), one_hot((slot + move) % 6, 6, dtype))


def test_a_shift_is_a_convolution() -> None:
    weights, amounts = torch.rand(2, 3, 7, dtype=torch.float64), torch.rand(2, 3, 5, dtype=torch.float64)
    kernel = np.zeros((2, 3, 7))
    kernel[..., [2, 1, 0, -1, -2]] = amounts.numpy()
    spectrum = np.fft.fft(weights.numpy(), axis=-1) * np.fft.fft(kernel, axis=-1)
    close(addressing.shift(weights, amounts), torch.from_numpy(np.fft.ifft(spectrum, axis=-1).real))


def test_sharpening_is_a_power() -> None:
    weights, exponent = torch.softmax(torch.randn(2, 3, 7).double(), -1), 1 + 3 * torch.rand(2, 3, 1).double()
    power = weights**exponent
    close(addressing.sharpen(weights, exponent), power / power.sum(-1, keepdim=True))


@pytest.mark.parametrize("exponent", [1.0, 2.0, 60.0, 1e6])
def test_sharpening_never_underflows(exponent: float) -> None:
    """64 slots with 1/64 each: the power alone underflows in float32 from an exponent of 22 on."""
    weights = torch.full((1, 2, 64), 1 / 64)
    weights[0, 1] = torch.cat([torch.tensor([0.6, 0.4]), torch.zeros(62)])
    leaves = [weights.requires_grad_(), torch.full((1, 2, 1), exponent, requires_grad=True)]
    sharp = addressing.sharpen(*leaves)
    torch.testing.assert_close(sharp[0, 0], weights[0, 0])
    first = 1 / (1 + math.exp(exponent * math.log(0.4 / 0.6)))
    torch.testing.assert_close(sharp[0, 1, 0], torch.tensor(first))
    found = torch.autograd.grad((sharp * torch.randn_like(sharp)).sum(), leaves)
    assert all(bool(gradient.isfinite().all()) for gradient in found)


@every_dtype
def test_erasing_all_and_adding_replaces(dtype: torch.dtype) -> None:
    memory, new = torch.randn(1, 5, 3, dtype=dtype), torch.randn(1, 1, 3, dtype=dtype)
    written = addressing.write(memory, one_hot(2, 5, dtype), torch.ones_like(new), new)
    expected = memory.clone()
    expected[0, 2] = new[0, 0]
    close(written, expected)
    close(addressing.read(one_hot(2, 5, dtype), written), new)


def test_heads_erase_before_any_head_adds() -> None:
    memory, e, a = (torch.rand(1, n, 3).double() for n in (4, 2, 2))
    w = torch.softmax(torch.randn(1, 2, 4).double(), -1)
    found = addressing.write(memory, w, e, a)
    for i in range(4):
        left = memory[0, i] * (1 - w[0, 0, i] * e[0, 0]) * (1 - w[0, 1, i] * e[0, 1])
        close(found[0, i], left + w[0, 0, i] * a[0, 0] + w[0, 1, i] * a[0, 1])


def test_draws_have_the_probabilities() -> None:
    weights = torch.tensor([0.5, 0.3, 0.2, 0.0]).expand(4000, 2, 4)
    drawn = addressing.draw(weights)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert bool((drawn.sum(-1) == 1).all())
    share = drawn.flatten(0, 1).mean(0)
    deviation = (weights[0, 0] * (1 - weights[0, 0]) / 8000).sqrt()
    assert bool(((share - weights[0, 0]).abs() <= 5 * deviation).all())
    both = drawn[:, 0, 0] * drawn[:, 1, 0]  # heads draw independently
    assert abs(float(both.mean()) - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 4000)


def test_the_most_probable_slot() -> None:
    assert torch.equal(addressing.most_probable(torch.tensor([[[0.1, 0.6, 0.3]]])), one_hot(1, 3, torch.float32))
