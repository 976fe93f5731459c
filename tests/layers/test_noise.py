"""Random numbers of a network's own."""

import threading

import pytest
import torch
from torch.nn import functional as F

from autapse.layers.noise import Dropout, dropout, generator, normal_like, own_noise


def test_without_numbers_of_their_own_they_are_torchs():
    x = torch.randn(50)
    torch.manual_seed(3)
    expected = F.dropout(x, 0.3), torch.randn_like(x)
    torch.manual_seed(3)
    found = Dropout(0.3)(x), normal_like(x)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_what_dropout_keeps(p):
    """A share of 1 − p, divided by 1 − p; the gradient reaches the same values."""
    x = torch.ones(10_000, requires_grad=True)
    with own_noise(5):
        y = dropout(x, p)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    kept = y[y != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p) if p < 1 else 0))
    assert abs(len(kept) / len(x) - (1 - p)) < 0.02
    with own_noise(5):
        assert torch.equal(dropout(x, p, training=False), x)


def test_they_leave_torchs_numbers_alone():
    before = torch.get_rng_state()
    with own_noise(0):
        dropout(normal_like(torch.ones(10)), 0.5)
    assert torch.equal(torch.get_rng_state(), before)
    assert generator() is None


def test_another_thread_does_not_see_them():
    seen = []
    with own_noise(0):
        thread = threading.Thread(target=lambda: seen.append(generator()))
        thread.start()
        thread.join()
    assert seen == [None]
