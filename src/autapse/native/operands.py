"""What the ops get, and what the kernels rely on: the shape of every operand, for every form.

The C++ code gets pointers and a few sizes. It reads and writes as much memory as those sizes say, so every call is
checked here first: `check_scan` compares shapes with the table of the form, `dense` looks at dtype, device and memory.
What only the contents of index tensors can tell is checked by the C++ code itself before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from autapse import checks

FORMS = ("leaky", "chain", "shared_gate", "ugrnn", "gru", "lstm")
GATES = {"leaky": 1, "chain": 1, "shared_gate": 2, "ugrnn": 2, "gru": 3, "lstm": 4}  # parts of the drive, H wide each
ACTIVATIONS = ("tanh", "relu", "sigmoid", "identity", "modrelu")
DTYPES = (torch.float32, torch.float64)
MOST_INNER = 1 << 20  # inner steps or maps, so that no size overflows


class Operands(NamedTuple):
    """The tensors of a scan, in the order of the ops' arguments. None is for what a form does not have."""

    x: Tensor  # [N, D], or the drive [N, G] without a weight
    weight: Tensor | None  # [G, D]
    bias: Tensor | None  # [G]
    h0: Tensor  # [B, O]
    c0: Tensor | None  # [B, H]
    matrix: Tensor
    offset: Tensor | None
    projection: Tensor | None
    alpha: Tensor | None
    beta: Tensor | None


class Kind(NamedTuple):
    """Which recurrence a scan is, in the order of the ops' arguments."""

    form: int  # index into FORMS
    activation: int = 0  # index into ACTIVATIONS
    inner: int = 1  # inner steps of a leaky form, maps of a chain
    reset_after: bool = True
    per_step: bool = False  # leaky: alpha and beta are [T, K], not [H]
    reverse: bool = False  # the last step comes first; for sequences of one length


class Extent(NamedTuple):
    """The sizes of a scan."""

    steps: int  # T
    rows: int  # N
    batch: int  # B
    inputs: int  # D
    hidden: int  # H
    outputs: int  # O
    cells: bool  # whether there is a second state, c


Shape = Sequence[int]


def check_scan(operands: Operands, sizes: Tensor, kind: Kind) -> Extent:
    """The sizes of a scan, if every operand has the shape that its form needs."""
    return _check_shapes(kind, *[None if tensor is None else tensor.shape for tensor in (sizes, *operands)])


def check_scan_fake(operands: Operands, sizes: Tensor, kind: Kind) -> Extent:
    """`check_scan` for tensors without data, whose sizes may be symbols that cannot be cached; dtype and device too."""
    shapes = [None if tensor is None else tensor.shape for tensor in (sizes, *operands)]
    extent = _check_shapes.__wrapped__(kind, *shapes)
    for name, tensor in (*zip(Operands._fields, operands, strict=True), ("sizes", sizes)):
        if tensor is not None and tensor.device != operands.x.device:
            checks.fail(name, f"be on the device of x, {operands.x.device}", tensor.device)
        if tensor is not None and tensor.dtype != (torch.int64 if name == "sizes" else operands.x.dtype):
            _fail_dtype(name, torch.int64 if name == "sizes" else operands.x.dtype, tensor.dtype)
    return extent


@lru_cache(maxsize=4096)  # calls of one shape come again and again
def _check_shapes(kind: Kind, *shapes: Shape | None) -> Extent:
    given = dict(zip(("sizes", *Operands._fields), shapes, strict=True))
    _check_kind(kind)
    (steps,) = check_shape("sizes", given.pop("sizes"), (None,))
    rows, inputs = check_shape("x", given["x"], (None, None))
    batch, outputs = check_shape("h0", given["h0"], (None, None))
    cells = given["c0"] is not None
    hidden = check_shape("c0", given["c0"], (None, None))[1] if cells else outputs
    extent = Extent(steps, rows, batch, inputs, hidden, outputs, cells)
    for name in ("inputs", "hidden", "outputs"):
        if getattr(extent, name) < 1:
            checks.fail(f"the number of {name}", "be at least 1", getattr(extent, name), kind=checks.ShapeError)
    needed, optional = _shapes_of(kind, extent, given)
    for name, got in given.items():
        shape = needed.get(name, optional.get(name))
        if shape is None and got is not None:
            checks.fail(name, f"be None for this {FORMS[kind.form]}", f"a tensor of shape {tuple(got)}")
        elif shape is not None and (name in needed or got is not None):
            check_shape(name, got, shape)
    return extent


