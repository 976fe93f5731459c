"""Random calls of the native library, right ones and wrong ones.

    python tests/fuzz/ops.py --cases 100000     # .ci/sanitize runs it under AddressSanitizer: `make fuzz`

A right call must give what the reference gives. A wrong call, which is a right one with one to three random changes,
must either be refused with an InputError or, where the change did no harm, give what the reference gives. It must never
read or write outside of its tensors, which AddressSanitizer watches. Case n of a seed is always the same:
`--seed 0 --first n --cases 1` repeats it.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.utils.rnn import PackedSequence

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import autapse
from autapse.cells.heads import Heads
from autapse.checks import InputError
from autapse.forms.implicit_gru import ImplicitGRURule
from autapse.layers import Layer
from autapse.models import attention_weights
from autapse.native import attention as native_attention
from autapse.native import heads as native_heads
from autapse.native import library, ops
from autapse.native.implicit import SLOPE_PARTS, ImplicitKernel, Sequences, TridiagonalKernel
from autapse.native.operands import ACTIVATIONS, KERNELS, Kind, Operands
from autapse.sequences.red_black import RedBlackOrder
from autapse.unfold.banded import native_sequences
from autapse.unfold.implicit_system import ImplicitSystem
from native.kernels import near, running

DTYPES = (torch.float32, torch.float64)
OTHER_DTYPES = (torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.complex64, *DTYPES)
ODD_NUMBERS = (-(2**63), -(2**31), -1, 0, 7, 2**20 + 1, 2**31, 2**32, 2**32 + 5, 2**40, 2**62, 2**63 - 1)
REFUSED, COMPUTED, RIGHT = "refused", "computed", "right"


class WrongError(AssertionError):
    """The library did what it must not do."""


# Changes ------------------------------------------------------------------------------------------------------------


def strange(rng: random.Random, tensor: Tensor) -> Tensor:
    """The same values in other memory: strides, an offset, a view of a larger tensor."""
    match rng.randrange(4):
        case 0:
            return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() else tensor
        case 1:
            wide = torch.cat([tensor, tensor], -1) if tensor.dim() else tensor
            return wide[..., : tensor.shape[-1]] if tensor.dim() else tensor
        case 2:
            return torch.stack([tensor, tensor], -1)[..., 0]
        case _:
            return torch.cat([tensor.flatten()[:1], tensor.flatten()])[-tensor.numel() or 1 :].view(tensor.shape)


def untouchable(tensor: Tensor) -> bool:
    """What no op of torch should work on: huge, without data, or with less memory than it says."""
    return tensor.is_meta or max(tensor.shape, default=0) > 2**18 or tensor.untyped_storage().nbytes() < tensor.nbytes


def damaged(rng: random.Random, tensor: Tensor) -> Tensor | None:
    """A tensor of another shape, dtype or device, with less memory than it says, or none at all."""
    if untouchable(tensor):
        return tensor
    match rng.randrange(10):
        case 0 | 1 | 2 | 3 if tensor.dim():
            shape = list(tensor.shape)
            d = rng.randrange(len(shape))
            shape[d] = rng.choice((0, shape[d] + 1, max(shape[d] - 1, 0), 2 * shape[d], rng.randint(1, 40)))
            return torch.zeros(shape, dtype=tensor.dtype)
        case 4 if tensor.dim():
            huge, other = rng.choice(((2**20, None), (2**40, None), (2**62, 1), (2**62, 0)))
            shape = [n if other is None else other for n in tensor.shape]
            shape[rng.randrange(len(shape))] = huge
            return torch.zeros([min(n, 1) for n in shape], dtype=tensor.dtype).expand(shape)
        case 5:
            return rng.choice((tensor.unsqueeze(0), tensor.flatten(), tensor.new_zeros(()), tensor.unsqueeze(-1)))
        case 6:
            return tensor.to(rng.choice(OTHER_DTYPES))
        case 7:
            return tensor.to("meta")
        case 8:
            less = tensor.clone(memory_format=torch.contiguous_format)
            less.untyped_storage().resize_(rng.randint(0, less.nbytes))
            return less
        case _:
            return None


def damaged_counts(rng: random.Random, counts: Tensor) -> Tensor:
    """Sizes, lengths or indices whose values or whose tensor are wrong."""
    if counts.dim() != 1 or counts.dtype != torch.int64:
        return counts
    changed = counts.clone()
    if not len(changed) or rng.random() < 0.2:
        return torch.cat([changed, torch.tensor([rng.choice((0, 1, 3))])])
    n = rng.randrange(len(changed))
    match rng.randrange(6):
        case 0:
            changed[n] += rng.choice((1, -1))
        case 1:
            changed[n] = rng.choice(ODD_NUMBERS)
        case 2:
            changed[n], changed[-1 - n] = int(changed[-1 - n]), int(changed[n])
        case 3:
            return changed.to(rng.choice((torch.int32, torch.float64, torch.bool)))
        case 4:
            return changed.unsqueeze(rng.randrange(2))
        case _:
            return changed[:-1]
    return changed


def attempt(call: Callable[[], Any]) -> Any:
    """What a call gives, or REFUSED: by an InputError, or in torch's words if a tensor is missing or is too large."""
    try:
        return call()
    except (InputError, MemoryError):
        return REFUSED
    except RuntimeError as problem:
        torch_says = ("Expected a value of type", "can't allocate memory", "Storage size calculation overflowed")
        if any(words in str(problem) for words in torch_says):
            return REFUSED
        raise


