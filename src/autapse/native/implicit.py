"""The kernels of implicit networks as functions of tensors: the implicit GRU's rule, and tridiagonal systems.

Solvers call them, without autograd; shapes are those of src/abi.h. Every tensor is checked before a kernel runs. A
tensor that a kernel writes to must be contiguous, or at least each [M, H] part of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from autapse import checks
from autapse.native import library
from autapse.native.library import MOST_OFFSETS, MOST_WINDOW
from autapse.native.operands import check_dtype, check_memory, check_shape, dense

SLOPE_PARTS = 7  # in addition to two per offset
MOST_ITERATIONS = 1 << 20  # of GMRES, which needs memory for each iteration


class Sequences(NamedTuple):
    """Ragged sequences, longest first, on the stencil (−1, 1). Rows of even steps come before those of odd steps."""

    lengths: Tensor  # [B]
    own_edges: bool = False  # whether each sequence has its own states past its ends
    lower: int = 0  # which of the offsets is −1

    def describe(self, rows: int) -> tuple[library.RedBlackStruct, Tensor]:
        """The struct for tensors with `rows` rows, and the tensor that it points to."""
        check_shape("lengths", self.lengths.shape, (None,))
        (lengths,) = dense(("lengths",), (self.lengths,), torch.int64)
        struct = library.RedBlackStruct(count=len(lengths), rows=rows, lengths=lengths.data_ptr())
        struct.lower, struct.own_edges = self.lower != 0, self.own_edges
        return struct, lengths

    def fail(self, rows: int, also: str = "") -> NoReturn:
        rule = f"never grow, be at least 0 and sum to the number of rows, {rows}{also}"
        checks.fail("lengths", rule, self.lengths.tolist(), kind=checks.ShapeError)


class ImplicitKernel:
    """The implicit GRU's rule. Its matrices are packed once, for a solve and its adjoint."""

    def __init__(self, switches: Tensor, gates: Tensor, candidate: Tensor) -> None:  # [J, H, H], [2H, H], [H, H]
        self.dtype = switches.dtype
        check_dtype(self.dtype)
        if switches.dim() != 3 or not 1 <= len(switches) <= MOST_OFFSETS or switches.shape[1] < 1:
            rule = f"have shape (J, H, H), with J from 1 to {MOST_OFFSETS}"
            checks.fail("switches", rule, tuple(switches.shape), kind=checks.ShapeError)
        self.offsets, self.hidden = J, H = switches.shape[0], switches.shape[1]
        given = {"switches": (switches, (J, H, H)), "gates": (gates, (2 * H, H)), "candidate": (candidate, (H, H))}
        matrices = self._checked({name: (matrix.detach(), shape) for name, (matrix, shape) in given.items()})
        self.problem = library.ImplicitStruct(wide=self.dtype == torch.float64, hidden=H, offsets=J)
        self.problem.switches, self.problem.gates, self.problem.candidate = (m.data_ptr() for m in matrices)
        self.problem.threads = torch.get_num_threads()
        native = library.native()
        size = native.autapse_implicit_bytes(ctypes.byref(self.problem))
        self._memory = torch.empty(size + 64, dtype=torch.uint8)
        place = (self._memory.data_ptr() + 63) // 64 * 64
        native.autapse_implicit_pack(ctypes.byref(self.problem), place)
        self.problem.packed = place

    def evaluate(
        self,
        u: Tensor,  # [., (J + 3)·H]
        drive_rows: Tensor | None,  # [M], rows of u; None for its first M rows
        table: Tensor,  # [R, H], states of the neighbours
        edges: Tensor,  # [E, H], states past the ends
        index: Sequence[Tensor],  # [M] per offset, into [table, edges]
        h: Tensor,  # [M, H], written
        bands: Tensor | None,  # [J, M, H], written; may be some rows of a longer tensor
        slope: Tensor | None,  # [2J + 7, M, H], written; likewise
    ) -> None:
        J, H = self.offsets, self.hidden
        self._check_written("h", h, (None, H))
        M = len(h)
        problem = self._for(M)
        u, table, edges = self._checked(
            {"u": (u, (None, (J + 3) * H)), "table": (table, (None, H)), "edges": (edges, (None, H))}
        )
        problem.u, problem.table, problem.edges, problem.h = (t.data_ptr() for t in (u, table, edges, h))
        problem.drive_count, problem.table_rows, problem.edge_rows = len(u), len(table), len(edges)
        if len(index) != J:
            checks.fail("index", f"have one tensor per offset, {J} in all", len(index), kind=checks.ShapeError)
        drive_rows, *index = _rows(("drive_rows", *("index",) * J), (drive_rows, *index), M)
        problem.drive_rows = None if drive_rows is None else drive_rows.data_ptr()
        for n, rows in enumerate(index):
            problem.index[n] = rows.data_ptr()
        if bands is not None:
            self._check_written("bands", bands, (J, M, H))
            problem.bands, problem.band_stride = bands.data_ptr(), bands.stride(0)
        if slope is not None:
            self._set_slope(problem, slope, M)
        if not library.run("implicit_evaluate", problem):
            rule = f"be rows of their tensors, of {len(u)} and of {len(table)} + {len(edges)} rows"
            checks.fail("drive_rows and index", rule, "some that are not", kind=checks.ShapeError)

    def pull(self, slope: Tensor, v: Tensor) -> Tensor:  # [2J + 7, M, H], [M, H] -> [J, M, H]
        """v·dh/dh_j for each neighbour."""
        problem, v = self._pull(slope, v)
        near = torch.empty(self.offsets, *v.shape, dtype=self.dtype)
        problem.near = near.data_ptr()
        library.run("implicit_pull", problem)
        return near

    def pull_arguments(self, slope: Tensor, v: Tensor) -> Tensor:  # -> [M, (J + 3)·H]
        """v·dh/da for each argument of a gate."""
        problem, v = self._pull(slope, v)
        arguments = torch.empty(len(v), (self.offsets + 3) * self.hidden, dtype=self.dtype)
        problem.arguments = arguments.data_ptr()
        library.run("implicit_pull", problem)
        return arguments

    def _pull(self, slope: Tensor, v: Tensor) -> tuple[library.ImplicitStruct, Tensor]:
        """The problem without its result, and the `v` that it points to."""
        (v,) = self._checked({"v": (v, (None, self.hidden))})
        problem = self._for(len(v))
        self._set_slope(problem, slope, len(v))
        problem.v = v.data_ptr()
        return problem, v

    def relax(
        self,
        u: Tensor,
        drive_rows: Tensor | None,
        edges: Tensor,
        sequences: Sequences,
        z: Tensor,  # [N, H], the start; overwritten by the best iterate
        **settings: float,  # with the names of src/abi.h
    ) -> tuple[Tensor, Tensor, Tensor]:  # [B] each
        """The tridiagonal iteration on the stencil (−1, 1): residual, iterations and success of each sequence."""
        self._check_stencil()
        self._check_written("z", z, (None, self.hidden))
        N, H = z.shape
        if not 0 <= settings["window"] <= MOST_WINDOW:
            checks.fail("window", f"be from 0 to {MOST_WINDOW}", settings["window"])
        problem = self._for(N)
        layout, lengths = sequences.describe(N)
        count = 2 * len(lengths) if sequences.own_edges else 1
        u, edges = self._checked({"u": (u, (None, 5 * H)), "edges": (edges, (count, H))})
        (drive_rows,) = _rows(("drive_rows",), (drive_rows,), N)
        problem.u, problem.edges, problem.drive_count = u.data_ptr(), edges.data_ptr(), len(u)
        problem.drive_rows = None if drive_rows is None else drive_rows.data_ptr()
        outcome = _Outcome(len(lengths))
        relaxation = library.RelaxationStruct(layout=layout, z=z.data_ptr(), **outcome.addresses, **settings)
        if not library.run("implicit_relax", problem, relaxation):
            sequences.fail(N, f", and drive_rows must be {N} of the {len(u)} rows of u")
        return outcome.result

    def adjoint(
        self,
        slope: Tensor,  # [2J + 7, N, H]
        sequences: Sequences,
        g: Tensor,  # [N, H]
        **settings: float,
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:  # [N, H]; [B] each
        """v = g + Jᵀ·v by GMRES on the stencil (−1, 1); and residual, iterations and success of each sequence."""
        self._check_stencil()
        if not 0 <= settings["max_iterations"] <= MOST_ITERATIONS:
            checks.fail("max_iterations", f"be from 0 to {MOST_ITERATIONS}", settings["max_iterations"])
        (g,) = self._checked({"g": (g, (None, self.hidden))})
        v = torch.empty_like(g)
        problem = self._for(len(g))
        self._set_slope(problem, slope, len(g))
        layout, lengths = sequences.describe(len(g))
        outcome = _Outcome(len(lengths))
        adjoint = library.AdjointStruct(layout=layout, g=g.data_ptr(), v=v.data_ptr(), **outcome.addresses, **settings)
        if not library.run("implicit_adjoint", problem, adjoint):
            sequences.fail(len(g))
        return v, outcome.result

    def _for(self, rows: int) -> library.ImplicitStruct:
        """A copy for one call: two threads may run backward passes of one graph."""
        problem = library.ImplicitStruct.from_buffer_copy(self.problem)
        problem.rows, problem.threads = rows, torch.get_num_threads()
        return problem

    def _check_stencil(self) -> None:
        if self.offsets != 2:
            checks.fail("the rule", "have the stencil (-1, 1) for the native solvers", f"{self.offsets} offsets")

    def _checked(self, given: dict[str, tuple[Tensor, Sequence[int | None]]]) -> list[Tensor]:
        """The tensors, contiguous, if each has the shape next to it. A kernel may read them."""
        for name, (tensor, shape) in given.items():
            check_shape(name, tensor.shape, shape)
        return dense(tuple(given), [tensor for tensor, _ in given.values()], self.dtype)

    def _set_slope(self, problem: library.ImplicitStruct, slope: Tensor, rows: int) -> None:
        self._check_written("slope", slope, (2 * self.offsets + SLOPE_PARTS, rows, self.hidden))
        problem.slope, problem.slope_stride = slope.data_ptr(), slope.stride(0)

    def _check_written(self, name: str, tensor: Tensor, shape: Sequence[int | None]) -> None:
        """A tensor that a kernel writes to must be [M, H], or several of these at any distance; it cannot be copied."""
        check_shape(name, tensor.shape, shape)
        (rows, columns), (along, across) = tensor.shape[-2:], tensor.stride()[-2:]
        if (rows > 1 and along != columns) or (columns > 1 and across != 1):
            checks.fail(name, "be contiguous", f"strides {tensor.stride()}", kind=checks.ShapeError)
        if tensor.dtype is not self.dtype:
            checks.fail(name, f"have dtype {self.dtype}", tensor.dtype)
        check_memory(name, tensor)


def _rows(names: Sequence[str], tensors: Sequence[Tensor | None], count: int) -> list[Any]:
    """Index tensors, contiguous, if each has `count` entries; the library checks their values."""
    for name, tensor in zip(names, tensors, strict=True):
        if tensor is not None:
            check_shape(name, tensor.shape, (count,))
    return dense(names, tensors, torch.int64)


class _Outcome:
    """Memory for a solver's residual, iterations and success of each sequence."""

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
        sequences: Sequences,
        transposed: bool = False,
    ) -> None:
        self.sequences = sequences
        check_dtype(lower.dtype)
        check_shape("lower", lower.shape, (None, None))
        check_shape("upper", upper.shape, lower.shape)
        lower, upper = dense(("lower", "upper"), (lower, upper), lower.dtype)
        layout, lengths = sequences.describe(len(lower))
        self.kept = (lower, upper, torch.empty_like(lower), torch.empty_like(lower))
        self._lengths = lengths  # the problem points to it
        self.problem = library.TridiagonalStruct(
            wide=lower.dtype == torch.float64, transposed=transposed, layout=layout, channels=lower.shape[1]
        )
        for name, tensor in zip(("lower", "upper", "inverse", "ahead"), self.kept, strict=True):
            setattr(self.problem, name, tensor.data_ptr())

    def __call__(self, right: Tensor) -> Tensor:  # [R, S], R ≤ N, zero beyond -> [N, S]
        """The solution. The first call eliminates the system."""
        rows, channels = self.kept[0].shape
        check_shape("right", right.shape, (None, channels))
        if len(right) > rows:
            checks.fail("right", f"have at most {rows} rows", len(right), kind=checks.ShapeError)
        (right,) = dense(("right",), (right,), self.kept[0].dtype)
        y = torch.empty_like(self.kept[0])
        self.problem.threads = torch.get_num_threads()
        self.problem.right, self.problem.right_rows, self.problem.y = right.data_ptr(), len(right), y.data_ptr()
        if not library.run("tridiagonal_solve", self.problem):
            self.sequences.fail(rows)
        self.problem.factored = True
        return y
