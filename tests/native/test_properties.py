"""What holds for any shape: equality with the reference, and results that depend on nothing but their own input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import as_operands, fitted, gradients, make_case, near, needs_kernels, one_per_kernel, same_bits, there
from torch import Tensor

from autapse.native import library, ops
from autapse.native.operands import Kind, Operands
from autapse.unfold import scan_fused, scan_reference
from networks import VARIANTS, Network, flat, perturb

pytestmark = needs_kernels

# The same examples at each run: a test that fails for one contributor fails for all.
repeatable = settings(deadline=None, max_examples=40, derandomize=True, database=None)

seeds = st.integers(0, 2**20)
dtypes = st.sampled_from([torch.float32, torch.float64])
lengths = st.lists(st.integers(0, 12), min_size=1, max_size=9).map(lambda n: sorted(n, reverse=True))
every_kernel = pytest.mark.parametrize("network", one_per_kernel(), ids=str)
# (input_size, hidden_size, lengths, dtype) with more multiply-adds than one thread does alone, in one chunk and in many
LARGE = {
    "dense": (19, 61, (31,) * 23, torch.float32),
    "ragged": (7, 61, tuple(range(60, 0, -2)), torch.float64),
    "many_inputs": (150, 53, (9, 9, 9, 8, 5, 5, 1, 0), torch.float64),
    "fewer_rows_than_threads": (33, 70, (80, 77), torch.float32),
}


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def everything(operands: Operands, sizes: Tensor, kind: Kind) -> list[Tensor]:
    """All outputs and all gradients of the op alone: what torch does before it may well depend on its threads."""
    results = ops.scan(operands, sizes, kind, keep_cells=True, save=True)
    return [*results, *gradients(results[:4], there(operands))]


@repeatable
@given(
    network=st.sampled_from(VARIANTS),
    input_size=st.integers(1, 40),
    hidden_size=st.integers(1, 40),
    lengths=lengths,
    dtype=dtypes,
    start=st.integers(0, 5),
    seed=seeds,
)
def test_fused_is_the_reference(
    network: Network,
    input_size: int,
    hidden_size: int,
    lengths: list[int],
    dtype: torch.dtype,
    start: int,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    case = make_case(network, input_size, hidden_size, lengths, dtype, start)
    (states, final), (expected, expected_final) = case.run(scan_fused), case.run(scan_reference)
    near([*states, *final], [*expected, *expected_final])
    found = gradients([*states, *final], case.leaves)
    near(found, gradients([*expected, *expected_final], case.leaves), gradient=True)


@every_kernel
@pytest.mark.parametrize("shape", LARGE)
def test_the_number_of_threads_changes_no_bit(network: Network, shape: str) -> None:
    case = make_case(network, *LARGE[shape])
    assert len(case.x) * case.x.shape[1] * case.cell.hidden_size > 2**18, "one thread does all of it"
    operands, sizes, kind = as_operands(case)
    for reverse in (False, True) if shape == "dense" else (False,):
        expected = everything(operands, sizes, kind._replace(reverse=reverse))
        for count in (2, 3, 5):
            with threads(count):
                same_bits(everything(operands, sizes, kind._replace(reverse=reverse)), expected)


@every_kernel
def test_from_run_to_run_no_bit_changes(network: Network) -> None:
    """Other calls in between leave other values in the buffers that are used again."""
    problem = as_operands(make_case(network, *LARGE["ragged"]))
    other = as_operands(make_case(network, 5, 90, (9,) * 20))
    with torch.no_grad():
        other[0].x.fill_(torch.nan)
    with threads(2):
        expected = everything(*problem)
        for _ in range(2):
            everything(*other)
            same_bits(everything(*problem), expected)


@repeatable
@given(
    network=st.sampled_from(VARIANTS),
    lengths=lengths.flatmap(st.permutations),
    hidden_size=st.integers(1, 40),
    dtype=dtypes,
    bidirectional=st.booleans(),
    seed=seeds,
    data=st.data(),
)
def test_sequences_do_not_meet(
    network: Network,
    lengths: list[int],
    hidden_size: int,
    dtype: torch.dtype,
    bidirectional: bool,
    seed: int,
    data: st.DataObject,
) -> None:
    """Their order in a batch, and the batch itself, change no bit of what comes out for each."""
    torch.manual_seed(seed)
    layer = make_layer(network, 3, hidden_size, dtype, bidirectional=bidirectional)
    order = data.draw(st.permutations(range(len(lengths))))
    x = torch.randn(max(1, *lengths), len(lengths), 3, dtype=dtype)
    output, h_n = layer(x, lengths=lengths)
    moved, moved_n = layer(x[:, order], lengths=[lengths[b] for b in order])
    same_bits([moved, *flat(moved_n)], [output[:, order], *[h[:, order] for h in flat(h_n)]])
    for b, n in enumerate(lengths):
        if n:
            alone, alone_n = layer(x[:n, b])
            same_bits([alone, *flat(alone_n)], [output[:n, b], *[h[:, b] for h in flat(h_n)]])


def make_layer(network: Network, input_size: int, hidden_size: int, dtype: torch.dtype, **keywords: Any) -> Any:
    network = fitted(network, input_size, hidden_size)
    layer = network.layer_class(input_size, hidden_size, dtype=dtype, **keywords, **network.options)
    return perturb(layer, 0.4 / hidden_size**0.5)


@repeatable
@given(
    network=st.sampled_from(VARIANTS),
    lengths=lengths.filter(any),
    hidden_size=st.integers(1, 40),
    dtype=dtypes,
    seed=seeds,
    data=st.data(),
)
def test_a_nan_stays_in_its_sequence(
    network: Network, lengths: list[int], hidden_size: int, dtype: torch.dtype, seed: int, data: st.DataObject
) -> None:
    """It reaches that sequence's later steps, and neither its earlier ones nor any other sequence."""
    torch.manual_seed(seed)
    b = data.draw(st.sampled_from([b for b, n in enumerate(lengths) if n]))
    t = data.draw(st.integers(0, lengths[b] - 1))
    layer = make_layer(network, 3, hidden_size, dtype)
    x = torch.randn(max(lengths), len(lengths), 3, dtype=dtype)
    clean, clean_n = layer(x, lengths=lengths)
    x[t, b, data.draw(st.integers(0, 2))] = torch.nan
    dirty, dirty_n = layer(x, lengths=lengths)
    others = [other for other in range(len(lengths)) if other != b]
    same_bits([dirty[:, others], dirty[:t, b]], [clean[:, others], clean[:t, b]])
    same_bits([h[:, others] for h in flat(dirty_n)], [h[:, others] for h in flat(clean_n)])
    assert dirty[t : lengths[b], b].isnan().all()
    assert all(h[:, b].isnan().all() for h in flat(dirty_n))


