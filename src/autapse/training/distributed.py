"""Processes that train one model together, as torchrun starts them."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from autapse import checks

REMEDY = "torchrun sets it; unset WORLD_SIZE to train in one process."


@dataclass(frozen=True)
class World:
    """One process among all: rank 0 writes and reports, all compute."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def share(self, items: list[int]) -> list[int]:
        """The part of a global batch that is for this process."""
        return items[self.rank :: self.size]

    def agree(self, value: float) -> float:
        """Rank 0's value, for all: decisions must not differ between processes."""
        if self.size == 1:
            return value
        box = torch.tensor([value], dtype=torch.float64)
        distributed.broadcast(box, src=0)
        return float(box[0])

    def total(self, value: float) -> float:
        """The sum of all processes' values."""
        if self.size == 1:
            return value
        box = torch.tensor([value], dtype=torch.float64)
        distributed.all_reduce(box)
        return float(box[0])

    def gathered(self, own: Tensor) -> Tensor:  # [layers, rows of this process, H] -> [layers, rows of all, H]
        """The states of all processes' rows, in the order that `share` dealt out; all must call this together."""
        if self.size == 1:
            return own
        parts: list[Any] = [None] * self.size
        distributed.all_gather_object(parts, own.cpu())
        whole = own.new_empty(own.shape[0], sum(part.shape[1] for part in parts), *own.shape[2:])
        for rank, part in enumerate(parts):
            whole[:, rank :: self.size] = part.to(own.device)
        return whole

    def own(self, whole: Tensor) -> Tensor:  # [layers, rows of all, H] -> [layers, rows of this process, H]
        """What `gathered` has of this process."""
        return whole[:, self.rank :: self.size]

    def add_up(self, tensors: list[Tensor]) -> None:
        """Put the sum over all processes in place of each tensor, with one message.

        DistributedDataParallel would send while gradients are still being computed, which gains little for networks
        as small as ours, and holds the process group, which `leave` must be able to end.
        """
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))


def processes() -> int:
    """How many processes torchrun started; 1 without it."""
    return _variable("WORLD_SIZE", 1, 1)


def _this_process() -> World:
    """The process that the environment variables of torchrun describe; alone without them."""
    size = processes()
    if size == 1:
        return World()
    rank = _variable("RANK", None, 0)
    if rank >= size:
        checks.fail("the environment variable RANK", f"be below WORLD_SIZE, {size}", rank, REMEDY)
    if "MASTER_ADDR" not in os.environ:
        raise checks.InputError(f"WORLD_SIZE is {size}, but the environment variable MASTER_ADDR is not set. {REMEDY}")
    _variable("MASTER_PORT", None, 1)
    return World(rank, size)


def join() -> World:
    """Join the processes that torchrun started; alone without it."""
    world = _this_process()
    if world.size > 1 and not distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(_variable("LOCAL_RANK", 0, 0) % torch.cuda.device_count())
        # To be loaded before there is a group: its functions keep the group of that moment, as a default, for good.
        importlib.import_module("torch.distributed.nn")
        # Decisions travel as CPU tensors, gradients on the device of the model.
        distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    return world


def _variable(name: str, default: int | None, minimum: int) -> int:
    """An environment variable that has an integer."""
    text = os.environ.get(name, "" if default is None else str(default))
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        checks.fail(f"the environment variable {name}", f"be an integer of at least {minimum}", text, REMEDY)
    return value


def leave() -> None:
    """Part from the other processes, and end the threads that carried the messages.

    A thread that is still there when Python shuts down, and lets go of a tensor then, aborts the program.
    """
    if distributed.is_initialized():
        distributed.destroy_process_group()
