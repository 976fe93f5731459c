"""The operands of the native scan, and the checks of their shapes, dtypes and memory.

The C++ code gets pointers and a few sizes. It reads and writes as much memory as those sizes say, so every call is
checked here first: `check_shapes` compares all shapes with those that the form declares, `dense` checks dtype, device
and memory. The values of index tensors are checked by the C++ code itself before it runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol

import torch
from torch import Tensor

from autapse import checks

ACTIVATIONS = ("tanh", "relu", "sigmoid", "identity", "modrelu")
DTYPES = (torch.float32, torch.float64)
INDICES = ("sizes", "pattern")  # tensors of integers, whose values the C++ code checks
MOST_INNER = 1 << 20  # inner steps or maps; more could overflow a size
MOST_DELAYS = 32  # as in src/abi.h
LONGEST_DELAY = 1 << 20  # in steps


class Operands(NamedTuple):
    """The tensors of a scan, in the order of the ops' arguments. None if a form does not have one."""

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
    pattern: Tensor | None = None  # [2, n] int64: row and column of each entry of a sparse matrix [n]
    history: Tensor | None = None


TENSORS = ("sizes", *Operands._fields)  # all that a scan reads


class FormOperands(NamedTuple):
    """The last of the operands: those that belong to the form."""

    matrix: Tensor
    offset: Tensor | None = None
    projection: Tensor | None = None
    alpha: Tensor | None = None
    beta: Tensor | None = None
    pattern: Tensor | None = None
    history: Tensor | None = None  # the states before h0


class Kind(NamedTuple):
    """Which recurrence a scan is, in the order of the ops' arguments."""

    form: int  # index into KERNELS
    activation: int = 0  # index into ACTIVATIONS
    inner: int = 1  # inner steps of a leaky form, maps of a chain, products of a linear form
    reset_after: bool = True
    per_step: bool = False  # leaky: alpha and beta are [T, K], not [H]
    reverse: bool = False  # the last step comes first; for sequences of one length
    skip: bool = False  # chain: each map but the first adds what it reads
    delays: tuple[int, ...] = ()  # delayed: each above 1
    clip: float = math.inf  # backward pass: bound of each entry of the gradient at a state
    flow: float = 0.0  # backward pass: weight of each term of the regulariser for information flow


class Extent(NamedTuple):
    """The sizes of a scan."""

    steps: int  # T
    rows: int  # N
    batch: int  # B
    inputs: int  # D
    hidden: int  # H
    outputs: int  # O
    cells: bool  # whether there is a second state, c


class Stretch(NamedTuple):
    """What a scan read and computed at a few steps."""

    rows: tuple[int, int]  # from the first row to the last one, exclusive
    before: Sequence[Tensor]  # [N, H] each: h, and c if there are cells, before each row
    after: Sequence[Tensor]  # the same after it
    reserve: Tensor  # [N, columns]
    step: Tensor  # [N], the position of each row


Shape = Sequence[int]
Shapes = dict[str, Shape]  # name of an operand -> its shape


