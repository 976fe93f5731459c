"""Processes that torchrun starts, and that train one model together."""

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
    """The rank of this process among all: rank 0 writes and prints, all compute."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def share(self, items: list[int]) -> list[int]:
        """The part of a global batch for this process."""
        return items[self.rank :: self.size]

    def agree(self, value: float) -> float:
        """Rank 0's value, in all processes: decisions must not differ between them."""
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
        """The states of all processes' rows, in the order of `share`. All processes must call this together."""
        if self.size == 1:
            return own
        parts: list[Any] = [None] * self.size
        distributed.all_gather_object(parts, own.cpu())
        whole = own.new_empty(own.shape[0], sum(part.shape[1] for part in parts), *own.shape[2:])
        for rank, part in enumerate(parts):
            whole[:, rank :: self.size] = part.to(own.device)
        return whole

    def own(self, whole: Tensor) -> Tensor:  # [layers, rows of all, H] -> [layers, rows of this process, H]
        """The part of this process in what `gathered` returned.

        It is a copy: products round differently for rows that do not lie side by side.
        """
        return whole[:, self.rank :: self.size].clone(memory_format=torch.contiguous_format)

    def add_up(self, tensors: list[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, with one message.

        DistributedDataParallel would send while gradients are still being computed, which gains little for networks
        as small as ours. It also holds the process group, which `leave` must be able to end.
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
    """The process that torchrun's environment variables describe; a single process without them."""
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
    """Join the processes that torchrun started; without torchrun, a single process."""
    world = _this_process()
    if world.size > 1 and not distributed.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(_variable("LOCAL_RANK", 0, 0) % torch.cuda.device_count())
        # Load this before a group exists: its functions keep the group of that moment as a default.
        importlib.import_module("torch.distributed.nn")
        # Decisions are sent as CPU tensors, gradients on the device of the model.
        distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    return world


def _variable(name: str, default: int | None, minimum: int) -> int:
    """The value of an environment variable that must be an integer."""
    text = os.environ.get(name, "" if default is None else str(default))
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        checks.fail(f"the environment variable {name}", f"be an integer of at least {minimum}", text, REMEDY)
    return value


def leave() -> None:
    """Leave the group of processes, and end the threads that send its messages.

    If such a thread still runs when Python shuts down and frees a tensor, the program aborts.
    """
    if distributed.is_initialized():
        distributed.destroy_process_group()
