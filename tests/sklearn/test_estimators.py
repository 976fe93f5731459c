"""The estimators: what they read and learn, that they repeat, and that they can be saved, copied and searched."""

import json
import pickle
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import autapse
from autapse import checks
from autapse.sklearn import RecurrentClassifier, RecurrentRegressor, SequenceLabeler
from autapse.tasks import Adding
from autapse.training import ModelConfig, RunConfig, TrainingConfig, train
from tolerance import close

SMALL = {"preset": "none", "hidden_size": 6, "batch_size": 8, "learning_rate": 0.03, "random_state": 3}
X = np.random.default_rng(0).normal(size=(24, 2, 12))
Y = np.where(X[:, 0].mean(1) > 0, "up", "down")


def classifier(**parameters):
    return RecurrentClassifier(**{**SMALL, "readout": "mean", "steps": 60, **parameters})


@pytest.fixture(scope="module")
def fitted():
    return classifier(streaming=True).fit(X, Y)


# What is read -------------------------------------------------------------------------------------------------------


def test_all_layouts_of_the_same_series_give_the_same_model():
    expected = classifier().fit(X, Y).predict_proba(X)
    time_first = X.swapaxes(1, 2)
    for x, layout in ((list(X), "nct"), (X.tolist(), "nct"), (time_first, "ntc"), (list(time_first), "ntc")):
        model = classifier(layout=layout).fit(x, Y)
        assert np.array_equal(model.predict_proba(x), expected)
        assert model.n_features_in_ == model.n_channels_in_ == 2


def test_one_channel_needs_no_axis():
    one = X[:, 0]
    expected = classifier().fit(one[:, None], Y).predict_proba(one[:, None])
    model = classifier().fit(one, Y)
    assert (model.n_features_in_, model.n_channels_in_) == (12, 1)
    for x in (one, one[:, None], list(one), one.tolist()):
        assert np.array_equal(model.predict_proba(x), expected)
    assert model.predict([one[0, :5], one[1, :9]]).shape == (2,)  # other lengths too, if they are a list
    assert np.array_equal(classifier().fit(list(one[:, None]), Y).predict_proba(one), expected)


def test_padding_with_nan_is_the_same_as_a_list_of_unequal_lengths():
    lengths = np.random.default_rng(1).integers(3, 13, 24)
    ragged = [one[:, :n] for one, n in zip(X, lengths, strict=True)]
    padded = X.copy()
    for one, n in zip(padded, lengths, strict=True):
        one[:, n:] = np.nan
    first, second = classifier().fit(ragged, Y), classifier().fit(padded, Y)
    assert np.array_equal(first.predict_proba(ragged), second.predict_proba(padded))
    for n in range(24):  # padding changes nothing: a series alone has no padding
        np.testing.assert_allclose(first.predict_proba([ragged[n]])[0], second.predict_proba(padded)[n], atol=1e-6)


