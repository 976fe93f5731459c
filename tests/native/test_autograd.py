"""The kernels inside autograd: derivatives of both orders, the op's registrations, transforms and recomputation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernels import (
    as_operands,
    fitted,
    gradients,
    loss_of,
    make_case,
    near,
    needs_kernels,
    one_per_kernel,
    run_reversed,
    there,
)
from torch import Tensor
from torch.func import functional_call

import autapse
from autapse.native import library, ops
from autapse.unfold import scan_fused, scan_reference
from networks import Network, every_form_layer, every_form_variant, flat, perturb
from tolerance import close

pytestmark = needs_kernels

T, D, H = 4, 2, 3
every_kernel = pytest.mark.parametrize("network", one_per_kernel(), ids=str)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that ran, in order."""
    made: list[str] = []
    run = library.run
    monkeypatch.setattr(library, "run", lambda name, problem: made.append(name) or run(name, problem))
    return made


def make_layer(network: Network, **keywords: Any) -> Any:
    network = fitted(network, D, H)
    return perturb(network.layer_class(D, H, dtype=torch.float64, **keywords, **network.options))


def as_function(network: Network, lengths: list[int]) -> tuple[Callable[..., Any], list[Tensor]]:
    """A layer as a function of its input, initial states and parameters."""
    layer = make_layer(network)
    x = torch.randn(max(lengths), len(lengths), D, dtype=torch.float64, requires_grad=True)
    h0 = flat(fitted(network, D, H).h0(len(lengths), H))
    named = dict(layer.named_parameters())

    def call(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        states, values = rest[: len(h0)], rest[len(h0) :]
        given = states[0] if len(states) == 1 else states
        output, h_n = functional_call(layer, dict(zip(named, values, strict=True)), (x, given, lengths))
        return (output, *flat(h_n))

    return call, [x, *h0, *[p.detach().requires_grad_() for p in named.values()]]


# Derivatives --------------------------------------------------------------------------------------------------------


@every_form_variant
def test_first_derivatives_are_finite_differences(network: Network, calls: list[str]) -> None:
    """relu and modrelu too: the seed keeps their arguments away from the kinks."""
    call, inputs = as_function(network, [T, 2, 0])
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
    assert "backward" in calls, "the kernels were not reached"


@every_kernel
def test_second_derivatives_are_finite_differences(network: Network) -> None:
    call, inputs = as_function(network, [3, 1, 0])
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@every_form_variant
def test_create_graph_changes_no_first_derivative(network: Network, calls: list[str]) -> None:
    case = make_case(network, 3, 5, (6, 4, 4, 1, 0))
    states, final = case.run(scan_fused)
    plain = gradients([*states, *final], case.leaves, retain_graph=True)
    assert calls == ["forward", "backward"]
    near(gradients([*states, *final], case.leaves, create_graph=True), plain, gradient=True)


@every_form_variant
def test_a_gradient_penalty_is_the_references(network: Network) -> None:
    """|d loss / d everything|² differentiated again, added to the loss itself."""
    case = make_case(network, 3, 5, (5, 3, 3, 1, 0), start=1)
    (states, final), (expected, expected_final) = case.run(scan_fused), case.run(scan_reference)
    found = penalty_gradients(case, [*states, *final])
    near(found, penalty_gradients(case, [*expected, *expected_final]), gradient=True)


@every_kernel
@pytest.mark.parametrize(
    "pick", [lambda s, f: [s[0]], lambda s, f: [f[0]], lambda s, f: [f[-1]]], ids=["h", "h_n", "c_n"]
)
def test_a_gradient_penalty_of_some_outputs(network: Network, pick: Any) -> None:
    case = make_case(network, 3, 5, (5, 3, 3, 1, 0))
    found = penalty_gradients(case, pick(*case.run(scan_fused)))
    near(found, penalty_gradients(case, pick(*case.run(scan_reference))), gradient=True)


def penalty_gradients(case: Any, results: list[Tensor]) -> list[Tensor]:
    first = gradients(results, case.leaves, create_graph=True)
    penalty = torch.stack([g.square().sum() for g in first]).sum()
    total = 0.01 * penalty + loss_of(results)
    return list(torch.autograd.grad(total, case.leaves, allow_unused=True, materialize_grads=True))


@every_kernel
def test_a_gradient_penalty_from_the_last_step_to_the_first(network: Network) -> None:
    case = make_case(network, 3, 5, (4, 4, 0), start=1)
    states, final = scan_fused(case.cell, case.x, case.state, case.sizes, case.start, reverse=True)
    expected, expected_final = run_reversed(case)
    found = penalty_gradients(case, [*states, *final])
    near(found, penalty_gradients(case, [*expected, *expected_final]), gradient=True)


@every_kernel
def test_create_graph_where_every_sequence_is_empty(network: Network) -> None:
    """The ends are the initial states, so their gradients pass through as they are."""
    layer, h0 = make_layer(network), fitted(network, D, H).h0(2, H)
    _, h_n = layer(torch.randn(T, 2, D, dtype=torch.float64), h0, lengths=[0, 0])
    found = gradients(flat(h_n), flat(h0), create_graph=True)
    close(found, gradients(flat(h0), flat(h0)))


@every_kernel
def test_a_second_backward_pass_over_a_kept_graph(network: Network) -> None:
    """The backward pass leaves what it reads as it was."""
    case = make_case(network, 3, 5, (6, 4, 4, 1, 0))
    states, final = case.run(scan_fused)
    first, second = (gradients([*states, *final], case.leaves, retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_weight_changed_before_the_backward_pass_is_an_error() -> None:
    for network in one_per_kernel():
        case = make_case(network, 3, 5, (3, 2))
        states, _ = case.run(scan_fused)
        with torch.no_grad():
            case.x.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            gradients(states, case.leaves)


def test_a_graph_is_freed_by_its_backward_pass() -> None:
    case = make_case(one_per_kernel()[0], 3, 5, (3, 2))
    states, _ = case.run(scan_fused)
    gradients(states, case.leaves)
    with pytest.raises(RuntimeError, match="second time"):
        gradients(states, case.leaves)


def test_nothing_saved_has_no_gradient() -> None:
    problem = as_operands(make_case(one_per_kernel()[0], 3, 5, (3, 2)))
    h, *_ = ops.scan(*problem, keep_cells=True, save=False)
    with pytest.raises(RuntimeError, match="save=True"):
        h.sum().backward()


# Registrations ------------------------------------------------------------------------------------------------------


@every_kernel
def test_opcheck_of_the_scan(network: Network) -> None:
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 3, 0)))
    torch.library.opcheck(torch.ops.autapse.scan.default, (*operands, sizes, *kind, True, True))


