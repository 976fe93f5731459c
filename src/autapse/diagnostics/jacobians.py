"""Eigenvalues and singular values of the steps of a network, along its trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autapse import checks
from autapse.diagnostics import arguments
from autapse.diagnostics.trajectories import Network, Trajectory, array, trajectory

MATRICES = 512  # eigenvalue problems that are solved by default, over all sequences


@dataclass(frozen=True, eq=False)
class JacobianSpectrum:
    """The spectrum of ∂h_t/∂h_{t−1}, from `jacobian_spectrum`. n steps, B sequences, S units; NaN past an end."""

    steps: np.ndarray  # [n], the steps, counted from 0 in the order in which the cell reads
    eigenvalues: np.ndarray  # [n, B, S] complex, largest modulus first
    singular_values: np.ndarray  # [n, B, S], largest first
    step_size: float | None  # ε, for a cell that is a step of a differential equation

    @property
    def radius(self) -> np.ndarray:
        """The spectral radius max|λ|, [n, B]. For the Antisymmetric family this is max|1 + ελ| of its paper."""
        return np.abs(self.eigenvalues).max(-1)

    @property
    def time_constants(self) -> np.ndarray:
        """−1/log|λ| steps, [n, B, S]: a mode shrinks by the factor e in this time. Negative for modes that grow."""
        with np.errstate(divide="ignore"):
            return -1 / np.log(np.abs(self.eigenvalues))

    @property
    def rates(self) -> np.ndarray:
        """The eigenvalues (λ − 1)/ε of the differential equation, [n, B, S] complex."""
        if self.step_size is None:
            checks.fail("network", "be a step of a differential equation, such as Antisymmetric", "another cell")
        return (self.eigenvalues - 1) / self.step_size


@torch.no_grad()
def jacobian_spectrum(
    network: Network,
    x: Any,
    lengths: Any = None,
    layer: int = 0,
    reverse: bool = False,
    steps: Sequence[int] | None = None,
) -> JacobianSpectrum:
    """Eigenvalues and singular values of ∂h_t/∂h_{t−1} along the trajectory of a network.

    Args:
        network: a layer, or a model with one. It is run in evaluation mode.
        x: the input, as the network takes it.
        lengths: [B], the length of each sequence, if they differ.
        layer: which layer of a stack.
        reverse: the cell of the reverse direction.
        steps: the steps to look at. None: evenly spaced ones, about 512 matrices in all.

    Returns:
        A `JacobianSpectrum`. Time: one forward pass, then O(S³) for each chosen step of each sequence.

    >>> spectrum = jacobian_spectrum(autapse.Antisymmetric(3, 8, step=0.1), torch.zeros(20, 2, 3), steps=[0, 19])
    >>> spectrum.radius.shape
    (2, 2)
    >>> bool(np.allclose(spectrum.rates.real, -0.01, atol=1e-4))  # −γ, at the origin
    True
    """
    path = trajectory(network, x, lengths, layer, reverse)
    path.check_dense("Use gradient_flow(..., vectors=8), which needs no matrices.")
    chosen = _steps(path, steps)
    count = len(path.lengths)
    rows = chosen.repeat_interleave(count), torch.arange(count).repeat(len(chosen))
    exists = path.running[rows]
    matrices = path.jacobians(rows[0][exists], rows[1][exists])
    shape = (len(chosen), count, path.units)
    eigenvalues = _largest_first(torch.linalg.eigvals(matrices))
    return JacobianSpectrum(
        chosen.numpy(),
        _placed(array(eigenvalues.to(torch.complex128)), exists, shape),
        _placed(array(torch.linalg.svdvals(matrices)), exists, shape),
        getattr(path.cell, "step_size", None),
    )


def _steps(path: Trajectory, steps: Sequence[int] | None) -> Tensor:
    if steps is None:
        count = max(2, MATRICES // len(path.lengths))
        return torch.linspace(0, path.steps - 1, min(count, path.steps)).round().long().unique()
    return torch.tensor(arguments.positions("steps", steps, path.steps))


def _largest_first(values: Tensor) -> Tensor:
    return values.gather(-1, values.abs().argsort(dim=-1, descending=True))


def _placed(values: np.ndarray, exists: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    full = np.full((exists.numel(), shape[-1]), np.nan, dtype=values.dtype)
    full[exists.numpy()] = values
    return full.reshape(shape)
