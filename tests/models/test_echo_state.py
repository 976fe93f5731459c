"""Echo state networks: against NumPy written from the equations, and on series whose continuation is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autapse
from autapse import EchoStateNetwork
from autapse.checks import InputError
from autapse.models.echo_series import read_series

T = 400


def waves(steps: int = T) -> np.ndarray:  # [T, 2]
    t = np.arange(steps)
    return np.stack([np.sin(t / 5), np.cos(t / 5) ** 3], axis=1)


def noise(*shape: int) -> np.ndarray:
    return torch.randn(*shape, dtype=torch.float64).numpy()


def states_of(model: EchoStateNetwork, u: np.ndarray) -> np.ndarray:
    """h_t by the equation of a reservoir, in NumPy."""
    cell = model.layer.cells["l0"]
    W, b, rate = (cell.get_buffer(name).numpy() for name in ("weight_ih", "bias_h", "rate"))
    R = cell.weight_hh.numpy()
    if cell.pattern is not None:
        dense = np.zeros((model.hidden_size, model.hidden_size))
        dense[tuple(cell.pattern.numpy())] = R
        R = dense
    h, made = np.zeros(model.hidden_size), []
    for u_t in u:
        h = (1 - rate) * h + rate * np.tanh(W @ u_t + R @ h + b)
        made.append(h)
    return np.array(made)


def ridge(F: np.ndarray, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    mean, middle = F.mean(0), y.mean(0)
    W = np.linalg.solve((F - mean).T @ (F - mean) + penalty * np.eye(F.shape[1]), (F - mean).T @ (y - middle))
    return W, middle - mean @ W


# Values from inputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", [False, True])
def test_fit_and_predict_are_the_equations(feedback: bool) -> None:
    x, y = noise(T, 2), noise(T, 1)
    y = y + np.roll(x[:, :1], 1, axis=0)
    model = EchoStateNetwork(hidden_size=30, leak=0.5, washout=50, penalty=0.1, relative=False, feedback=feedback)
    model.fit(x, y)
    u = (x - x.mean(0)) / x.std(0)
    if feedback:
        before = np.concatenate([np.zeros((1, 1)), ((y - y.mean(0)) / y.std(0))[:-1]])
        u = np.concatenate([u, before], axis=1)
    F = np.concatenate([states_of(model, u), u], axis=1)
    W, c = ridge(F[50:], y[50:], 0.1)
    predicted = model.predict(x, y) if feedback else model.predict(x)
    np.testing.assert_allclose(predicted, F @ W + c, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.error, np.sqrt(np.square(F[50:] @ W + c - y[50:]).mean(0)), rtol=1e-6)


def test_feedback_reads_its_own_outputs() -> None:
    x, y = noise(T, 1), noise(T, 1)
    model = EchoStateNetwork(hidden_size=20, feedback=True, penalty=1.0).fit(x, y)
    closed = model.predict(x)
    # Given its own outputs, the open loop is the closed loop.
    np.testing.assert_allclose(model.predict(x, closed), closed, rtol=1e-8, atol=1e-10)
    assert np.abs(closed - model.predict(x, y)).max() > 1e-3


def test_many_series_and_pieces(monkeypatch: Any) -> None:
    lengths = (60, 200, 90)
    xs = [noise(n, 2) for n in lengths]
    ys = [np.roll(x[:, 0], 2) for x in xs]
    made = []
    for limit in (1 << 22, 40 * 30):  # all at once; 30 steps at a time
        monkeypatch.setattr("autapse.models.echo_state.AT_ONCE", limit)
        model = EchoStateNetwork(hidden_size=40, penalty=(1e-6, 1e-3), choose="gcv").fit(xs, ys)
        made.append(model.predict(xs))
    for one, other, y in zip(*made, ys, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
        assert one.shape == y.shape
        assert np.square(one - y)[20:].mean() < 0.3 * y.var()
    alone = model.predict(xs[0])
    np.testing.assert_allclose(alone, made[1][0], rtol=1e-7, atol=1e-9)


def test_washout_by_default() -> None:
    model = EchoStateNetwork()
    assert model._washout([1000, 2000]) == 100
    assert model._washout([50]) == 10
    with pytest.raises(InputError, match="washout must be less than the 50 steps of the shortest series; got 50"):
        EchoStateNetwork(washout=50)._washout([50])


# Series ---------------------------------------------------------------------------------------------------------------


def test_a_series_goes_on() -> None:
    z = waves(900)
    model = EchoStateNetwork(hidden_size=200).fit(z[:800])
    np.testing.assert_allclose(model.generate(100, z[:800]), z[800:], atol=0.02)
    assert np.abs(model.predict(z)[50:] - z[50:]).max() < 0.01
    one = EchoStateNetwork(hidden_size=100).fit(z[:800, 0])
    assert one.generate(5, z[:800, 0]).shape == (5,)


def test_generate_is_predict_on_its_own_values() -> None:
    z = waves()
    model = EchoStateNetwork(hidden_size=50, penalty=1e-3).fit(z)
    more = model.generate(20, z)
    np.testing.assert_allclose(model.predict(np.concatenate([z, more]))[T:], more, rtol=1e-8, atol=1e-10)


def test_intervals_have_the_share_of_the_values() -> None:
    """A noisy wave: the first step's interval is that of the noise."""
    rng = np.random.default_rng(0)
    z = waves(1500)[:, 0] + 0.1 * rng.normal(size=1500)
    model = EchoStateNetwork(hidden_size=60).fit(z)
    assert 0.08 < model.error[0] < 0.14  # type: ignore[index]
    values, lower, upper = model.generate(30, z, intervals=0.9, paths=2000)
    assert (lower < values).all()
    assert (values < upper).all()
    assert float(upper[0] - lower[0]) == pytest.approx(2 * 1.645 * model.error[0], rel=0.1)  # type: ignore[index]
    again = model.generate(30, z, intervals=0.9, paths=2000)
    np.testing.assert_array_equal(upper, again[2])


