"""The shared library: where it is, what it can do, and the reason if it is off."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

from autapse import checks

SWITCH = "AUTAPSE_NATIVE"  # 0 forces the reference
INSTRUCTION_SET = "AUTAPSE_ISA"  # forces an instruction set
PLACE = "AUTAPSE_LIBRARY"  # another build of the library, such as one with sanitizers
INSTRUCTION_SETS = ("avx512", "avx2", "baseline")
ABI = 17
REMEDY = (
    "Install a C++ compiler (such as g++) and then autapse again (with pip's --force-reinstall --no-deps "
    f"--no-cache-dir), or set {SWITCH}=0 to use plain PyTorch without this warning."
)


MOST_OFFSETS = 8  # in the stencil of an implicit rule
MOST_WINDOW = 8  # steps that the tridiagonal iteration may remember
DONE, NO_MEMORY, _, REPACK = range(4)  # results of the functions; the third one is AUTAPSE_MALFORMED
INTEGERS = ("form", "activation", "wide", "threads", "reset_after", "per_step", "reverse", "skip", "sparse")
POINTERS = (
    *("sizes", "x", "weight", "bias", "matrix", "pattern", "offset", "projection", "alpha", "beta", "h0", "c0"),
    *("history", "packed", "h", "c", "h_n", "c_n", "reserve", "grad_h", "grad_c", "grad_h_n", "grad_c_n"),
    *("grad_x", "grad_weight", "grad_bias", "grad_matrix", "grad_offset", "grad_projection"),
    *("grad_alpha", "grad_beta", "grad_h0", "grad_c0", "grad_history"),
)


class ScanStruct(ctypes.Structure):
    """A scan as src/abi.h declares it; see there for the meaning and the shape of each field."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in INTEGERS),
        *((name, ctypes.c_int64) for name in ("steps", "rows", "batch", "inputs", "hidden", "outputs", "inner")),
        ("delays", ctypes.c_int64 * 32),
        ("connections", ctypes.c_int64),
        ("clip", ctypes.c_double),
        ("flow", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in POINTERS),
    )


class ImplicitStruct(ctypes.Structure):
    """An implicit rule at many positions, as src/abi.h declares it."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("wide", "threads")),
        *((name, ctypes.c_int64) for name in ("rows", "hidden", "offsets", "table_rows", "edge_rows", "drive_count")),
        *((name, ctypes.c_int64) for name in ("band_stride", "slope_stride")),
        *((name, ctypes.c_void_p) for name in ("switches", "gates", "candidate", "packed")),
        *((name, ctypes.c_void_p) for name in ("u", "drive_rows", "table", "edges")),
        ("index", ctypes.c_void_p * MOST_OFFSETS),
        *((name, ctypes.c_void_p) for name in ("h", "bands", "slope", "v", "near", "arguments")),
    )


class RedBlackStruct(ctypes.Structure):
    """Ragged sequences, as src/abi.h declares them."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("count", "rows")),
        ("lengths", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("lower", "own_edges")),
    )


class RelaxationStruct(ctypes.Structure):
    """The tridiagonal iteration, as src/abi.h declares it."""

    _fields_ = (
        ("layout", RedBlackStruct),
        *((name, ctypes.c_int64) for name in ("max_iterations", "window")),
        *((name, ctypes.c_double) for name in ("rtol", "atol", "threshold", "guard")),
        *((name, ctypes.c_void_p) for name in ("z", "residual", "iterations", "converged")),
    )


class AdjointStruct(ctypes.Structure):
    """GMRES for the adjoint, as src/abi.h declares it."""

    _fields_ = (
        ("layout", RedBlackStruct),
        ("max_iterations", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("rtol", "atol")),
        *((name, ctypes.c_void_p) for name in ("g", "v", "residual", "iterations", "converged")),
    )


