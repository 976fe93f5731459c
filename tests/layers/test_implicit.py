"""Implicit layers: the contract of the other layers, solved states, reports, boundaries, warm starts, errors."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import autapse
from autapse import checks
from autapse.solve import NotConvergedWarning, Paper, Sweeps, Tolerance, Tridiagonal
from networks import perturb
from tolerance import close

D, H, T = 3, 4, 8
LENGTHS = [5, 8, 0, 3]
TIGHT = 1e-13
KINDS = {"ImplicitGRU": autapse.ImplicitGRU, "ImplicitLSTM": autapse.ImplicitLSTM}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str = "ImplicitGRU", **keywords: Any) -> Any:
    keywords = {"dtype": torch.float64, "tolerance": TIGHT} | keywords
    return perturb(KINDS[kind](D, keywords.pop("hidden_size", H), **keywords), 0.1)


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def first(states: Any) -> Tensor:
    return states[0] if isinstance(states, tuple) else states


# Layouts --------------------------------------------------------------------------------------------------------------


@every_kind
def test_every_sequence_is_as_if_it_were_alone(kind: str) -> None:
    layer, x = make(kind, num_layers=2), data(T, 4, D)
    output, h_n = layer(x, lengths=LENGTHS)
    assert output.shape == (T, 4, H)
    for b, n in enumerate(LENGTHS):
        assert output[n:, b].abs().sum() == 0
        if n:
            alone, last = layer(x[:n, b])
            close(output[:n, b], alone)
            close(first(h_n)[:, b], first(last))
            close(first(h_n)[-1, b], alone[-1])
        else:
            assert first(h_n)[:, b].abs().sum() == 0


@every_kind
def test_packed_batch_first_and_padded_agree(kind: str) -> None:
    layer, x, lengths = make(kind, num_layers=2), data(T, 3, D), torch.tensor([3, 8, 5])
    output, h_n = layer(x, lengths=lengths)
    packed, h_packed = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
    assert isinstance(packed, PackedSequence)
    close(pad_packed_sequence(packed)[0], output)
    close(h_packed, h_n)
    other = make(kind, num_layers=2, batch_first=True)
    other.load_state_dict(layer.state_dict())
    swapped, h_swapped = other(x.transpose(0, 1), lengths=lengths)
    close(swapped.transpose(0, 1), output)
    close(h_swapped, h_n)


@every_kind
def test_states_satisfy_the_equation_and_make_the_output(kind: str) -> None:
    layer, x = make(kind, num_layers=2), data(T, 2, D)
    output, _, states = layer(x, return_states=True)
    close(states[-1][0][:, :, 0], output)
    seen = x
    for cell, trace in zip(layer.cells.values(), states, strict=True):
        z = torch.cat([state[:, :, 0] for state in trace], -1)
        zero = torch.zeros_like(z[:1])
        near = (torch.cat([zero, z[:-1]]).flatten(0, 1), torch.cat([z[1:], zero]).flatten(0, 1))
        found = cell.prepare().evaluate(cell.drive(seen).flatten(0, 1), near).view_as(z)
        torch.testing.assert_close(found, z, rtol=1e-9, atol=1e-11)
        seen = trace[0][:, :, 0]


def test_sizes_per_layer() -> None:
    layer = make(hidden_size=[4, 3])
    output, h_n = layer(data(T, 2, D))
    assert output.shape == (T, 2, 3)
    assert [tuple(h.shape) for h in h_n] == [(1, 2, 4), (1, 2, 3)]


def test_dropout_acts_between_layers_in_training_alone() -> None:
    layer, x = make(num_layers=2, dropout=0.5), data(T, 2, D)
    torch.manual_seed(0)
    one = layer(x)[0]
    torch.manual_seed(0)
    close(layer(x)[0], one)
    assert not torch.allclose(layer(x)[0], one)
    layer.eval()
    close(layer(x)[0], layer(x)[0])


def test_look_ahead_and_back() -> None:
    """Every output depends on every input."""
    layer, x = make(), data(T, 1, D).requires_grad_()
    output, _ = layer(x)
    for t in (0, T - 1):
        (gradient,) = torch.autograd.grad(output[t].sum(), x, retain_graph=True)
        assert bool((gradient.abs().sum((1, 2)) > 0).all())


def test_float32() -> None:
    layer, x = make(dtype=torch.float32, tolerance=1e-6), torch.randn(T, 2, D)
    wide = make(tolerance=TIGHT)
    wide.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x)[0], wide(x.double())[0].float(), rtol=1e-4, atol=1e-5)


# Boundaries -----------------------------------------------------------------------------------------------------------


def test_boundary_states_given_by_the_caller() -> None:
    """Before and after: a longer sequence cut in two, each part with the other's states at its edge."""
    layer, x = make(), data(T, 2, D)
    output, _ = layer(x)
    zero = torch.zeros(1, 2, H, dtype=torch.float64)
    left, _ = layer(x[:3], (zero, output[3][None]))
    right, _ = layer(x[3:], (output[2][None], zero))
    torch.testing.assert_close(torch.cat([left, right]), output, rtol=1e-8, atol=1e-10)


