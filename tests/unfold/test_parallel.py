"""Newton over the whole sequence against the scan, torch.nn, closed forms and finite differences."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import autapse
from autapse.sequences.batch import SequenceBatch
from autapse.solve.line import Line
from autapse.solve.linear_scan import linear_scan
from autapse.solve.report import NotConvergedWarning, SolveReport
from autapse.unfold import Parallel, parallel, scan_reference
from networks import BASIC, D, H, Network, every_form_layer, every_form_variant, flat
from tolerance import TOLERANCE, close

TIGHT = 1e-14  # rtol of solves that are compared with the scan to rounding
KINDS = ("dense", "diagonal")
T, B = 9, 4
LENGTHS = [5, 9, 0, 2]

every_kind = pytest.mark.parametrize("jacobian", KINDS)


def with_unfold(layer: Any, unfold: Parallel | None) -> Any:
    other = copy.deepcopy(layer)
    other.unfold = unfold
    return other


def gradients(layer: Any, x: Tensor, h0: Any, **keywords: Any) -> list[Any]:
    """Output, h_n and the gradients by input, initial states and parameters of a loss that sees every output."""
    x = x.clone().requires_grad_()
    output, h_n = layer(x, h0, **keywords)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    loss = (weights * output).sum() + sum(h.square().sum() for h in flat(h_n))
    wanted = [x, *flat(h0), *layer.parameters()]
    # No step of Intersection reads the output before it, so its initial one is not in the graph of the reference.
    return [output, h_n, *torch.autograd.grad(loss, wanted, materialize_grads=True)]


def near(found: Any, expected: Any) -> None:
    """Equal to rounding of each tensor's largest element: the residual of a solve is a norm of all states."""
    for one, other in zip(flat(found), flat(expected), strict=True):
        size = max(float(other.detach().abs().max()), 1.0)
        assert_close(one, other, rtol=0.0, atol=TOLERANCE[other.dtype][0] * size)


# The linear recurrence ----------------------------------------------------------------------------------------------


def linear_scan_reference(slope: Tensor, offset: Tensor) -> Tensor:
    y, found = torch.zeros_like(offset[0]), []
    for A, b in zip(slope, offset, strict=True):
        y = (A @ y[..., None])[..., 0] + b if slope.dim() == 4 else A * y + b
        found.append(y)
    return torch.stack(found)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 7, 8, 31, 64])
@pytest.mark.parametrize("dims", [3, 4])
def test_linear_scan(steps: int, dims: int) -> None:
    slope = 0.5 * torch.randn(steps, 3, *[4] * (dims - 2), dtype=torch.float64)
    offset = torch.randn(steps, 3, 4, dtype=torch.float64)
    close(linear_scan(slope, offset), linear_scan_reference(slope, offset))


def test_linear_scan_is_a_geometric_series() -> None:
    found = linear_scan(torch.full((20, 1, 1), 0.5, dtype=torch.float64), torch.ones(20, 1, 1, dtype=torch.float64))
    expected = [2 - 0.5**t for t in range(20)]
    assert found.flatten().tolist() == expected


def test_line_of_ragged_rows() -> None:
    """Lengths 3, 2 and 1: rows a0 b0 c0 a1 b1 a2."""
    line = Line.packed([3, 2, 1], torch.device("cpu"))
    rows, first = torch.tensor([0, 10, 20, 1, 11, 2]), torch.tensor([-1, -10, -20])
    assert line.previous(rows, first).tolist() == [-1, -10, -20, 0, 10, 1]
    assert line.reversed().previous(rows, first).tolist() == [1, 11, -20, 2, -10, -1]
    assert line.lengths.tolist() == [3, 2, 1]
    assert line.last(5).tolist() == [10, 9, 7, 3, 4]
    assert line.first(rows >= 2).tolist() == [2, 0, 0]
    assert line.largest_so_far(torch.tensor([5.0, 1, 1, 2, 3, 9])).tolist() == [5, 1, 1, 5, 3, 9]
    some, kept = line.select(torch.tensor([False, True, True]))
    assert rows[kept].tolist() == [10, 20, 11]
    assert some.previous(rows[kept], first[1:]).tolist() == [-10, -20, 10]
    assert (some.count, some.length) == (2, 2)


# Against the scan ---------------------------------------------------------------------------------------------------