class TridiagonalStruct(ctypes.Structure):
    """Tridiagonal systems along sequences, as src/abi.h declares them."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("wide", "threads", "transposed", "factored")),
        ("layout", RedBlackStruct),
        *((name, ctypes.c_int64) for name in ("channels", "right_rows")),
        *((name, ctypes.c_void_p) for name in ("lower", "upper", "inverse", "ahead", "right", "y")),
    )


class HeadsStruct(ctypes.Structure):
    """The heads of an explicit memory, as src/abi.h declares them."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("wide", "threads", "content", "location", "dot")),
        *((name, ctypes.c_int64) for name in ("batch", "slots", "width", "reads", "writes", "shifts")),
        *((name, ctypes.c_double) for name in ("shortest", "smallest")),
        *((name, ctypes.c_void_p) for name in ("number", "memory", "address", "new_memory", "new_address", "read")),
        *((name, ctypes.c_void_p) for name in ("grad_new_memory", "grad_new_address", "grad_read")),
        *((name, ctypes.c_void_p) for name in ("grad_number", "grad_memory", "grad_address")),
    )


class AttentionStruct(ctypes.Structure):
    """The weights of attention, as src/abi.h declares them."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("wide", "threads", "monotonic")),
        *((name, ctypes.c_int64) for name in ("batch", "targets", "sources", "size")),
        *((name, ctypes.c_void_p) for name in ("target_lengths", "source_lengths", "query", "key", "vector")),
        *((name, ctypes.c_void_p) for name in ("height", "root", "place", "weight", "grad_weight")),
        *((name, ctypes.c_void_p) for name in ("grad_query", "grad_key", "grad_vector")),
        *((name, ctypes.c_void_p) for name in ("grad_height", "grad_root", "grad_place")),
    )


class Loaded(NamedTuple):
    library: Any  # ctypes.CDLL, or None
    reason: str  # why there is no library


class ScratchError(MemoryError):
    """The kernels could not get the scratch memory that a call needs."""


@cache
def load() -> Loaded:
    """The library, loaded at the first call."""
    if switched_off():
        return Loaded(None, f"{SWITCH}={os.environ[SWITCH]} is set")
    path = _find()
    if path is None:
        return Loaded(None, "the package was installed without it: no C++ compiler was found, or the build failed")
    # After torch, so that the library shares torch's OpenMP threads and follows torch.set_num_threads.
    import torch  # noqa: F401

    try:
        library = ctypes.CDLL(str(path))
    except OSError as problem:
        return Loaded(None, f"{path} could not be loaded: {problem}")
    if library.autapse_abi() != ABI:
        return Loaded(None, f"{path} belongs to another version of autapse")
    _declare(library)
    wanted = os.environ.get(INSTRUCTION_SET)
    if wanted and library.autapse_use(wanted.encode()):
        here = [name for name in INSTRUCTION_SETS if library.autapse_has(name.encode())]
        rule = f"be one of this machine's: {', '.join(here)}"
        checks.fail(f"the environment variable {INSTRUCTION_SET}", rule, wanted, "Unset it to get the best.")
    return Loaded(library, "")


def available() -> bool:
    return load().library is not None


def switched_off() -> bool:
    return os.environ.get(SWITCH, "").strip().lower() in ("0", "off", "false", "no")


def instruction_sets() -> list[str]:
    """The instruction sets that this machine and this build have, best first."""
    library = load().library
    return [name for name in INSTRUCTION_SETS if library.autapse_has(name.encode())] if library else []


def use(instruction_set: str) -> None:
    """Switch to another of the machine's instruction sets, for tests. Streams made before cannot be used then."""
    library = load().library
    if library is None or library.autapse_use(instruction_set.encode()):
        checks.fail("instruction_set", f"be one of {instruction_sets()}", instruction_set)


def info() -> dict[str, Any]:
    """What the layers run on.

    Returns:
        A dict: whether the native library is `available` and, if not, the `reason`; its `instruction_set` and those
        that this machine has (`instruction_sets`); the number of `threads`; its `version` and `path`.

    >>> autapse.native.info()["available"] in (True, False)
    True
    """
    import torch

    library, reason = load()
    return {
        "available": library is not None,
        "reason": reason,
        "instruction_set": library.autapse_instruction_set().decode() if library else None,
        "instruction_sets": instruction_sets(),
        "threads": torch.get_num_threads(),
        "version": library.autapse_version().decode() if library else None,
        "path": library._name if library else None,
    }


