"""The gradient at each state of a sequence: clipped on its way back, and seen by who asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from autapse.gradient.function import Function

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, int], State]


class _Met(Function):
    """The state itself. Its gradient is clipped, and becomes the gradient of the probe too. The probe is not read."""

    @staticmethod
    def forward(state: Tensor, probe: Tensor | None, bound: float) -> Tensor:
        return state.view_as(state)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.bound = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        clipped = gradient if ctx.bound == math.inf else gradient.clamp(-ctx.bound, ctx.bound)
        return clipped, clipped if ctx.needs_input_grad[1] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *others: Any) -> Tensor:
        return tangent.view_as(tangent)


def clipped_at_states(step: Step, bound: float, count: int | None = None) -> Step:
    """A step whose states pass on a gradient with entries in [-bound, bound].

    Args:
        step: step(u, state, t), the new states.
        bound: the bound; infinity for none.
        count: how many of the tensors are new states. The others are older ones, which were clipped before.
    """
    if bound == math.inf:
        return step

    def clipped(u: Tensor, state: State, t: int) -> State:
        new = step(u, state, t)
        return *(_Met.apply(s, None, bound) for s in new[:count]), *(() if count is None else new[count:])

    return clipped


def seen_at_states(step: Step, probes: Callable[[int], State], count: int) -> Step:
    """A step whose new states also give their gradients to the probes of their position, each like a state."""

    def seen(u: Tensor, state: State, t: int) -> State:
        new = step(u, state, t)
        return *(_Met.apply(s, p, math.inf) for s, p in zip(new[:count], probes(t), strict=True)), *new[count:]

    return seen
