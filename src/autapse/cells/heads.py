"""Heads: what the heads of an explicit memory do in one step, given the numbers that a controller gives them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse.cells import addressing
from autapse.native import heads as native
from autapse.native.dispatch import is_plain, kernels_serve


class Commands(NamedTuple):
    """What a controller tells n heads to do. The last heads write. None if an addressing does not need it."""

    keys: Tensor | None  # [B, n, W]
    add: Tensor  # [B, writes, W]
    sharpness: Tensor | None  # [B, n, 1], β
    exponent: Tensor | None  # [B, n, 1], γ
    gate: Tensor | None  # [B, n, 1]
    erase: Tensor  # [B, writes, W]
    moves: Tensor | None  # [B, n, 2·shifts + 1]


class Access(NamedTuple):
    """The memory after a step, the addresses that were used, and what was read."""

    memory: Tensor  # [B, N, W]
    addresses: Tensor  # [B, n, N]
    reads: Tensor  # [B, reads, W]


@dataclass(frozen=True)
class Heads:
    """The heads of a memory: their number, and how they choose slots."""

    reads: int
    writes: int
    slots: int
    width: int
    by_content: bool = True
    by_location: bool = True
    similarity: str = "cosine"
    shifts: int = 1

    @property
    def count(self) -> int:
        """n, the number of heads. Those that read come first."""
        return self.reads + self.writes

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many numbers are vectors, how many at least 0, how many from 0 to 1, and how many shares of moves."""
        n, changed = self.count, self.writes * self.width
        content, location = int(self.by_content), int(self.by_location)
        moves = n * (2 * self.shifts + 1) * location
        return n * self.width * content + changed, n * (content + location), n * content * location + changed, moves

    def commands(self, numbers: Tensor) -> Commands:  # [B, sum(sizes)]
        """The meaning of a controller's numbers."""
        n, W = self.count, self.width
        vectors, positive, gates, moves = numbers.split(self.sizes, dim=-1)
        vectors = torch.tanh(vectors).unflatten(-1, (-1, W))
        positive = F.softplus(positive).unsqueeze(-1)
        gates = torch.sigmoid(gates)
        between = gates.shape[-1] - self.writes * W
        return Commands(
            vectors[:, :n] if self.by_content else None,
            vectors[:, -self.writes :],
            positive[:, :n] if self.by_content else None,
            1 + positive[:, -n:] if self.by_location else None,
            gates[:, :between].unsqueeze(-1) if between else None,
            gates[:, between:].unflatten(-1, (self.writes, W)),
            torch.softmax(moves.unflatten(-1, (n, -1)), dim=-1) if self.by_location else None,
        )

    def address(self, commands: Commands, memory: Tensor, before: Tensor) -> Tensor:  # [B, n, N]
        """The addresses of all heads, from the memory [B, N, W] and their addresses before the step [B, n, N]."""
        weights = before
        if commands.keys is not None and commands.sharpness is not None:
            similar = addressing.SIMILARITIES[self.similarity](commands.keys, memory)
            weights = addressing.by_content(similar, commands.sharpness)
        if commands.gate is not None:
            weights = addressing.interpolate(weights, before, commands.gate)
        if commands.moves is not None and commands.exponent is not None:
            weights = addressing.sharpen(addressing.shift(weights, commands.moves), commands.exponent)
        return weights

    def use(self, commands: Commands, memory: Tensor, addresses: Tensor) -> Access:
        """Write, then read."""
        memory = addressing.write(memory, addresses[:, self.reads :], commands.erase, commands.add)
        return Access(memory, addresses, addressing.read(addresses[:, : self.reads], memory))

    def access_reference(self, numbers: Tensor, memory: Tensor, before: Tensor) -> Access:
        """Choose, write and read, in plain PyTorch."""
        commands = self.commands(numbers)
        return self.use(commands, memory, self.address(commands, memory, before))

    def access(self, numbers: Tensor, memory: Tensor, before: Tensor) -> Access:
        """Choose, write and read, by the native kernel if it can serve."""
        if not kernels_serve(numbers, memory, before) or not is_plain(numbers, memory, before):
            return self.access_reference(numbers, memory, before)
        return Access(*native.access(self._kind, self.access_reference, numbers, memory, before))

    @cached_property
    def _kind(self) -> native.HeadsKind:
        kind = (self.by_content, self.by_location, self.similarity == "dot")
        return native.HeadsKind(*kind, self.slots, self.width, self.reads, self.writes, self.shifts, addressing.SHORT)