def test_learned_boundaries_are_parameters_and_get_gradients() -> None:
    layer, x = make(boundary="learned"), data(T, 3, D)
    edges = layer.cells["l0"].edges
    assert edges.shape == (2, H)
    output, h_n = layer(x, lengths=[8, 0, 2])
    close(h_n[0, 1], edges[0])
    given = make()
    given.load_state_dict({k: v for k, v in layer.state_dict().items() if "edges" not in k})
    pair = tuple(edges[n].detach().expand(1, 3, H) for n in range(2))
    close(given(x, pair, lengths=[8, 0, 2])[0].detach(), output.detach())

    def of(edges: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"cells.l0.edges": edges}, (x,), {"lengths": [8, 0, 2]})[0]

    assert torch.autograd.gradcheck(of, (edges,))


# Reports, tolerances, solvers -----------------------------------------------------------------------------------------


def test_reports_are_in_the_callers_order() -> None:
    layer, x = make(num_layers=2, tolerance=1e-6), data(T, 4, D)
    layer(x, lengths=LENGTHS)
    assert len(layer.reports) == 2
    report = layer.reports[0]
    assert report.all_converged
    assert float(report.residual.max()) <= 1e-6
    assert not report.residual.requires_grad
    alone = []
    for b, n in enumerate(LENGTHS):
        if n:
            layer(x[:n, b])
            alone.append(float(layer.reports[0].evaluations[0]))
        else:
            alone.append(float(report.evaluations[b]))
    assert report.evaluations.tolist() == alone
    assert report.finished_by == ("tridiagonal",) * 4


def test_loose_in_training_tight_in_evaluation() -> None:
    layer, x = make(tolerance=None, hidden_size=16), data(20, 6, D)
    layer(x)
    loose = layer.reports[0]
    layer.eval()
    layer(x)
    tight = layer.reports[0]
    assert float(loose.residual.max()) <= 1e-2
    assert float(tight.residual.max()) <= 1e-4
    assert float(loose.residual.max()) > 1e-4
    assert float(loose.evaluations.mean()) < float(tight.evaluations.mean())


def test_a_schedule_of_tolerances_goes_by_training_calls_and_survives_a_state_dict() -> None:
    tolerance = Tolerance(training=1e-4, adjoint=3e-4, first=1e-2, steps=2)
    assert tolerance.at(True, 0) == pytest.approx((1e-2, 3e-2))
    assert tolerance.at(True, 1) == pytest.approx((1e-3, 3e-3))
    assert tolerance.at(True, 2) == tolerance.at(True, 99) == (1e-4, 3e-4)
    assert tolerance.at(False, 0) == (1e-4, 1e-4)
    layer, x = make(tolerance=tolerance), data(T, 2, D)
    layer(x)
    layer.eval()
    layer(x)
    assert int(layer.solving.calls) == 1
    other = make(tolerance=tolerance)
    other.load_state_dict(layer.state_dict())
    assert int(other.solving.calls) == 1
    assert "solving.calls" not in make().state_dict()


@pytest.mark.parametrize("solver", [Paper(), Sweeps(max_iterations=500), Tridiagonal()], ids=["paper", "sweeps", "tri"])
def test_another_solver_finds_the_same(solver: Any) -> None:
    layer, x = make(tolerance=1e-10), data(T, 3, D)
    other = make(tolerance=1e-10, solver=solver)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(x, lengths=[8, 2, 5])[0], layer(x, lengths=[8, 2, 5])[0], rtol=1e-6, atol=1e-8)


