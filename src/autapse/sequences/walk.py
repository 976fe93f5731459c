"""walk: a step function over sequences of different lengths, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

State = tuple[Tensor, ...]


def walk(
    step: Callable[[Tensor, State, int], State],
    drive: Tensor,
    state: State,
    sizes: Sequence[int],
    start: int,
    reverse: bool = False,
    traced: int | None = None,  # how many tensors of the state are returned for each step; None for all
) -> tuple[State, State]:
    """Call `step` at each position. Returns the states after each step, and the final states."""
    trace: list[State] = []
    ended: list[State] = []
    steps = drive.split(list(sizes))
    for t, u in enumerate(reversed(steps) if reverse else steps, start):
        if len(u) < len(state[0]):
            ended.append(tuple(s[len(u) :] for s in state))
            state = tuple(s[: len(u)] for s in state)
        state = step(u, state, t)
        trace.append(state[:traced])
    columns = zip(*(reversed(trace) if reverse else trace), strict=True)
    states = tuple(torch.cat(column) for column in columns) if trace else tuple(s[:0] for s in state[:traced])
    if ended:
        state = tuple(torch.cat(parts) for parts in zip(state, *reversed(ended), strict=True))
    return states, state
