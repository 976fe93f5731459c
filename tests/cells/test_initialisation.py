"""Every network starts where its docstring, its paper or the design says."""

from __future__ import annotations

import math
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

import autapse
from networks import D, H, Network, every_layer, every_variant, raw
from tolerance import close

N = 200  # units, enough for the tests of distributions
SIGNIFICANCE = 1e-4  # a Kolmogorov–Smirnov test below this fails; seeds are fixed, so it never does by chance


def cell(name: str, input_size: int = N, hidden_size: int = N, **options: Any) -> Any:
    return getattr(autapse.cells, name)(input_size, hidden_size, dtype=torch.float64, **options)


def assert_uniform(values: Tensor, low: float, high: float) -> None:
    values = values.detach().flatten()
    assert low <= values.min() < values.max() <= high
    assert scipy.stats.kstest(values.numpy(), scipy.stats.uniform(low, high - low).cdf).pvalue > SIGNIFICANCE


def assert_normal(values: Tensor, std: float) -> None:
    values = values.detach().flatten()
    assert scipy.stats.kstest(values.numpy(), scipy.stats.norm(0, std).cdf).pvalue > SIGNIFICANCE


def assert_constant(values: Tensor, value: float) -> None:
    assert torch.equal(values.detach(), torch.full_like(values, value))


BOUND = 1 / math.sqrt(N)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_torch_compatible_cells_are_uniform(name: str) -> None:
    for values in cell(name).parameters():
        assert_uniform(values, -BOUND, BOUND)


@pytest.mark.parametrize(
    ("name", "options", "uniform"),
    [
        ("UGRNN", {}, ("weight_ih", "weight_hh")),
        ("FastRNN", {}, ("weight_ih", "weight_hh")),
        ("FastGRNN", {}, ("weight_ih", "weight_hh")),
        ("ERNN", {}, ("weight_ih", "weight_hh")),
        ("EquilibriumTanh", {}, ("weight_ih", "weight_hh")),
        ("EquilibriumLinear", {}, ("weight_ih", "weight_hh")),
        ("LeakyRNN", {}, ("weight_ih", "weight_hh")),
        ("OrthogonalRNN", {}, ("weight_ih",)),
        ("SpectralRNN", {}, ("weight_ih",)),
    ],
)
def test_uniform_in_one_over_root_n(name: str, options: dict[str, Any], uniform: tuple[str, ...]) -> None:
    made = cell(name, **options)
    for parameter in uniform:
        assert_uniform(getattr(made, parameter), -BOUND, BOUND)


@pytest.mark.parametrize(
    "name",
    "IRNN RIN FastRNN FastGRNN Antisymmetric ERNN OrthogonalRNN SpectralRNN LeakyRNN EquilibriumTanh EquilibriumLinear "
    "ImplicitMidpoint".split(),
)
def test_biases_start_at_zero(name: str) -> None:
    assert_constant(cell(name, D, H).bias_h, 0.0)


def test_irnn() -> None:
    made = cell("IRNN")
    assert torch.equal(made.weight_hh, torch.eye(N, dtype=torch.float64))
    assert_normal(made.weight_ih, 1e-3)