def test_missing_values_are_read_as_the_option_says():
    gaps = X.copy()
    gaps[:, 1, 3] = np.nan
    model = classifier(missing="forward").fit(gaps, Y)
    filled = gaps.copy()
    filled[:, 1, 3] = filled[:, 1, 2]
    np.testing.assert_allclose(model.predict_proba(gaps), model.predict_proba(filled), atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "x", "y", "message"),
    [
        (
            {},
            np.where(np.arange(12) == 4, np.nan, X),
            Y,
            "X[0] must have no missing values before its end; got '2 NaN'",
        ),
        ({}, X * np.nan, Y, "X[0] must have at least one value that is not NaN; got (12, 2)"),
        ({}, X * 1e60, Y, "X[0] must have values of at most 3.4e+38; got 'larger ones'"),
        ({}, [X[0], X[1, :1]], ["a", "b"], "X must have the same number of channels in every sequence; got [1, 2]"),
        ({}, ["some", "text"], ["a", "b"], "could not convert string to float: 'some'"),
        ({}, [[[1.0, "a"]], [[2.0]]], ["a", "b"], "X[0] must be an array of numbers; got 'list'"),
        ({}, X[:, None], Y, "X must have shape [n, channels, time] or [n, time], or be a list; got (24, 1, 2, 12)"),
        ({}, X, Y[:5], "inconsistent numbers of samples: [24, 5]"),
        ({}, X, None, "RecurrentClassifier requires y to be passed, but the target y is None. Call fit(X, y)."),
        ({"layout": "tcn"}, X, Y, "layout must be one of nct, ntc; got 'tcn'"),
        ({"preset": "autos"}, X, Y, "preset must be one of auto, recipe, none; got 'autos'. Did you mean 'auto'?"),
        ({"cell": "gruu"}, X, Y, "Did you mean 'gru'?"),
        ({"steps": 0}, X, Y, "steps must be an integer of at least 1; got 0"),
        ({"time_limit": -1}, X, Y, "time_limit must be a finite number above 0; got -1"),
        ({"settings": {"seed": 1}}, X, Y, "settings must not have seed; got 1. Use random_state."),
        ({"settings": {"steps": 1}}, X, Y, "settings must not have steps; got 1. It is a parameter."),
        ({"settings": {"optimiser": "sgd"}}, X, Y, "Did you mean 'optimizer'?"),
        ({"settings": "sgd"}, X, Y, "settings must be a dict of settings by name; got 'sgd'"),
        ({"early_stop": 2}, X, Y, "validation must be above 0 with early_stop"),
        ({"preset": "auto", "validation": 0.2}, X, Y, 'validation must be 0 with preset="auto"'),
        ({"class_weight": {"up": 0, "down": 0}}, X, Y, "must have at least one weight above zero; got 'only zeros'"),
        ({"random_state": -1}, X, Y, "seed must be an integer of at least 0; got -1"),
    ],
)
def test_errors_of_fit_are_one_clear_line(parameters, x, y, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (scikit-learn raises some of them)
        classifier(**parameters).fit(x, y)
    assert message in str(error.value)
    if isinstance(error.value, checks.InputError):
        assert "\n" not in str(error.value)


def test_errors_of_predict_are_one_clear_line(fitted):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        classifier().predict(X)
    with pytest.raises(checks.ShapeError) as error:
        fitted.predict(X.swapaxes(1, 2))
    assert str(error.value) == (
        'X must have 2 channels, as in fit; got 12. layout="nct" reads [n, channels, time], layout="ntc" reads '
        "[n, time, channels]."
    )
    with pytest.raises(checks.ShapeError, match="X must have 2 channels, as in fit; got 1"):
        fitted.predict(X[:, 0])
    assert not hasattr(classifier(), "model_")


# What is learned ----------------------------------------------------------------------------------------------------


def test_a_classifier_learns_and_describes_itself(fitted):
    assert fitted.score(X, Y) == accuracy_score(Y, fitted.predict(X)) > 0.9
    assert fitted.classes_.tolist() == ["down", "up"]
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1)
    assert fitted.n_iter_ == 60
    assert len(fitted.loss_curve_) == 6
    assert fitted.loss_curve_[-1] < 0.5 * fitted.loss_curve_[0]
    assert (fitted.config_.model.hidden_size, fitted.config_.training.seed) == ((6,), 3)


def test_classes_keep_their_type():
    numbers = np.where(Y == "up", 7, -1)
    model = classifier(steps=1).fit(X, numbers)
    assert model.classes_.dtype == model.predict(X).dtype == numbers.dtype
    assert model.model_.classes == ("-1", "7")


def test_a_regressor_learns_in_the_unit_of_the_targets():
    y = 1000 + 50 * X.mean(2)  # two values for each series
    model = RecurrentRegressor(**SMALL, readout="mean", steps=150).fit(X, y)
    assert model.score(X, y) > 0.9  # R²
    assert model.predict(X).shape == (24, 2)
    assert RecurrentRegressor(**SMALL, steps=1).fit(X, y[:, 0]).predict(X).shape == (24,)
    with pytest.raises(checks.InputError, match="y must have 2 values per series, as before; got 1"):
        model.partial_fit(X, y[:, 0])


def test_a_series_alone_is_predicted_as_among_others(fitted):
    """As scikit-learn's check_methods_subset_invariance, which allows less than one rounding of float32."""
    y = X[:, 0].mean(1)
    for predict in (fitted.predict_proba, RecurrentRegressor(**SMALL, steps=20).fit(X, y).predict):
        whole = torch.from_numpy(predict(X)).float()
        parts = [torch.from_numpy(predict(X[first : first + size])) for first, size in ((0, 1), (1, 2), (3, 21))]
        close(torch.cat(parts).float(), whole)