@every_kind
@every_form_variant
def test_values_and_gradients_are_the_scans(network: Network, jacobian: str) -> None:
    layer = network.layer(num_layers=2, bidirectional=True)
    x = torch.randn(T, B, D, dtype=torch.float64)
    h0 = network.h0(B, num_layers=2, directions=2)
    parallel = with_unfold(layer, Parallel(rtol=TIGHT, jacobian=jacobian))
    for keywords in ({}, {"lengths": LENGTHS, "start": 1}):
        near(gradients(parallel, x, h0, **keywords), gradients(layer, x, h0, **keywords))
        assert len(parallel.reports) == 4
        assert all(report.all_converged for report in parallel.reports)


@every_form_layer
def test_float32(network: Network) -> None:
    layer = network.layer(dtype=torch.float32)
    x = torch.randn(T, B, D)
    parallel = with_unfold(layer, Parallel())
    close(parallel(x), layer(x))
    assert parallel.reports[0].all_converged


@every_kind
@pytest.mark.parametrize("network", [n for n in BASIC if n.name in ("LSTM", "GRU")], ids=str)
def test_all_layouts(network: Network, jacobian: str) -> None:
    layer = network.layer(num_layers=2, bidirectional=True, batch_first=True)
    parallel = with_unfold(layer, Parallel(rtol=TIGHT, jacobian=jacobian))
    x = torch.randn(B, T, D, dtype=torch.float64)
    packed = pack_padded_sequence(x, [5, 9, 1, 2], batch_first=True, enforce_sorted=False)
    for given in (x, x[0], packed):
        output, h_n, states = parallel(given, return_states=True)
        expected, h_expected, states_expected = layer(given, return_states=True)
        rows = (output.data, expected.data) if given is packed else (output, expected)
        close(*rows)
        close(h_n, h_expected)
        close(states, states_expected)


def test_states_without_steps() -> None:
    layer = autapse.LSTM(D, H, unfold=Parallel())
    h0 = tuple(torch.randn(1, 2, H) for _ in range(2))
    output, h_n = layer(torch.randn(3, 2, D), h0, lengths=[0, 0])
    close(h_n, h0)
    assert output.abs().max() == 0
    assert layer.reports[0].all_converged
    assert layer.reports[0].iterations.tolist() == [0, 0]


@pytest.mark.parametrize("theirs", [nn.GRU(3, 5, 2), nn.LSTM(3, 5, 2, bidirectional=True), nn.RNN(3, 5)], ids=repr)
def test_torch_agrees(theirs: nn.Module) -> None:
    theirs = theirs.double()
    ours = with_unfold(autapse.from_torch(theirs), Parallel(rtol=TIGHT))
    x = torch.randn(12, 3, 3, dtype=torch.float64)
    close(ours(x), theirs(x))


@every_kind
@pytest.mark.parametrize("name", ["GRU", "LSTM", "ERNN"])
def test_finite_differences(name: str, jacobian: str) -> None:
    options = {"eta": "per_step", "max_length": 3, "nonlinearity": "tanh"} if name == "ERNN" else {}
    layer = getattr(autapse, name)(2, 2, dtype=torch.float64, unfold=Parallel(jacobian=jacobian), **options)
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def run(x: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        output, h_n = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x, None, [4, 2]))
        return output, *flat(h_n)

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


class Clock(autapse.Cell):
    """a' = cos(t)·b + u; b' = tanh(a + ½b): a cell of a user's own, whose step depends on the position."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.weight = self._parameter(hidden_size, input_size)
        self.calls: list[tuple[int, int]] = []
        self.reset_parameters()

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, self.hidden_size)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        a, b = state
        self.calls.append((len(u), t))
        return torch.cos(torch.tensor(float(t))) * b + u @ self.weight.t(), torch.tanh(a + b / 2)


class Patient(Clock):
    """The same without the clock, and it says so: all positions in one call."""

    depends_on_position = False

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Any, t: int) -> tuple[Tensor, ...]:
        self.calls.append((len(u), t))
        return state[1] + u @ self.weight.t(), torch.tanh(state[0] + state[1] / 2)


@every_kind
@pytest.mark.parametrize("cell", [Clock, Patient])
def test_cells_of_a_users_own(cell: type[autapse.Cell], jacobian: str) -> None:
    layer = autapse.Recurrent(cell, D, 3, dtype=torch.float64, bidirectional=True)
    parallel = with_unfold(layer, Parallel(rtol=TIGHT, jacobian=jacobian))
    x = torch.randn(T, B, D, dtype=torch.float64)
    h0 = tuple(torch.randn(2, B, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    close(gradients(parallel, x, h0, lengths=LENGTHS, start=2), gradients(layer, x, h0, lengths=LENGTHS, start=2))
    first = parallel.cells["l0"].calls[0]
    assert first == ((3, 2) if cell is Clock else (sum(LENGTHS), 2))


class Elman(autapse.Cell):
    """h' = tanh(W·x + R·h), with R as it is from `prepare`, and a form from `fused`."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.W, self.R = self._parameter(hidden_size, input_size), self._parameter(hidden_size, hidden_size)
        self.calls: list[int] = []
        self.reset_parameters()

    def affine(self) -> tuple[Tensor, None]:
        return self.W, None

    def prepare(self) -> Tensor:
        return self.R

    def fused(self, weights: Tensor) -> autapse.forms.Leaky:
        return autapse.forms.Leaky(weights)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: Tensor, t: int) -> tuple[Tensor, ...]:
        self.calls.append(t)
        return (torch.tanh(u + state[0] @ weights.t()),)


