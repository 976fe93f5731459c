"""What people pass to a trained model, and what comes back."""

import copy
import pickle
from collections import UserDict

import numpy as np
import pytest
import torch

from autapse import checks
from autapse.models import Classifier, Regressor, Tagger

NAMES = ("rest", "run", "walk")


def model_of(kind=Classifier, channels=2, **settings):
    torch.manual_seed(0)
    model = kind("gru", channels, 3, hidden_size=6, **settings)
    model.classes, model.channels = NAMES, ("left", "right")[:channels]
    return model


def series(channels=2, lengths=(7, 3, 5)):
    rng = np.random.default_rng(0)
    return [rng.normal(0, 3, (n, channels)) for n in lengths]


def expected(model, values):
    """The scores of one series alone, from a plain call."""
    with torch.no_grad():
        return model.eval()(torch.from_numpy(values.astype(np.float32))[None])[0].numpy()


def names(model, many):
    return [NAMES[expected(model, one).argmax()] for one in many]


class Frame(UserDict):
    """The part of a data frame that predict uses."""

    @property
    def columns(self):
        return list(self.data)


def test_many_series():
    model, many = model_of(), series()
    assert len(set(names(model, many))) > 1
    assert model.predict(many).tolist() == names(model, many)
    assert model.predict([one.tolist() for one in many]).tolist() == names(model, many)
    padded = np.stack([np.pad(one, ((0, 7 - len(one)), (0, 0)), constant_values=9.0) for one in many])
    assert model.predict(padded, lengths=[7, 3, 5]).tolist() == names(model, many)
    assert model.predict(padded[:, :3]).tolist() == names(model, padded[:, :3])


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int16])
def test_kinds_of_numbers(kind):
    model, many = model_of(), [one.astype(kind) for one in series()]
    assert model.predict(many).tolist() == names(model, many)


def test_one_series():
    model, one = model_of(), series()[0]
    for given in (one, one.tolist(), Frame(left=one[:, 0], right=one[:, 1])):
        assert model.predict(given) == names(model, [one])[0]
        assert isinstance(model.predict(given), str)
        assert model.predict_proba(given).shape == (3,)


def test_columns_of_a_table_are_matched_by_name():
    model, many = model_of(), series()
    swapped = [{"right": one[:, 1], "time": ["x"] * len(one), "left": one[:, 0]} for one in many]
    assert model.predict(swapped).tolist() == names(model, many)
    fields = np.array([(b, a) for a, b in many[0]], dtype=[("right", float), ("left", float)])
    assert model.predict(fields) == names(model, many)[0]


def test_one_channel():
    model = model_of(channels=1)
    one, two = (values[:, 0] for values in series(1, (7, 7)))
    both = names(model, [one[:, None], two[:, None]])
    assert model.predict(one) == model.predict(one[:, None]) == both[0]
    assert model.predict(np.stack([one, two])).tolist() == both
    assert model.predict([one, two]).tolist() == both
    assert model.predict([one, two[:4]]).tolist() == names(model, [one[:, None], two[:4, None]])


def test_probabilities():
    model, many = model_of(), series()
    scores = np.exp([expected(model, one) for one in many])
    np.testing.assert_allclose(model.predict_proba(many), scores / scores.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(many).sum(1), 1, rtol=1e-12)
    x = torch.from_numpy(many[0].astype(np.float32))[None]
    assert isinstance(model.predict_proba(x), torch.Tensor)
    np.testing.assert_allclose(model.predict_proba(x)[0].numpy(), model.predict_proba(many[0]), rtol=1e-5)


def test_classes_without_names_are_numbers():
    model, many = model_of(), series()
    model.classes = ()
    assert model.predict(many).tolist() == [int(expected(model, one).argmax()) for one in many]


def test_values():
    model, many = model_of(Regressor, target_mean=[1.0, 2.0, 3.0]), series()
    np.testing.assert_allclose(model.predict(many), [expected(model, one) for one in many], rtol=1e-5)
    assert model.predict(many[0]).shape == (3,)
    with pytest.raises(checks.InputError, match="A Regressor has values, not probabilities of classes"):
        model.predict_proba(many)


