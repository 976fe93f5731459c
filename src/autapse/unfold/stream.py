"""Streaming: one step at a time with weights prepared once, by a native kernel if possible, else by the reference."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import torch
from torch import Tensor

from autapse.cells import Cell
from autapse.forms import Affine, Form, State
from autapse.native import library, ops
from autapse.native.dispatch import kernels_serve
from autapse.native.operands import check_shape, dense
from autapse.unfold.fused import prepare, tensors_of


class Stepper(Protocol):
    """A cell with its states. A call with the input of position t returns the output there, without gradients."""

    states: State

    def __call__(self, x: Tensor, t: int) -> Tensor: ...  # [B, D] -> [B, O]

    def select(self, index: Tensor) -> None: ...  # [B] for each place, whose states it gets


@torch.no_grad()
def make_stepper(cell: Cell, states: State, like: Tensor) -> Stepper:
    """A stepper that starts from `states`, for input with the dtype and device of `like`."""
    if not kernels_serve(like, *states, *tensors_of(cell)):
        return ReferenceStepper(cell, states, cell.prepare())
    weights, form, affine = prepare(cell)
    # A network with delays has more states than a kernel can keep in place.
    if form is None or cell.steps_back > 1:
        return ReferenceStepper(cell, states, weights)
    return FusedStepper(cell, states, form, affine)


class ReferenceStepper:
    """The cell's own step."""

    def __init__(self, cell: Cell, states: State, weights: Any) -> None:
        self.states = states
        self._cell, self._drive, self._weights = cell, cell.driver(), weights
        self._checked = False

    def __call__(self, x: Tensor, t: int) -> Tensor:
        self.states = self._cell.advance(self._drive(x), self.states, self._weights, t, check=not self._checked)
        self._checked = True
        return self._cell.output(self.states[: len(self._cell.state_sizes)])

    def select(self, index: Tensor) -> None:
        self.states = tuple(state.index_select(0, index) for state in self.states)


class FusedStepper:
    """The native scan over one step: matrices packed once, states and buffers in place, nothing allocated per call.

    The output is a buffer that the next call overwrites.
    """

    def __init__(self, cell: Cell, states: State, form: Form, affine: Affine | None) -> None:
        self.states = tuple(state.clone(memory_format=torch.contiguous_format) for state in states)
        self._output_of = None if cell.outputs_state else cell.output
        batch = states[0].shape[0]
        self._drive = None if affine else cell.driver()
        width = cell.input_size if affine else cell.drive(states[0].new_zeros(1, cell.input_size)).shape[1]
        # If coefficients depend on the position, the table of all positions is kept and each step reads one row.
        alpha = getattr(form, "alpha", None)
        self._last = len(alpha) - 1 if isinstance(alpha, Tensor) and alpha.dim() == 2 else 0
        x = states[0].new_zeros(batch, width)
        operands, kind = form.scan_operands(x, affine, self.states, self._last + 1, 0)
        # The check needs one step per row of coefficients. There are no sequences at the steps after the first.
        sizes = torch.tensor([batch, *[0] * self._last])
        self._problem, self._held, self._sizes, self._plan = ops.describe_problem(operands, sizes, kind)
        self._problem.steps = 1
        self._shape = x.shape
        self._output = torch.empty_like(self.states[0])
        self._connect()
        self._forward = library.native().autapse_forward
        self._reference = ctypes.byref(self._problem)

    def _connect(self) -> None:
        problem, states = self._problem, self.states
        problem.h, problem.h_n = self._output.data_ptr(), states[0].data_ptr()
        problem.h0 = problem.h_n
        if len(states) > 1:
            problem.c0 = problem.c_n = states[1].data_ptr()
        native = library.native()
        size = native.autapse_packed_bytes(ctypes.byref(problem))
        if size < 0:
            ops.fail_malformed(self._held, self._sizes, self._plan.extent, reverse=False)
        self._packed = torch.empty(size, dtype=torch.uint8)
        native.autapse_pack(ctypes.byref(problem), self._packed.data_ptr())
        problem.packed = self._packed.data_ptr()
        tables = {"alpha": self._held.alpha, "beta": self._held.beta} if self._last else {}
        self._tables = [(n, t.data_ptr(), t.stride(0) * t.element_size()) for n, t in tables.items() if t is not None]

    def __call__(self, x: Tensor, t: int) -> Tensor:
        x = x if self._drive is None else self._drive(x)
        check_shape("x", x.shape, self._shape)
        dtype = self._output.dtype  # under autocast another layer's output may be narrower
        (x,) = dense(("x",), (x.to(dtype),), dtype)
        self._problem.x = x.data_ptr()
        for name, first, stride in self._tables:
            setattr(self._problem, name, first + min(max(t, 0), self._last) * stride)
        library.ran(self._forward(self._reference), "forward")
        return self._output if self._output_of is None else self._output_of(self.states)

    def select(self, index: Tensor) -> None:
        for state in self.states:  # in place: the library knows their addresses
            state.copy_(state.index_select(0, index))
