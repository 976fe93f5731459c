"""The kernels of coupled networks as functions of tensors: the implicit GRU's rule, and tridiagonal systems.

They serve solvers, which work without autograd; shapes are those of src/abi.h. Tensors are contiguous and on the CPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autapse.native import library
from autapse.native.ops import contiguous

SLOPE_PARTS = 7  # beside two for each offset


class CoupledKernel:
    """The rule with its matrices packed, once for a solve and its adjoint."""

    def __init__(self, switches: Tensor, gates: Tensor, candidate: Tensor) -> None:  # [J, H, H], [2H, H], [H, H]
        matrices = contiguous([m.detach() for m in (switches, gates, candidate)])
        self.offsets, self.hidden = switches.shape[0], switches.shape[1]
        self.problem = library.Coupled(wide=switches.dtype == torch.float64, hidden=self.hidden, offsets=self.offsets)
        self.problem.switches, self.problem.gates, self.problem.candidate = (m.data_ptr() for m in matrices)
        self.problem.threads = torch.get_num_threads()
        native = library.load().library
        size = native.autapse_coupled_bytes(ctypes.byref(self.problem))
        self._memory = torch.empty(size + 64, dtype=torch.uint8)
        place = (self._memory.data_ptr() + 63) // 64 * 64
        native.autapse_coupled_pack(ctypes.byref(self.problem), place)
        self.problem.packed = place

    def evaluate(
        self,
        u: Tensor,  # [., (J + 3)·H]
        drive_rows: Tensor | None,  # [M], rows of u; None where they are its first M
        table: Tensor,  # [R, H], the states that neighbours are among
        edges: Tensor,  # [E, H], those past the ends
        index: Sequence[Tensor],  # [M] per offset, into [table, edges]
        h: Tensor,  # [M, H], written
        bands: Tensor | None,  # [J, M, H], written; rows may be part of a longer tensor's
        slope: Tensor | None,  # [2J + 7, M, H], written, in the same way
    ) -> None:
        problem = self._for(len(h))
        problem.u, problem.table, problem.edges, problem.h = (t.data_ptr() for t in (u, table, edges, h))
        problem.drive_rows = None if drive_rows is None else drive_rows.data_ptr()
        problem.table_rows = len(table)
        for n, rows in enumerate(index):
            problem.index[n] = rows.data_ptr()
        problem.bands = None if bands is None else bands.data_ptr()
        problem.band_stride = 0 if bands is None else bands.stride(0)
        if slope is not None:
            problem.slope, problem.slope_stride = slope.data_ptr(), slope.stride(0)
        library.run("coupled_evaluate", problem)

    def pull(self, slope: Tensor, v: Tensor) -> Tensor:  # [2J + 7, M, H], [M, H] -> [J, M, H]
        """v·dh/dh_j for each neighbour."""
        near = v.new_empty(self.offsets, *v.shape)
        self._pull(slope, v, near=near)
        return near

    def pull_arguments(self, slope: Tensor, v: Tensor) -> Tensor:  # -> [M, (J + 3)·H]
        """v·dh/da for each argument of a gate."""
        arguments = v.new_empty(len(v), (self.offsets + 3) * self.hidden)
        self._pull(slope, v, arguments=arguments)
        return arguments

    def _pull(self, slope: Tensor, v: Tensor, near: Tensor | None = None, arguments: Tensor | None = None) -> None:
        v = v.contiguous()
        problem = self._for(len(v))
        problem.slope, problem.slope_stride, problem.v = slope.data_ptr(), slope.stride(0), v.data_ptr()
        problem.near = None if near is None else near.data_ptr()
        problem.arguments = None if arguments is None else arguments.data_ptr()
        library.run("coupled_pull", problem)

    def relax(
        self,
        u: Tensor,
        drive_rows: Tensor | None,
        edges: Tensor,
        lattice: library.Lattice,
        z: Tensor,  # [N, H], where it begins; overwritten by the best that was found
        **settings: float,  # as src/abi.h names them
    ) -> tuple[Tensor, Tensor, Tensor]:  # [B] each
        """The tridiagonal iteration on the stencil (−1, 1): residual, iterations and success of each sequence."""
        problem = self._for(len(z))
        problem.u, problem.edges = u.data_ptr(), edges.data_ptr()
        problem.drive_rows = None if drive_rows is None else drive_rows.data_ptr()
        told = _Told(lattice.count)
        relaxation = library.Relaxation(lattice=lattice, z=z.data_ptr(), **told.addresses, **settings)
        library.run("coupled_relax", problem, relaxation)
        return told.result

    def adjoint(
        self,
        slope: Tensor,  # [2J + 7, N, H]
        lattice: library.Lattice,
        g: Tensor,  # [N, H]
        **settings: float,
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:  # [N, H]; [B] each
        """V = g + Jᵀ·v by GMRES on the stencil (−1, 1); and residual, iterations and success of each sequence."""
        g = g.contiguous()
        v = torch.empty_like(g)
        problem = self._for(len(g))
        problem.slope, problem.slope_stride = slope.data_ptr(), slope.stride(0)
        told = _Told(lattice.count)
        adjoint = library.Adjoint(lattice=lattice, g=g.data_ptr(), v=v.data_ptr(), **told.addresses, **settings)
        library.run("coupled_adjoint", problem, adjoint)
        return v, told.result

    def _for(self, rows: int) -> library.Coupled:
        """A problem of this call's own: two threads may be in backward passes of one graph."""
        problem = library.Coupled.from_buffer_copy(self.problem)
        problem.rows, problem.threads = rows, torch.get_num_threads()
        return problem


class _Told:
    """Where a solver writes how each sequence went."""

    def __init__(self, count: int) -> None:
        self.residual = torch.zeros(count, dtype=torch.float64)
        self.iterations, self.converged = (torch.zeros(count, dtype=torch.long) for _ in range(2))
        names = ("residual", "iterations", "converged")
        self.addresses: dict[str, Any] = {name: getattr(self, name).data_ptr() for name in names}

    @property
    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.residual, self.iterations, self.converged.bool()


class TridiagonalKernel:
    """y_t − lower_t∘y_{t−1} − upper_t∘y_{t+1} = r_t, or its transpose, along ragged sequences."""

    def __init__(
        self,
        lower: Tensor,  # [N, S]
        upper: Tensor,  # [N, S]
        lattice: library.Lattice,
        transposed: bool = False,
    ) -> None:
        self.kept = (lower, upper, torch.empty_like(lower), torch.empty_like(lower))
        self.lattice = lattice  # keeps the tensors that it points to
        self.problem = library.Tridiagonal(
            wide=lower.dtype == torch.float64, transposed=transposed, lattice=lattice, channels=lower.shape[1]
        )
        for name, tensor in zip(("lower", "upper", "inverse", "ahead"), self.kept, strict=True):
            setattr(self.problem, name, tensor.data_ptr())

    def __call__(self, right: Tensor) -> Tensor:  # [R, S], R ≤ N, zero beyond -> [N, S]
        """Eliminated at the first call."""
        right = right.contiguous()
        y = torch.empty_like(self.kept[0])
        self.problem.threads = torch.get_num_threads()
        self.problem.right, self.problem.right_rows, self.problem.y = right.data_ptr(), len(right), y.data_ptr()
        library.run("tridiagonal_solve", self.problem)
        self.problem.factored = True
        return y