# The scan -----------------------------------------------------------------------------------------------------------


def random_lengths(rng: random.Random) -> list[int]:
    if rng.random() < 0.3:  # of one length, so that it may be reversed
        return [rng.randint(0, 9)] * rng.randint(0, 6)
    return sorted((rng.randint(0, 9) for _ in range(rng.randint(0, 6))), reverse=True)


def random_scan(rng: random.Random) -> tuple[Operands, Tensor, Kind]:
    """A right call. Kinks of relu and modrelu need float64, where rounding does not cross them."""
    code, hidden, inputs = rng.randrange(len(KERNELS)), rng.randint(1, 20), rng.randint(1, 12)
    form = KERNELS[code].name
    lengths = random_lengths(rng)
    if rng.random() < 0.005:  # several threads, several chunks
        hidden, lengths = rng.randint(30, 70), sorted((rng.randint(1, 60) for _ in range(30)), reverse=True)
    many = form == "leaky" and rng.random() < 0.02  # one long row with many connections
    if many:
        hidden, lengths = rng.randint(200, 300), [rng.randint(5, 20)]
    sizes = torch.tensor(running(lengths), dtype=torch.int64)
    hidden *= 1 + (form == "complex")  # real and imaginary parts
    activation = rng.randrange(len(KERNELS[code].activations))
    kinked = ACTIVATIONS[activation] in ("relu", "modrelu") or form in ("complex", "crossing")
    dtype = torch.float64 if kinked else rng.choice(DTYPES)
    inner = rng.randint(1, 3) if form in ("leaky", "chain", "delayed", "linear") else 1
    cells = form in ("lstm", "crossing") or (form == "linear" and rng.random() < 0.5)
    reverse = len(set(sizes.tolist())) == 1 and rng.random() < 0.5
    skip = form == "chain" and rng.random() < 0.5
    delays = tuple(rng.sample(range(2, 13), rng.randint(1, 3))) if form == "delayed" else ()
    clip, flow = rng.choice((math.inf, math.inf, 0.1, 1.0)), rng.choice((0.0, 0.0, 0.0, 0.1))
    kind = Kind(code, activation, inner, rng.random() < 0.5, rng.random() < 0.5, reverse, skip, delays, clip)
    rows, batch, steps, G = int(sizes.sum()), len(lengths), len(sizes), KERNELS[code].drive_parts(kind, cells) * hidden

    def values(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(shape, dtype=dtype)

    def maybe(*shape: int, scale: float = 1.0) -> Tensor | None:
        return values(*shape, scale=scale) if rng.random() < 0.5 else None

    weight = values(G, inputs) if rng.random() < 0.7 else None
    given: dict[str, Any] = dict.fromkeys(Operands._fields)
    given |= {"weight": weight, "bias": None if weight is None else maybe(G)}
    outputs = rng.randint(1, 8) if form == "lstm" and rng.random() < 0.4 else hidden
    given |= {"x": values(rows, G if weight is None else inputs), "h0": values(batch, outputs)}
    square = (hidden, hidden)
    shapes = {"chain": (inner, *square), "lstm": (4 * hidden, outputs), "delayed": (1 + len(delays), *square)}
    shapes |= {"linear": (inner * hidden, hidden), "chaos_free": (2 * hidden, hidden), "crossing": (4 * hidden, hidden)}
    shape = shapes.get(form, (G, hidden))
    given["matrix"] = values(*((hidden, hidden) if form == "shared_gate" else shape), scale=0.5 / hidden**0.5)
    match form:
        case "leaky" | "delayed":
            if form == "leaky" and (many or rng.random() < 0.4):
                given |= random_pattern(hidden, values, 0.9 if many else rng.choice((0.0, 0.1, 0.3, 0.9)))
            mixing = (steps, inner) if kind.per_step else (hidden,)
            given |= {
                name: maybe(*mixing, scale=0.3) for name in ("alpha", "beta")
            }  # else rounding grows with the steps
            if ACTIVATIONS[activation] == "modrelu":
                given["offset"] = maybe(hidden)
            if delays:
                given["history"] = values(max(delays) - 1, batch, hidden)
        case "pre_activation":
            given |= {name: values(hidden, scale=0.3) for name in ("alpha", "beta")}
        case "chain" if inner > 1:
            given["offset"] = values(inner - 1, hidden)
        case "shared_gate":  # the reference has the same at each step
            given |= {name: values(1, 2, scale=0.3).expand(steps, 2).clone() for name in ("alpha", "beta")}
        case "complex":
            given["offset"] = maybe(hidden // 2)
        case "gru" if ACTIVATIONS[activation] == "modrelu":
            given["offset"] = values(hidden)
        case "gru":
            given["offset"] = maybe(3 * hidden)
        case "linear":  # else values grow with the steps
            given |= {"x": 0.3 * given["x"], "c0": values(batch, hidden) if cells else None}
        case "crossing":
            given["c0"] = values(batch, hidden)
        case "lstm":
            given |= {"c0": values(batch, hidden), "offset": maybe(4, hidden)}
            if outputs != hidden or rng.random() < 0.2:
                given["projection"] = values(outputs, hidden, scale=0.5)
    kind = kind._replace(flow=flow if KERNELS[code].has_one_product(kind, given["projection"] is not None) else 0.0)
    return Operands(**given), sizes, kind


MOST_COPIED = 10**6  # a tensor may be expanded far beyond the memory


def random_pattern(hidden: int, values: Callable[..., Tensor], share: float) -> dict[str, Tensor]:
    """A sparse matrix: some entries, or none, in the order of rows and columns."""
    there = (torch.rand(hidden, hidden) < share).nonzero().T.contiguous()
    return {"matrix": values(there.shape[1], scale=0.5 / max(1.0, share * hidden) ** 0.5), "pattern": there}


def damaged_pattern(rng: random.Random, pattern: Tensor) -> Tensor:
    """A pattern with one index changed, or with two entries exchanged."""
    plain = pattern.dim() == 2 and pattern.dtype == torch.int64 and 0 < pattern.numel() < MOST_COPIED
    if not plain or untouchable(pattern):
        return pattern
    changed = pattern.clone()
    axis, n, m = rng.randrange(len(changed)), *(rng.randrange(changed.shape[1]) for _ in range(2))
    if rng.random() < 0.3:
        changed[:, [n, m]] = changed[:, [m, n]]
    else:
        changed[axis, n] = rng.choice((*ODD_NUMBERS, int(changed[axis, n]) + 1, int(changed[axis, n]) - 1, 20))
    return changed


def change_scan(rng: random.Random, operands: Operands, sizes: Tensor, kind: Kind) -> tuple[Operands, Tensor, Kind]:
    name = rng.choice(Operands._fields)
    tensor = getattr(operands, name)
    match rng.randrange(9):
        case 0:
            return operands, damaged_counts(rng, sizes), kind
        case 1:
            field = rng.choice(("form", "activation", "inner"))
            few = range(-1, 10) if field != "inner" else range(-1, 4)
            return operands, sizes, kind._replace(**{field: rng.choice((*few, *ODD_NUMBERS))})
        case 2:
            field = rng.choice(("reset_after", "per_step", "reverse", "skip"))
            return operands, sizes, kind._replace(**{field: not getattr(kind, field)})
        case 3:
            more = (rng.choice((*range(-1, 14), *ODD_NUMBERS)) for _ in range(rng.choice((0, 1, 2, 40))))
            return operands, sizes, kind._replace(delays=tuple(more))
        case 4:
            other = getattr(operands, rng.choice(Operands._fields))
            return operands._replace(**{name: other}), sizes, kind
        case 5 if operands.pattern is not None:
            return operands._replace(pattern=damaged_pattern(rng, operands.pattern)), sizes, kind
        case _:
            some = torch.zeros(rng.choice(((3,), (2, 3), (1, 1)))) if tensor is None else tensor
            return operands._replace(**{name: damaged(rng, some)}), sizes, kind


def fuzz_scan(rng: random.Random) -> str:
    operands, sizes, kind = random_scan(rng)
    if rng.random() < 0.3:
        operands = Operands(*(None if t is None else strange(rng, t) for t in operands))
    right = rng.random() < 0.3
    for _ in range(0 if right else rng.randint(1, 3)):
        operands, sizes, kind = change_scan(rng, operands, sizes, kind)
    keep, save = rng.random() < 0.5, rng.random() < 0.5
    with torch.no_grad():
        result = attempt(lambda: ops.scan(operands, sizes, kind, keep, save))
        if isinstance(result, str) and right:
            raise WrongError(f"a right call was refused: {describe(operands, sizes, kind)}")
        if isinstance(result, str):
            return REFUSED
        if right or same_at_each_step(operands, kind):
            expected = KERNELS[kind.form].reference_scan(operands, sizes, kind)
            compare(f"scan {describe(operands, sizes, kind)}", result[:4], expected, keep or save)
    return RIGHT if right else COMPUTED


def same_at_each_step(operands: Operands, kind: Kind) -> bool:
    """Whether a shared gate has one pair of coefficients, as the reference takes for granted; other forms always."""
    pairs = [t for t in (operands.alpha, operands.beta) if t is not None and KERNELS[kind.form].name == "shared_gate"]
    return all(bool((t == t[:1]).all()) for t in pairs)


def compare(
    call: str,
    found: Sequence[Tensor],
    expected: Sequence[Tensor | None],
    cells: bool = True,
    gradient: bool = False,
) -> None:
    wanted = [
        (f, e) for n, (f, e) in enumerate(zip(found, expected, strict=True)) if e is not None and (cells or n != 2)
    ]
    try:
        near([f for f, _ in wanted], [e for _, e in wanted], gradient)  # type: ignore[misc]
    except AssertionError as problem:
        raise WrongError(f"{call}: {problem}") from None


def describe(operands: Operands, sizes: Tensor, kind: Kind) -> str:
    named = operands._asdict().items()
    shapes = {name: (tuple(t.shape), t.stride(), str(t.dtype)) for name, t in named if t is not None}
    return f"{shapes} sizes={sizes.tolist()} {kind}"


def fuzz_gradient(rng: random.Random) -> str:
    """Through autograd and against the reference; or the backward op with changed arguments."""
    operands, sizes, kind = random_scan(rng)
    if rng.random() < 0.3:
        compare_gradients(operands, sizes, kind)
        return RIGHT
    with torch.no_grad():
        h, h_n, c, c_n, reserve = ops.scan(operands, sizes, kind, keep_cells=True, save=True)
    saved: list[Any] = [rng.choice((None, torch.randn_like(t))) for t in (h, h_n, c, c_n)] + [h, c, reserve]
    needed = [rng.random() < 0.7 for _ in operands]
    for _ in range(rng.randint(1, 3)):
        n = rng.randrange(len(saved))
        if rng.random() < 0.5:
            saved[n] = damaged(rng, reserve if saved[n] is None else saved[n])
        elif rng.random() < 0.1:
            needed = needed[: rng.randrange(10)]
        else:
            operands, sizes, kind = change_scan(rng, operands, sizes, kind)
    call = torch.ops.autapse.scan_backward
    refused = isinstance(attempt(lambda: call(*saved, *operands, sizes, *kind, needed)), str)
    return REFUSED if refused else COMPUTED


def compare_gradients(operands: Operands, sizes: Tensor, kind: Kind) -> None:
    operands = Operands(*(None if t is None else t.requires_grad_(t.is_floating_point()) for t in operands))
    there = [t for t in operands if t is not None and t.is_floating_point()]
    results = ops.scan(operands, sizes, kind, keep_cells=True, save=True)[:4]
    used = [
        (r, e)
        for r, e in zip(results, KERNELS[kind.form].reference_scan(operands, sizes, kind), strict=True)
        if e is not None
    ]
    outer = [torch.randn_like(r) for r, _ in used]
    keywords = {"allow_unused": True, "materialize_grads": True}
    found = torch.autograd.grad([r for r, _ in used], there, outer, **keywords)
    expected = torch.autograd.grad([e for _, e in used], there, outer, **keywords)
    if KERNELS[kind.form].name == "shared_gate":  # the reference has the sum over the steps in the first row
        found, expected = ([g.sum(0) if g.shape[-1:] == (2,) else g for g in grads] for grads in (found, expected))
    if kind.flow:  # the reference of a form alone does not know the regulariser, whose gradient the matrix gets
        found, expected = (
            [g for g, t in zip(grads, there, strict=True) if t is not operands.matrix] for grads in (found, expected)
        )
    try:
        near(found, expected, gradient=True)
    except AssertionError as problem:
        raise WrongError(f"gradient of {describe(operands, sizes, kind)}: {problem}") from None


def fuzz_tangent(rng: random.Random) -> str:
    """The forward derivative of a right call, against that of the reference."""
    operands, sizes, kind = random_scan(rng)
    form = KERNELS[kind.form]
    if not form.from_operands(operands, kind).has_tangent:  # type: ignore[attr-defined]
        return RIGHT
    if rng.random() < 0.3:
        operands = Operands(*(None if t is None else strange(rng, t) for t in operands))
    with torch.no_grad(), warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, in its first use of dual numbers
        duals = Operands(*(moved(rng, t, same=form.name == "shared_gate") for t in operands))
        found = ops.scan(duals, sizes, kind, keep_cells=True, save=True)[:4]
        expected = form.reference_scan(duals, sizes, kind)
        pairs = [(tangent_of(f), tangent_of(e)) for f, e in zip(found, expected, strict=True) if e is not None]
    call = f"tangent of {describe(operands, sizes, kind)}"
    try:
        near([f for f, _ in pairs], [e for _, e in pairs], gradient=True)
    except AssertionError as problem:
        raise WrongError(f"{call}: {problem}") from None
    return RIGHT


def tangent_of(tensor: Tensor) -> Tensor:
    value, tangent = forward_ad.unpack_dual(tensor)
    return torch.zeros_like(value) if tangent is None else tangent


def moved(rng: random.Random, tensor: Tensor | None, same: bool) -> Any:
    """A tensor with a random tangent, or without one; `same`: pairs of coefficients move alike at each step."""
    if tensor is None or not tensor.is_floating_point() or rng.random() < 0.3:
        return tensor
    tangent = torch.randn_like(tensor)
    if same and tensor.shape[-1:] == (2,) and len(tensor):
        tangent = tangent[:1].expand(tensor.shape).clone()
    return forward_ad.make_dual(tensor, tangent)


# Layers -------------------------------------------------------------------------------------------------------------


def fuzz_packed(rng: random.Random) -> str:
    """A PackedSequence put together by hand: refused, or computed as torch.nn does."""
    lengths = [n for n in random_lengths(rng) if n] or [2, 1]
    sizes = torch.tensor(running(lengths))
    data = torch.randn(int(sizes.sum()), 3)
    order: Tensor | None = torch.tensor(rng.sample(range(len(lengths)), len(lengths)))
    right = rng.random() < 0.2
    match 0 if right else rng.randrange(3):
        case 0 if not right:
            sizes = damaged_counts(rng, sizes)
        case 1:
            order = damaged_counts(rng, order)  # type: ignore[arg-type]
        case 2:
            data = torch.randn(rng.randint(0, 30), rng.choice((3, 3, 3, 2)))
    inverse = torch.argsort(order) if order.dim() == 1 else order  # type: ignore[union-attr]
    packed = PackedSequence(*(data, torch.ones(1, dtype=torch.int64), order, inverse))._replace(batch_sizes=sizes)
    theirs = torch.nn.GRU(3, 4)
    ours = autapse.from_torch(theirs)
    with torch.no_grad():
        result = attempt(lambda: ours(packed))
        if isinstance(result, str):
            if right:
                raise WrongError(f"a right PackedSequence was refused: {sizes.tolist()} {order}")
            return REFUSED
        output, h_n = theirs(packed)
        compare(f"packed {sizes.tolist()} {order}", (result[0].data, result[1]), (output.data, h_n))
    return RIGHT if right else COMPUTED


LAYERS = [kind for kind in vars(autapse.layers).values() if isinstance(kind, type) and issubclass(kind, Layer)]
LAYERS = [kind for kind in LAYERS if hasattr(kind, "cell_type")]


def fuzz_parameters(rng: random.Random) -> str:
    """A weight whose data is of another shape or dtype, before the forward or before the backward pass."""
    layer = rng.choice(LAYERS)(3, rng.randint(4, 9))
    x = torch.randn(rng.randint(1, 5), 2, 3, requires_grad=True)
    name, parameter = rng.choice(weights_of(layer))
    shape = [rng.choice((n, n + 1, max(n - 1, 0), 2, 40)) for n in parameter.shape] or rng.choice(([], [2]))
    other = torch.randn(shape, dtype=rng.choice((*DTYPES, torch.float32)))
    same = other.shape == parameter.shape and other.dtype == parameter.dtype
    early = rng.random() < 0.5
    output = None if early else layer(x)[0]
    parameter.data = other
    try:
        if early:
            layer(x)
        else:
            output.sum().backward()  # type: ignore[union-attr]
    except (InputError, RuntimeError) as problem:  # torch's own checks come first in a backward pass
        if same or (early and other.dtype == torch.float32 and not isinstance(problem, InputError)):
            raise WrongError(f"{layer} with a parameter of shape {shape}: {problem!r}") from None
        return REFUSED
    if early and other.shape != dict(weights_of(layer))[name].shape:
        raise WrongError(f"{layer} took a parameter of shape {shape}")
    return COMPUTED


def weights_of(layer: Layer) -> list[tuple[str, Tensor]]:
    """The parameters; of a layer without any, the values that it keeps instead."""
    return list(layer.named_parameters()) or [(n, b) for n, b in layer.named_buffers() if b.is_floating_point()]


def fuzz_stream(rng: random.Random) -> str:
    """Step by step, with wrong inputs, positions and another instruction set in between."""
    layer = rng.choice([kind for kind in LAYERS if max(kind.cell_type.stencil, default=0) <= 0])(3, rng.randint(4, 9))
    batch, x = rng.randint(1, 3), torch.randn(4, 3, 3)[:, :1].expand(4, 3, 3)
    stream = layer.stream(batch)
    if rng.random() < 0.4:
        with torch.no_grad():
            compare(f"stream of {layer}", [torch.stack([stream(x_t[:batch]) for x_t in x])], [layer(x[:, :batch])[0]])
        return RIGHT
    stream.position = rng.choice((-5, -1, 10**6, 2**62))
    if rng.random() < 0.5:
        library.use(rng.choice(library.instruction_sets()))
    x_t = x[0, :batch] if rng.random() < 0.3 else damaged(rng, x[0, :batch])
    stepper = stream._steppers[0]
    if x_t is None or x_t.is_meta or x_t.dtype in (torch.complex64, torch.bool):
        return REFUSED
    try:
        with torch.no_grad():
            stepper(x_t, stream.position)
    except (InputError, RuntimeError, IndexError):  # the steps of some cells are plain PyTorch
        return REFUSED
    return COMPUTED


# Implicit networks --------------------------------------------------------------------------------------------------


def change(rng: random.Random, given: dict[str, Any]) -> dict[str, Any]:
    """One argument changed."""
    name = rng.choice(list(given))
    value = given[name]
    if isinstance(value, Sequences):
        new: Any = value._replace(lengths=damaged_counts(rng, value.lengths))
        new = new._replace(own_edges=not value.own_edges) if rng.random() < 0.3 else new
    elif isinstance(value, list):
        new = value[:-1] if rng.random() < 0.2 else [damaged_counts(rng, t) for t in value]
    elif isinstance(value, Tensor) and value.dtype == torch.int64 and value.dim() == 1:
        new = damaged_counts(rng, value)
    elif isinstance(value, Tensor):
        new = strange(rng, value) if rng.random() < 0.2 and not untouchable(value) else damaged(rng, value)
    elif isinstance(value, int):
        new = rng.choice(ODD_NUMBERS) if name == "window" else rng.choice((-1, 0, 1, 2**20 + 1, 2**62))
    else:
        new = value
    return given | {name: new}


def run_changed(rng: random.Random, call: Callable[..., Any], given: dict[str, Any]) -> str:
    for _ in range(rng.randint(1, 3)):
        given = change(rng, given)
    try:
        return REFUSED if isinstance(attempt(lambda: call(**given)), str) else COMPUTED
    except (AttributeError, TypeError):  # None for a tensor that must be there
        if not any(value is None for value in given.values()):
            raise
        return REFUSED


def fuzz_implicit(rng: random.Random) -> str:
    """The rule, its transposed derivative and both solvers."""
    dtype, hidden, edges = rng.choice(DTYPES), rng.randint(1, 20), rng.random() < 0.5
    solving = rng.random() < 0.5
    stencil = rng.choice([(-1, 1), (1, -1)] if solving else [(-1, 1), (-2, -1, 1, 2), (-3, 1), (2,)])
    lengths = torch.tensor(random_lengths(rng), dtype=torch.int64)
    layout, J = RedBlackOrder(lengths, stencil, torch.device("cpu"), edges), len(stencil)
    matrices = [
        torch.randn(shape, dtype=dtype) / hidden**0.5
        for shape in ((J, hidden, hidden), (2 * hidden, hidden), (hidden, hidden))
    ]
    u = torch.randn(layout.total, (J + 3) * hidden, dtype=dtype)
    past = torch.randn(2 * len(lengths), hidden, dtype=dtype) if edges else torch.zeros(1, hidden, dtype=dtype)
    if rng.random() < 0.1:
        return run_changed(rng, ImplicitKernel, dict(zip(("switches", "gates", "candidate"), matrices, strict=True)))
    system, kernel = ImplicitSystem(ImplicitGRURule(stencil, *matrices), u, layout, past), ImplicitKernel(*matrices)
    right = rng.random() < 0.3
    z, v = (torch.randn(layout.total, hidden, dtype=dtype) for _ in range(2))
    colour = rng.randrange(len(layout.colours))
    rows, other = layout.colours[colour], layout.others[colour]
    index = [layout.neighbours[colour][offset] for offset in stencil]
    h = torch.empty(rows.stop - rows.start, hidden, dtype=dtype)
    slope = torch.empty(2 * J + SLOPE_PARTS, len(h), hidden, dtype=dtype)
    chosen = None if rng.random() < 0.5 else torch.arange(rows.start, rows.stop)
    given = {"u": u[rows] if chosen is None else u, "drive_rows": chosen, "table": z[other], "edges": past}
    given |= {"index": index, "h": h, "bands": torch.empty(J, len(h), hidden, dtype=dtype), "slope": slope}
    with torch.no_grad():
        if not solving:
            if not right:
                return run_changed(rng, kernel.evaluate, given)
            kernel.evaluate(**given)
            value, expected = system.rule.linearize(system.drive(rows), system.near(z[other], colour))
            pulled = kernel.pull(slope, v[rows])
            compare(f"implicit {stencil}", [h, *pulled], [value, *expected.vjp(v[rows])])
            whole = run_changed(rng, rng.choice((kernel.pull, kernel.pull_arguments)), {"slope": slope, "v": v[rows]})
            return RIGHT if whole == COMPUTED else whole
        sequences = native_sequences(layout)
        settings = {"rtol": 1e-6, "atol": 1e-12, "max_iterations": 60, "window": 4, "threshold": 0.5, "guard": 2.0}
        begin = torch.zeros_like(z)
        given = {"u": u, "drive_rows": None, "edges": past, "sequences": sequences, "z": begin} | settings
        if chosen is not None:
            given["drive_rows"] = torch.arange(len(u))
        if not right:
            if rng.random() < 0.5:
                return run_changed(rng, kernel.relax, given)
            slope = torch.rand(2 * J + SLOPE_PARTS, layout.total, hidden, dtype=dtype)
            limits = {"rtol": 1e-3, "atol": 0.0, "max_iterations": 5}
            return run_changed(rng, kernel.adjoint, {"slope": slope, "sequences": sequences, "g": v} | limits)
        residual, _, converged = kernel.relax(**given)
        if bool(converged.all()):
            error = system.evaluate(begin) - begin
            if float(error.norm()) > 1e-4 * (1 + float(begin.norm())):
                raise WrongError(f"relax says {residual.tolist()}, the reference {float(error.norm())}")
    return RIGHT


def fuzz_tridiagonal(rng: random.Random) -> str:
    lengths = torch.tensor(random_lengths(rng), dtype=torch.int64)
    layout, dtype = RedBlackOrder(lengths, (-1, 1), torch.device("cpu"), False), rng.choice(DTYPES)
    lower, upper, right_side = (0.4 * torch.randn(layout.total, 3, dtype=dtype).tanh() for _ in range(3))
    transposed = rng.random() < 0.5
    given = {"lower": lower, "upper": upper, "sequences": native_sequences(layout), "transposed": transposed}
    if rng.random() < 0.7:
        return run_changed(rng, lambda right, **rest: TridiagonalKernel(**rest)(right), given | {"right": right_side})
    found = TridiagonalKernel(**given)(right_side)
    for b in range(len(lengths)):
        rows, n = layout.rows_of(b), int(lengths[b])
        if not n:
            continue
        matrix = torch.eye(n, dtype=dtype).repeat(3, 1, 1)
        matrix -= torch.diag_embed(lower[rows][1:].t(), -1) + torch.diag_embed(upper[rows][:-1].t(), 1)
        matrix = matrix.transpose(1, 2) if transposed else matrix
        solved = torch.linalg.solve(matrix, right_side[rows].t().unsqueeze(-1)).squeeze(-1).t()
        compare(f"tridiagonal {lengths.tolist()}", [found[rows]], [solved])
    return RIGHT


# The heads of a memory ----------------------------------------------------------------------------------------------


def fuzz_heads(rng: random.Random) -> str:
    """One step of the heads, and its gradient."""
    dtype, batch = rng.choice(DTYPES), rng.choice((0, 1, 3, 40))
    content, location = rng.choice([(True, True), (True, False), (False, True)])
    kind = rng.choice(("cosine", "dot"))
    shifts = rng.randint(1, 3) if location else 1
    slots = rng.randint(2 * shifts + 1, 40)
    heads = Heads(rng.randint(1, 3), rng.randint(1, 3), slots, rng.randint(1, 20), content, location, kind, shifts)
    numbers = torch.randn(batch, sum(heads.sizes), dtype=dtype)
    memory = torch.randn(batch, slots, heads.width, dtype=dtype)
    addresses = torch.softmax(torch.randn(batch, heads.count, slots, dtype=dtype), -1)
    given = {"numbers": numbers, "memory": memory, "addresses": addresses}
    if rng.random() < 0.6:
        with torch.no_grad():
            return run_changed(rng, partial(native_heads.access, heads._kind, heads.access_reference), given)
    leaves = [tensor.requires_grad_() for tensor in given.values()]
    found, expected = heads.access(*leaves), heads.access_reference(*leaves)
    factors = [torch.randn_like(part) for part in expected]
    gradients = [torch.autograd.grad(results, leaves, factors, allow_unused=True) for results in (found, expected)]
    theirs = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients[1], leaves, strict=True)]
    compare(f"heads {heads}", [*found, *gradients[0]], [*expected, *theirs])
    return RIGHT


