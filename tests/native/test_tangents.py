"""Forward derivatives by the kernels, against finite differences and against the plain PyTorch steps."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

import autapse
import autapse.unfold.fused
import autapse.unfold.scan
from autapse.forms import LinearRecurrence
from autapse.native import library, ops
from autapse.native.operands import KERNELS, Kind, Operands

pytestmark = [
    pytest.mark.skipif(not library.available(), reason="the native library is not there"),
    # torch's own, in its first use of dual numbers
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
]
D, H, B, T = 3, 5, 4, 7
LENGTHS = [7, 3, 6, 1]


def varied(layer):
    """Other values in each parameter: the first ones may be equal at all steps."""
    for parameter in layer.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return layer


NETWORKS = {
    "rnn": lambda: autapse.RNN(D, H),
    "relu": lambda: autapse.RNN(D, H, nonlinearity="relu"),
    "leaky": lambda: autapse.LeakyRNN(D, H),
    "rin": lambda: autapse.RIN(D, H),
    "fastrnn": lambda: autapse.FastRNN(D, H),
    "antisymmetric": lambda: autapse.Antisymmetric(D, H),
    "gated antisymmetric": lambda: autapse.Antisymmetric(D, H, gated=True),
    "modrelu": lambda: autapse.OrthogonalRNN(D, H),
    "fastgrnn": lambda: autapse.FastGRNN(D, H),
    "ugrnn": lambda: autapse.UGRNN(D, H),
    "gru": lambda: autapse.GRU(D, H),
    "lstm": lambda: autapse.LSTM(D, H),
    "peepholes": lambda: autapse.LSTM(D, H, peepholes=True),
    "two layers": lambda: autapse.GRU(D, H, num_layers=2),
    "eta per step, both directions": lambda: varied(
        autapse.ERNN(D, H, eta="per_step", max_length=T, nonlinearity="tanh", bidirectional=True)
    ),
    "both directions": lambda: autapse.LSTM(D, H, bidirectional=True),
}
BY_THE_REFERENCE = {
    "inner steps": lambda: autapse.ERNN(D, H, inner_steps=2),
    "reset before": lambda: autapse.GRU(D, H, reset="before"),
    "projection": lambda: autapse.LSTM(D, H, proj_size=2),
    "delays": lambda: autapse.Delayed(D, H, delays=(1, 3)),
    "clockwork": lambda: autapse.Clockwork(D, H, periods=(1, 2)),
}


def values_at(layer, weights, x, lengths):
    output, final = torch.func.functional_call(layer, weights, (x,), {"lengths": lengths})
    final = final if isinstance(final, tuple) else (final,)
    return torch.cat([tensor.flatten() for tensor in (output, *final)])


def derivative(layer, weights, moved, x, dx, lengths):
    with forward_ad.dual_level():
        duals = {name: forward_ad.make_dual(w.detach(), moved[name]) for name, w in weights.items()}
        return forward_ad.unpack_dual(values_at(layer, duals, forward_ad.make_dual(x, dx), lengths)).tangent


def made(make):
    layer = make().double()
    weights = {name: w.detach() for name, w in layer.named_parameters()}
    moved = {name: torch.randn_like(w) for name, w in weights.items()}
    x, dx = torch.randn(2, T, B, D, dtype=torch.float64)
    return layer, weights, moved, x, dx


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["one length", "lengths"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_kernels_derivative_is_that_of_finite_differences(name, lengths, monkeypatch):
    layer, weights, moved, x, dx = made(NETWORKS[name])

    def refuse(*_arguments, **_keywords):
        raise AssertionError("the reference served")

    for module in (autapse.unfold.scan, autapse.unfold.fused):
        monkeypatch.setattr(module, "scan_reference", refuse)
    with torch.no_grad():
        found = derivative(layer, weights, moved, x, dx, lengths)
        step = 1e-6
        ahead, behind = (
            values_at(layer, {n: w + s * moved[n] for n, w in weights.items()}, x + s * dx, lengths)
            for s in (step, -step)
        )
    torch.testing.assert_close(found, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*NETWORKS, *BY_THE_REFERENCE])
def test_the_kernels_derivative_is_that_of_the_steps_in_pytorch(name):
    layer, weights, moved, x, dx = made((NETWORKS | BY_THE_REFERENCE)[name])
    expected = derivative(layer, weights, moved, x, dx, LENGTHS).detach()  # with a graph, so by the reference
    with torch.no_grad():
        found = derivative(layer, weights, moved, x, dx, LENGTHS)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_the_derivative_by_the_initial_states():
    layer = autapse.LSTM(D, H).double()
    x, start, moved = torch.randn(T, B, D).double(), torch.randn(2, 1, B, H).double(), torch.randn(2, 1, B, H).double()
    with torch.no_grad(), forward_ad.dual_level():
        state = tuple(forward_ad.make_dual(s, m) for s, m in zip(start, moved, strict=True))
        found = forward_ad.unpack_dual(layer(x, state)[0]).tangent
    _, expected = torch.autograd.functional.jvp(lambda h, c: layer(x, (h, c))[0], tuple(start), tuple(moved))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_a_derivative_that_autograd_records_is_by_the_reference():
    layer, weights, moved, x, _ = made(NETWORKS["gru"])
    weights = {name: w.requires_grad_() for name, w in weights.items()}
    with forward_ad.dual_level():
        duals = {name: forward_ad.make_dual(w, moved[name]) for name, w in weights.items()}
        tangent = forward_ad.unpack_dual(values_at(layer, duals, x, None)).tangent
        second = torch.autograd.grad(tangent.sum(), list(weights.values()), allow_unused=True)
    assert any(g is not None and bool(g.any()) for g in second)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("products", [1, 3])
@pytest.mark.parametrize("cells", [False, True])
def test_the_linear_form_has_the_gradients_of_its_steps(cells, products, reverse):
    sizes = torch.tensor([3, 3, 3, 3] if reverse else [3, 3, 2, 1])
    kind = Kind(KERNELS.index(LinearRecurrence), inner=products, reverse=reverse)
    parts = LinearRecurrence.drive_parts(kind, cells)
    shapes = [(int(sizes.sum()), parts * H), (3, H), (products * H, H), *([(3, H)] if cells else [])]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def run(x, h0, matrix, c0=None):
        operands = Operands(x, None, None, h0, c0, matrix, None, None, None, None)
        h, h_n, c, c_n, _ = ops.scan(operands, sizes, kind, keep_cells=True, save=True)
        return (h, h_n, c, c_n) if cells else (h, h_n)

    assert torch.autograd.gradcheck(run, tensors)


def test_the_linear_form_has_its_jacobian():
    for size in (1, 2):
        form = LinearRecurrence(torch.randn(3 * H, H).double())
        u, state = torch.randn(1, (5 if size == 1 else 8) * H).double(), torch.randn(size, 1, H).double()
        expected = torch.func.jacrev(lambda s, f=form, u=u: torch.cat(f.step(u, tuple(s.unbind(0)), 0), -1)[0])(state)
        torch.testing.assert_close(form.jacobian(u, tuple(state.unbind(0)), 0)[0], expected.reshape(size * H, -1))


def test_gradients_of_a_batch_without_sequences_are_zero():
    """An empty state has no address, by which the kernel would know that there are cells."""
    H = 20
    like = {"dtype": torch.float64}
    weight, matrix = torch.randn(6 * H, 4, **like, requires_grad=True), torch.randn(H, H, **like, requires_grad=True)
    x, state = torch.zeros(0, 4, **like), torch.zeros(0, H, **like)
    operands = Operands(x, weight, None, state, state.clone(), matrix, None, None, None, None)
    kind = Kind(KERNELS.index(LinearRecurrence), inner=1)
    h = ops.scan(operands, torch.zeros(0, dtype=torch.int64), kind, keep_cells=True, save=True)[0]
    for _ in range(20):  # memory that was used before
        torch.full((6 * H, 4), 7.0, **like)
        for gradient in torch.autograd.grad(h.sum(), (weight, matrix), retain_graph=True):
            assert not gradient.any()
