"""RIFF sound files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from autapse import checks
from autapse.data.reading import damaged

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
KINDS = {(PCM, 8): "u1", (PCM, 16): "<i2", (PCM, 24): "", (PCM, 32): "<i4", (FLOAT, 32): "<f4"}
HEADER, CHUNK, FORMAT = struct.Struct("<4sI4s"), struct.Struct("<4sI"), struct.Struct("<HHIIHH")


def read_wav(content: bytes, name: object) -> tuple[np.ndarray, int]:
    """The samples of a 16-bit mono sound file, float32 in [−1, 1), and its rate in Hz; `name` is used in messages."""
    form, start, size = _parts(content, name)
    if form.coding not in (PCM, EXTENSIBLE) or form.channels != 1 or form.bits != 16:
        got = f"coding {form.coding}, {form.channels} channel{'s' * (form.channels != 1)} and {form.bits} bits"
        rule = f"be 16-bit mono PCM (coding {PCM}, 1 channel, 16 bits)"
        raise checks.InputError(f"{name} must {rule}; got {got} at byte {form.start}.")
    return _samples(content, start, size, name, form), form.rate


def read_sound(content: bytes, name: object) -> tuple[np.ndarray, int]:
    """The samples of any PCM or float sound file, with the mean of its channels, and its rate in Hz."""
    form, start, size = _parts(content, name)
    if (form.coding, form.bits) not in KINDS and (form.coding != EXTENSIBLE or (PCM, form.bits) not in KINDS):
        got = f"coding {form.coding} and {form.bits} bits at byte {form.start}"
        raise checks.InputError(f"{name} must be PCM of 8, 16, 24 or 32 bits, or 32-bit float; got {got}.")
    samples = _samples(content, start, size, name, form)
    whole = len(samples) // max(form.channels, 1) * form.channels
    return samples[:whole].reshape(-1, max(form.channels, 1)).mean(axis=1, dtype=np.float32), form.rate


class _Format(NamedTuple):
    coding: int
    channels: int
    rate: int
    bits: int
    start: int  # its place in the file


def _parts(content: bytes, name: object) -> tuple[_Format, int, int]:
    """The format, and the first byte and the size of the samples."""
    form = None
    for kind, start, size in _chunks(content, name):
        if kind == b"fmt ":
            form = _format(content, start, size, name)
        elif kind == b"data":
            if form is None:
                damaged(name, f"byte {start - CHUNK.size}", "its data chunk comes before its fmt chunk")
            return form, start, size
    return damaged(name, f"byte {len(content)}", "it ends without a data chunk")


def _chunks(content: bytes, name: object) -> Iterator[tuple[bytes, int, int]]:
    """The kind, first byte and size of each chunk."""
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
        position += CHUNK.size + size + size % 2  # chunks begin at even bytes


def _format(content: bytes, start: int, size: int, name: object) -> _Format:
    if size < FORMAT.size or start + FORMAT.size > len(content):
        damaged(name, f"byte {start}", f"its fmt chunk has fewer than {FORMAT.size} bytes")
    coding, channels, rate, _, _, bits = FORMAT.unpack_from(content, start)
    if rate == 0:
        damaged(name, f"byte {start + 4}", "its rate is 0 Hz")
    return _Format(coding, channels, int(rate), bits, start)


def _samples(content: bytes, start: int, size: int, name: object, form: _Format) -> np.ndarray:
    if start + size > len(content):
        damaged(name, f"byte {len(content)}", f"its data chunk has {len(content) - start} of {size} bytes")
    if size % (form.bits // 8):
        damaged(name, f"byte {start + size}", "its data chunk ends within a sample")
    if form.bits == 24:  # three bytes, which become the upper ones of four
        four = np.zeros((size // 3, 4), dtype=np.uint8)
        four[:, 1:] = np.frombuffer(content, np.uint8, size, start).reshape(-1, 3)
        values = four.view("<i4").reshape(-1)
    else:
        kind = KINDS[(form.coding if form.coding == FLOAT else PCM, form.bits)]
        values = np.frombuffer(content, kind, size // (form.bits // 8), start)
    if form.coding == FLOAT:
        return values.astype(np.float32)
    if form.bits == 8:
        return (values.astype(np.float32) - 128) / np.float32(128)
    return values.astype(np.float32) / np.float32(2.0 ** (31 if form.bits == 24 else form.bits - 1))