def test_a_labeler_labels_every_step():
    labels = np.where(X[:, 0] > 0, 5, 2)
    model = SequenceLabeler(**SMALL, steps=100).fit(X, labels)
    predicted = model.predict(X)
    assert predicted.shape == (24, 12)
    assert model.score(X, labels) == (predicted == labels).mean() > 0.9
    assert model.predict_proba(X).shape == (24, 12, 2)
    lengths = [3, 12, 7]
    ragged = [one[:, :n] for one, n in zip(X, lengths, strict=False)]
    answers = model.predict(ragged)
    assert [len(answer) for answer in answers] == lengths
    assert all(np.array_equal(answer, predicted[n, : lengths[n]]) for n, answer in enumerate(answers))
    wrong = [(answer != labels[n, : lengths[n]]).sum() for n, answer in enumerate(answers)]
    weighted = model.score(ragged, list(labels[:3]), sample_weight=[1, 2, 3])
    assert weighted == pytest.approx(1 - np.dot(wrong, [1, 2, 3]) / np.dot(lengths, [1, 2, 3]))
    with pytest.raises(checks.ShapeError, match=r"y\[0\] must have one class per step of X\[0\], 12"):
        model.fit(X, labels[:, :5])
    with pytest.raises(checks.ShapeError, match="y must have one row per series, 24; got 3"):
        model.fit(X, labels[:3])
    with pytest.raises(checks.InputError, match='class_weight must be None or "balanced"'):
        SequenceLabeler(**SMALL, class_weight={2: 1}).fit(X, labels)


def test_sequences_with_a_larger_weight_count_more():
    """The same series with both labels: the one with the larger weight wins."""
    twice, labels = np.concatenate([X, X]), np.repeat(["a", "b"], 24)
    for heavy, weights in (("a", [3.0, 1.0]), ("b", [1.0, 3.0])):
        model = classifier(steps=30).fit(twice, labels, sample_weight=np.repeat(weights, 24))
        assert set(model.predict(X)) == {heavy}


def test_a_weight_of_zero_is_the_same_as_no_sequence():
    """Also for the scaling: the other series are a hundred times larger."""
    both, weights = np.concatenate([100 * X[:5], X]), np.repeat([0.0, 2.0], [5, 24])
    model = classifier(steps=5).fit(both, np.concatenate([Y[:5], Y]), sample_weight=weights)
    assert np.array_equal(model.predict_proba(X), classifier(steps=5).fit(X, Y).predict_proba(X))


def test_weights_follow_their_sequences_past_the_validation_set():
    """Noise labels have a weight near 0. If weights were mixed up, they would be learned."""
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(72, 2, 12))
    series, labels = np.concatenate([noise, X]), np.concatenate([np.where(noise[:, 0].mean(1) > 0, "down", "up"), Y])
    order = rng.permutation(96)
    weights = np.repeat([1e-6, 1.0], [72, 24])
    model = classifier(validation=0.1, settings={"select_by": "last"})
    model.fit(series[order], labels[order], sample_weight=weights[order])
    assert model.score(X, Y) > 0.7


def test_class_weights_are_weights_of_sequences():
    labels = np.where(X[:, 0].mean(1) > 0.3, "rare", "usual")
    counts = {name: (labels == name).sum() for name in ("rare", "usual")}
    each = np.array([24 / (2 * counts[name]) for name in labels])  # n / (K n_c)
    expected = classifier(steps=9).fit(X, labels, sample_weight=each).predict_proba(X)
    for given in ("balanced", {name: 24 / (2 * count) for name, count in counts.items()}):
        assert np.array_equal(classifier(steps=9, class_weight=given).fit(X, labels).predict_proba(X), expected)
    assert not np.array_equal(classifier(steps=9).fit(X, labels).predict_proba(X), expected)


def test_validation_chooses_the_best_weights_and_can_stop_early():
    noise = np.random.default_rng(2).permutation(Y)  # cannot be learned
    model = classifier(validation=0.25, early_stop=2, steps=400, settings={"eval_every": 10}).fit(X, noise)
    assert model.n_iter_ < 400
    assert any("validation" in record for record in model.history_)
    model = classifier(preset="recipe", validation=0.25, steps=2).fit(X, Y)
    assert model.config_.training.select_by == "loss"


