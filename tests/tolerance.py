"""Tolerances, named once per dtype, and the one comparison that uses them."""

from __future__ import annotations

from typing import Any

import torch
from torch.testing import assert_close

# (relative, absolute): a few hundred roundings, which is what the short recurrences of these tests add up to
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-10, 1e-12)}


def close(actual: Any, expected: Any, message: str | None = None) -> None:
    """The same nesting, shapes and dtypes, and values equal to rounding."""
    if isinstance(expected, tuple | list):
        assert isinstance(actual, tuple | list), f"expected a sequence, got {type(actual).__name__}"
        for a, e in zip(actual, expected, strict=True):
            close(a, e, message)
        return
    rtol, atol = TOLERANCE[expected.dtype]
    assert_close(actual, expected, rtol=rtol, atol=atol, msg=message and (lambda text: f"{message}: {text}"))
