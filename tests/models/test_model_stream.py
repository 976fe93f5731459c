"""A stream says after every step what predict says on all steps so far."""

import numpy as np
import pytest
import torch

import autapse
from autapse import checks
from autapse.models import Classifier, LanguageModel, QuestionAnswering, Regressor, StepRegressor, Tagger

SCALED = {"mean": (3.0, -1.0), "scale": (2.0, 5.0), "center": (0.0, 1.0), "spread": (0.0, 2.0)}


def raw(steps=17, gaps=False, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal([3.0, -1.0], [2.0, 5.0], (steps, 2)).astype(np.float32)
    if gaps:
        values[rng.random(values.shape) < 0.3] = np.nan
        values[0, 0] = np.nan
    return values


def trained(kind=Classifier, cell="gru", **settings):
    """A model with other statistics than the initial ones, in evaluation mode."""
    torch.manual_seed(0)
    model = kind(cell, 2, 3, hidden_size=5, **{**SCALED, **settings}).train()
    x = torch.from_numpy(raw(60)).view(4, 15, 2)
    with torch.no_grad():
        for _ in range(5):
            model(x)
    if getattr(model.readout, "query", None) is not None:
        model.readout.query.data.normal_()
    return model.eval()


def check(model, values):
    """Every prefix, at once by predict and step by step."""
    stream = model.stream()
    answer = model.predict_proba if model.has_classes else model.predict
    for t, row in enumerate(values, start=1):
        scores, whole = stream(row), answer(values[:t])
        np.testing.assert_allclose(scores, whole[-1] if model.every_step else whole, rtol=1e-4, atol=1e-5)
        said = model.predict(values[:t])
        np.testing.assert_allclose(stream.prediction, said[-1] if model.every_step else said, rtol=1e-4, atol=1e-5)
        assert stream.position == t


FRONTS = ["none", "frames:size=3", "conv:channels=4:kernels=3,2:pool=4", "conv:channels=4:pool=2,1,3:pooling=mean"]


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("readout", ["last", "mean", "max", "mean-max", "attention"])
def test_scores_are_those_of_the_whole(front, readout):
    settings = {"readout_front": front != "none", "output_norm": True, "output_dropout": 0.3}
    check(trained(front=front, readout=readout, streaming=True, **settings), raw())


@pytest.mark.parametrize("cell", ["lstm", "ernn:inner_steps=2", "equilibriumtanh", "rin"])
def test_cells(cell):
    check(trained(cell=cell, front="conv:channels=4:pool=3", readout="mean", streaming=True, num_layers=2), raw())


@pytest.mark.parametrize("differences", [(), (0.5, 2.0)])
@pytest.mark.parametrize("missing", ["mask", "forward", "mean"])
def test_gaps(missing, differences):
    check(trained(missing=missing, difference_scale=differences), raw(gaps=True))


@pytest.mark.parametrize("kind", [Regressor, StepRegressor, Tagger])
def test_kinds(kind):
    target = {} if kind is Tagger else {"target_mean": (1.0, 20.0, -5.0), "target_scale": (1.0, 10.0, 2.0)}
    check(trained(kind, **target), raw())
    check(trained(kind, front="conv:channels=4:kernels=3,3", output_norm=True, streaming=True, **target), raw())


def test_words():
    torch.manual_seed(0)
    model = LanguageModel("lstm", 1, 7, hidden_size=5, vocabularies=[7], embedding_size=[4])
    check(model, np.array([[3], [1], [6], [0], [0]]))


def test_several_sequences_side_by_side():
    model = trained(front="frames:size=2", readout="attention")
    both = [raw(seed=1), raw(seed=2)]
    streams, single = model.stream(batch_size=2), [model.stream(), model.stream()]
    for rows in zip(*both, strict=True):
        together = streams(np.stack(rows))
        np.testing.assert_allclose(together, np.stack([s(r) for s, r in zip(single, rows, strict=True)]), atol=1e-6)
    assert streams.prediction.shape == (2,)


def test_a_new_sequence():
    model = trained(front="conv:channels=4:pool=3", readout="mean", streaming=True)
    stream = model.stream()
    first = [stream(row) for row in raw()]
    stream.reset()
    np.testing.assert_array_equal(first, [stream(row) for row in raw()])


def test_what_a_step_may_be():
    model = trained()
    model.channels, model.classes = ("left", "right"), ("rest", "run", "walk")
    stream = model.stream()
    expected = stream([1.5, 2.0])
    assert stream.prediction == model.classes[int(expected.argmax())]
    for step in (np.array([1.5, 2.0]), {"right": 2.0, "left": 1.5, "other": "x"}, torch.tensor([1.5, 2.0])):
        stream.reset()
        assert np.array_equal(stream(step), expected)
        assert isinstance(stream(step), torch.Tensor if isinstance(step, torch.Tensor) else np.ndarray)
    one = Regressor("gru", 1, 1, 4)
    np.testing.assert_allclose(one.stream()(2.5), one.predict([2.5]), rtol=1e-5)


def test_a_stream_keeps_the_mode_of_its_model():
    model = trained(output_dropout=0.9).train()
    stream = model.stream()
    first = stream([1.0, 2.0])
    stream.reset()
    assert model.training
    assert np.array_equal(first, stream([1.0, 2.0]))


STREAMING = "Train the model with streaming=True"


@pytest.mark.parametrize(
    ("settings", "reason", "remedy"),
    [
        ({"bidirectional": True}, "a layer that is bidirectional", STREAMING),
        ({"front": "conv:channels=4"}, "convolutions that look ahead", STREAMING),
        (
            {"level_mean": (0.0, 0.0), "level_scale": (1.0, 1.0)},
            "scaling by the mean and the deviation of the whole",
            STREAMING,
        ),
        ({"cell": "implicitgru"}, "a cell that looks ahead", "Choose a cell that looks back only"),
    ],
)
def test_models_that_need_the_whole_sequence(settings, reason, remedy):
    rule = "model must look back only, to read one step at a time; got"
    with pytest.raises(checks.InputError, match=f"{rule} '{reason}.*{remedy}"):
        Classifier(**{"cell": "gru", "input_size": 2, "output_size": 3, **settings}).stream()


def test_questions_are_read_as_a_whole():
    model = QuestionAnswering("gru", 1, 4, hidden_size=4, vocabularies=[9], embedding_size=[3])
    with pytest.raises(checks.InputError, match="a QuestionAnswering, which reads whole sequences"):
        model.stream()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ([1.0, 2.0, 3.0], r"x must have shape \(2,\) \(left, right\); got \(3,\)"),
        ([1.0, float("nan")], r"x must have no missing values \(NaN\).*Fill them, or train with missing"),
        ([1.0, float("inf")], "x must have finite values"),
        (["a", "b"], "x must have numbers"),
        ({"left": 1.0}, "x must have a column for every channel of the training data, also 'right'"),
    ],
)
def test_bad_steps(step, message):
    model = trained()
    model.channels = ("left", "right")
    with pytest.raises(checks.InputError, match=message):
        model.stream()(step)


def test_no_prediction_before_the_first_step():
    with pytest.raises(checks.InputError, match="no prediction before its first step"):
        _ = trained().stream().prediction


@pytest.mark.parametrize("layer", [autapse.GRU(3, 4, num_layers=2), autapse.LSTM(3, 4), autapse.EquilibriumTanh(3, 4)])
def test_a_look_at_the_next_step_changes_nothing(layer):
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    stream, plain = layer.stream(), layer.stream()
    for row in x:
        ahead = stream.peek(row)
        stream.peek(-row)
        assert torch.equal(ahead, plain(row))
        assert torch.equal(stream(row), ahead)
    assert stream.position == 6