@every_kernel
def test_opcheck_of_its_backward_pass(network: Network) -> None:
    operands, sizes, kind, (h, h_n, c, c_n, reserve) = without_graph(network)
    cells = [torch.randn_like(t) if operands.c0 is not None else None for t in (c, c_n)]
    outer = (torch.randn_like(h), torch.randn_like(h_n), *cells)
    needed = [t is not None for t in operands]
    arguments = (*outer, h, c, reserve, *operands, sizes, *kind, needed)
    torch.library.opcheck(torch.ops.autapse.scan_backward.default, arguments)
    # Indices of a sparse matrix have no gradient: it would be memory that nobody wrote.
    gradients = zip(operands, torch.ops.autapse.scan_backward(*arguments), strict=True)
    assert all(g.numel() == 0 for t, g in gradients if t is None or not t.is_floating_point())


def test_opcheck_where_little_is_wanted() -> None:
    """Nothing saved and no cells kept; then one gradient, of the end alone."""
    operands, sizes, kind, (h, h_n, c, _, reserve) = without_graph(one_per_kernel()[-1])
    torch.library.opcheck(torch.ops.autapse.scan.default, (*operands, sizes, *kind, False, False))
    outer = (None, torch.randn_like(h_n), None, None)
    needed = [name == "matrix" for name in ops.Operands._fields]
    torch.library.opcheck(
        torch.ops.autapse.scan_backward.default, (*outer, h, c, reserve, *operands, sizes, *kind, needed)
    )


def without_graph(network: Network) -> tuple[ops.Operands, Tensor, ops.Kind, ops.Scan]:
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 3, 0)))
    operands = ops.Operands(*(None if t is None else t.detach() for t in operands))
    return operands, sizes, kind, ops.scan(operands, sizes, kind, keep_cells=True, save=True)


# Transforms ---------------------------------------------------------------------------------------------------------


def state_free(network: Network) -> tuple[Any, Tensor]:
    return make_layer(network), torch.randn(5, 3, T, D, dtype=torch.float64).transpose(1, 2)  # 5 of [T, 3, D]


@every_kernel
def test_vmap_is_one_call_after_the_other(network: Network) -> None:
    layer, batches = state_free(network)
    mapped, mapped_n = torch.func.vmap(layer)(batches)
    for n, x in enumerate(batches):
        output, h_n = layer(x)
        close(mapped[n], output)
        close([h[n] for h in flat(mapped_n)], flat(h_n))


@every_kernel
def test_func_grad_is_the_fused_gradient(network: Network, calls: list[str]) -> None:
    layer, batches = state_free(network)
    x = batches[0]
    found = torch.func.grad(lambda x: loss_of([layer(x)[0]]))(x)
    assert calls == [], "torch.func looks inside, so the reference has to run"
    leaf = x.detach().clone().requires_grad_()
    close(found, gradients([layer(leaf)[0]], [leaf])[0])
    assert calls == ["forward", "backward"]