def test_what_is_not_solved_is_flagged_warned_about_once_and_gives_no_gradient() -> None:
    layer = make(solver=Tridiagonal(max_iterations=2), tolerance=1e-10)
    x = data(T, 3, D).requires_grad_()
    with pytest.warns(NotConvergedWarning, match="2 of 3 sequences did not converge.*layer.reports"):
        output, _ = layer(x, lengths=[8, 0, 5])
    assert layer.reports[0].converged.tolist() == [False, True, False]
    assert layer.converged().tolist() == [False, True, False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x, lengths=[8, 0, 5])
    (gradient,) = torch.autograd.grad(output.sum(), x)
    assert gradient.abs().sum() == 0


def test_nan_input_does_not_spread() -> None:
    layer, x = make(tolerance=1e-8), data(T, 3, D)
    clean = layer(x)[0]
    x[2, 1] = torch.nan
    with pytest.warns(NotConvergedWarning):
        output = layer(x)[0]
    assert layer.reports[0].converged.tolist() == [True, False, True]
    close(output[:, [0, 2]], clean[:, [0, 2]])


# Warm starts ----------------------------------------------------------------------------------------------------------


@every_kind
def test_start_states_save_evaluations(kind: str) -> None:
    layer, x = make(kind, num_layers=2, tolerance=1e-8), data(T, 4, D)
    output, _, states = layer(x, lengths=LENGTHS, return_states=True)
    again, _ = layer(x, lengths=LENGTHS, start_states=states)
    torch.testing.assert_close(again, output, rtol=1e-6, atol=1e-7)
    assert layer.reports[0].evaluations.max() == 1
    if kind == "ImplicitGRU":
        single = make(tolerance=1e-8)
        found, _ = single(x, lengths=LENGTHS)
        single(x, lengths=LENGTHS, start_states=found)
        assert single.reports[0].evaluations.max() == 1
        packed, _ = single(pack_padded_sequence(x, [5, 8, 1, 3], enforce_sorted=False))
        padded = pad_packed_sequence(packed)[0]
        single(pack_padded_sequence(x, [5, 8, 1, 3], enforce_sorted=False), start_states=padded)
        assert single.reports[0].evaluations.max() == 1


def test_solutions_are_kept_by_key_within_their_bound() -> None:
    layer, x = make(cache=1.0, tolerance=1e-3), data(T, 4, D)
    layer(x, lengths=LENGTHS, keys=["a", "b", "c", "d"])
    before = layer.reports[0].evaluations
    layer(x[:, [3, 1]], lengths=[3, 8], keys=["d", "new"])
    after = layer.reports[0].evaluations
    assert after[0] < before[3]  # known, though in another place and batch
    assert after[1] == before[1]  # the same sequence under another name
    layer(x[:, 3:], lengths=[2], keys=["d"])  # of another length: not a start
    assert layer.reports[0].all_converged
    solutions = layer.solving.solutions
    assert 0 < solutions.bytes <= solutions.limit
    assert solutions.bytes == sum(states.nbytes for states in solutions.kept.values())
    solutions.limit = solutions.bytes
    count = len(solutions)
    layer(x[:, :1], keys=["one more"])
    assert len(solutions) == count


def test_keys_are_checked() -> None:
    with pytest.raises(checks.InputError, match=r"keys must be used with a layer that has a cache.*cache=256"):
        make()(data(T, 2, D), keys=[1, 2])
    with pytest.raises(checks.InputError, match=r"keys must be one per sequence, 2 in all"):
        make(cache=1.0)(data(T, 2, D), keys=[1])
    with pytest.raises(checks.InputError, match=r"keys must be hashable, such as numbers or words"):
        make(cache=1.0)(data(T, 2, D), keys=[[1], [2]])


# Any rule -------------------------------------------------------------------------------------------------------------