def test_a_class_at_every_step():
    model, many = model_of(Tagger), series()
    wanted = [[NAMES[n] for n in expected(model, one).argmax(1)] for one in many]
    assert [one.tolist() for one in model.predict(many)] == wanted
    assert model.predict(many[1]).tolist() == wanted[1]
    array = np.stack([many[0][:3], many[1]])
    assert model.predict(array).shape == (2, 3)
    assert model.predict_proba(array).shape == (2, 3, 3)
    assert [one.shape for one in model.predict_proba(many)] == [(7, 3), (3, 3), (5, 3)]


def test_a_tensor_gives_numbers():
    model, many = model_of(), series()
    x = torch.from_numpy(np.stack([many[0][:3], many[1]]))  # float64
    assert model.predict(x).tolist() == [NAMES.index(name) for name in names(model, x.numpy())]
    assert model.predict(x).dtype == torch.int64


def test_many_batches():
    """More series than fit in one batch, of all lengths, come back in their order."""
    model = model_of()
    rng = np.random.default_rng(0)
    many = [rng.normal(size=(n, 2)) for n in rng.integers(1, 9, 600)]
    assert model.predict(many).tolist() == names(model, many)


def test_gaps_that_the_model_knows():
    model, (one, *_) = model_of(missing="mean"), series()
    one[2, 1] = np.nan
    filled = one.copy()
    filled[2, 1] = 0.0  # the mean of unscaled values
    np.testing.assert_allclose(model.predict_proba(one), model.predict_proba(filled))
    tensor = torch.from_numpy(one)[None]
    np.testing.assert_allclose(model.predict_proba(tensor)[0], model.predict_proba(filled), rtol=1e-5)


GAP = np.array([[1.0, np.nan], [2.0, 3.0]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (GAP, r"x must have no missing values \(NaN\), since the training data had none; got 1. Fill them, or train"),
        ([GAP, GAP[:1]], r"x\[0\] must have no missing values"),
        (torch.from_numpy(GAP), "input must have finite values; got '1 that are NaN or infinite'. Fill them"),
        ([[1.0, np.inf]], "x must have finite values; got 'infinity"),
        ([[1.0, 1e300]], "x must have finite values; got 'infinity, or a value that float32 cannot hold'"),
        (np.zeros((4, 3)), r"x must have 2 channels per step \(left, right\), as the training data; got \(4, 3\)"),
        (np.zeros((2, 4, 3)), r"x must have 2 channels per step .*got \(2, 4, 3\)"),
        ([np.zeros((4, 2)), np.zeros((3, 1))], r"x\[1\] must have 2 channels per step .*got \(3, 1\)"),
        ([[[1.0, 2.0], [3.0]]], r"x\[0\] must have the same number of channels at every step"),
        (np.zeros(4), r"x must have 2 channels per step"),
        (np.zeros((0, 2)), "x must have at least one step"),
        ([], "x must have"),
        ([["a", "b"]], "must have numbers"),
        (
            {"left": [1.0], "rihgt": [2.0]},
            "every channel of the training data, also 'right'; got .*Did you mean 'rihgt'",
        ),
        ({"left": [1.0], "right": [2.0, 3.0]}, "x must have columns of the same length"),
        ({"left": ["a"], "right": [2.0]}, "x: column left must have numbers"),
    ],
)
def test_one_clear_sentence(given, message):
    with pytest.raises(checks.InputError, match=message) as caught:
        model_of().predict(given)
    assert "\n" not in str(caught.value)


def test_padding_of_a_tensor_may_be_anything():
    model, x = model_of(), torch.zeros(2, 5, 2)
    x[1, 3:] = torch.nan
    assert model.predict(x, [5, 3]).shape == (2,)


def test_a_table_needs_names():
    model = model_of()
    model.channels = ()
    with pytest.raises(checks.InputError, match="x must be an array, since the channels of the training data had no"):
        model.predict({"left": [1.0], "right": [2.0]})


def test_bad_lengths():
    for lengths, given in (([9], np.zeros((1, 4, 2))), ([1, 2], [np.zeros((4, 2)), np.zeros((3, 2))])):
        with pytest.raises(checks.InputError, match="lengths must be"):
            model_of().predict(given, lengths)


def test_a_model_can_be_pickled_and_copied():
    model = model_of(front="conv:channels=4", readout="attention", readout_front=True, output_norm=True, missing="mask")
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert (twin.classes, twin.channels) == (model.classes, model.channels)
        np.testing.assert_array_equal(twin.predict_proba(series()), model.predict_proba(series()))