@every_kernel
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, in its first use of dual numbers
def test_forward_mode_is_the_jacobian_times_the_tangent(network: Network) -> None:
    """Of torch.func.jvp and of dual tensors: u·(J·v) = (uᵀ·J)·v, the right side by the kernels."""
    layer, batches = state_free(network)
    x, tangent = batches[0].contiguous(), batches[1].contiguous()
    output, moved = torch.func.jvp(lambda x: layer(x)[0], (x,), (tangent,))
    leaf = x.clone().requires_grad_()
    (gradient,) = gradients([layer(leaf)[0]], [leaf])
    close(output, layer(x)[0])
    close(loss_of([moved]), (gradient * tangent).sum())
    with torch.autograd.forward_ad.dual_level():
        dual, _ = layer(torch.autograd.forward_ad.make_dual(x, tangent))
        close(torch.autograd.forward_ad.unpack_dual(dual).tangent, moved)


@every_kernel
def test_autocast_takes_the_reference(network: Network, calls: list[str]) -> None:
    layer = make_layer(network).float()
    x = torch.randn(T, 3, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(x, return_states=True)[:2]
    assert calls == []
    # bfloat16 has 8 bits, and these are four steps of a small network
    torch.testing.assert_close(output.float(), layer(x)[0], rtol=0.1, atol=0.1)


# Recomputation ------------------------------------------------------------------------------------------------------


@every_form_layer
@pytest.mark.parametrize("every", [1, 3, 7])
@pytest.mark.parametrize("lengths", [None, [5, 7, 0, 3]], ids=["dense", "ragged"])
def test_checkpoints_change_nothing(network: Network, every: int, lengths: list[int] | None, calls: list[str]) -> None:
    """With the states of every k-th step only, in both directions of two layers; 7 is the whole sequence."""
    keywords = {"num_layers": 2, "bidirectional": True}
    layer = make_layer(network, **keywords)
    sparing = type(layer)(D, H, dtype=torch.float64, checkpoint_every=every, **keywords, **network.options)
    sparing.load_state_dict(layer.state_dict())
    x = torch.randn(7, 4, D, dtype=torch.float64, requires_grad=True)
    h0 = network.h0(4, H, 2, 2)
    results = []
    for each in (layer, sparing):
        output, h_n = each(x, h0, lengths=lengths)
        calls.clear()
        results.append([output, *flat(h_n), *gradients([output, *flat(h_n)], [x, *flat(h0), *each.parameters()])])
    pieces = 4 * -(-7 // every)  # of four scans
    assert calls.count("backward") == pieces
    assert calls.count("forward") == (pieces if every < 7 else 0), "each piece is computed anew once"
    close(results[1], results[0])


@every_kernel
def test_checkpoints_of_every_kernel(network: Network) -> None:
    """Of the states of each step too; positions go on from piece to piece."""
    layer, sparing = make_layer(network), make_layer(network, checkpoint_every=2)
    sparing.load_state_dict(layer.state_dict())
    x = torch.randn(5, 3, D, dtype=torch.float64, requires_grad=True)
    results = []
    for each in (layer, sparing):
        output, h_n, (states,) = each(x, lengths=[5, 0, 3], start=1, return_states=True)
        values = [output, *flat(h_n), *states]
        results.append([*values, *gradients(values, [x, *each.parameters()])])
    close(results[1], results[0])


@every_kernel
def test_gradients_reach_only_what_a_scan_has(network: Network) -> None:
    """Operands that a form has not stay None, and all the others get a gradient."""
    operands, sizes, kind = as_operands(make_case(network, 3, 5, (4, 3)))
    h, h_n, c, c_n, _ = ops.scan(operands, sizes, kind, keep_cells=True, save=True)
    wanted = there(operands)
    results = [h, h_n, c, c_n] if operands.c0 is not None else [h, h_n]
    found = gradients(results, wanted, allow_unused=False, materialize_grads=False)
    assert [g.shape for g in found] == [t.shape for t in wanted]
    assert all(g.any() for g in found)


def test_checkpoints_keep_less() -> None:
    """Bytes kept for the backward pass, but for the parameters: all of them, and T/k + k steps' worth."""

    def kept(**options: int) -> int:
        layer, sizes = autapse.LSTM(3, 16, **options), dict[int, int]()

        def pack(tensor: Tensor) -> Tensor:
            sizes[tensor.data_ptr()] = tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            layer(torch.randn(400, 8, 3))
        return sum(sizes.values())

    assert kept(checkpoint_every=20) < 0.2 * kept()
