"""How a layer behaves inside torch.compile: it runs as it is, between two graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def never_compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`torch.compiler.disable` that loads the compiler only when it is in use: loading it takes a second."""

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*arguments, **keywords)
        return function(*arguments, **keywords)

    return call
