"""The form of delays: recurrent connections that reach back several steps."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.forms.base import Affine, Form, State
from autapse.forms.leaky import Leaky
from autapse.gradient.at_states import clipped_at_states
from autapse.native import operands as native
from autapse.native.operands import Extent, FormOperands, Kind, Operands, Shapes
from autapse.sequences.lengths import running
from autapse.sequences.walk import walk


@dataclass(frozen=True)
class Delays(Form):
    """h_t = step(u_t + Σ_d R_d·h_{t−d}, h_{t−1}), the sum over delays d > 1, and step that of a leaky form"""

    name = "delayed"
    activations: ClassVar[Sequence[str]] = native.ACTIVATIONS
    most_inner = native.MOST_INNER
    most_delays = native.MOST_DELAYS

    base: Leaky
    delays: tuple[int, ...]  # each above 1
    matrices: Tensor  # [n, H, H], R_d of each delay

    @property
    def activation(self) -> str:
        """That of the leaky form."""
        return self.base.activation

    @property
    def reach(self) -> int:
        """How many states a sequence carries."""
        return max(self.delays)

    def step(self, u: Tensor, state: State, t: int) -> State:
        """`state` has h_{t−1}, then the state of each delay."""
        h, *earlier = state
        return self.base.step(self._driven(u, earlier), (h,), t)

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        return kind.inner == 1

    def product(self, h: Tensor) -> Tensor:
        return self.base.product(h)

    def joined(self, u: Tensor, product: Tensor, state: State, t: Any) -> State:
        return self.base.joined(self._driven(u, list(state[1:])), product, state[:1], t)

    def read(self, carried: State) -> State:
        return carried[0], *(carried[delay - 1] for delay in self.delays)

    def _driven(self, u: Tensor, earlier: list[Tensor]) -> Tensor:
        for matrix, h in zip(self.matrices, earlier, strict=True):
            u = torch.addmm(u, h, matrix.t())
        return u

    def carry(self, u: Tensor, carried: State, t: int) -> State:
        """`step` on all states that a sequence carries, the latest first."""
        return *self.step(u, self.read(carried), t), *carried[:-1]

    def jacobian(self, u: Tensor, state: State, t: int) -> Tensor:
        """The derivative of all carried states: the block companion matrix. `state` has the last `reach` states."""
        u = self._driven(u, [state[delay - 1] for delay in self.delays])
        by_state, by_drive = self.base.jacobians(u, state[0], t)
        blocks = [by_state, *[torch.zeros_like(by_state) for _ in state[1:]]]
        for delay, matrix in zip(self.delays, self.matrices, strict=True):
            blocks[delay - 1] = blocks[delay - 1] + by_drive @ matrix
        size = by_state.shape[-1]
        kept = torch.eye((self.reach - 1) * size, self.reach * size, dtype=u.dtype, device=u.device)
        return torch.cat([torch.cat(blocks, dim=-1), kept.expand(len(u), -1, -1)], dim=1)

    def __copy__(self) -> Delays:
        # A form caches what it computes from its matrices, and a copy must not share that.
        return replace(self, base=copy.copy(self.base))

    # The kernel -------------------------------------------------------------------------------------------------

    def operands(self, steps: int, start: int) -> tuple[FormOperands, Kind]:
        own, kind = self.base.operands(steps, start)
        matrices = torch.cat([self.base.matrix.unsqueeze(0), self.matrices])
        return own._replace(matrix=matrices), kind._replace(form=native.KERNELS.index(Delays), delays=self.delays)

    def scan_operands(
        self, x: Tensor, affine: Affine | None, state: State, steps: int, start: int
    ) -> tuple[Operands, Kind]:
        operands, kind = super().scan_operands(x, affine, state[:1], steps, start)
        return operands._replace(history=torch.stack(state[1:])), kind

    @classmethod
    def from_operands(cls, operands: Operands, kind: Kind) -> Delays:
        base = Leaky.from_operands(operands._replace(matrix=operands.matrix[0]), kind)
        return cls(base, kind.delays, operands.matrix[1:])

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        needed, optional = Leaky.operand_shapes(kind, extent, given | {"pattern": None})  # it cannot be sparse
        history = (max(kind.delays) - 1, extent.batch, extent.outputs)
        return needed | {"matrix": (1 + len(kind.delays), extent.hidden, extent.hidden), "history": history}, optional

    @classmethod
    def reference_scan(cls, operands: Operands, sizes: Tensor, kind: Kind) -> list[Tensor | None]:
        drive = operands.x if operands.weight is None else F.linear(operands.x, operands.weight, operands.bias)
        state = (operands.h0, *operands.history.unbind(0))  # type: ignore[union-attr]
        states, final = walk(
            clipped_at_states(cls.from_operands(operands, kind).carry, kind.clip, count=1),
            *(drive, state, sizes.tolist(), 0, kind.reverse),
            traced=1,
        )
        return [states[0], final[0], None, None]

    def ends(self, h: Tensor, state: State, sizes: Sequence[int], reverse: bool) -> State:
        if not sizes:
            return state
        count, steps, reach = sizes[0], len(sizes), self.reach
        past = torch.stack([s[:count] for s in reversed(state)])  # the oldest first
        if sizes[-1] == count:
            latest = h.unflatten(0, (steps, count))
            latest = latest[:reach].flip(0) if reverse else latest[-reach:]
            recent = torch.cat([past, latest])[-reach:].flip(0)
        else:
            recent = torch.cat([past.flatten(0, 1), h])[_last_rows(sizes, reach)]
        return tuple(torch.cat([ended, s[count:]]) for ended, s in zip(recent.unbind(0), state, strict=True))


def _last_rows(sizes: Sequence[int], reach: int) -> Tensor:  # [reach, B]
    """The rows of the last states of each sequence, the latest first, where `reach` states precede the first step."""
    counts = torch.tensor([*[sizes[0]] * reach, *sizes])
    lengths = running(counts, sizes[0]).sum(1)
    steps = lengths - 1 - torch.arange(reach)[:, None]
    return (counts.cumsum(0) - counts)[steps] + torch.arange(sizes[0])
