"""numpy's files, .npy and .npz. They are checked before memory is allocated: a short header can declare a terabyte."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from tokenize import TokenError

import numpy as np
from numpy.lib import format as npy

from autapse import checks
from autapse.data.decompress import BROKEN
from autapse.data.reading import open_member

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
NOT_NUMPY = (*BROKEN, ValueError, TypeError, RuntimeError, OverflowError, LookupError, SyntaxError, TokenError)


def read_npy(content: bytes, name: object) -> np.ndarray:
    """The array of a .npy file with this content; `name` is used in messages."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        raise checks.InputError(f"{name} has several arrays. Its name must end in .npz.")
    try:
        return _array(content)
    except NOT_NUMPY as error:
        raise checks.InputError(f"{name} is not a complete .npy file of a plain array ({error}).") from None


def read_npz(
    content: bytes,
    name: object,  # for messages
    needed: Sequence[str],
    known: Sequence[str] | None = None,
) -> dict[str, np.ndarray]:
    """The `needed` arrays of a .npz file with this content; with `known`, those too, and any other name is an error."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            there = [member.removesuffix(".npy") for member in archive.namelist()]
            _check_names(there, name, needed, known)
            return {key: _member(archive, key, name) for key in there if key in (known or needed)}
    except checks.InputError:
        raise
    except NOT_NUMPY as error:
        raise checks.InputError(f"{name} is not a complete .npz file of plain arrays ({error}).") from None


def _check_names(there: Sequence[str], path: object, needed: Sequence[str], known: Sequence[str] | None) -> None:
    for name in needed:
        if name not in there:
            remedy = checks.closest(name, there) or f"It must have {' and '.join(needed)}."
            raise checks.InputError(f"{path} has no array {name!r}; its arrays are {', '.join(there)}. {remedy}")
    for name in there if known else ():  # if a misspelt `lengths` were ignored, padding would be read as data
        checks.one_of(f"An array's name in {path}", name, known or ())


def _member(archive: zipfile.ZipFile, key: str, path: object) -> np.ndarray:
    with open_member(archive, f"{key}.npy", path) as file:
        content = file.read()
    return _array(content)


def _array(content: bytes) -> np.ndarray:
    """Read an array with numpy, after a check that its header declares no more bytes than the file has."""
    file = io.BytesIO(content)
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"version {version} of the format has no plain arrays")
    shape, _, dtype = HEADERS[version](file)
    declared, left = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if min(shape, default=0) < 0 or declared > left:
        raise ValueError(
            f"its header declares {dtype} of shape {shape}, {declared} bytes, but only {left} bytes follow"
        )
    file.seek(0)
    return np.asarray(npy.read_array(file, allow_pickle=False))