class KernelForm(Protocol):
    """What this folder needs to know about a form that has a kernel. The classes in autapse.forms provide it."""

    name: ClassVar[str]
    activations: ClassVar[Sequence[str]]  # first ones of ACTIVATIONS
    most_inner: ClassVar[int]
    most_delays: ClassVar[int]

    @classmethod
    def drive_parts(cls, kind: Kind, cells: bool) -> int:
        """Parts of the drive, each H columns wide; `cells`: whether there is a second state."""
        ...

    @staticmethod
    def has_one_product(kind: Kind, projected: bool) -> bool:
        """Whether a step reads the state by one product, as the regulariser for information flow needs."""
        ...

    @staticmethod
    def operand_shapes(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:
        """The shapes of the needed and of the optional operands, apart from x, h0, weight and bias."""
        ...

    @classmethod
    def reference_scan(cls, operands: Operands, sizes: Tensor, kind: Kind) -> Sequence[Tensor | None]:
        """h, h_n, c and c_n of the scan in plain PyTorch, which autograd can differentiate twice."""
        ...

    @classmethod
    def tangent_operands(
        cls, operands: Operands, tangents: Operands, stretch: Stretch, state: Sequence[Tensor], kind: Kind
    ) -> tuple[Operands, Kind]:
        """The linear scan over a stretch whose states are the forward derivative; it starts from `state`."""
        ...


KERNELS: list[type[KernelForm]] = []  # filled by autapse.forms, in the order of src/abi.h


def check_fake(operands: Operands, sizes: Tensor, kind: Kind) -> Extent:
    """`check_shapes` for tensors without data; dtype and device too, since there is no memory to check."""
    extent = check_shapes(kind, *[None if tensor is None else tensor.shape for tensor in (sizes, *operands)])
    for name, tensor in zip(TENSORS, (sizes, *operands), strict=True):
        if tensor is not None and tensor.device != operands.x.device:
            checks.fail(name, f"be on the device of x, {operands.x.device}", tensor.device)
        wanted = torch.int64 if name in INDICES else operands.x.dtype
        if tensor is not None and tensor.dtype != wanted:
            _fail_dtype(name, wanted, tensor.dtype)
    return extent


def check_shapes(kind: Kind, *shapes: Shape | None) -> Extent:
    """The sizes of a scan, if `sizes` and every operand have the shapes that the form needs."""
    given = dict(zip(TENSORS, shapes, strict=True))
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
    if kind.flow and not KERNELS[kind.form].has_one_product(kind, given["projection"] is not None):
        checks.fail("flow", f"be 0 for this {KERNELS[kind.form].name}", kind.flow)
    needed, optional = _shapes_of(kind, extent, given)
    for name, got in given.items():
        shape = needed.get(name, optional.get(name))
        if shape is None and got is not None:
            checks.fail(name, f"be None for this {KERNELS[kind.form].name}", f"a tensor of shape {tuple(got)}")
        elif shape is not None and (name in needed or got is not None):
            check_shape(name, got, shape)
    return extent


def _check_kind(kind: Kind) -> None:
    if not 0 <= kind.form < len(KERNELS):
        checks.fail("form", f"be from 0 to {len(KERNELS) - 1}", kind.form)
    form = KERNELS[kind.form]
    if not 0 <= kind.activation < len(form.activations):
        rule = f"be from 0 to {len(form.activations) - 1} for the form {form.name}"
        checks.fail("activation", rule, kind.activation)
    if not 1 <= kind.inner <= form.most_inner:
        checks.fail("inner", f"be from 1 to {form.most_inner} for the form {form.name}", kind.inner)
    if len(kind.delays) > form.most_delays or (form.most_delays and not kind.delays):
        checks.fail("delays", f"be at most {form.most_delays} for the form {form.name}", len(kind.delays))
    if not all(1 < delay <= LONGEST_DELAY for delay in kind.delays):
        checks.fail("delays", f"be above 1 and at most {LONGEST_DELAY}", kind.delays)
    if not kind.clip > 0:
        checks.fail("clip", "be above 0", kind.clip)
    if not 0 <= kind.flow < math.inf:
        checks.fail("flow", "be finite and at least 0", kind.flow)


def _shapes_of(kind: Kind, extent: Extent, given: dict[str, Any]) -> tuple[Shapes, Shapes]:  # needed, optional
    """The shape of every operand that a form has; src/abi.h says the same in words."""
    form, has_weight = KERNELS[kind.form], given["weight"] is not None
    G = form.drive_parts(kind, extent.cells) * extent.hidden
    needed: Shapes = {"x": (extent.rows, extent.inputs if has_weight else G), "h0": (extent.batch, extent.outputs)}
    optional: Shapes = {"weight": (G, extent.inputs)} | ({"bias": (G,)} if has_weight else {})
    own, own_optional = form.operand_shapes(kind, extent, given)
    return needed | own, optional | own_optional


def check_shape(name: str, got: Shape | None, shape: Sequence[int | None]) -> Shape:
    """`got`, the shape of a tensor (None: no tensor), if it matches `shape`, where None stands for any size."""
    if got is None or len(got) != len(shape) or any(w not in (None, g) for g, w in zip(got, shape, strict=True)):
        words = ", ".join("any" if size is None else str(size) for size in shape)
        rule = f"be a tensor of shape ({words}{',' * (len(shape) == 1)})"
        checks.fail(name, rule, None if got is None else tuple(got), kind=checks.ShapeError)
    return got


def dense(names: Sequence[str], tensors: Sequence[Tensor | None], dtype: torch.dtype) -> list[Any]:
    """Each tensor, made contiguous. Values must have this dtype; the memory must be on the CPU and complete."""
    contiguous: list[Any] = list(tensors)
    for n, given in enumerate(tensors):
        if given is None:
            continue
        wanted = torch.int64 if names[n] in INDICES else dtype
        if given.dtype is not wanted:
            _fail_dtype(names[n], wanted, given.dtype)
        contiguous[n] = tensor = given.contiguous()
        end = tensor.nbytes + tensor.storage_offset() * tensor.itemsize
        if not tensor.is_cpu or tensor.untyped_storage().nbytes() < end:
            check_memory(names[n], tensor)
    return contiguous


def check_memory(name: str, tensor: Tensor) -> None:
    """The tensor must be on the CPU, and its storage, which Python code may have shrunk, must have all elements."""
    if not tensor.is_cpu:
        checks.fail(name, "be on the CPU", tensor.device)
    available = tensor.untyped_storage().nbytes()
    last = tensor.storage_offset() + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() and available < (last + 1) * tensor.element_size():
        checks.fail(name, f"have memory for its shape {tuple(tensor.shape)}", f"a storage of {available} bytes")


def check_dtype(dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        _fail_dtype("x", " or ".join(map(str, DTYPES)), dtype)


def _fail_dtype(name: str, wanted: object, got: torch.dtype) -> NoReturn:
    checks.fail(name, f"have dtype {wanted}", got)