class Linear(nn.Module):
    """h_t = Σ_j A_j·h_{t+j} + x_t"""

    def __init__(self, stencil: tuple[int, ...]) -> None:
        super().__init__()
        self.hidden_size = H
        self.matrices = nn.Parameter(0.9 / H / len(stencil) * torch.randn(len(stencil), H, H, dtype=torch.float64))

    def forward(self, x: Tensor, *near: Tensor) -> Tensor:
        return x + sum(h @ matrix.t() for h, matrix in zip(near, self.matrices, strict=True))


@pytest.mark.parametrize("stencil", [(-1, 1), (-2, 1, 3), (1,)], ids=str)
def test_a_linear_rule_against_a_dense_solve(stencil: tuple[int, ...]) -> None:
    rule = Linear(stencil)
    layer = autapse.Implicit(rule, stencil, tolerance=TIGHT)
    x, lengths = data(T, 3, H).requires_grad_(), [8, 5, 1]
    output, h_n = layer(x, lengths=lengths)
    assert layer.reports[0].all_converged
    weights, expected = data(T, 3, H), torch.zeros(T, 3, H, dtype=torch.float64)
    for b, n in enumerate(lengths):
        matrix = torch.eye(n * H, dtype=torch.float64)
        for t, (j, offset) in itertools.product(range(n), enumerate(stencil)):
            if 0 <= t + offset < n:
                block = torch.zeros_like(matrix)
                block[t * H : (t + 1) * H, (t + offset) * H : (t + offset + 1) * H] = 1
                spread = torch.zeros(n * H, n * H, dtype=torch.float64)
                spread = spread.index_put((block.nonzero(as_tuple=True)), rule.matrices[j].flatten())
                matrix = matrix - spread
        solved = torch.linalg.solve(matrix, x[:n, b].flatten()).view(n, H)
        expected = expected + nn.functional.pad(solved[:, None], (0, 0, b, 2 - b, 0, T - n))
    torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-11)
    close(h_n[0].detach(), torch.stack([output[n - 1, b] for b, n in enumerate(lengths)]).detach())
    found = torch.autograd.grad((output * weights).sum(), [x, rule.matrices])
    wanted = torch.autograd.grad((expected * weights).sum(), [x, rule.matrices])
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-10)


def test_a_nonlinear_rule_against_finite_differences() -> None:
    weight = torch.nn.Parameter(0.4 * data(H, H))

    class Rule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: Tensor, before: Tensor, after: Tensor) -> Tensor:
            return torch.tanh(x + before @ self.weight - after * torch.sigmoid(x))

    layer = autapse.Implicit(Rule(), hidden_size=H, tolerance=TIGHT, boundary="learned", dtype=torch.float64)
    x = data(4, 2, H).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def run(x: Tensor, *parameters: Tensor) -> Any:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,), {"lengths": [4, 2]})

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


def test_a_function_with_parameters_of_its_own_is_refused() -> None:
    weight = torch.nn.Parameter(data(H, H))
    layer = autapse.Implicit(lambda x, p, n: torch.tanh(x + p @ weight), hidden_size=H)
    with pytest.raises(checks.InputError, match=r"rule must use only its arguments.*torch.nn.Module"):
        layer(data(T, 2, H))
    with torch.no_grad():
        layer(data(T, 2, H))


def test_unbatched_packed_and_given_boundaries_of_any_rule() -> None:
    layer = autapse.Implicit(Linear((-1, 1)), tolerance=TIGHT)
    x = data(T, 2, H)
    output, h_n = layer(x)
    alone, h_alone = layer(x[:, 0])
    close(alone, output[:, 0])
    close(h_alone, h_n[:, 0])
    packed, _ = layer(pack_padded_sequence(x, [8, 8]))
    close(pad_packed_sequence(packed)[0], output)
    zero = torch.zeros(1, 2, H, dtype=torch.float64)
    cut, _ = layer(x[:5], (zero, output[5][None]))
    torch.testing.assert_close(cut, output[:5], rtol=1e-8, atol=1e-10)
    layer(x, start_states=output)
    assert layer.reports[0].evaluations.max() == 1