@every_kind
def test_a_form_replaces_the_step_of_a_users_cell(jacobian: str) -> None:
    layer = autapse.Recurrent(Elman, D, H, dtype=torch.float64, unfold=Parallel(rtol=TIGHT, jacobian=jacobian))
    cell: Any = layer.cells["l0"]
    theirs = nn.RNN(D, H, bias=False, dtype=torch.float64)
    theirs.load_state_dict({"weight_ih_l0": cell.W, "weight_hh_l0": cell.R})
    x = torch.randn(T, B, D, dtype=torch.float64)
    h0 = torch.randn(1, B, H, dtype=torch.float64, requires_grad=True)
    close(gradients(layer, x, h0), gradients(theirs, x, h0))
    assert cell.calls == []


# Iterations ---------------------------------------------------------------------------------------------------------


def test_a_linear_recurrence_takes_one_iteration() -> None:
    """h_t = ½·h_{t−1} + 1, from 0: 2 − 2^{1−t}."""
    layer = autapse.RNN(1, 1, nonlinearity="identity", dtype=torch.float64, unfold=Parallel())
    with torch.no_grad():
        for name, value in (("weight_ih", 1.0), ("weight_hh", 0.5), ("bias_ih", 0.0), ("bias_hh", 0.0)):
            getattr(layer, f"{name}_l0").fill_(value)
    output, _ = layer(torch.ones(30, 1, 1, dtype=torch.float64))
    close(output.flatten(), torch.tensor([2 - 2.0**-t for t in range(30)], dtype=torch.float64))
    assert layer.reports[0].iterations.tolist() == [1]
    assert layer.reports[0].evaluations.tolist() == [3]


@pytest.mark.parametrize(("jacobian", "most"), [("dense", 10), ("diagonal", 49)])
def test_a_benign_network_takes_few_iterations(jacobian: str, most: int) -> None:
    layer = autapse.GRU(3, 16, dtype=torch.float64, unfold=Parallel(jacobian=jacobian))
    x = torch.randn(200, 4, 3, dtype=torch.float64)
    output, _ = layer(x)
    assert_close(output, with_unfold(layer, None)(x)[0], rtol=1e-9, atol=1e-11)
    print(jacobian, layer.reports[0].iterations.tolist())
    assert int(layer.reports[0].iterations.max()) <= most


@every_kind
def test_chaos_converges_within_the_length(jacobian: str) -> None:
    """Spectral radius 3. Nearby states part, so what can be asked is that every step follows from the one before."""
    layer = autapse.RNN(3, 24, dtype=torch.float64, unfold=Parallel(jacobian=jacobian))
    with torch.no_grad():
        layer.weight_hh_l0.normal_(std=3 / 24**0.5)
    x = torch.randn(60, 3, 3, dtype=torch.float64)
    output, _ = layer(x)
    report = layer.reports[0]
    assert report.all_converged
    assert int(report.iterations.max()) <= 61
    cell = layer.cells["l0"]
    again = cell(x[1:].flatten(0, 1), output[:-1].flatten(0, 1))
    assert_close(again.view(59, 3, 24), output[1:], rtol=1e-9, atol=1e-9)  # J up to about 6, times the tolerance
    scanned = with_unfold(layer, None)(x)[0]
    assert_close(output[:10], scanned[:10], rtol=1e-6, atol=1e-6)