# Learning step by step ------------------------------------------------------------------------------------------------


def test_partial_fit_in_pieces_is_ridge_regression() -> None:
    x, y = noise(150, 2), noise(150, 1)
    model = EchoStateNetwork(hidden_size=20, read_input=False, standardise=False)
    for begin in range(0, 150, 50):
        model.partial_fit(x[begin : begin + 50], y[begin : begin + 50], penalty=0.3)
    F = np.concatenate([states_of(model, x), np.ones((150, 1))], axis=1)
    W = np.linalg.solve(F.T @ F + 0.3 * np.eye(21), F.T @ y)  # the offset has the penalty too
    np.testing.assert_allclose(model.predict(x), F @ W, rtol=1e-6, atol=1e-8)


@pytest.mark.fixed_seed("how well a reservoir of this size continues depends on its weights")
def test_force_learns_to_continue_by_itself() -> None:
    z = waves(1500)[:, 0]
    model = EchoStateNetwork(hidden_size=150, washout=20)
    model.partial_fit(z[:1000], force=True, penalty=1e-3).partial_fit(z[1000:1300], force=True)
    np.testing.assert_allclose(model.generate(60, z[:1300]), z[1300:1360], atol=0.1)


# Classes --------------------------------------------------------------------------------------------------------------


def oscillations(seed: int, count: int = 60) -> tuple[list[np.ndarray], np.ndarray]:
    """Series of three periods, of random phases and lengths, and the number of each one's period."""
    rng = np.random.default_rng(seed)
    speeds = rng.integers(0, 3, count)
    return [np.sin(np.arange(rng.integers(30, 60)) * (0.2 + 0.2 * s) + rng.uniform(0, 6)) for s in speeds], speeds


# 14: the first fold alone likes the largest penalty. 33: the means of the states do not tell the classes apart.
# 45: one class has three series.
@pytest.mark.parametrize("seed", [0, 14, 33, 45])
def test_a_class_for_each_series(seed: int) -> None:
    xs, speeds = oscillations(seed)
    names = np.array(["slow", "middle", "fast"])[speeds]
    model = EchoStateNetwork(hidden_size=50, seed=seed + 7).fit(xs[:40], names[:40])
    assert model.classes == ["fast", "middle", "slow"]
    assert (model.predict(xs[40:]) == names[40:]).mean() >= 0.9
    assert model.predict(xs[40]) == model.predict(xs[40:])[0]


