"""Equal before timed: outputs and the gradients of all parameters."""

from __future__ import annotations

from torch import Tensor

from autapse.benchmark.candidate import Candidate, Unequal

# Norm of the difference over the norm. float32 over several hundred steps, summed in different orders. Not the largest
# difference: of millions of ReLUs one or two have an argument so near 0 that rounding decides on which side they are,
# and their gradient is all or nothing. A wrong sign, a missing bias or a swapped gate is off by far more, and in a
# matrix of 512 × 512 a single wrong entry by 2e-3.
OUTPUT, GRADIENT = 1e-4, 1e-3


def check_equal(ours: Candidate, peer: Candidate, x: Tensor, gradient: Tensor) -> float:
    """Raise `Unequal` unless one training step gives the same results; return the largest relative difference."""
    mine, theirs = ours.train(x, gradient).detach(), peer.train(x, gradient).detach()
    worst = check_tensors("output", mine, theirs, OUTPUT, peer.name)
    mine_by_name, theirs_by_name = ours.gradients(), peer.gradients()
    if mine_by_name.keys() != theirs_by_name.keys():
        raise Unequal(f"{peer.name} has gradients for {sorted(theirs_by_name)}, ours for {sorted(mine_by_name)}.")
    found = [
        check_tensors(f"gradient of {name}", value, theirs_by_name[name], GRADIENT, peer.name)
        for name, value in mine_by_name.items()
    ]
    return max(worst, *found)


def check_tensors(what: str, mine: Tensor, theirs: Tensor, tolerance: float, peer: str) -> float:
    """Raise `Unequal` unless the norm of the difference is a small part of the norm; return that part."""
    if mine.shape != theirs.shape:
        raise Unequal(f"{what}: shape {tuple(mine.shape)} against {tuple(theirs.shape)} of {peer}.")
    scale, difference = theirs.norm().item(), (mine - theirs).norm().item()
    error = difference / scale if scale else difference
    if not error <= tolerance:  # NaN fails too
        found = f"{what} differs from that of {peer} by {error:.1e} of its norm"
        raise Unequal(f"{found}; at most {tolerance:g} is rounding.")
    return error
