"""Default settings of a kind of task: what is given stays, and without validation data other settings hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autapse.tasks import Expressions, ForecastArrays, TextPairs
from autapse.training import RunConfig
from autapse.training.forecast_settings import FORECAST
from autapse.training.generate_settings import GENERATE
from autapse.training.translate_settings import TRANSLATE
from autapse.training.tree_settings import TREES

PAIRS = [(f"{n}", f"{n + 1}") for n in range(30)]
EVERY = pytest.mark.parametrize("defaults", [FORECAST, GENERATE, TRANSLATE])


@EVERY
def test_the_settings_without_validation_differ_from_the_others(defaults):
    usual = defaults.training_config()
    assert all(getattr(usual, name) != value for name, value in defaults.without_validation.items())
    replace(usual, **defaults.without_validation)  # and fit together


def test_without_validation_nothing_is_selected():
    held_out, none = TextPairs(PAIRS), TextPairs(PAIRS, validation=0.0)
    assert TRANSLATE.config(held_out, None, None).training.select_by == "loss"
    settled = TRANSLATE.config(none, None, {"steps": 7}).training
    assert (settled.select_by, settled.early_stop, settled.steps) == ("last", None, 7)


def test_an_encoder_that_looks_ahead_reads_in_one_direction():
    def directions(**model):
        return TRANSLATE.config(TextPairs(PAIRS), model, None).model.bidirectional

    assert directions()
    assert directions(cell="lstm", encoder="ernn:inner_steps=2")
    assert not directions(encoder="implicitgru")
    assert not directions(encoder="deep:cell=(gru)", bidirectional=False)
    assert directions(encoder="implicitgru", bidirectional=True)  # which the layer refuses


def test_given_steps_replace_the_epochs_of_the_defaults():
    assert TREES.training["epochs"]
    config = RunConfig(task=Expressions(), model=TREES.model_config(), training=TREES.training_config({"steps": 7}))
    for settled in (TREES.settled(config, {"steps"}), TREES.config(Expressions(), None, {"steps": 7})):
        assert (settled.training.steps, settled.training.epochs) == (7, None)
    assert TREES.config(Expressions(), None, {"steps": 7, "epochs": 2.0}).training.epochs == 2


def test_what_is_given_stays():
    none = ForecastArrays(np.sin(np.arange(200)), horizon=3, validation=0.0)
    assert FORECAST.config(none, {"hidden_size": (3,)}, None).model.hidden_size == (3,)
    assert FORECAST.config(none, None, None).training.steps == 500
    assert FORECAST.config(none, None, {"steps": 2000}).training.steps == 2000  # also if it is the usual default
    given = RunConfig(task=none, model=FORECAST.model_config(), training=FORECAST.training_config({"steps": 70}))
    assert FORECAST.settled(given).training.steps == 70