@pytest.mark.parametrize("transitions", [1, 2, 3])
def test_rin(transitions: int) -> None:
    made = cell("RIN", transitions=transitions)
    assert_normal(made.weight_ih, 1e-3)
    assert_normal(made.weight_hh, 1e-3)
    if transitions == 1:
        assert made.weight_deep is None
        assert made.bias_deep is None
    else:
        assert made.weight_deep.shape == (transitions - 1, N, N)
        assert_normal(made.weight_deep, 1e-3)
        assert_constant(made.bias_deep, 0.0)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_midpoint_starts_as_the_antisymmetric_network(scale: float) -> None:
    made = cell("ImplicitMidpoint", 50, N, init_scale=scale)
    assert made.weight_hh.shape == (N * (N - 1) // 2,)
    assert_normal(made.weight_ih, 1 / math.sqrt(50))
    assert_normal(made.weight_hh, scale / math.sqrt(N))
    assert_normal(cell("ImplicitMidpoint", 50, N, structured=False, init_scale=scale).weight_hh, scale / math.sqrt(N))


def test_the_linear_equilibrium_starts_without_feedback() -> None:
    assert_constant(cell("EquilibriumLinear", D, H).weight_align, 0.0)


def test_ugrnn_gate_starts_open() -> None:
    made = cell("UGRNN", D, H)
    assert_constant(made.bias_h[H:], 1.0)
    assert_constant(made.bias_h[:H], 0.0)


def test_fastrnn() -> None:
    made = cell("FastRNN", D, H)
    assert (made.alpha.item(), made.beta.item()) == (-3.0, 3.0)
    form = made.prepare()
    assert form.alpha.item() == pytest.approx(1 / (1 + math.exp(3)))
    assert form.beta.item() == pytest.approx(1 / (1 + math.exp(-3)))


def test_fastgrnn() -> None:
    made = cell("FastGRNN", D, H)
    assert (made.zeta.item(), made.nu.item()) == (1.0, -4.0)


@pytest.mark.parametrize("rank", [1, 5, 20])
def test_fastgrnn_factors_have_the_variance_of_the_full_matrix(rank: int) -> None:
    made = cell("FastGRNN", input_rank=rank, hidden_rank=rank)
    assert made.weight_ih.shape == made.factor_ih.shape == (N, rank)
    for first, second in ((made.weight_ih, made.factor_ih), (made.weight_hh, made.factor_hh)):
        assert_normal(first, (3 * N * rank) ** -0.25)
        assert_normal(second, (3 * N * rank) ** -0.25)
        assert (first @ second.T).var().item() == pytest.approx(1 / (3 * N), rel=0.35)


@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize("gated", [False, True])
def test_antisymmetric(scale: float, gated: bool) -> None:
    m = 50
    made = cell("Antisymmetric", m, N, init_scale=scale, gated=gated)
    assert made.weight_hh.shape == (N * (N - 1) // 2,)
    assert made.weight_ih.shape == ((2 if gated else 1) * N, m)
    assert_normal(made.weight_ih, 1 / math.sqrt(m))
    assert_normal(made.weight_hh, scale / math.sqrt(N))
    unstructured = cell("Antisymmetric", m, N, init_scale=scale, gated=gated, structured=False)
    assert unstructured.weight_hh.shape == (N, N)
    assert_normal(unstructured.weight_hh, scale / math.sqrt(N))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_antisymmetric_has_the_papers_count_of_parameters(n: int) -> None:
    count = sum(p.numel() for p in autapse.Antisymmetric(D, n).parameters())
    assert count == n * (n - 1) // 2 + n * D + n


@pytest.mark.parametrize("alignment", ["first_order", "exact"])
def test_ernn(alignment: str) -> None:
    made = cell("ERNN", D, H, alignment=alignment)
    assert_constant(made.weight_align, 0.0)
    assert made.rate.shape == ()
    assert made.rate.item() == 1e-2
    per_step = cell("ERNN", D, H, alignment=alignment, eta="per_step", max_length=7, inner_steps=3)
    assert per_step.rate.shape == (7, 3)
    assert_constant(per_step.rate, 1e-2)
    assert cell("ERNN", D, H, alignment="none").weight_align is None


def test_the_rate_of_ernn_may_become_negative() -> None:
    made = cell("ERNN", D, H)
    with torch.no_grad():
        made.rate.fill_(-0.5)
    x, h = torch.randn(2, D, dtype=torch.float64), torch.randn(2, H, dtype=torch.float64)
    act = torch.relu(x @ made.weight_ih.T + h @ made.weight_hh.T)
    close(made(x, h), 1.5 * h - 0.5 * act)


@pytest.mark.parametrize("forget_bias", [1.0, -2.5])
def test_lstm_forget_bias(forget_bias: float) -> None:
    made = cell("LSTM", hidden_size=N, forget_bias=forget_bias)
    assert_constant(made.bias_ih[N : 2 * N], forget_bias)
    assert_constant(made.bias_hh[N : 2 * N], 0.0)
    for bias in (made.bias_ih, made.bias_hh):
        assert_uniform(torch.cat([bias[:N], bias[2 * N :]]), -BOUND, BOUND)


@pytest.mark.parametrize("longest", [3, 500])
def test_gates_start_by_the_longest_dependency(longest: int) -> None:
    """The biases are log u with u uniform in [1, T − 1]: memories of 1 + u steps."""
    lstm, gru = cell("LSTM", longest=longest), cell("GRU", longest=longest)
    i, f = (lstm.bias_ih + lstm.bias_hh).chunk(4)[:2]
    assert_uniform(f.exp(), 1 - 1e-9, longest - 1 + 1e-9)
    close(i, -f)
    z = (gru.bias_ih + gru.bias_hh)[N : 2 * N]
    assert_uniform(z.exp(), 1 - 1e-9, longest - 1 + 1e-9)
    for started in (lstm.bias_ih[2 * N :], lstm.bias_hh[2 * N :], gru.bias_ih[:N], gru.bias_hh[2 * N :]):
        assert_uniform(started, -BOUND, BOUND)


def test_a_gru_with_memories_of_t_steps_keeps_a_state_that_long() -> None:
    made = cell("GRU", D, N, longest=100)
    with torch.no_grad():
        for weight in (made.weight_ih, made.weight_hh, made.bias_ih[2 * N :], made.bias_hh):
            weight.zero_()
    h = torch.ones(1, N, dtype=torch.float64)
    for _ in range(100):
        h = made(torch.zeros(1, D, dtype=torch.float64), h)
    u = made.bias_ih[N : 2 * N].detach().exp()  # the gate is u / (1 + u)
    close(h[0].detach(), (u / (1 + u)) ** 100)


def test_lstm_peepholes_and_projection_are_uniform_too() -> None:
    made = cell("LSTM", peepholes=True, proj_size=50)
    assert made.weight_peephole.shape == (3, N)
    assert made.weight_hr.shape == (50, N)
    assert_uniform(made.weight_peephole, -BOUND, BOUND)
    assert_uniform(made.weight_hr, -BOUND, BOUND)


@pytest.mark.parametrize("parametrization", ["exp", "cayley"])
@pytest.mark.parametrize("n", [N, N + 1])
def test_orthogonal_starts_as_a_block_diagonal_of_rotations(parametrization: str, n: int) -> None:
    R = cell("OrthogonalRNN", D, n, parametrization=parametrization).matrix().detach()
    blocks = [R[i : i + 2, i : i + 2] for i in range(0, n - 1, 2)]
    last = [R[n - 1 :, n - 1 :]] if n % 2 else []
    close(torch.block_diag(*blocks, *last), R)
    angles = torch.stack([torch.atan2(block[0, 1], block[0, 0]) for block in blocks])
    assert_uniform(angles, -math.pi / 2, math.pi / 2)


@pytest.mark.parametrize(
    ("n", "capacity", "count"),
    [
        (N, None, N * (N - 1) // 2),
        (N + 1, None, (N + 1) * N // 2),
        (N, 5, 3 * N // 2 + 2 * (N // 2 - 1)),  # three layers of N/2 pairs, two of one pair less
        (N + 1, 5, 5 * N // 2),  # of an odd number, one unit is left out at either end
    ],
)
def test_rotations_start_with_angles_all_round_and_none_idle(n: int, capacity: int | None, count: int) -> None:
    made = cell("OrthogonalRNN", D, n, parametrization="rotations", capacity=capacity)
    assert made.weight_hh.shape == (count,)
    assert_uniform(made.weight_hh, -math.pi, math.pi)


@pytest.mark.parametrize("n", [2, 4, 5])
def test_every_angle_turns_something(n: int) -> None:
    made = cell("OrthogonalRNN", D, n, parametrization="rotations")
    weight = torch.randn(n, n, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((weight * made.matrix()).sum(), made.weight_hh)
    assert gradient.shape == (n * (n - 1) // 2,)
    assert (gradient.abs() > 1e-9).all()


@pytest.mark.parametrize(("reflections", "count"), [(None, N), (5, 5)])
def test_spectral_starts_orthogonal_and_random(reflections: int | None, count: int) -> None:
    made = cell("SpectralRNN", D, N, reflections=reflections)
    assert made.left.shape == made.right.shape == (N, count)
    assert_normal(made.left, 1.0)
    assert_normal(made.right, 1.0)
    assert_constant(made.spectrum, 0.0)
    close(torch.linalg.svdvals(made.matrix()), torch.ones(N, dtype=torch.float64))


def test_leaky_time_constants() -> None:
    close(cell("LeakyRNN", D, H).time_constants(), torch.full((H,), 10.0, dtype=torch.float64))
    close(cell("LeakyRNN", D, H, tau=1).time_constants(), torch.ones(H, dtype=torch.float64))
    taus = torch.tensor([1.0, 2, 3, 400], dtype=torch.float64)
    close(cell("LeakyRNN", D, H, tau=taus).time_constants(), taus)
    close(cell("LeakyRNN", D, H, tau=taus + 1, learn_tau=True).time_constants(), taus + 1)


@pytest.mark.parametrize("learn_tau", [False, True])
def test_leaky_time_constants_are_sampled_uniformly_in_their_logarithm(learn_tau: bool) -> None:
    made = cell("LeakyRNN", D, 2000, tau=(2.0, 100.0), learn_tau=learn_tau)
    assert_uniform(made.time_constants().log(), math.log(2) - 1e-9, math.log(100) + 1e-9)


def test_only_learned_time_constants_are_parameters() -> None:
    fixed, learned = cell("LeakyRNN", D, H), cell("LeakyRNN", D, H, learn_tau=True)
    assert "rate" not in dict(fixed.named_parameters())
    assert "rate" in dict(fixed.named_buffers())
    assert "rate" in dict(learned.named_parameters())
    with torch.no_grad():
        learned.rate.normal_(std=10)
    assert learned.time_constants().min() >= 1


@every_variant
def test_reset_parameters_draws_anew_from_the_same_start(network: Network) -> None:
    torch.manual_seed(7)
    made = network.cell_class(D, H, dtype=torch.float64, **network.options)
    start = {name: value.detach().clone() for name, value in raw(made).items()}
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(123.0)
    torch.manual_seed(7)
    made.reset_parameters()
    for name, value in raw(made).items():
        assert torch.equal(value, start[name]), name
    made.reset_parameters()
    assert any(not torch.equal(value, start[name]) for name, value in raw(made).items())


@every_layer
def test_layers_start_as_their_cells_do(network: Network) -> None:
    torch.manual_seed(7)
    first, second = network.cell_class(D, H), network.cell_class(D, H)
    made = [first, second, network.cell_class(2 * first.output_size, H)]
    torch.manual_seed(7)
    layer = network.layer_class(D, H, num_layers=2, bidirectional=True)
    for cell_, key in zip(made, ("l0", "l0_reverse", "l1"), strict=True):
        for name, value in raw(cell_).items():
            assert torch.equal(raw(layer, key)[name], value), f"{key} {name}"
