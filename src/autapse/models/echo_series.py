"""What people give to an echo state network: one series or many, values or classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from autapse import checks


class SeriesList(NamedTuple):
    """Some series of values."""

    parts: list[Tensor]  # [T, D] each
    single: bool  # one series, rather than a list with one
    flat: bool  # given without the last axis

    @property
    def width(self) -> int:
        """Numbers per step."""
        return int(self.parts[0].shape[1])

    def given_back(self, parts: list[Tensor], flat: bool) -> Any:
        """Results of the same series, in the form that they were given in: arrays."""
        arrays = [(part[:, 0] if flat and part.shape[1] == 1 else part).cpu().numpy() for part in parts]
        return arrays[0] if self.single else arrays


def read_series(name: str, given: Any, dtype: torch.dtype, width: int | None = None) -> SeriesList:
    """One series ([T] or [T, D]), or many ([N, T, D], or a list of series), as tensors with finite values."""
    single, each = _split(name, given)
    arrays = [one.detach().cpu().numpy() if isinstance(one, Tensor) else np.asarray(one) for one in each]
    for one in arrays:
        if one.ndim not in (1, 2) or one.dtype.kind not in "fiub":
            rule = "be one series of numbers, [T] or [T, D], or a list of such series"
            checks.fail(name, rule, f"shape {one.shape} and type {one.dtype}", kind=checks.ShapeError)
    flat = all(one.ndim == 1 for one in arrays)
    parts = [torch.as_tensor(one.reshape(len(one), -1), dtype=dtype) for one in arrays]
    widths = sorted({part.shape[1] for part in parts} | ({width} if width is not None else set()))
    if len(widths) != 1:
        wanted = "the same number of columns" if width is None else f"{width} columns, as those of fit"
        checks.fail(name, f"have {wanted}", widths, kind=checks.ShapeError)
    for part in parts:
        if not bool(torch.isfinite(part).all()):
            checks.fail(name, "have finite values", f"{int((~torch.isfinite(part)).sum())} that are NaN or infinite")
    return SeriesList(parts, single, flat)


def _split(name: str, given: Any) -> tuple[bool, Sequence[Any]]:
    if isinstance(given, Tensor | np.ndarray):
        return (True, [given]) if given.ndim < 3 else (False, list(given))
    if not isinstance(given, Sequence) or isinstance(given, str):
        checks.fail(name, "be an array, a tensor, or a list of them", type(given).__name__, kind=checks.KindError)
    if not len(given):
        checks.fail(name, "have at least one series", 0)
    return (True, [given]) if np.ndim(given[0]) == 0 else (False, given)


def are_classes(y: Any) -> bool:
    """Whether targets are text or integers, rather than values."""
    while isinstance(y, list | tuple) and len(y) and isinstance(y[0], list | tuple | np.ndarray | Tensor):
        y = y[0]
    return np.asarray(y.cpu() if isinstance(y, Tensor) else y).dtype.kind in "iubUSO"


class Labels(NamedTuple):
    """Classes of some series."""

    names: list[Any]  # of the classes, in the order of their numbers
    parts: list[Tensor]  # [T] for each series; or one tensor [N], a class for each series
    per_series: bool


def read_labels(y: Any, lengths: list[int], single: bool) -> Labels:
    """Classes, one for each series or one for each step."""
    arrays = [np.asarray(one) for one in ([y] if single or np.ndim(y[0]) == 0 else y)]
    per_series = not single and np.ndim(y[0]) == 0
    wanted = [len(lengths)] if per_series else lengths
    if [one.shape for one in arrays] != [(length,) for length in wanted]:
        rule = "have one class for each series, or one for each step"
        checks.fail("y", rule, [one.shape for one in arrays][:3], kind=checks.ShapeError)
    names, numbers = np.unique(np.concatenate(arrays), return_inverse=True)
    if len(names) < 2:
        checks.fail("y", "have at least two classes", names.tolist())
    return Labels(names.tolist(), list(torch.from_numpy(numbers).split([len(one) for one in arrays])), per_series)
