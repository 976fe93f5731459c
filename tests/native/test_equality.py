"""The kernels against the reference: values and gradients of every variant, on every instruction set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from kernels import gradients, make_case, near, needs_kernels, one_per_kernel, run_reversed, same_bits
from torch import Tensor

from autapse.unfold import scan_fused, scan_reference
from networks import VARIANTS, Network, every_form_variant

pytestmark = needs_kernels


@dataclass(frozen=True)
class Shape:
    input_size: int
    hidden_size: int
    lengths: tuple[int, ...]
    dtype: torch.dtype = torch.float64
    start: int = 0

    def __str__(self) -> str:
        rows = sum(self.lengths)
        return f"D{self.input_size}-H{self.hidden_size}-{rows}rows-{str(self.dtype).removeprefix('torch.')}"


SHAPES = [
    Shape(1, 1, (4, 3, 1, 1, 1, 1, 1, 1)),
    Shape(3, 5, (7, 7, 4, 1, 0), start=1),
    Shape(300, 17, (3, 2, 1, 1, 0)),
    Shape(3, 5, (7, 7, 4, 1, 0), torch.float32),
    Shape(300, 33, (4, 4, 2), torch.float32),
]
MORE_SHAPES = [
    Shape(1, 17, (1,)),
    Shape(3, 33, (5, 5, 5)),
    Shape(17, 300, (3, 2)),
    Shape(5, 17, (30,) * 40),  # several chunks of steps
    Shape(5, 17, tuple(range(40, 0, -1))),  # the same, with rows that change from thread to thread
    Shape(3, 5, (*[3] * 530, *[1] * 70, 0)),  # more rows in one step than a chunk has
    Shape(1, 17, (1, 1, 0), torch.float32),
]


@every_form_variant
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_variant(network: Network, shape: Shape, instruction_set: str) -> None:
    check(network, shape)


@pytest.mark.parametrize("network", one_per_kernel(), ids=str)
@pytest.mark.parametrize("shape", MORE_SHAPES, ids=str)
def test_every_shape(network: Network, shape: Shape, instruction_set: str) -> None:
    check(network, shape)


def check(network: Network, shape: Shape, **options: float) -> None:
    case = make_case(network, shape.input_size, shape.hidden_size, shape.lengths, shape.dtype, shape.start)
    fused, expected = (case.run(partial(scan, **options)) for scan in (scan_fused, scan_reference))
    for a, e in zip(fused, expected, strict=True):
        near(a, e)
    expected_gradients = gradients([*expected[0], *expected[1]], case.leaves)
    assert any(g.any() for g in expected_gradients[1 + len(case.state) :])
    near(gradients([*fused[0], *fused[1]], case.leaves), expected_gradients, gradient=True)


@every_form_variant
@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_gradients_at_states(network: Network, shape: Shape, instruction_set: str) -> None:
    """Clipped in the backward pass, and with the regulariser for information flow."""
    check(network, shape, clip=0.5, flow=0.1)


@pytest.mark.parametrize("network", one_per_kernel(), ids=str)
@pytest.mark.parametrize("shape", MORE_SHAPES[3:6], ids=str)
def test_gradients_at_states_of_every_shape(network: Network, shape: Shape) -> None:
    check(network, shape, clip=0.5, flow=0.1)


@every_form_variant
@pytest.mark.parametrize("keep", [False, True])
def test_without_gradients(network: Network, keep: bool) -> None:
    """The kernels then save nothing, which is another way through them."""
    case = make_case(network, 3, 17, (6, 5, 5, 1, 0))
    trained = case.run(scan_fused)
    with torch.no_grad():
        states, final = case.run(scan_fused, keep)
    assert len(states) == (len(case.state) if keep else 1)
    same_bits([*states, *final], [*trained[0][: len(states)], *trained[1]])


PER_STEP = [network for network in VARIANTS if network.options.get("eta") == "per_step"]


@pytest.mark.parametrize("network", PER_STEP, ids=str)
@pytest.mark.parametrize("start", [0, 1, 2, 3, 9])  # max_length is 3; the last coefficient holds past it
def test_coefficients_per_step(network: Network, start: int, instruction_set: str) -> None:
    case = make_case(network, 3, 5, (4, 4, 2, 0), start=start)
    (fused, final), (expected, expected_final) = case.run(scan_fused), case.run(scan_reference)
    near([*fused, *final], [*expected, *expected_final])
    near(gradients([*fused, *final], case.leaves), gradients([*expected, *expected_final], case.leaves), gradient=True)


@pytest.mark.parametrize("network", one_per_kernel(), ids=str)
@pytest.mark.parametrize("lengths", [(5, 5, 5, 0), (1,), (30,) * 40], ids=["small", "one_step", "several_chunks"])
def test_from_the_last_step_to_the_first(network: Network, lengths: tuple[int, ...], instruction_set: str) -> None:
    case = make_case(network, 3, 17, lengths, start=1)
    states, final = scan_fused(case.cell, case.x, case.state, case.sizes, case.start, reverse=True)
    expected, expected_final = run_reversed(case)
    near([*states, *final], [*expected, *expected_final])
    found = gradients([*states, *final], case.leaves)
    near(found, gradients([*expected, *expected_final], case.leaves), gradient=True)


Pick = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], list[Tensor]]
PARTS: dict[str, Pick] = {
    "h": lambda states, final: [states[0]],
    "h_n": lambda states, final: [final[0]],
    "all_but_h": lambda states, final: [*states[1:], *final],
    "c": lambda states, final: [states[-1]],
    "c_n": lambda states, final: [final[-1]],
    "last_row": lambda states, final: [states[0][-1]],
}


@pytest.mark.parametrize("network", one_per_kernel(), ids=str)
@pytest.mark.parametrize(
    ("part", "keep"), [*[(part, True) for part in PARTS], *[(p, False) for p in PARTS if p != "c"]]
)
def test_a_loss_of_some_outputs(network: Network, part: str, keep: bool) -> None:
    case = make_case(network, 3, 5, (6, 4, 4, 1, 0))
    found, expected = (gradients(PARTS[part](*case.run(scan, keep)), case.leaves) for scan in (scan_fused, cut))
    near(found, expected, gradient=True)


def cut(*arguments: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The reference always returns all states; here it has only those that the kernels return."""
    states, final = scan_reference(*arguments)
    return states if arguments[-1] else states[:1], final


