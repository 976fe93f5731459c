"""The forecaster: a straight line that is ridge regression, intervals, rolling forecasts, and what people pass."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from autapse.checks import InputError
from autapse.layers.registry import LAYERS
from autapse.models import Forecaster
from autapse.models.forecaster import KINDS, normal_score
from autapse.readouts.sums import Sums
from autapse.training.forecast_losses import pinball


def made(**options):
    torch.manual_seed(0)
    settings = {"horizon": 3, "window": 8, "hidden_size": 6, **options}
    return Forecaster("gru", settings.pop("input_size", 1), settings.pop("output_size", 1), **settings)


def stirred(model):
    """A model with random weights everywhere, so that nothing is zero."""
    torch.manual_seed(1)
    with torch.no_grad():
        for value in (model.head.weight, model.head.bias, model.line):
            value.copy_(0.1 * torch.randn_like(value))
    return model.eval()


def batches(x, y, size=16):
    """What the training loop gives to `start_from`."""
    unit = torch.ones(len(y), 1, y.shape[2])
    both = torch.cat([y, unit], dim=1)
    return lambda: [
        SimpleNamespace(inputs=one, targets=two) for one, two in zip(x.split(size), both.split(size), strict=True)
    ]


def none():
    return []


# The straight line --------------------------------------------------------------------------------------------------


def test_ridge_regression_by_hand():
    rng = np.random.default_rng(0)
    A, B = np.concatenate([rng.normal(size=(40, 3)), np.ones((40, 1))], axis=1), rng.normal(size=(40, 2))
    sums = Sums.of(
        [(torch.from_numpy(A[:15]), torch.from_numpy(B[:15])), (torch.from_numpy(A[15:]), torch.from_numpy(B[15:]))]
    )
    gram = A.T @ A
    penalty = np.diag([0.1 * np.diag(gram)[:3].mean()] * 3 + [0.0])
    weight = np.linalg.solve(gram + penalty, A.T @ B)
    np.testing.assert_allclose(sums.solved(0.1).numpy(), weight, rtol=1e-8)
    assert sums.error(torch.from_numpy(weight)) == pytest.approx(np.square(B - A @ weight).sum())


def test_a_model_starts_as_least_squares():
    """Noise-free targets that depend on the window linearly are forecast exactly, before any training."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(200, 8, 2)).astype(np.float32))
    weight = torch.from_numpy(rng.normal(size=(3, 8, 2)).astype(np.float32))
    y = torch.einsum("nwd,hwd->nh", x, weight)[..., None] + 2.0
    model = made(input_size=2)
    assert model.start_from(batches(x, y), none) > 0
    assert KINDS[int(model.kind)] == "none"
    np.testing.assert_allclose(model(x)[..., 0].detach().numpy(), y.numpy(), atol=1e-3)
    matrix = np.concatenate([x.flatten(1).numpy(), np.ones((200, 1))], axis=1)
    truth, *_ = np.linalg.lstsq(matrix.astype(np.float64), y[..., 0].numpy(), rcond=None)
    np.testing.assert_allclose(model.line[0].numpy(), truth, atol=1e-3)


@pytest.mark.parametrize("recursive", [False, True])
def test_the_horizon_may_be_longer_than_the_window(recursive):
    """Slope 1 in the window is slope 1 after it."""
    model = made(horizon=7, window=4, recursive=recursive)
    start = 10 * torch.rand(64, 1, 1)
    lines = start + torch.arange(11.0)[:, None]
    x, y = lines[:, :4], lines[:, 4 : 4 + model.block]
    model.start_from(batches(x, y), none)
    np.testing.assert_allclose(model.predict(x)[..., 0], lines[:, 4:, 0], atol=0.05)