def _check_kind(kind: Kind) -> None:
    if not 0 <= kind.form < len(FORMS):
        checks.fail("form", f"be from 0 to {len(FORMS) - 1}", kind.form)
    form, most = FORMS[kind.form], len(ACTIVATIONS) - (FORMS[kind.form] != "leaky")  # modrelu comes last
    if not 0 <= kind.activation < most:
        checks.fail("activation", f"be from 0 to {most - 1} for the form {form}", kind.activation)
    most = MOST_INNER if form in ("leaky", "chain") else 1
    if not 1 <= kind.inner <= most:
        checks.fail("inner", f"be from 1 to {most} for the form {form}", kind.inner)


def _shapes_of(
    kind: Kind, extent: Extent, given: dict[str, Any]
) -> tuple[dict[str, Shape], dict[str, Shape]]:  # needed, optional
    """The shape of every operand that a form has. The one table of them; src/abi.h says the same in words."""
    T, N, B, D, H, P, _ = extent
    K = kind.inner
    form = FORMS[kind.form]
    G = GATES[form] * H
    needed: dict[str, Shape] = {"x": (N, G if given["weight"] is None else D), "h0": (B, P)}
    optional: dict[str, Shape] = {"weight": (G, D)}
    if given["weight"] is not None:
        optional["bias"] = (G,)
    match form:
        case "leaky":
            needed["matrix"] = (H, H)
            optional["alpha"] = optional["beta"] = (T, K) if kind.per_step else (H,)
            if ACTIVATIONS[kind.activation] == "modrelu":
                optional["offset"] = (H,)
        case "chain":
            needed["matrix"] = (K, H, H)
            (needed if K > 1 else optional)["offset"] = (K - 1, H)
        case "shared_gate":
            needed |= {"matrix": (H, H), "alpha": (T, 2), "beta": (T, 2)}
        case "ugrnn":
            needed["matrix"] = (2 * H, H)
        case "gru":
            needed["matrix"] = (3 * H, H)
            if kind.reset_after:
                optional["offset"] = (H,)
        case "lstm":
            needed |= {"c0": (B, H), "matrix": (4 * H, P)}
            optional |= {"offset": (3, H), "projection": (P, H)}
            if given["projection"] is None:
                needed["h0"] = (B, H)
    return needed, optional


def check_shape(name: str, got: Shape | None, shape: Sequence[int | None]) -> Shape:
    """`got`, the shape of a tensor, if it is `shape`, in which None is for any size; None is for no tensor at all."""
    if got is None or len(got) != len(shape) or any(w not in (None, g) for g, w in zip(got, shape, strict=True)):
        words = ", ".join("any" if size is None else str(size) for size in shape)
        rule = f"be a tensor of shape ({words}{',' * (len(shape) == 1)})"
        checks.fail(name, rule, None if got is None else tuple(got), kind=checks.ShapeError)
    return got


def dense(names: Sequence[str], tensors: Sequence[Tensor | None], dtype: torch.dtype) -> list[Any]:
    """Each tensor as the kernels read it: contiguous. Fails unless it has this dtype and is whole, on the CPU."""
    made: list[Any] = []
    for name, given in zip(names, tensors, strict=True):
        if given is None:
            made.append(None)
            continue
        if given.dtype is not dtype:
            _fail_dtype(name, dtype, given.dtype)
        tensor = given.contiguous()
        if not tensor.is_cpu or tensor.untyped_storage().nbytes() < tensor.nbytes or tensor.storage_offset():
            check_memory(name, tensor)
        made.append(tensor)
    return made


def check_memory(name: str, tensor: Tensor) -> None:
    """Fails unless the tensor is on the CPU and its storage, which Python code may have shrunk, has all elements."""
    if not tensor.is_cpu:
        checks.fail(name, "be on the CPU", tensor.device)
    there = tensor.untyped_storage().nbytes()
    last = tensor.storage_offset() + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() and there < (last + 1) * tensor.element_size():
        checks.fail(name, f"have memory for its shape {tuple(tensor.shape)}", f"a storage of {there} bytes")


def check_dtype(dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        _fail_dtype("x", " or ".join(map(str, DTYPES)), dtype)


def _fail_dtype(name: str, wanted: object, got: torch.dtype) -> NoReturn:
    checks.fail(name, f"have dtype {wanted}", got)