@every_kind
def test_explosive_relu_over_a_long_sequence(jacobian: str) -> None:
    layer = autapse.IRNN(3, 8, dtype=torch.float64)
    with torch.no_grad():
        layer.cells["l0"].weight_hh.add_(0.1 * torch.randn(8, 8))
    parallel = with_unfold(layer, Parallel(jacobian=jacobian))
    x = torch.randn(400, 2, 3, dtype=torch.float64)
    for found, expected in zip(parallel(x), layer(x), strict=True):
        assert_close(found, expected, rtol=1e-8, atol=0.0)  # 400 steps carry a residual on
    assert parallel.reports[0].all_converged


@every_kind
@pytest.mark.parametrize("damping", [0.3, 1.0])
def test_damping_changes_the_way_and_not_the_result(damping: float, jacobian: str) -> None:
    layer = autapse.GRU(3, 5, dtype=torch.float64)
    parallel = with_unfold(layer, Parallel(rtol=TIGHT, jacobian=jacobian, damping=damping))
    x = torch.randn(20, 3, 3, dtype=torch.float64)
    h0 = torch.randn(1, 3, 5, dtype=torch.float64, requires_grad=True)
    close(gradients(parallel, x, h0), gradients(layer, x, h0))
    plain = with_unfold(layer, Parallel(rtol=TIGHT, jacobian=jacobian))
    plain(x, h0)
    assert int(parallel.reports[0].iterations.min()) > int(plain.reports[0].iterations.max())


def test_zero_gradients_times_exploding_products() -> None:
    """A loss on the first steps alone: the later Jacobians overflow when multiplied, and must not be felt.

    At a state of zero the Jacobian is the matrix itself, here of 3 times a rotation: 3²⁹⁹ is beyond float32.
    """
    layer = autapse.RNN(2, 24, bias=False, unfold=Parallel())
    torch.nn.init.orthogonal_(layer.weight_hh_l0, gain=3.0)
    x = torch.zeros(300, 1, 2, requires_grad=True)
    output, _ = layer(x)
    jacobians = layer.cells["l0"].jacobian(x[1:, 0], output[:-1, 0]).detach()
    assert not linear_scan(jacobians.mT.flip(0)[:, None], torch.ones(299, 1, 24)).isfinite().all(), "too tame a network"
    (found,) = torch.autograd.grad(output[:5].sum(), x)
    (expected,) = torch.autograd.grad(with_unfold(layer, None)(x)[0][:5].sum(), x)
    close(found[:5], expected[:5])
    assert bool(found[:5].any())
    assert not found[5:].any()


