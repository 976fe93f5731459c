"""RIFF sound files: 16-bit mono PCM."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from autapse import checks
from autapse.data.reading import damaged

PCM, EXTENSIBLE = 1, 0xFFFE
HEADER, CHUNK, FORMAT = struct.Struct("<4sI4s"), struct.Struct("<4sI"), struct.Struct("<HHIIHH")


def read_wav(content: bytes, name: object) -> tuple[np.ndarray, int]:
    """The samples of a file's content, float32 in [−1, 1), and its rate in Hz; `name` is for messages."""
    rate = 0
    for kind, start, size in _chunks(content, name):
        if kind == b"fmt ":
            rate = _rate(content, start, size, name)
        elif kind == b"data":
            if not rate:
                damaged(name, f"byte {start - CHUNK.size}", "its data chunk comes before its fmt chunk")
            return _samples(content, start, size, name), rate
    return damaged(name, f"byte {len(content)}", "it ends without a data chunk")


def _chunks(content: bytes, name: object) -> Iterator[tuple[bytes, int, int]]:
    """Kind, first byte and size of each chunk."""
    if len(content) < HEADER.size:
        damaged(name, f"byte {len(content)}", "it ends within its RIFF header")
    riff, _, wave = HEADER.unpack_from(content)
    if (riff, wave) != (b"RIFF", b"WAVE"):
        damaged(name, "byte 0", "it does not begin with RIFF and WAVE")
    position = HEADER.size
    while position < len(content):
        if position + CHUNK.size > len(content):
            damaged(name, f"byte {len(content)}", f"it ends within the chunk header at byte {position}")
        kind, size = CHUNK.unpack_from(content, position)
        yield kind, position + CHUNK.size, size
        position += CHUNK.size + size + size % 2  # chunks begin at even positions


def _rate(content: bytes, start: int, size: int, name: object) -> int:
    if size < FORMAT.size or start + FORMAT.size > len(content):
        damaged(name, f"byte {start}", f"its fmt chunk has fewer than {FORMAT.size} bytes")
    coding, channels, rate, _, _, bits = FORMAT.unpack_from(content, start)
    if coding not in (PCM, EXTENSIBLE) or channels != 1 or bits != 16:
        got = f"coding {coding}, {channels} channel{'s' * (channels != 1)} and {bits} bits at byte {start}"
        raise checks.InputError(f"{name} must be 16-bit mono PCM (coding {PCM}, 1 channel, 16 bits); got {got}.")
    if rate == 0:
        damaged(name, f"byte {start + 4}", "its rate is 0 Hz")
    return int(rate)


def _samples(content: bytes, start: int, size: int, name: object) -> np.ndarray:
    if start + size > len(content):
        damaged(name, f"byte {len(content)}", f"its data chunk has {len(content) - start} of {size} bytes")
    if size % 2:
        damaged(name, f"byte {start + size}", "its data chunk ends within a sample")
    return np.frombuffer(content, "<i2", size // 2, start).astype(np.float32) / np.float32(32_768)