# Errors ---------------------------------------------------------------------------------------------------------------

ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"bidirectional": True}, "bidirectional must be False: an implicit layer looks both ways"),
    ({"stencil": (0, 1)}, r"stencil must name each offset once, and not 0.*Equilibrium"),
    ({"stencil": (-1, -1)}, "stencil must name each offset once"),
    ({"stencil": ()}, "stencil must be offsets"),
    ({"boundary": "periodic"}, "boundary must be one of zero, learned"),
    ({"solver": "newton"}, r"solver must be one of autapse.solve"),
    ({"gradient": Tridiagonal()}, r"gradient must be one of autapse.gradient"),
    ({"tolerance": "loose"}, r"tolerance must be a number or autapse.solve.Tolerance"),
    ({"tolerance": -1.0}, "tolerance must be a finite number above 0"),
    ({"cache": -1}, "cache must be a finite number at least 0"),
    ({"recurrent_scale": -1}, "recurrent_scale must be"),
    ({"unknown": 1}, "option of ImplicitGRU must be one of this layer's"),
]


@pytest.mark.parametrize(("options", "message"), ERRORS, ids=[str(o) for o, _ in ERRORS])
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        autapse.ImplicitGRU(D, H, **options)


def test_calls_are_checked() -> None:
    layer, x = make(), data(T, 2, D)
    with pytest.raises(checks.KindError, match="h0 must be a pair"):
        layer(x, torch.zeros(1, 2, H, dtype=torch.float64))
    with pytest.raises(checks.ShapeError, match="h0 must have shape"):
        layer(x, (torch.zeros(1, 3, H).double(), torch.zeros(1, 2, H).double()))
    with pytest.raises(checks.InputError, match="start_states must have one entry per layer, 1 in all"):
        layer(x, start_states=[data(T, 2, H)] * 2)
    with pytest.raises(checks.ShapeError, match="start_states must have shape"):
        layer(x, start_states=data(T, 3, H))
    with pytest.raises(checks.KindError, match="start_states must have 2 tensors per layer"):
        make("ImplicitLSTM")(x, start_states=data(T, 2, H))
    with pytest.raises(NotImplementedError, match="cannot be streamed"):
        layer.stream()
    with pytest.raises(NotImplementedError, match="no single step"):
        autapse.cells.ImplicitGRU(D, H)(torch.zeros(2, D))
    with pytest.raises(checks.ShapeError, match="rule must return a tensor of the shape of its neighbours"):
        autapse.Implicit(lambda x, p, n: x[:, :1], hidden_size=2)(torch.zeros(4, 1, 2))
    with pytest.raises(checks.InputError, match="hidden_size must be given"):
        autapse.Implicit(lambda x, p, n: x)


def test_initialisation_halves_the_recurrent_matrices() -> None:
    cell = autapse.cells.ImplicitGRU(D, 64)
    assert 0.49 / 8 < float(cell.weight_hh.detach().abs().max()) <= 0.5 / 8
    assert 0.98 / 8 < float(cell.weight_ih.detach().abs().max()) <= 1 / 8
    assert cell.bias_h is not None
    assert float(cell.bias_h.detach().abs().max()) == 0
    whole = autapse.cells.ImplicitGRU(D, 64, recurrent_scale=1.0)
    assert 0.98 / 8 < float(whole.weight_hh.detach().abs().max()) <= 1 / 8
    assert autapse.ImplicitGRU(D, H, bias=False).cells["l0"].bias_h is None


def test_without_the_native_library(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = make(), data(T, 3, D)
    expected = layer(x, lengths=[8, 2, 4])[0]
    monkeypatch.setattr("autapse.unfold.implicit_fused.kernels_serve", lambda *tensors: False)
    monkeypatch.setattr("autapse.unfold.banded.kernels_serve", lambda *tensors: False)
    torch.testing.assert_close(layer(x, lengths=[8, 2, 4])[0], expected, rtol=1e-9, atol=1e-11)


def test_repr_is_one_line_and_shows_what_is_not_the_default() -> None:
    assert repr(autapse.ImplicitGRU(D, H)) == "ImplicitGRU(3, 4)"
    shown = repr(autapse.ImplicitGRU(D, H, solver=Tridiagonal(), cache=2, boundary="learned"))
    assert shown.startswith("ImplicitGRU(3, 4, boundary='learned', solver=Tridiagonal(")
    assert shown.endswith("cache=2.0)")
    assert repr(autapse.Implicit(torch.add, hidden_size=2)) == "Implicit(add, (-1, 1), hidden_size=2)"
