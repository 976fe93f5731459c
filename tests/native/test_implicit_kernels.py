"""The kernels of the implicit GRU: equal to the plain PyTorch system, whatever size, threads and instructions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from autapse.forms.implicit_gru import ImplicitGRURule
from autapse.native.implicit import ImplicitKernel
from autapse.sequences.red_black import RedBlackOrder
from autapse.unfold.implicit_fused import FusedImplicitSlope, FusedImplicitSystem, fused_kernel
from autapse.unfold.implicit_system import ImplicitSystem
from native.kernels import BOUNDS, needs_kernels

pytestmark = [needs_kernels, pytest.mark.usefixtures("instruction_set")]
LENGTHS = [9, 7, 7, 2, 1, 0]
DTYPES = [torch.float64, torch.float32]


def systems(
    hidden: int, stencil: tuple[int, ...] = (-1, 1), dtype: torch.dtype = torch.float64, edges: bool = False
) -> tuple[ImplicitSystem, FusedImplicitSystem]:
    count = len(stencil)
    shapes = ((count, hidden, hidden), (2 * hidden, hidden), (hidden, hidden))
    matrices = [torch.randn(shape, dtype=dtype) / hidden**0.5 for shape in shapes]
    rule = ImplicitGRURule(stencil, *matrices)
    layout = RedBlackOrder(torch.tensor(LENGTHS), stencil, torch.device("cpu"), edges)
    u = torch.randn(layout.total, (count + 3) * hidden, dtype=dtype)
    past = torch.randn(2 * len(LENGTHS), hidden, dtype=dtype) if edges else torch.zeros(1, hidden, dtype=dtype)
    return ImplicitSystem(rule, u, layout, past), FusedImplicitSystem(
        rule, u, layout, past, ImplicitKernel(*rule.operands)
    )


def everything(system: ImplicitSystem, z: Tensor, v: Tensor) -> dict[str, Tensor]:
    """All that a solver and its adjoint may ask of a system."""
    with torch.no_grad():
        point = system.relax(system.free(z))
        value, slope = system.linearize(z)
        found = {
            "evaluated": system.evaluate(z),
            "relaxed": point.z,
            "residual": point.residual,
            "corrected": point.correct(point.residual),
            "linearized": value,
            "jvp": slope.jvp(v),
            "vjp": slope.vjp(v),
            "preconditioned": slope.precondition(True)(v),  # type: ignore[misc]
        }
        if isinstance(slope, FusedImplicitSlope):
            gradients = slope.gradients(v)
            return found | {f"gradient {n}": g for n, g in enumerate(gradients) if g is not None}
    return found | {f"gradient {n}": g for n, g in enumerate(by_autograd(system, z, v)) if g is not None}


def by_autograd(system: ImplicitSystem, z: Tensor, v: Tensor) -> list[Tensor | None]:
    """v·dF/d of the drive, of the edges where sequences have their own, and of the matrices."""
    edges = system.edges.clone().requires_grad_()
    leaves = [t.clone().requires_grad_() for t in (system.drive(slice(None)), *system.rule.operands)]
    rule = ImplicitGRURule(system.rule.offsets, *leaves[1:])
    value = ImplicitSystem(rule, leaves[0], system.layout, edges).evaluate(z)
    drive, of_edges, *matrices = torch.autograd.grad(value, [leaves[0], edges, *leaves[1:]], v, allow_unused=True)
    return [drive, of_edges if system.layout.edges else None, *matrices]


def compare(reference: ImplicitSystem, fused: ImplicitSystem, dtype: torch.dtype) -> None:
    z, v = (torch.randn(reference.layout.total, reference.edges.shape[1], dtype=dtype) for _ in range(2))
    expected, found = everything(reference, z, v), everything(fused, z, v)
    for name, value in expected.items():
        bound = BOUNDS[dtype][name not in ("evaluated", "relaxed", "linearized")]
        scale = max(1.0, float(value.abs().max())) if value.numel() else 1.0
        assert found[name].shape == value.shape, name
        error = float((found[name] - value).abs().max()) if value.numel() else 0.0
        assert error <= bound * scale, f"{name}: {error:.2g}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("stencil", [(-1, 1), (1, -1), (-2, -1, 1, 2), (-3, 1), (2,)], ids=str)
def test_equal_to_the_reference(stencil: tuple[int, ...], edges: bool, dtype: torch.dtype) -> None:
    compare(*systems(13, stencil, dtype, edges), dtype)


@pytest.mark.parametrize("hidden", [1, 2, 7, 8, 16, 33, 64, 130, 260])
def test_equal_at_every_width(hidden: int) -> None:
    compare(*systems(hidden), torch.float64)


@pytest.mark.parametrize("problems", [[0, 2, 3], [4], [5], [], [1, 1, 3]])
@pytest.mark.parametrize("edges", [False, True])
def test_equal_for_some_of_the_sequences(problems: list[int], edges: bool) -> None:
    index = torch.tensor(problems, dtype=torch.long)
    reference, fused = systems(11, edges=edges)
    compare(reference.select(index)[0], fused.select(index)[0], torch.float64)
    if problems:  # a part of a part
        last = torch.tensor([len(problems) - 1])
        compare(reference.select(index)[0].select(last)[0], fused.select(index)[0].select(last)[0], torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_every_number_of_threads(dtype: torch.dtype) -> None:
    _, fused = systems(96, dtype=dtype)
    z, v = (torch.randn(fused.layout.total, 96, dtype=dtype) for _ in range(2))
    found = []
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        with torch.no_grad():
            slope = fused.linearize(z)[1]
            found.append((fused.evaluate(z), fused.relax(fused.free(z)).residual, slope.vjp(v)))
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(other, found[0], strict=True))


def test_a_sequence_has_the_same_bits_alone() -> None:
    _, fused = systems(40, dtype=torch.float32)
    z = torch.randn(fused.layout.total, 40)
    part, rows = fused.select(torch.tensor([2]))
    with torch.no_grad():
        assert torch.equal(part.evaluate(z[rows]), fused.evaluate(z)[rows])


def test_nan_stays_in_its_sequence() -> None:
    _, fused = systems(9)
    z = torch.randn(fused.layout.total, 9, dtype=torch.float64)
    bad = fused.layout.rows_of(1)[3]
    z[bad] = torch.nan
    with torch.no_grad():
        broken = fused.evaluate(z).isnan().any(1).nonzero()[:, 0]
    assert sorted(broken.tolist()) == sorted(fused.layout.rows_of(1)[[2, 4]].tolist())


def test_switches_survive_underflow() -> None:
    reference, fused = systems(8, dtype=torch.float32)
    with torch.no_grad():
        for system in (reference, fused):
            system.u[:, :16] = -95.0  # both sigmoids are below the least float
        z = torch.rand(fused.layout.total, 8)
        expected, found = reference.evaluate(z), fused.evaluate(z)
    assert bool(found.isfinite().all())
    assert float((found - expected).abs().max()) < 2e-5


def test_what_the_kernels_cannot_take_goes_to_the_reference() -> None:
    reference, _ = systems(4)
    rule, u, edges = reference.rule, reference.u, reference.edges
    assert fused_kernel(rule, u, edges)
    assert not fused_kernel(rule, u.float(), edges)
    assert not fused_kernel(rule, u.to(torch.bfloat16), edges)

    class Own(ImplicitGRURule):
        pass

    assert not fused_kernel(Own((-1, 1), *rule.operands), u, edges)
    many = ImplicitGRURule(tuple(range(1, 10)), torch.randn(9, 4, 4).double(), *rule.operands[1:])
    assert not fused_kernel(many, u, edges)