def test_presets_choose_what_is_not_given():
    model = classifier(preset="recipe", hidden_size=4, steps=2).fit(X, Y)
    assert (model.config_.model.front, model.config_.training.optimizer) == ("conv:steps=300", "adamw")
    assert (model.config_.model.readout, model.config_.model.hidden_size) == ("mean", (4,))
    assert not hasattr(model, "trials_")
    fixed = {"front": "none", "readout": "mean", "hidden_size": 4, "batch_size": 8, "steps": 60}
    model = RecurrentClassifier(**fixed, time_limit=60, random_state=0, scaling="channel", differences=False).fit(X, Y)
    assert len(model.trials_) > 1
    assert [row["name"] for row in model.trials_ if row["chosen"]]
    assert not {"differences", "no front end", "scaling per series"} & {row["name"] for row in model.trials_}
    assert (model.n_iter_, model.config_.task.validation) == (60, 0.0)
    assert model.score(X, Y) > 0.8


def test_a_time_limit_ends_the_training():
    assert classifier(steps=10**6, time_limit=0.2).fit(X, Y).n_iter_ < 10**5


# That it repeats ----------------------------------------------------------------------------------------------------


def test_the_same_random_state_gives_the_same_model():
    first, second = (classifier(steps=5).fit(X, Y).predict_proba(X) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, classifier(steps=5, random_state=4).fit(X, Y).predict_proba(X))
    generators = [classifier(steps=5, random_state=np.random.RandomState(7)) for _ in range(2)]
    assert np.array_equal(*(one.fit(X, Y).predict_proba(X) for one in generators))


def test_torch_continues_as_if_nothing_was_trained():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    classifier(steps=2).fit(X, Y)
    assert torch.equal(torch.rand(3), expected)


OPENED: list[tuple[str, object]] = []
WATCHING: list[bool] = []


def watch(event, arguments):
    writes = event == "open" and set("wax+") & set(str(arguments[1] or ""))
    named = not isinstance((*arguments, None)[0], int)  # an integer is an open pipe
    if WATCHING and named and (writes or event == "os.mkdir"):
        OPENED.append(arguments)


def test_fit_writes_nothing_to_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    classifier(steps=1).fit(X, Y)  # torch makes a folder of its own when optimizers are first used
    sys.addaudithook(watch)
    WATCHING.append(True)
    torch.set_num_threads(2)  # so that the preset auto starts a second process
    searched = {"preset": "auto", "front": "none", "batch_size": 8, "steps": 10, "time_limit": 30}
    for model in (RecurrentClassifier(**searched), classifier(steps=20)):
        model.fit(X, Y)
    assert OPENED == []
    model.save("saved.safetensors")  # the watch works
    WATCHING.clear()
    assert OPENED != []
    assert [path.name for path in tmp_path.iterdir()] == ["saved.safetensors"]


# Further training ---------------------------------------------------------------------------------------------------


def test_passes_of_partial_fit_are_epochs_of_fit():
    """Bit for bit: the order of batches, the state of the optimizer and the number of updates continue."""
    whole = classifier(steps=None, epochs=4).fit(X, Y)
    model = classifier(steps=None)
    for _ in range(4):
        model.partial_fit(X, Y, classes=["down", "up"])
    assert model.n_iter_ == whole.n_iter_ == 12
    assert np.array_equal(model.predict_proba(X), whole.predict_proba(X))
    labels = np.where(X[:, 0] > 0, 5, 2)
    whole = SequenceLabeler(**SMALL, epochs=2).fit(X, labels)
    labeler = SequenceLabeler(**SMALL).partial_fit(X, labels, classes=[2, 5]).partial_fit(X, labels)
    assert np.array_equal(labeler.predict_proba(X), whole.predict_proba(X))
    values = RecurrentRegressor(**SMALL, epochs=2).fit(X, X[:, 0, 0]).predict(X)
    regressor = RecurrentRegressor(**SMALL).partial_fit(X, X[:, 0, 0]).partial_fit(X, X[:, 0, 0])
    assert np.array_equal(regressor.predict(X), values)