# Attention ----------------------------------------------------------------------------------------------------------


def fuzz_attention(rng: random.Random) -> str:
    """The weights of attention, and their gradient."""
    kind, dtype = rng.choice(("additive", "monotonic")), rng.choice(DTYPES)
    batch, units = rng.choice((0, 1, 3, 6)), rng.randint(1, 20)
    targets, sources = rng.randint(0, 9), rng.randint(0, 70)
    scale = rng.choice((1.0, 1.0, 20.0))  # large values of additive attention have a path of their own
    of_target, of_source = (batch, targets, units), (batch, sources, units)
    given: dict[str, Any]
    if kind == "additive":
        given = {name: scale * torch.randn(shape) for name, shape in (("query", of_target), ("keys", of_source))}
        given["vector"] = torch.randn(units)
    else:
        # Wide windows: float32 loses digits if the nearest step is far away in widths.
        given = {"heights": torch.randn(of_target), "roots": 0.2 * torch.randn(of_target).exp()}
        given["places"] = torch.randn(of_target) + sources * torch.rand(of_target)
    given = {name: tensor.to(dtype) for name, tensor in given.items()}
    sizes = {} if kind == "additive" else {"sources": sources}
    steps = {"target_lengths": targets, "source_lengths": sources}
    ends = {name: torch.randint(0, n + 1, (batch,)) if rng.random() < 0.5 else None for name, n in steps.items()}
    if rng.random() < 0.6:
        there = {name: tensor for name, tensor in ends.items() if tensor is not None}
        return run_changed(rng, partial(getattr(native_attention, kind), None), given | sizes | there)
    if rng.random() < 0.3:
        given = {name: strange(rng, tensor) for name, tensor in given.items()}
    leaves = [tensor.requires_grad_() for tensor in given.values()]
    factors = torch.randn(batch, targets, sources, dtype=dtype)
    results = []
    for way in ("weights", "reference"):
        weights = getattr(attention_weights, f"{kind}_{way}")(*leaves, *sizes.values(), *ends.values())
        results.append([weights, *torch.autograd.grad(weights, leaves, factors)])
    call = f"{kind} attention {(batch, targets, sources, units)} {scale} {ends}"
    compare(call, *([weights] for weights, *_ in results))
    compare(f"gradient of {call}", *(gradients for _, *gradients in results), gradient=True)
    return RIGHT