@repeatable
@given(
    network=st.sampled_from(VARIANTS),
    batch=st.integers(1, 9),
    pieces=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    hidden_size=st.integers(1, 40),
    dtype=dtypes,
    seed=seeds,
)
def test_in_pieces_is_in_one(
    network: Network, batch: int, pieces: list[int], hidden_size: int, dtype: torch.dtype, seed: int
) -> None:
    """A carried state and `start` make the pieces of a sequence the whole of it, to the last bit."""
    torch.manual_seed(seed)
    layer = make_layer(network, 3, hidden_size, dtype)
    x = torch.randn(sum(pieces), batch, 3, dtype=dtype)
    whole, whole_n = layer(x)
    state, start, outputs = None, 0, []
    for piece in x.split(pieces):
        output, state = layer(piece, state, start=start)
        outputs.append(output)
        start += len(piece)
    same_bits([torch.cat(outputs), *flat(state)], [whole, *flat(whole_n)])


@pytest.mark.parametrize("name", library.instruction_sets()[1:])
def test_the_properties_hold_on_the_other_instruction_sets(name: str) -> None:
    library.use(name)
    test_fused_is_the_reference()
    test_sequences_do_not_meet()
    test_a_nan_stays_in_its_sequence()
    for network in one_per_kernel():
        test_the_number_of_threads_changes_no_bit(network, "ragged")
