"""Wrong arguments: the ops and kernels refuse them with one sentence, before the library gets a pointer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernels import as_operands, make_case, named, needs_kernels, one_per_kernel
from torch import Tensor

import autapse
from autapse.checks import InputError
from autapse.native import library, ops
from autapse.native.implicit import ImplicitKernel, Sequences, TridiagonalKernel
from autapse.native.operands import KERNELS, Kind, Operands
from networks import Network

pytestmark = needs_kernels
RING = "Reservoir-learn=True-topology=ring-nonlinearity=sigmoid"
every_kernel = pytest.mark.parametrize("network", one_per_kernel(), ids=str)


def gru(lengths: tuple[int, ...] = (4, 3, 1)) -> tuple[Operands, Tensor, Kind]:
    operands, sizes, kind = as_operands(make_case(named("GRU"), 3, 5, lengths, torch.float32))
    return Operands(*(None if t is None else t.detach() for t in operands)), sizes, kind


def refused(operands: Operands, sizes: Tensor, kind: Kind, words: str) -> None:
    for save in (True, False):
        with pytest.raises(InputError, match=words):
            ops.scan(operands, sizes, kind, keep_cells=True, save=save)


@every_kernel
def test_every_operand_of_another_shape(network: Network) -> None:
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 3, 1)))
    for name, tensor in operands._asdict().items():
        if tensor is None:
            continue
        for dimension, size in enumerate(tensor.shape):
            if (name, dimension) == ("h0", 0) and operands.c0 is None:
                continue  # sequences of length 0 may be many
            huge = (
                () if (name, dimension) in (("x", 0), ("h0", 0)) else (2**40,)
            )  # torch itself has no memory for these
            for other in (0, size - 1, size + 1, *huge):
                shape = list(tensor.shape)
                shape[dimension] = other
                changed = tensor.new_zeros([min(n, 1) for n in shape]).expand(shape)
                refused(operands._replace(**{name: changed}), sizes, kind, "must")
        refused(operands._replace(**{name: tensor.unsqueeze(0)}), sizes, kind, f"{name} must")


@every_kernel
def test_every_operand_of_another_dtype_device_or_memory(network: Network) -> None:
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 3, 1)))
    operands = Operands(*(None if t is None else t.detach() for t in operands))
    for name, tensor in operands._asdict().items():
        if tensor is None:
            continue
        for dtype in {torch.float16, torch.float32, torch.int64} - {tensor.dtype}:
            refused(operands._replace(**{name: tensor.to(dtype)}), sizes, kind, "dtype")
        refused(operands._replace(**{name: tensor.to("meta")}), sizes, kind, "device of x")
        less = tensor.clone(memory_format=torch.contiguous_format)
        less.untyped_storage().resize_(less.nbytes - 1)
        refused(operands._replace(**{name: less}), sizes, kind, f"{name} must have memory for its shape")
        none = tensor.clone(memory_format=torch.contiguous_format)
        none.untyped_storage().resize_(0)
        refused(operands._replace(**{name: none}), sizes, kind, f"{name} must have memory for its shape")
        later = torch.cat([tensor.flatten(), tensor.flatten()])[tensor.numel() :].view(tensor.shape)
        later.untyped_storage().resize_(2 * later.nbytes - 1)  # enough for its size, but not from where it begins
        refused(operands._replace(**{name: later}), sizes, kind, f"{name} must have memory for its shape")


@every_kernel
def test_operands_that_are_missing_or_too_many(network: Network) -> None:
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 3, 1)))
    for name in ("x", "h0", "matrix"):
        refused(operands._replace(**{name: None}), sizes, kind, f"{name} must be a tensor of shape .*; got None")
    for name in ("c0", "projection"):
        if getattr(operands, name) is None and KERNELS[kind.form].name != "lstm":
            refused(operands._replace(**{name: torch.zeros_like(operands.h0)}), sizes, kind, f"{name} must be None")
    refused(operands, None, kind, "sizes must be a tensor")  # type: ignore[arg-type]


def test_half_precision_in_all_operands() -> None:
    operands, sizes, kind = gru()
    half = Operands(*(None if t is None else t.half() for t in operands))
    refused(half, sizes, kind, "x must have dtype torch.float32 or torch.float64; got torch.float16")


@pytest.mark.parametrize(
    ("field", "value"),
    [("form", n) for n in (-1, len(KERNELS), 2**31, 2**32 + 4, -(2**63))]
    + [("activation", n) for n in (-1, 5, 6, 2**32)]
    + [("inner", n) for n in (-100, 0, 2, 2**20 + 1, 2**62)],
)
def test_numbers_that_no_form_has(field: str, value: int) -> None:
    operands, sizes, kind = gru()
    refused(operands, sizes, kind._replace(**{field: value}), f"{field} must be from")


def test_complex_numbers_with_half_of_a_pair() -> None:
    operands, sizes, kind = as_operands(make_case(named("KRU"), 3, 5, (4, 3, 1)))
    odd = operands._replace(h0=operands.h0[:, :9], matrix=operands.matrix[:9, :9], weight=operands.weight[:9])  # type: ignore[index]
    refused(odd, sizes, kind, "h0 must have an even number of columns: real parts, then imaginary parts; got 9")


@pytest.mark.parametrize("delays", [(), (1, 3), (0, 2), (2, -5), (2**62,), tuple(range(2, 40))], ids=str)
def test_delays_that_the_kernel_cannot_have(delays: tuple[int, ...]) -> None:
    operands, sizes, kind = as_operands(make_case(named("Delayed-delays=(1,2,4)"), 3, 5, (4, 3, 1)))
    refused(operands, sizes, kind._replace(delays=delays), "delays must be")


def test_a_history_of_another_length() -> None:
    operands, sizes, kind = as_operands(make_case(named("Delayed-delays=(1,2,4)"), 3, 5, (4, 3, 1)))
    words = r"history must be a tensor of shape \(8, 3, 5\); got \(3, 3, 5\)"
    refused(operands, sizes, kind._replace(delays=(2, 9)), words)


def test_inner_steps_beyond_the_limit() -> None:
    operands, sizes, kind = as_operands(make_case(named("RNN"), 3, 5, (4, 3, 1)))
    refused(operands, sizes, kind._replace(inner=2**61), "inner must be from 1 to 1048576 for the form leaky")


@pytest.mark.parametrize(
    "sizes",
    [
        [3, 2, 2, 2],
        [2, 3, 2, 1],
        [3, 2, 2],
        [3, 2, 2, 1, 1],
        [3, 2, 2, -1, 2],
        [4, 2, 1, 1],
        [8],
        [2**62, 8 - 2**62],
        [],
    ],
    ids=str,
)
def test_sizes_that_lead_outside(sizes: list[int]) -> None:
    """Of 8 rows and 3 sequences: they grow, are negative, have another sum, or more sequences than there are."""
    operands, right, kind = gru()
    assert right.tolist() == [3, 2, 2, 1]
    refused(
        operands, torch.tensor(sizes, dtype=torch.int64), kind, "sizes must never grow, be from 0 to the batch size 3"
    )


@pytest.mark.parametrize(
    "change", [[(0, 0, 5)], [(1, 2, -1)], [(1, 0, 5)], [(1, 1, 2**40)], [(0, 3, 1)], [(0, 1, 0), (1, 1, 4)]], ids=str
)
def test_a_pattern_that_leads_outside_or_is_not_sorted(change: list[tuple[int, int, int]]) -> None:
    """Of 5 units in a ring: a row or a column that is not there, rows that go back, an entry that occurs twice."""
    operands, sizes, kind = as_operands(make_case(named(RING), 3, 5, (4, 3, 1)))
    assert operands.pattern is not None
    assert operands.pattern.tolist() == [[0, 1, 2, 3, 4], [4, 0, 1, 2, 3]]
    for axis, n, value in change:
        operands.pattern[axis, n] = value
    refused(operands, sizes, kind, "pattern must have rows and columns from 0 to 4, sorted by row and then by column")
    layer = autapse.Reservoir(3, 5, topology="ring")
    layer.cells["l0"].pattern.copy_(operands.pattern)
    with pytest.raises(InputError, match="pattern must have rows and columns from 0 to 4"):
        layer.stream()


def test_a_pattern_belongs_to_the_leaky_form() -> None:
    operands, sizes, kind = gru()
    refused(operands._replace(pattern=torch.zeros(2, 3, dtype=torch.int64)), sizes, kind, "pattern must be None")


def test_sizes_of_a_reversed_scan_are_all_the_same() -> None:
    operands, sizes, kind = gru()
    refused(operands, sizes, kind._replace(reverse=True), "sizes must all be the same")


def test_sizes_of_another_dtype_or_shape() -> None:
    operands, sizes, kind = gru()
    refused(operands, sizes.int(), kind, "sizes must have dtype torch.int64; got torch.int32")
    refused(operands, sizes[None], kind, r"sizes must be a tensor of shape \(any,\); got \(1, 4\)")


@every_kernel
def test_memory_in_any_order_is_fine(network: Network) -> None:
    """Strides of 0, of columns, of every second element; for the sizes too."""
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 4, 4)))
    expected = ops.scan(operands, sizes, kind, keep_cells=True, save=True)
    spread = Operands(*(None if t is None else torch.stack([t, t], -1)[..., 0] for t in operands))
    turned = Operands(*(None if t is None else t.transpose(0, -1).contiguous().transpose(0, -1) for t in operands))
    for other, counts in ((spread, torch.stack([sizes, sizes - 9], 1)[:, 0]), (turned, sizes[:1].expand(4))):
        found = ops.scan(other, counts, kind, keep_cells=True, save=True)
        assert all(torch.equal(f, e) for f, e in zip(found, expected, strict=True))


# The backward pass --------------------------------------------------------------------------------------------------


@every_kernel
def test_every_argument_of_the_backward_pass(network: Network) -> None:
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 3, 1)))
    with torch.no_grad():
        h, h_n, c, c_n, reserve = ops.scan(operands, sizes, kind, keep_cells=True, save=True)
    saved = {"grad_h": h, "grad_h_n": h_n, "grad_c": c, "grad_c_n": c_n, "h": h, "c": c, "reserve": reserve}
    names, needed = list(saved), [t is not None and t.is_floating_point() for t in operands]
    call: Callable[..., Any] = torch.ops.autapse.scan_backward
    with torch.no_grad():
        call(*saved.values(), *operands, sizes, *kind, needed)
        for name, tensor in saved.items():
            less = tensor.clone()
            less.untyped_storage().resize_(max(less.nbytes - 8, 0))
            wrong = [tensor[:-1] if len(tensor) else tensor[None], tensor[..., None], tensor.float()]
            wrong += [less] if tensor.numel() else []
            wrong += [None] if not name.startswith("grad") else []
            for other in wrong:
                with pytest.raises(InputError, match=f"{name} must"):
                    call(*(saved | {name: other}).values(), *operands, sizes, *kind, needed)
        with pytest.raises(InputError, match="needed must have 12 entries"):
            call(*saved.values(), *operands, sizes, *kind, needed[1:])
    assert names == ["grad_h", "grad_h_n", "grad_c", "grad_c_n", "h", "c", "reserve"]


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM", "UGRNN"])
def test_a_parameter_of_another_shape_before_the_backward_pass(name: str) -> None:
    layer = getattr(autapse, name)(3, 40)
    output, _ = layer(torch.randn(6, 2, 3))
    weight = next(p for key, p in layer.named_parameters() if "weight_hh" in key)
    weight.data = torch.randn(2, 2)
    with pytest.raises(InputError, match=r"matrix must be a tensor of shape .*; got \(2, 2\)"):
        output.sum().backward()


# Streams ------------------------------------------------------------------------------------------------------------


def test_a_stream_at_any_position() -> None:
    """The coefficients of a step are rows of a table; a position outside of it takes the nearest."""
    layer = autapse.ERNN(3, 5, eta="per_step", max_length=4)
    x = torch.randn(1, 3)
    for position, same in ((-(10**6), 0), (10**6, 3)):
        found, expected = layer.stream(), layer.stream()
        found.position, expected.position = position, same
        assert torch.equal(found(x), expected(x))


def test_a_stream_keeps_to_its_instruction_set() -> None:
    if len(library.instruction_sets()) < 2:
        pytest.skip("this machine has one instruction set")
    before, stream = library.info()["instruction_set"], autapse.GRU(3, 5).stream()
    library.use(next(name for name in library.instruction_sets() if name != before))
    with pytest.raises(InputError, match="instruction set must stay the same"):
        stream(torch.randn(1, 3))
    library.use(before)
    stream(torch.randn(1, 3))


# Implicit networks --------------------------------------------------------------------------------------------------

H, N = 4, 6
SETTINGS: dict[str, Any] = {"rtol": 1e-3, "atol": 0.0, "max_iterations": 9, "window": 3, "threshold": 0.5, "guard": 2.0}


def kernel(offsets: int = 2) -> ImplicitKernel:
    return ImplicitKernel(torch.randn(offsets, H, H), torch.randn(2 * H, H), torch.randn(H, H))


def evaluation() -> dict[str, Any]:
    index = [torch.arange(3), torch.tensor([1, 2, 3])]  # into 3 rows and one edge
    given = {"u": torch.randn(3, 5 * H), "drive_rows": torch.arange(3), "table": torch.randn(3, H)}
    given |= {"edges": torch.zeros(1, H), "index": index, "h": torch.empty(3, H)}
    return given | {"bands": torch.empty(2, 3, H), "slope": torch.empty(11, 3, H)}


def test_matrices_of_an_implicit_rule() -> None:
    right = [torch.randn(2, H, H), torch.randn(2 * H, H), torch.randn(H, H)]
    for n, wrong in (
        (0, torch.randn(9, H, H)),
        (0, torch.randn(0, H, H)),
        (1, torch.randn(H, H)),
        (2, torch.randn(H, 3)),
    ):
        with pytest.raises(InputError, match="must"):
            ImplicitKernel(*[*right[:n], wrong, *right[n + 1 :]])
    with pytest.raises(InputError, match=r"gates must have dtype torch\.float32"):
        ImplicitKernel(right[0], right[1].double(), right[2])


def test_arguments_of_an_evaluation() -> None:
    rule, given = kernel(), evaluation()
    rule.evaluate(**given)
    for name, value in given.items():
        tensors = [value] if isinstance(value, Tensor) else value
        for tensor in tensors:
            wrong = [tensor[..., :-1], tensor[None], tensor.int()]
            for other in wrong:
                changed = other if isinstance(value, Tensor) else [other, *value[1:]]
                with pytest.raises(InputError, match="must"):
                    rule.evaluate(**given | {name: changed})
    for name in ("h", "bands", "slope"):  # written, so that a copy would not do
        with pytest.raises(InputError, match=f"{name} must be contiguous"):
            rule.evaluate(**given | {name: torch.stack([given[name]] * 2, -1)[..., 0]})


@pytest.mark.parametrize("row", [-1, 4, 2**62])
def test_indices_that_lead_outside(row: int) -> None:
    rule, given = kernel(), evaluation()
    outside = torch.tensor([0, row, 1])
    for changed in ({"drive_rows": outside}, {"index": [outside, outside]}):
        with pytest.raises(InputError, match="drive_rows and index must be rows of their tensors"):
            rule.evaluate(**given | changed)
    with pytest.raises(InputError, match="drive_rows and index must"):
        rule.evaluate(**given | {"drive_rows": None, "u": given["u"][:2]})


@pytest.mark.parametrize("lengths", [[4, 3], [2, 4], [7, -1], [4, 1], [2**62, 6 - 2**62], []], ids=str)
def test_lengths_that_lead_outside(lengths: list[int]) -> None:
    """Of 6 rows."""
    sequences = Sequences(torch.tensor(lengths, dtype=torch.int64))
    words = "lengths must never grow, be at least 0 and sum to the number of rows, 6"
    with pytest.raises(InputError, match=words):
        kernel().relax(torch.randn(N, 5 * H), None, torch.zeros(1, H), sequences, torch.zeros(N, H), **SETTINGS)
    with pytest.raises(InputError, match=words):
        kernel().adjoint(torch.rand(11, N, H), sequences, torch.randn(N, H), rtol=0.1, atol=0.0, max_iterations=5)
    with pytest.raises(InputError, match=words):
        TridiagonalKernel(torch.zeros(N, 2), torch.zeros(N, 2), sequences)(torch.zeros(N, 2))


def test_arguments_of_the_solvers() -> None:
    rule, sequences = kernel(), Sequences(torch.tensor([4, 2]))
    u, edges, z = torch.randn(N, 5 * H), torch.zeros(1, H), torch.zeros(N, H)
    rule.relax(u, None, edges, sequences, z, **SETTINGS)
    for wrong in (
        {"u": u[:-1]},
        {"u": u[:, :-1]},
        {"u": u, "drive_rows": torch.tensor([0, 1, 2, 3, 4, 6])},
        {"edges": edges[:, 1:]},
        {"z": z.double()},
        {"z": torch.zeros(H, N).t()},
        {"sequences": sequences._replace(own_edges=True)},
        {"sequences": Sequences(torch.tensor([4, 2], dtype=torch.int32))},
        {"window": 9},
        {"window": -1},
    ):
        given = {"u": u, "drive_rows": None, "edges": edges, "sequences": sequences, "z": z} | SETTINGS | wrong
        with pytest.raises(InputError, match="must"):
            rule.relax(**given)
    limits = {"rtol": 0.1, "atol": 0.0}
    for count in (-1, 2**40):
        with pytest.raises(InputError, match="max_iterations must be from 0"):
            rule.adjoint(torch.rand(11, N, H), sequences, z, max_iterations=count, **limits)
    with pytest.raises(InputError, match="slope must"):
        rule.adjoint(torch.rand(9, N, H), sequences, z, max_iterations=3, **limits)
    with pytest.raises(InputError, match="stencil"):
        kernel(4).adjoint(torch.rand(15, N, H), sequences, z, max_iterations=3, **limits)
    with pytest.raises(InputError, match="v must"):
        rule.pull(torch.rand(11, N, H), z[:, 1:])
    with pytest.raises(InputError, match="right must have at most 6 rows"):
        TridiagonalKernel(torch.zeros(N, 2), torch.zeros(N, 2), sequences)(torch.zeros(N + 1, 2))