def test_the_adjoint_takes_one_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is linear: with whole derivatives, and the right way round, more are a sign of a wrong matrix."""
    solve, seen = parallel.solve_recurrence, []

    def spy(*arguments: Any) -> Any:
        found = solve(*arguments)
        seen.append(found[1].iterations.tolist())
        return found

    monkeypatch.setattr(parallel, "solve_recurrence", spy)
    layer = autapse.GRU(3, 8, dtype=torch.float64, unfold=Parallel())
    layer(torch.randn(30, 2, 3, dtype=torch.float64))[0].sum().backward()
    assert len(seen) == 2
    assert seen[1] == [1, 1]


# Reports and failures -----------------------------------------------------------------------------------------------


def test_reports_are_in_the_callers_order() -> None:
    layer = autapse.GRU(D, H, 2, bidirectional=True, dtype=torch.float64, unfold=Parallel(rtol=0.0, damping=1.0))
    assert layer.reports == []
    layer(torch.randn(T, B, D, dtype=torch.float64), lengths=LENGTHS)
    assert len(layer.reports) == 4
    for report in layer.reports:
        # Without derivatives an iteration makes one more state exact, so the count is the length.
        assert report.iterations.tolist() == LENGTHS
        assert report.evaluations.tolist() == [2.0 * n + 1 if n else 0 for n in LENGTHS]
        assert report.finished_by == ("parallel",) * B
        assert float(report.residual.max()) == 0
    plain = autapse.GRU(D, H)
    plain(torch.randn(T, B, D))
    assert plain.reports == []


def test_too_few_iterations_are_told() -> None:
    layer = autapse.GRU(D, 16, dtype=torch.float64, unfold=Parallel(max_iterations=1))
    x = torch.randn(50, 3, D, dtype=torch.float64)
    with pytest.warns(NotConvergedWarning, match="2 of 3 sequences did not converge.*Use max_iterations=None"):
        output, _ = layer(x, lengths=[50, 1, 40])
    report = layer.reports[0]
    assert report.converged.tolist() == [False, True, False]
    assert float(report.residual[0]) > 1e-12
    assert output.isfinite().all()


@every_kind
def test_what_is_not_finite_is_flagged_and_ends(jacobian: str) -> None:
    layer = autapse.GRU(D, H, dtype=torch.float64, unfold=Parallel(jacobian=jacobian))
    x = torch.randn(40, 3, D, dtype=torch.float64)
    x[20, 1] = torch.nan
    with pytest.warns(NotConvergedWarning, match="1 of 3"):
        output, h_n = layer(x)
    assert layer.reports[0].converged.tolist() == [True, False, True]
    assert int(layer.reports[0].iterations.max()) <= 41
    expected, h_expected = with_unfold(layer, None)(x)
    assert_close(output, expected, equal_nan=True)
    assert_close(h_n, h_expected, equal_nan=True)


def test_gradients_that_are_not_finite_are_told() -> None:
    layer = autapse.GRU(D, H, unfold=Parallel())
    output, _ = layer(torch.randn(5, 2, D))
    with pytest.warns(NotConvergedWarning, match="gradients"):
        (output[:, 0] * torch.inf).sum().backward()


def test_second_derivatives_are_refused() -> None:
    layer = autapse.GRU(D, H, unfold=Parallel())
    x = torch.randn(5, 2, D, requires_grad=True)
    loss = layer(x)[0].square().sum()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="Use unfold=None"):
        gradient.sum().backward()


def test_autocast_solves_in_the_precision_of_the_weights() -> None:
    layer = autapse.GRU(D, H)
    x = torch.randn(T, B, D)
    expected = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = with_unfold(layer, Parallel())(x.bfloat16().float())
    assert_close(found[0], expected[0], rtol=2e-2, atol=2e-2)
    assert found[0].dtype == torch.float32


def test_no_warning_where_all_is_well() -> None:
    layer = autapse.RIN(D, H, 2, unfold=Parallel())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(torch.randn(T, B, D))[0].sum().backward()
    assert all(isinstance(report, SolveReport) for report in layer.reports)


# Settings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rtol": -1.0}, "rtol must be a finite number at least 0; got -1"),
        ({"atol": float("nan")}, "atol must"),
        ({"max_iterations": -1}, "max_iterations must be an integer of at least 0"),
        ({"jacobian": "diagnal"}, "Did you mean 'diagonal'"),
        ({"damping": 1.5}, "damping must"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(autapse.checks.InputError, match=message):
        Parallel(**settings)


def test_layers_check_it() -> None:
    with pytest.raises(autapse.checks.KindError, match="with its brackets"):
        autapse.GRU(3, 4, unfold=Parallel)
    with pytest.raises(
        autapse.checks.KindError,
        match=r"be a strategy of autapse.unfold, .*; got 'parallel'",
    ):
        autapse.Recurrent(autapse.cells.RIN, 3, 4, unfold="parallel")  # type: ignore[arg-type]
    with pytest.raises(autapse.checks.InputError, match="checkpoint_every must be None if unfold is given"):
        autapse.RIN(3, 4, unfold=Parallel(), checkpoint_every=4)


def test_repr() -> None:
    layer = autapse.GRU(3, 4, unfold=Parallel(rtol=1e-3, jacobian="dense"))
    assert repr(layer) == "GRU(3, 4, unfold=Parallel(rtol=0.001, jacobian='dense'))"
    assert repr(autapse.RIN(3, 4, unfold=Parallel())) == "RIN(3, 4, unfold=Parallel())"


def test_a_stream_is_a_scan() -> None:
    layer = autapse.GRU(D, H, dtype=torch.float64, unfold=Parallel())
    x = torch.randn(T, 1, D, dtype=torch.float64)
    stream = layer.stream()
    assert_close(torch.stack([stream(x_t) for x_t in x]), layer(x)[0], rtol=1e-9, atol=1e-11)


def test_auto_takes_the_diagonal_of_large_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces too: with CHUNK small, the diagonal is taken of a few rows at a time."""
    monkeypatch.setattr("autapse.solve.recurrence.CHUNK", 3 * 66 * 66)
    cell = autapse.cells.LSTM(2, 33, dtype=torch.float64)
    x = torch.randn(20, 2, dtype=torch.float64)
    initial = cell.initial_state(2, x)
    batch = SequenceBatch(x, [2] * 10, 2)
    states, final, report = Parallel(rtol=TIGHT).run(cell, x, batch, initial)
    _, _, dense = Parallel(rtol=TIGHT, jacobian="dense").run(cell, x, batch, initial)
    expected = scan_reference(cell, x, initial, [2] * 10)
    close((states, final), expected)
    assert int(report.iterations.min()) > int(dense.iterations.max())