def test_partial_fit_knows_classes_that_come_later():
    model = classifier(learning_rate=0.02)
    first, second = Y == "up", Y == "down"
    for _ in range(20):
        model.partial_fit(X[first], Y[first], classes=["up", "down", "never"]).partial_fit(X[second], Y[second])
    assert model.classes_.tolist() == ["down", "never", "up"]
    assert model.predict_proba(X).shape == (24, 3)
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize(
    ("parameters", "options", "message"),
    [
        ({}, {}, "classes must have all classes in the first call of partial_fit; got None"),
        ({}, {"classes": ["up"]}, "y must have no classes but ['up']; got ['down']"),
        ({"class_weight": "balanced"}, {"classes": ["up", "down"]}, "class_weight must not be balanced in partial_fit"),
    ],
)
def test_errors_of_partial_fit(parameters, options, message):
    with pytest.raises(checks.InputError) as error:
        classifier(**parameters).partial_fit(X, Y, **options)
    assert message in str(error.value)


def test_classes_stay_the_same(fitted):
    with pytest.raises(checks.InputError, match="classes must be the same in every call"):
        pickle.loads(pickle.dumps(fitted)).partial_fit(X, Y, classes=["up", "down", "other"])


# Files, streams, copies ---------------------------------------------------------------------------------------------


def test_a_saved_estimator_is_the_same(fitted, tmp_path):
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    loaded = RecurrentClassifier.load(path)
    assert loaded.get_params() == fitted.get_params()
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert loaded.n_iter_ == 60
    copy = pickle.loads(pickle.dumps(fitted))
    for model in (loaded, copy):  # training continues in the same way
        model.partial_fit(X, Y)
    assert np.array_equal(loaded.predict_proba(X), copy.predict_proba(X))


def test_autapse_loads_a_saved_estimator(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    model = autapse.load(tmp_path / "model.safetensors")
    assert model.predict(X.swapaxes(1, 2)).tolist() == fitted.predict(X).tolist()


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (classifier(steps=2, class_weight={3: 1.0, 4: 2.0}, hidden_size=(4, 5)), np.repeat([3, 4], 12)),
        (classifier(steps=2, cell=autapse.cells.RIN), np.array(["a", "b"] * 12, dtype=object)),
        (classifier(steps=2, random_state=np.random.RandomState(0), hidden_size=np.int64(3)), [True, False] * 12),
        (RecurrentRegressor(**SMALL, steps=2, settings={"optimizer": "sgd"}), np.arange(24.0)),
        (SequenceLabeler(**SMALL, steps=2), [["x", "y"] * 6] * 24),
    ],
    ids=["class weights", "own cell", "generator", "settings", "labeler"],
)
def test_every_estimator_can_be_saved(estimator, y, tmp_path):
    estimator.fit(X, y)
    estimator.save(tmp_path / "model")
    loaded = type(estimator).load(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), estimator.predict(X))
    assert getattr(loaded, "class_weight", None) == getattr(estimator, "class_weight", None)
    clone(loaded).fit(X, y)  # its parameters are usable


def test_other_files_are_refused_in_one_line(fitted, tmp_path):
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    with pytest.raises(checks.InputError, match=r"has a RecurrentClassifier, not a SequenceLabeler. Use Recurrent"):
        SequenceLabeler.load(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(checks.InputError, match="is damaged"):
        RecurrentClassifier.load(path)
    with pytest.raises(checks.InputError, match="is missing"):
        RecurrentClassifier.load(tmp_path / "other")
    config = RunConfig(task=Adding(length=5), model=ModelConfig(hidden_size=4), training=TrainingConfig(steps=1))
    train(config, tmp_path / "run")
    with pytest.raises(checks.InputError, match=r"has a model, but no estimator. autapse.load reads it"):
        RecurrentClassifier.load(tmp_path / "run" / "checkpoint-1.safetensors")


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("params", "steps_", 1, "unexpected keyword argument 'steps_'"),
        ("params", "cell", {"pears": []}, "is damaged: 'array'"),
        ("attributes", "n_channels_in_", 3, "its channels are not those of its model"),
        ("attributes", "n_channels_in_", "two", "n_channels_in_ is 'two'"),
        ("attributes", "classes_", {"array": ["a"], "dtype": "<U4"}, "its classes are not those of its model"),
        ("attributes", "classes_", {"array": ["a"], "dtype": "number"}, "data type 'number' not understood"),
        ("attributes", "secret_", 1, "not n_features_in_, n_channels_in_, _table, classes_, secret_"),
    ],
)
def test_a_changed_file_is_refused_in_one_line(fitted, tmp_path, part, name, value, message):
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    with safe_open(path, framework="pt") as file:
        about, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    estimator = json.loads(about["estimator"])
    estimator[part][name] = value
    save_file(tensors, path, about | {"estimator": json.dumps(estimator)})
    with pytest.raises(checks.InputError) as error:
        RecurrentClassifier.load(path)
    assert message in str(error.value)