def test_windows_at_any_level_are_normalised():
    """Where the level carries no information, the line is one that follows it: any level and any unit."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=(400, 1, 1)) * 100
    steps = np.cumsum(rng.normal(size=(400, 11, 1)), axis=1)
    series = torch.from_numpy((level + steps).astype(np.float32))
    model = made()
    model.start_from(batches(series[:, :8], series[:, 8:]), none)
    with torch.no_grad():
        for kind in ("mean", "last"):
            model.kind.fill_(KINDS.index(kind))
            model.line.copy_(0.1 * torch.randn_like(model.line))
            one = model(series[:5, :8])[..., 0]
            moved = model(3.0 * series[:5, :8] + 1000.0)[..., 0]
            np.testing.assert_allclose(moved.numpy(), (3.0 * one + 1000.0).numpy(), rtol=1e-4)


def test_wide_inputs_read_their_own_channel_only():
    model = made(input_size=200, output_size=200, window=8)
    x, y = torch.randn(30, 8, 200), torch.randn(30, 3, 200)
    model.start_from(batches(x, y), none)
    assert model.line.shape == (200, 9, 3)
    changed = x.clone()
    changed[..., 1] += 1.0
    one, other = model.eval()(x)[..., 0], model(changed)[..., 0]
    assert torch.equal(one[..., 0], other[..., 0])
    assert not torch.equal(one[..., 1], other[..., 1])


def test_intervals_start_with_the_errors_of_the_line():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(4000, 8, 1)).astype(np.float32))
    y = torch.from_numpy(rng.normal(size=(4000, 3, 1)).astype(np.float32))
    for intervals in ("quantile", "gaussian"):
        model = made(intervals=intervals)
        model.start_from(batches(x, y, 500), none)
        _, lower, upper = (part.detach() for part in model.limits(x, (0.5, 0.8, 0.95)))
        inside = ((y[..., None] >= lower) & (y[..., None] <= upper)).float().mean((0, 1, 2))
        np.testing.assert_allclose(inside.numpy(), [0.5, 0.8, 0.95], atol=0.03)


# Every cell, and training -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", [cell for cell in LAYERS if cell not in ("reservoir", "liquid")])  # those are solved
def test_every_cell_learns(cell):
    torch.manual_seed(0)
    model = Forecaster(cell, 1, 1, hidden_size=4, horizon=2, window=5)
    x, y = torch.randn(40, 5, 1), torch.randn(40, 2, 1)
    model.start_from(batches(x, y), none)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(15):
        loss = (model(x)[..., 0] - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


def test_pinball_is_that_of_the_textbook():
    rng = np.random.default_rng(0)
    value, limits = rng.normal(size=(50, 1)), np.sort(rng.normal(size=(50, 4)), axis=1)
    shares = np.array([0.1, 0.025, 0.9, 0.975])
    error = value - limits
    truth = np.where(error >= 0, shares * error, (shares - 1) * error).mean(axis=1)
    np.testing.assert_allclose(pinball(torch.from_numpy(error), (0.8, 0.95)).numpy(), truth)


# Intervals and rolling forecasts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("intervals", "levels"), [("quantile", (0.8, 0.95)), ("gaussian", (0.8,))])
def test_calibrated_intervals_contain_their_share_of_the_validation_values(intervals, levels):
    """Of 60 values, 0.8 of 61 and 0.95 of 61 are inside: 49 and 58, the ranks of a conformal prediction."""
    model = stirred(made(intervals=intervals, levels=levels))
    draw = torch.Generator().manual_seed(2)
    x, y = torch.randn(20, 8, 1, generator=draw), 5 * torch.randn(20, 3, 1, generator=draw)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.calibrate(weights, none)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in weights.items())
    model.calibrate(weights, batches(x, y))
    before = model(x)[..., 0]
    model.load_state_dict(weights)
    assert torch.equal(model(x)[..., 0], before)  # the forecast stays
    with torch.no_grad():
        _, lower, upper = model.limits(x, levels)
    inside = (lower <= y[..., None] + 1e-5) & (y[..., None] - 1e-5 <= upper)
    assert inside.sum((0, 1, 2)).tolist() == [49, 58][: len(levels)]


@pytest.mark.parametrize("intervals", ["quantile", "gaussian"])
def test_intervals_are_nested_around_the_forecast(intervals):
    model = stirred(made(intervals=intervals))
    values, lower, upper = model.forecast(
        np.random.default_rng(0).normal(size=(4, 20)), intervals=(0.3, 0.8, 0.9, 0.99)
    )
    assert values.shape == (4, 3)
    assert lower.shape == upper.shape == (4, 3, 4)
    assert ((lower[..., 0] < values) & (values < upper[..., 0])).all()
    assert ((np.diff(lower, axis=-1) < 0) & (np.diff(upper, axis=-1) > 0)).all()


def test_learned_quantiles_are_the_limits_of_their_intervals():
    model = stirred(made())
    x = torch.randn(5, 8, 1)
    output = model(x)
    _, lower, upper = model.limits(x, (0.8, 0.95))
    np.testing.assert_allclose(lower[..., 0, :].detach().numpy(), output[..., 0, 1:3].detach().numpy(), rtol=1e-4)
    np.testing.assert_allclose(upper[..., 0, :].detach().numpy(), output[..., 0, 3:5].detach().numpy(), rtol=1e-4)


def test_gaussian_intervals_have_the_width_of_the_normal_distribution():
    model = stirred(made(intervals="gaussian"))
    output = model(torch.zeros(1, 8, 1))
    _, lower, upper = model.limits(torch.zeros(1, 8, 1), (0.95,))
    width = 2 * 1.959964 * output[..., 1]
    np.testing.assert_allclose((upper - lower)[..., 0].detach().numpy(), width.detach().numpy(), rtol=1e-5)
    assert normal_score(0.5) == pytest.approx(0.0)


@pytest.mark.parametrize("recursive", [False, True])
def test_more_steps_read_the_forecasts_as_history(recursive):
    model = stirred(made(recursive=recursive))
    block = 1 if recursive else 3
    history = np.random.default_rng(0).normal(size=20).astype(np.float32)
    longer, expected = history, []
    while len(expected) < 7:
        window = torch.from_numpy(longer[-8:])[None, :, None]
        step = model.train()(window)[0, :block, 0, 0].detach().numpy()
        expected += step.tolist()
        longer = np.concatenate([longer, step])
    np.testing.assert_allclose(model.forecast(history, steps=7), expected[:7], rtol=1e-4, atol=1e-5)
    if recursive:
        with torch.no_grad():
            whole = model.eval()(torch.from_numpy(history[-8:])[None, :, None])
        np.testing.assert_allclose(whole[0, :, 0, 0].numpy(), expected[:3], rtol=1e-4, atol=1e-5)


def test_the_intervals_of_a_recursive_random_walk_grow_with_the_root_of_time():
    """The line is the last value and the errors are normal with deviation 1: after h steps the deviation is √h."""
    model = made(recursive=True, horizon=9, intervals="gaussian")
    model.kind.fill_(KINDS.index("none"))
    model.line[0, -2, 0] = 1.0  # the last value; the last feature is the constant
    values, lower, upper = model.forecast(np.zeros(20), intervals=0.6827)
    assert values.tolist() == [0.0] * 9
    np.testing.assert_allclose((upper - lower) / 2, np.sqrt(np.arange(1, 10)), rtol=0.25)


def test_known_channels_of_the_window_and_the_horizon_are_read():
    model = stirred(made(input_size=3, known=1))
    history, known = np.zeros((20, 2)), np.arange(3.0)
    one = model.forecast(history, known)
    changed = known.copy()
    changed[2] += 1.0
    assert not np.array_equal(one, model.forecast(history, changed))
    assert np.array_equal(one, model.forecast(np.concatenate([np.ones((9, 2)), history]), known))  # before the window


def test_a_recursive_forecast_reads_known_channels_step_by_step():
    model = stirred(made(input_size=3, known=1, recursive=True))
    history, known = np.zeros((20, 2)), np.zeros(5)
    one = model.forecast(history, known, steps=5)
    known[3] = 1.0
    other = model.forecast(history, known, steps=5)
    assert np.array_equal(one[:3], other[:3])
    assert (one[3:] != other[3:]).all()


# What people pass ---------------------------------------------------------------------------------------------------


def test_arrays_lists_and_tables_give_the_same_forecast():
    model = stirred(
        made(input_size=4, known=1, order=[2, 0, 1])
    )  # inputs: y, other, known; the user's: other, known, y
    model.channels = ("other", "k", "y")
    history = np.random.default_rng(0).normal(size=(12, 3))
    known = np.array([1.0, 0.0, 2.0])
    one = model.forecast(history, known)
    assert one.shape == (3,)
    table = {"y": history[:, 2], "unused": [0] * 12, "k": history[:, 1], "other": history[:, 0].tolist()}
    np.testing.assert_array_equal(one, model.forecast(table, {"k": known}))
    np.testing.assert_array_equal(one, model.forecast(history.tolist(), known[:, None]))
    many = model.forecast([history, history[-8:]], [known, known])
    np.testing.assert_allclose(many, [one, one], rtol=1e-6)
    assert model.forecast(np.stack([history, history]), np.stack([known, known])).shape == (2, 3)


def test_several_channels_have_an_axis():
    model = stirred(made(input_size=2, output_size=2))
    values, lower, _ = model.forecast(np.zeros((20, 2)), intervals=(0.5, 0.9))
    assert values.shape == (3, 2)
    assert lower.shape == (3, 2, 2)
    assert model.forecast(np.zeros((4, 20, 2))).shape == (4, 3, 2)
    assert model.predict(torch.zeros(4, 8, 2)).shape == (4, 3, 2)
    np.testing.assert_array_equal(model.predict(np.zeros((20, 2))), values)


def test_the_mode_of_a_model_is_kept():
    model = made().train()
    model.forecast(np.zeros(20))
    assert model.training


MISTAKES = [
    ({"history": np.zeros(7)}, "history must have at least 8 steps, which the model reads; got 7."),
    ({"history": np.full(20, np.nan)}, "x must have no missing values (NaN)"),
    ({"history": np.zeros((3, 20, 2))}, "x must have 1 channel per step, as the training data"),
    ({"steps": 0}, "steps must be an integer of at least 1; got 0."),
    ({"intervals": 1.0}, "intervals must be shares above 0 and below 1; got 1.0."),
    ({"intervals": (0.5, 0.0)}, "intervals must be a finite number above 0; got 0.0."),
    ({"known": np.zeros(3)}, "known must be None, since the model has no known channels; got 'ndarray'."),
    ({"seed": -1, "steps": 9, "intervals": 0.5}, "seed must be an integer of at least 0; got -1."),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(InputError) as error:
        made().forecast(**{"history": np.zeros(20), **arguments})
    assert str(error.value).startswith(message)


def test_mistakes_with_channels_are_named():
    with pytest.raises(InputError, match="intervals must be None, since the model was trained with intervals=none"):
        made(intervals="none").forecast(np.zeros(20), intervals=0.8)
    model = made(input_size=3, known=1)
    model.channels = ("y", "holiday")
    for known in (None, np.zeros(2)):
        with pytest.raises(InputError, match="known must have the next 3 steps of holiday for each of 1 series"):
            model.forecast(np.zeros((20, 2)), known)
    with pytest.raises(InputError, match="'holiday'"):
        model.forecast({"y": np.zeros(20)}, np.zeros(3))
    with pytest.raises(InputError, match="steps must be at most 3: channels that are neither forecast nor known"):
        made(input_size=2).forecast(np.zeros((20, 2)), steps=4)
    with pytest.raises(InputError, match="A Forecaster has no stream"):
        made().stream()