# All of them --------------------------------------------------------------------------------------------------------

TARGETS: dict[Callable[[random.Random], str], int] = {  # how often each is tried
    fuzz_scan: 8,
    fuzz_gradient: 6,
    fuzz_tangent: 3,
    fuzz_implicit: 4,
    fuzz_tridiagonal: 2,
    fuzz_heads: 2,
    fuzz_attention: 2,
    fuzz_packed: 2,
    fuzz_parameters: 1,
    fuzz_stream: 1,
}


def run_case(seed: int, number: int, only: str | None = None) -> tuple[str, str]:
    """Which target it was, and how it ended; `only`: this target."""
    rng = random.Random(f"{seed} {number}")
    torch.manual_seed(rng.randrange(2**63))
    torch.set_num_threads(rng.choice((1,) * 18 + (2, 3)))  # a change of threads takes long
    library.use(rng.choice(library.instruction_sets()))
    often = {target: n for target, n in TARGETS.items() if only in (None, target.__name__)}
    (target,) = rng.choices(list(often), list(often.values()))
    return target.__name__, target(rng)


def run(cases: int, seed: int = 0, first: int = 0, every: int = 0, only: str | None = None) -> Counter[tuple[str, str]]:
    """How often each target ended how; says so every so many cases."""
    counted, began = Counter[tuple[str, str]](), time.monotonic()
    for number in range(first, first + cases):
        try:
            counted[run_case(seed, number, only)] += 1
        except Exception as problem:
            same = f" --only {only}" if only else ""
            problem.add_note(f"in case {number} of seed {seed}: --seed {seed} --first {number} --cases 1{same}")
            raise
        if every and (number + 1 - first) % every == 0:
            print(f"{number + 1} cases, {time.monotonic() - began:.0f} s", flush=True)
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--seed", type=int, default=0, help="which sequence of cases (0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (0)")
    names = [target.__name__ for target in TARGETS]
    parser.add_argument("--only", choices=names, help="one kind of call (all)")
    chosen = parser.parse_args()
    counted = run(chosen.cases, chosen.seed, chosen.first, every=1000, only=chosen.only)
    for (target, end), count in sorted(counted.items()):
        print(f"{target:18}{end:10}{count}")


if __name__ == "__main__":
    main()