@pytest.mark.parametrize("network", one_per_kernel(), ids=str)
def test_each_gradient_alone(network: Network) -> None:
    """Which gradients are asked for changes what the backward pass does, and not what it gives."""
    case = make_case(network, 3, 5, (6, 4, 4, 1, 0))
    states, final = case.run(scan_fused)
    together = gradients([*states, *final], case.leaves)
    for leaf, expected in zip(case.leaves, together, strict=True):
        for other in case.leaves:
            other.requires_grad_(other is leaf)
        states, final = case.run(scan_fused)
        same_bits(gradients([*states, *final], [leaf]), [expected])


@every_form_variant
def test_no_steps(network: Network) -> None:
    case = make_case(network, 3, 5, (0, 0))
    states, final = case.run(scan_fused)
    assert [tuple(s.shape) for s in states] == [(0, s.shape[1]) for s in case.state]
    same_bits(final, case.state)
    expected_states, expected = case.run(scan_reference)
    near(
        gradients([*states, *final], case.leaves), gradients([*expected_states, *expected], case.leaves), gradient=True
    )


@every_form_variant
def test_strided_arguments(network: Network) -> None:
    """A transposed input, expanded states and weights in another order are what they stand for."""
    case = make_case(network, 3, 5, (4, 4, 2, 0))
    dense = case.run(scan_fused)
    case.x = case.x.detach().t().contiguous().t().requires_grad_()
    case.state = tuple(s.detach().repeat_interleave(2, 0)[::2].requires_grad_() for s in case.state)
    for parameter in case.cell.parameters():
        if parameter.dim() == 2:
            parameter.data = parameter.data.t().contiguous().t()
    strided = case.run(scan_fused)
    near([*strided[0], *strided[1]], [*dense[0], *dense[1]])
    expected = case.run(scan_reference)
    found = gradients([*strided[0], *strided[1]], case.leaves)
    near(found, gradients([*expected[0], *expected[1]], case.leaves), gradient=True)


def test_saturation() -> None:
    """Where tanh and sigmoid are flat, and where exp would overflow, the kernels agree with torch to the last bits."""
    for network in one_per_kernel():
        if "relu" in str(network) or network.name in ("RIN", "ERNN", "OrthogonalRNN", "GORU", "KRU"):
            continue
        for dtype in (torch.float32, torch.float64):
            case = make_case(network, 3, 5, (4, 4, 2), dtype)
            with torch.no_grad():
                case.x.mul_(torch.logspace(-6, 3, case.x.numel(), dtype=dtype).view(case.x.shape))
            fused, expected = case.run(scan_fused), case.run(scan_reference)
            near([*fused[0], *fused[1]], [*expected[0], *expected[1]])
            assert all(torch.isfinite(g).all() for g in gradients([*fused[0], *fused[1]], case.leaves))