@pytest.mark.parametrize("order", ["in turn", "sorted"])
def test_the_order_of_the_series_does_not_matter(order: str) -> None:
    """Every fifth series may be of the same class, or the first fifth of them."""
    rng = np.random.default_rng(0)
    speeds = np.arange(50) % 5
    if order == "sorted":
        speeds = np.sort(speeds)
    xs = [np.sin(np.arange(50) * (0.2 + 0.2 * s) + rng.uniform(0, 6)) for s in speeds]
    model = EchoStateNetwork(hidden_size=50).fit(xs, speeds)
    assert (model.predict(xs) == speeds).mean() >= 0.9


def test_a_series_is_read_by_its_moments_also_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    xs, speeds = oscillations(0, 12)
    model = EchoStateNetwork(hidden_size=20, washout=7, penalty=1.0, standardise=False, read_input=False)
    model.fit(xs, speeds)
    states = [states_of(model, x[:, None])[7:] for x in xs]
    rows = np.stack([np.concatenate([h.mean(0), h.std(0)]) for h in states])
    scores = rows @ model.readout.weight.numpy().T + model.readout.bias.numpy()  # type: ignore[union-attr]
    expected = np.asarray(model.classes)[scores.argmax(1)]
    np.testing.assert_array_equal(model.predict(xs), expected)
    moments = model._moments(read_series("x", xs, torch.float64), 7)
    np.testing.assert_allclose(moments, rows, rtol=1e-9, atol=1e-12)
    monkeypatch.setattr("autapse.models.echo_state.AT_ONCE", 5 * 20)  # pieces of five steps
    np.testing.assert_allclose(model._moments(read_series("x", xs, torch.float64), 7), rows, rtol=1e-9, atol=1e-12)


def test_the_penalties_of_classes() -> None:
    """Those that are given are used, and are not the ones for values."""
    xs, speeds = oscillations(0)
    model = EchoStateNetwork(hidden_size=20, penalty=(3.0, 5.0)).fit(xs, speeds)
    assert model.readout.chosen in (3.0, 5.0)  # type: ignore[union-attr]
    model = EchoStateNetwork(hidden_size=20, choose=3).fit(xs, speeds)
    assert model.readout.folds == 3  # type: ignore[union-attr]


def test_a_class_for_each_step() -> None:
    x = noise(600, 1)
    y = (np.roll(x[:, 0], 1) > 0).astype(int)
    model = EchoStateNetwork(hidden_size=50).fit(x[:400], y[:400])
    assert (model.predict(x)[400:] == y[400:]).mean() > 0.9
    many = EchoStateNetwork(hidden_size=50, penalty=1.0).fit([x[:200], x[200:400]], [y[:200], y[200:400]])
    assert (many.predict([x[400:]])[0] == y[400:])[50:].mean() > 0.85


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["series", "values", "classes", "online"])
def test_files(kind: str, tmp_path: Path) -> None:
    z, path = waves(), tmp_path / "model.safetensors"
    model = EchoStateNetwork("reservoir:leak=0.5", 30, input_scaling=0.3, seed=3)
    if kind == "series":
        model.fit(z)
    elif kind == "values":
        model.fit(z, z[:, 0] ** 2)
    elif kind == "classes":
        model.fit([z[:50], z[50:90], z[90:140], z[140:]], ["a", "b", "a", "b"])
    else:
        model.partial_fit(z, z[:, 0], forgetting=0.99)
    model.save(path)
    other = EchoStateNetwork.load(path)
    np.testing.assert_array_equal(model.predict(z), other.predict(z))
    if kind == "series":
        for one, two in zip(model.generate(9, z, intervals=0.5), other.generate(9, z, intervals=0.5), strict=True):
            np.testing.assert_array_equal(one, two)


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"path must be a file that EchoStateNetwork.save has written; got"):
        EchoStateNetwork.load(path)
    model = EchoStateNetwork(hidden_size=9).fit(waves())
    model.hidden_size = 10**12
    model.save(path)
    with pytest.raises(InputError, match="its weights are not those of its settings"):
        EchoStateNetwork.load(path)
    model.hidden_size, model.cell = 9, "no_such_module:Cell"
    model.save(path)
    with pytest.raises(InputError, match="trust must be True to import the module no_such_module"):
        EchoStateNetwork.load(path)
    matrix = EchoStateNetwork(hidden_size=2, topology=torch.eye(2)).fit(waves())
    with pytest.raises(InputError, match="options must be numbers and words, so that they can be saved"):
        matrix.save(path)