def test_a_stream_ends_where_predict_does(fitted):
    stream = fitted.stream()
    for step in X[0].T:
        scores = stream(step)
    np.testing.assert_allclose(scores, fitted.predict_proba(X[:1])[0], atol=1e-5)
    assert stream.prediction == fitted.predict(X[:1])[0]


def test_pickles_and_clones(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    assert len(pickle.dumps(fitted)) < 60_000  # the training data is not in it
    twin = clone(fitted)
    assert not hasattr(twin, "model_")
    assert np.array_equal(twin.fit(X, Y).predict_proba(X), fitted.predict_proba(X))


def test_a_pipeline_and_a_search_over_processes():
    pipeline = make_pipeline(StandardScaler(), classifier(steps=40))
    assert cross_val_score(pipeline, X[:, 0], Y, cv=2).shape == (2,)
    search = GridSearchCV(classifier(steps=40), {"hidden_size": [3, np.int64(5)]}, cv=2, n_jobs=2).fit(X, Y)
    assert search.best_params_["hidden_size"] in (3, 5)
    best = classifier(steps=40, hidden_size=int(search.best_params_["hidden_size"])).fit(X, Y)
    np.testing.assert_allclose(search.predict_proba(X), best.predict_proba(X), atol=1e-6)


def test_without_scikit_learn_one_line_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("autapse.sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError) as error:
        import autapse.sklearn  # noqa: F401
    assert str(error.value) == "autapse.sklearn needs scikit-learn: pip install 'autapse[sklearn]'"


class Frame:
    """As much of a data frame as estimators use."""

    def __init__(self, **columns) -> None:
        self.named = {name: np.asarray(values) for name, values in columns.items()}
        self.columns = list(self.named)
        self.shape = (len(self.named[self.columns[0]]), len(self.columns))

    def __getitem__(self, name):
        return self.named[name]


def test_data_frames_have_a_row_per_step_and_their_columns_are_matched_by_name(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(length, 2)) for length in (5, 7, 6, 5, 9, 5)]
    frames = [Frame(u=one[:, 0], v=one[:, 1]) for one in arrays]
    swapped = [Frame(v=one[:, 1], other=one[:, 0], u=one[:, 0]) for one in arrays]
    y = ["a", "b"] * 3
    model = RecurrentClassifier(preset="none", steps=3, hidden_size=4, random_state=0).fit(frames, y)
    plain = RecurrentClassifier(preset="none", steps=3, hidden_size=4, random_state=0, layout="ntc").fit(arrays, y)
    expected = plain.predict_proba(arrays)
    assert model.model_.channels == ("u", "v")
    model.save(tmp_path / "model")
    for one in (model, RecurrentClassifier.load(tmp_path / "model")):
        assert np.array_equal(one.predict_proba(frames), expected)
        assert np.array_equal(one.predict_proba(swapped), expected)
    assert not hasattr(model.fit([one.T for one in arrays], y), "channel_names_in_")


def test_a_data_frame_without_a_channel_is_an_error():
    frames = [Frame(u=[1.0, 2.0], v=[3.0, 4.0]) for _ in range(4)]
    model = RecurrentClassifier(preset="none", steps=1, hidden_size=2).fit(frames, ["a", "b"] * 2)
    with pytest.raises(
        checks.InputError, match=r"X\[0\] must have a column for every channel, also 'v'; got \['u', 'w'\]"
    ):
        model.predict([Frame(u=[1.0], w=[2.0])])
    with pytest.raises(checks.InputError, match=r"X\[0\]: column u must be an array of numbers; got 'ndarray'"):
        model.predict([Frame(u=["x"], v=[2.0])])