@cache
def warn_if_missing() -> None:
    """Warn once per process if layers run on plain PyTorch and the user did not ask for that."""
    library, reason = load()
    if library is None and not switched_off():
        warnings.warn(f"autapse runs on plain PyTorch, several times slower: {reason}. {REMEDY}", stacklevel=3)


def run(function: str, *problems: ctypes.Structure) -> bool:
    """Call a function of src/abi.h by its name, with the interpreter's lock released.

    Returns False if sizes or indices lead outside of the tensors; the function has then done nothing.
    """
    return ran(getattr(native(), f"autapse_{function}")(*map(ctypes.byref, problems)), function)


def ran(result: int, function: str) -> bool:
    """What `run` returns, given the result of a function."""
    if result == NO_MEMORY:
        raise ScratchError(f"The {function} pass found no memory for its buffers; use a smaller batch.")
    if result == REPACK:
        rule = "stay the same while a stream or a solve is in use"
        checks.fail("the instruction set", rule, info()["instruction_set"], "Make the stream again.")
    return result == DONE


def native() -> Any:
    """The library; an error if there is none."""
    library, reason = load()
    if library is None:
        raise RuntimeError(f"The native library is not available: {reason}.")
    return library


def _find() -> Path | None:
    if os.environ.get(PLACE):
        return Path(os.environ[PLACE])
    names = {"win32": "autapse.dll", "darwin": "libautapse.dylib"}
    # An editable install keeps the library and the sources in different places; the package's path has both.
    places = [Path(place) / "native" / "lib" for place in sys.modules["autapse"].__path__]
    with suppress(PackageNotFoundError):
        places.append(Path(str(distribution("autapse").locate_file("autapse/native/lib"))))
    paths = [place / names.get(sys.platform, "libautapse.so") for place in places]
    return next((path for path in paths if path.exists()), None)


def _declare(library: Any) -> None:
    scan, implicit, tridiagonal = (ctypes.POINTER(kind) for kind in (ScanStruct, ImplicitStruct, TridiagonalStruct))
    for name, result, arguments in (
        ("reserve", ctypes.c_int64, [scan]),
        ("packed_bytes", ctypes.c_int64, [scan]),
        ("pack", None, [scan, ctypes.c_void_p]),
        ("forward", ctypes.c_int, [scan]),
        ("backward", ctypes.c_int, [scan]),
        ("implicit_bytes", ctypes.c_int64, [implicit]),
        ("implicit_pack", None, [implicit, ctypes.c_void_p]),
        ("implicit_evaluate", ctypes.c_int, [implicit]),
        ("implicit_pull", ctypes.c_int, [implicit]),
        ("implicit_relax", ctypes.c_int, [implicit, ctypes.POINTER(RelaxationStruct)]),
        ("implicit_adjoint", ctypes.c_int, [implicit, ctypes.POINTER(AdjointStruct)]),
        ("tridiagonal_solve", ctypes.c_int, [tridiagonal]),
        ("heads_forward", ctypes.c_int, [ctypes.POINTER(HeadsStruct)]),
        ("heads_backward", ctypes.c_int, [ctypes.POINTER(HeadsStruct)]),
        ("attention_forward", ctypes.c_int, [ctypes.POINTER(AttentionStruct)]),
        ("attention_backward", ctypes.c_int, [ctypes.POINTER(AttentionStruct)]),
        ("instruction_set", ctypes.c_char_p, []),
        ("version", ctypes.c_char_p, []),
        ("has", ctypes.c_int, [ctypes.c_char_p]),
        ("use", ctypes.c_int, [ctypes.c_char_p]),
        ("huge_pages", None, [ctypes.c_void_p, ctypes.c_int64]),
    ):
        function = getattr(library, f"autapse_{name}")
        function.restype, function.argtypes = result, arguments
