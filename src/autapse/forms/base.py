"""Form: the base class of the forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.forms.at_rows import AtRows, at_rows
from autapse.gradient.at_states import clipped_at_states
from autapse.native import ops
from autapse.native.dispatch import in_forward_mode
from autapse.native.operands import ACTIVATIONS, KERNELS, Extent, FormOperands, Kind, Operands, Shapes, Stretch
from autapse.sequences.walk import walk

State = tuple[Tensor, ...]
Scanned = tuple[State, State]  # one [N, S] per state, after each step; one [B, S] per carried tensor, at the ends
Affine = tuple[Tensor, Tensor | None]  # W and b of a drive W·x + b


class Form:
    """The effective matrices and coefficients of a cell, built once per sequence, with the reference step.

    `step` is plain PyTorch and reads like its equation; kernels are compared with it. A form with a kernel also names
    the operands of the kernel, and can be rebuilt from them.
    """

    name: ClassVar[str]

    def step(
        self,
        u: Tensor,  # [B, G], the drive
        state: State,  # each [B, S]
        t: int,  # position, for coefficients that depend on it
    ) -> State:
        raise NotImplementedError

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:  # [B, S, S], S the sizes of all states together
        """d step(u, state, t) / d state, in closed form."""
        raise NotImplementedError

    # The product with the state -----------------------------------------------------------------------------------

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        """Whether a step reads h by one product R·h, so that it is `joined(u, product(h), state, t)`."""
        return False

    @property
    def reads_by_one_product(self) -> bool:
        """`has_one_product` of this form."""
        operands, kind = self.operands(1, 0)
        return self.has_one_product(kind, operands.projection is not None)

    def product(self, h: Tensor) -> Tensor:
        """R·h of each row."""
        return h @ self.matrix.t()  # type: ignore[attr-defined]

    def driven(self, u: Tensor, h: Tensor, product: Tensor | None = None) -> Tensor:
        """u + R·h, whose product may be known."""
        return torch.addmm(u, h, self.matrix.t()) if product is None else u + product  # type: ignore[attr-defined]

    def joined(self, u: Tensor, product: Tensor, state: State, t: Any) -> State:
        """The step, given the product R·h; t is one position, or that of each row."""
        raise NotImplementedError

    def read(self, carried: State) -> State:
        """What a step reads of all that a sequence carries."""
        return carried

    # The kernel -------------------------------------------------------------------------------------------------

    gates: ClassVar[int] = 1  # parts of the drive, each H columns wide
    activations: ClassVar[Sequence[str]] = ACTIVATIONS[:4]  # those of the kernel: the first ones of ACTIVATIONS
    most_inner: ClassVar[int] = 1  # largest number of inner steps or maps of the kernel
    most_delays: ClassVar[int] = 0  # largest number of delays of the kernel

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        """What the kernel takes for `steps` steps from position `start`."""
        raise NotImplementedError(f"The native library has no kernel for the form {self.name}.")

    def scan_operands(
        self,
        x: Tensor,  # [N, D], or the drive [N, G] without `affine`
        affine: Affine | None,
        state: State,
        steps: int,
        start: int,
    ) -> tuple[Operands, Kind]:
        """All operands of a scan over `steps` steps from position `start`."""
        operands, kind = self.operands(steps, start)
        weight, bias = (None, None) if affine is None else affine
        h0, c0 = state if len(state) > 1 else (state[0], None)
        return Operands(x, weight, bias, h0, c0, *operands), kind

    def scan(
        self,
        x: Tensor,  # [N, D], or the drive [N, G] without `affine`
        affine: Affine | None,
        state: State,  # each [B, S], longest sequence first
        sizes: Sequence[int],  # number of sequences at each step; never grows; sums to N
        start: int = 0,  # position of the first step
        keep: bool = False,  # all states of each step, not only the first
        reverse: bool = False,  # from the last step to the first; for sequences of one length
        clip: float = math.inf,  # bound of each entry of the gradient at a state, in the backward pass
        flow: float = 0.0,  # weight of each term of the regulariser for information flow, in the backward pass
    ) -> Scanned:
        """The states after each step and at each sequence's own end, by the kernel; see `reference_scan`."""
        operands, kind = self.scan_operands(x, affine, state, len(sizes), start)
        if reverse or clip < math.inf or flow:
            kind = kind._replace(reverse=reverse, clip=clip, flow=flow)
        tracked = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands)
        save = tracked or in_forward_mode()
        h, h_n, c, c_n, _ = ops.scan(operands, _counts(sizes), kind, keep, save)
        states, final = ((h,), (h_n,)) if operands.c0 is None else ((h, c) if keep else (h,), (h_n, c_n))
        return states, final if len(final) == len(state) else self.ends(h, state, sizes, reverse)

    def ends(self, h: Tensor, state: State, sizes: Sequence[int], reverse: bool) -> State:
        """What sequences carry at their ends, if that is more than the last state; h has the states of all steps."""
        raise NotImplementedError

    @classmethod
    def drive_parts(cls, kind: Kind, cells: bool) -> int:
        """Parts of the drive, each H columns wide; `cells`: whether there is a second state."""
        return cls.gates

    # The forward derivative -------------------------------------------------------------------------------------

    @property
    def has_tangent(self) -> bool:
        """Whether `linearised` gives the forward derivative of a scan."""
        return False

    def linearised(self, at: AtRows, moved: Operands) -> tuple[Tensor, ...]:
        """The parts of the drive of the `linear` form whose states are the forward derivative, each [N, H].

        Args:
            at: what the scan read and computed at some rows.
            moved: the tangents of the operands.
        """
        raise NotImplementedError(f"The kernel of the form {self.name} has no forward derivative.")

    @classmethod
    def tangent_operands(
        cls, operands: Operands, tangents: Operands, stretch: Stretch, state: Sequence[Tensor], kind: Kind
    ) -> tuple[Operands, Kind]:
        """The linear scan over a stretch whose states are the forward derivative; it starts from `state`."""
        form = cls.from_operands(operands, kind)
        if not form.has_tangent:
            raise NotImplementedError(f"The kernel of this {cls.name} has no forward derivative.")
        drive = torch.cat(form.linearised(at_rows(operands, tangents, stretch), tangents), dim=-1)
        h, c = (*state, None)[:2]
        count = len(operands.matrix) // operands.matrix.shape[1]
        code = next(n for n, other in enumerate(KERNELS) if other.name == "linear")
        moved = Operands(drive, None, None, h, c, operands.matrix, None, None, None, None)  # type: ignore[arg-type]
        return moved, Kind(code, inner=count, reverse=kind.reverse)

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> Self:
        """The form that gives these operands."""
        raise NotImplementedError

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        """The shapes of the needed and of the optional operands, apart from x, weight, bias and h0.

        The kernel reads as much memory as these shapes say. `given` has the shape of each operand of a call, or None.
        """
        raise NotImplementedError

    @classmethod
    def reference_scan(cls, operands: Operands, sizes: Tensor, kind: Kind) -> list[Tensor | None]:
        """The results of the kernel, by the reference step: h, h_n, c and c_n; the last two may be None."""
        drive = operands.x if operands.weight is None else F.linear(operands.x, operands.weight, operands.bias)
        state = (operands.h0,) if operands.c0 is None else (operands.h0, operands.c0)
        step = clipped_at_states(cls.from_operands(operands, kind).step, kind.clip)
        states, final = walk(step, drive, state, sizes.tolist(), 0, kind.reverse)
        return [states[0], final[0], *((states[1], final[1]) if operands.c0 is not None else (None, None))]


def _counts(sizes: Sequence[int]) -> Tensor:
    if sizes and sizes[0] == sizes[-1]:  # many times faster than converting a long list
        return torch.full((len(sizes),), sizes[0], dtype=torch.int64)
    return torch.tensor(sizes, dtype=torch.int64)


def rows(scale: Tensor, matrix: Tensor) -> Tensor:
    """diag(scale)·matrix for each row of a batch: [B, H], [H, S] -> [B, H, S]."""
    return scale.unsqueeze(-1) * matrix


def diagonal(scale: Tensor) -> Tensor:
    """diag(scale) for each row of a batch: [B, H] -> [B, H, H]."""
    return torch.diag_embed(scale)