# Errors ---------------------------------------------------------------------------------------------------------------


def test_errors() -> None:
    z, fitted = waves(), EchoStateNetwork(hidden_size=9).fit(waves())
    cases: list[tuple[Any, str]] = [
        (lambda: EchoStateNetwork("reservoirs"), "cell must be one of"),
        (lambda: EchoStateNetwork(penalty=-1.0), "penalty must be a finite number at least 0; got -1.0"),
        (lambda: EchoStateNetwork(choose="loo"), "choose must be one of gcv; got 'loo'"),
        (lambda: EchoStateNetwork(spectral=1.0).fit(z), "option of Reservoir must be one of this layer's"),
        (lambda: EchoStateNetwork(bidirectional=True).fit(z), "cell must read a series in one direction"),
        (lambda: EchoStateNetwork().predict(z), "This EchoStateNetwork has no readout yet. Call fit first."),
        (lambda: EchoStateNetwork().fit(z, z[:-1]), "y must have the lengths of x, [400]; got [399]"),
        (lambda: EchoStateNetwork().fit(z + np.nan), "x must have finite values; got '800 that are NaN or infinite'"),
        (lambda: EchoStateNetwork().fit([z, z[:, :1]]), "x must have the same number of columns; got [1, 2]"),
        (lambda: EchoStateNetwork().fit("text"), "x must be an array, a tensor, or a list of them; got 'str'"),
        (lambda: EchoStateNetwork().fit(np.zeros((2, 2, 2, 2))), "x must be one series of numbers, [T] or [T, D]"),
        (lambda: EchoStateNetwork().fit([z, z], ["a", "a"]), "y must have at least two classes; got ['a']"),
        (lambda: EchoStateNetwork().fit([z, z], ["a"]), "y must have one class for each series"),
        (lambda: EchoStateNetwork(feedback=True).fit([z, z], ["a", "b"]), "feedback must be False if the targets"),
        (lambda: fitted.predict(z[:, :1]), "x must have 2 columns, as those of fit; got [1, 2]"),
        (lambda: fitted.generate(0, z), "steps must be an integer of at least 1; got 0"),
        (lambda: fitted.generate(3, [z, z]), "history must be one series; got '2 of them'"),
        (lambda: fitted.partial_fit(z), "This network was fitted with fit. Make a new one for partial_fit."),
        (lambda: EchoStateNetwork().partial_fit(z, z, force=True), "force must be False for a network that does not"),
        (lambda: EchoStateNetwork().fit(z, z).generate(3, z), "This network does not continue series."),
        (lambda: EchoStateNetwork().fit(z, z).predict(z, z), "y must be None for a network without feedback"),
        (lambda: EchoStateNetwork(penalty=0.0).fit(np.zeros(99)), "penalty must be above 0: some states are linear"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=re.escape(message)):
            call()


def test_other_cells() -> None:
    z = waves()
    for cell in ("liquid", "leakyrnn", autapse.cells.Reservoir):
        model = EchoStateNetwork(cell, 60).fit(z, np.roll(z[:, 0], 1))
        assert np.square(model.predict(z) - np.roll(z[:, 0], 1))[50:].mean() < 0.1
        assert not any(p.requires_grad for p in model.parameters())
