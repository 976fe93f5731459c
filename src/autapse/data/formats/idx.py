"""The idx format of MNIST and Fashion-MNIST: a magic number, the sizes, then the values, all big-endian."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from autapse.data.reading import damaged, read_bytes

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
DIMENSIONS = 32  # numpy's limit, before its version 2


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file, compressed or not, in the machine's own byte order."""
    content = read_bytes(path)
    kind, dimensions = _magic(path, content)
    start = 4 + 4 * dimensions
    if len(content) < start:
        damaged(path, f"byte {len(content)}", f"it ends inside its {dimensions} sizes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, 4))
    end = start + math.prod(shape) * kind.itemsize
    if len(content) < end:
        damaged(path, f"byte {len(content)}", f"it ends early: an array of shape {shape} takes {end} bytes")
    if len(content) > end:
        damaged(path, f"byte {end}", f"{len(content) - end} bytes follow its array of shape {shape}")
    values = np.frombuffer(content, kind, offset=start).reshape(shape)
    return values.astype(kind.newbyteorder("="))  # a copy: an array over bytes cannot be written to


def _magic(path: Path, content: bytes) -> tuple[np.dtype, int]:
    """The first four bytes: two zeros, the type of the values, the number of dimensions."""
    if len(content) < 4:
        damaged(path, f"byte {len(content)}", "it ends inside its magic number")
    if content[:2] != b"\0\0":
        damaged(path, "byte 0", f"an idx file starts with two zero bytes, this one with {content[:2].hex(' ')}")
    if content[2] not in TYPES:
        damaged(path, "byte 2", f"idx has no value type 0x{content[2]:02x}")
    if not 1 <= content[3] <= DIMENSIONS:
        damaged(path, "byte 3", f"its array has {content[3]} dimensions, not 1 to {DIMENSIONS}")
    return np.dtype(TYPES[content[2]]), content[3]
