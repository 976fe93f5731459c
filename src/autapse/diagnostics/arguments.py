"""Check the arguments of probes, so that a wrong object is an input error, and not one of Python or PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from autapse import checks


def tensor(argument: str, value: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor, an array or nested lists of numbers, as a tensor."""
    try:
        return torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError):
        rule = "be a tensor or an array of numbers"
    return checks.fail(argument, rule, _kind(value), kind=checks.KindError)


def first_state(h0: Any, like: Tensor, size: int) -> Tensor:  # [B, ...] -> [B, size]
    """The state before the first step: zeros, or what was given as [B, H] or [1, B, H]."""
    if h0 is None:
        return like.new_zeros(len(like), size)
    given = tensor("h0", h0, like.dtype)
    if tuple(given.shape) not in ((len(like), size), (1, len(like), size)):
        rule = f"have shape (B, H) = {(len(like), size)}"
        checks.fail("h0", rule, tuple(given.shape), "Pass h0=None for zeros.", checks.ShapeError)
    return given.reshape(len(like), size).to(like.device)


def function(argument: str, value: Any, of: str) -> None:
    """Raise an error if `value` cannot be called."""
    if not callable(value):
        remedy = f"Pass a function, as in {argument}=lambda {of}: ..."
        checks.fail(argument, f"be a function of the {of}", _kind(value), remedy, checks.KindError)


def module(argument: str, value: Any) -> None:
    """Raise an error if `value` is not a PyTorch module."""
    if not isinstance(value, nn.Module):
        remedy = "Pass a layer or a model."
        checks.fail(argument, "be a PyTorch module", _kind(value), remedy, checks.KindError)


def positions(argument: str, values: Any, count: int) -> list[int]:
    """Integers from 0 to count − 1, at least one."""
    try:
        given = list(values.tolist() if isinstance(values, Tensor) else values)
    except TypeError:
        given = []
    if not given:
        checks.fail(argument, f"be a list of at least one integer from 0 to {count - 1}", checks.brief(values))
    return [checks.integer(argument, value, minimum=0, maximum=count - 1) for value in given]


def _kind(value: Any) -> str | None:
    """What a message shows of a wrong object: the name of its type."""
    return None if value is None else type(value).__name__


def pair(argument: str, value: Any) -> tuple[float, float]:
    """Two finite numbers."""
    given = tensor(argument, value, torch.float64).flatten().tolist()
    if len(given) != 2:
        checks.fail(argument, "have two numbers", checks.brief(given))
    return checks.number(argument, given[0]), checks.number(argument, given[1])
