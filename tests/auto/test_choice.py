"""The preset auto on data that is made to be easy, small, or of very different scales."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch

from autapse import checks
from autapse.auto import choose, recipe
from autapse.auto.folds import fold
from autapse.auto.pool import Pool
from autapse.auto.recipes import CONV
from autapse.auto.trial import Job
from autapse.cli.kind import RunArguments
from autapse.cli.preset import given_options, preset_of
from autapse.cli.repeat import command
from autapse.cli.run import parse_task
from autapse.tasks import DSA, HAR, Adding, ArrayTask, Digits, OwnSeries
from autapse.tasks.stored import Examples
from autapse.training import RunConfig, fit, train
from autapse.training.loop import threads

SHORT = {"steps": 40, "batch_size": 16}


def waves(count: int, classes: int = 2, seed: int = 0, channels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Sines of two frequencies with random phases, in noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % classes
    phase = rng.uniform(0, 6, (count, 1, channels))
    time = np.arange(40)[None, :, None]
    return np.sin(time * (0.3 + 0.3 * y[:, None, None]) + phase) + 0.3 * rng.normal(size=(count, 40, channels)), y


def test_ten_series_per_class_are_enough_for_waves():
    x, y = waves(30, classes=3)
    test = waves(90, classes=3, seed=1)
    choice = choose(ArrayTask(x, y, test=test), seconds=20, training=SHORT | {"steps": 150})
    model = fit(choice.config).model
    predicted = model.predict(torch.as_tensor(test[0], dtype=torch.float32))
    assert float((predicted.numpy() == test[1]).mean()) > 0.9


def test_series_whose_scales_differ_by_ten_thousand_are_learned():
    """The class is in the shape. The recipe standardises each series, since series differ by orders of magnitude."""
    x, y = waves(60)
    factors = 10.0 ** np.random.default_rng(3).uniform(-2, 2, (120, 1, 1))
    test = waves(60, seed=1)
    task = ArrayTask(x * factors[:60], y, test=(test[0] * factors[60:], test[1]))
    assert task.signature().level_mean
    model = fit(recipe(task.changed(validation=0.0), training=SHORT | {"steps": 150})).model
    predicted = model.predict(torch.as_tensor(test[0] * factors[60:], dtype=torch.float32))
    assert float((predicted.numpy() == y).mean()) > 0.9


def test_the_same_seed_chooses_and_trains_the_same(tmp_path):
    x, y = waves(24)
    choices = [choose(ArrayTask(x, y), seconds=60, training=SHORT | {"steps": 3}) for _ in range(2)]
    one, other = choices
    assert one.config == other.config
    assert [trial.losses.tolist() for trial in one.trials] == [trial.losses.tolist() for trial in other.trials]
    assert all(len(trial.outcomes) >= 1 for trial in one.trials)
    assert len(one.table()) == len(one.trials)


def test_helpers_give_the_bits_of_this_process():
    x, y = waves(24)
    task = ArrayTask(x, y, validation=0.0)
    config = recipe(task, training=SHORT | {"steps": 4})
    data = fold(Examples(*(task.parts().train.inputs, task.parts().train.targets)), seed=0)
    jobs = [
        Job(model=config.model, training=config.training, signature=task.signature(), fold=n, until=2e10)
        for n in range(4)
    ]
    results = []
    for processes in (1, 2):
        with Pool(data, processes) as pool:
            results.append([outcome.losses for outcome in pool.map(jobs)])
    assert results[0] == results[1]


def test_a_helper_that_dies_loses_no_job():
    x, y = waves(16)
    task = ArrayTask(x, y, validation=0.0)
    config = recipe(task, training=SHORT | {"steps": 2})
    job = Job(model=config.model, training=config.training, signature=task.signature(), fold=0, until=2e10)
    with Pool(fold(task.parts().train, 0), 2) as pool:
        pool._helpers[0].kill()
        assert all(outcome is not None for outcome in pool.map([job] * 3))


def test_given_settings_stay_as_they_are():
    x, y = waves(16)
    given = {"cell": "rnn", "front": "none", "bidirectional": False}
    choice = choose(ArrayTask(x, y), seconds=30, model=given, training=SHORT | {"steps": 2, "augment": "none"})
    for trial in choice.trials:
        assert {name: getattr(trial.candidate.config.model, name) for name in given} == given
        assert trial.candidate.config.training.augment == "none"
    names = [trial.candidate.name for trial in choice.trials]
    assert names[0] == "recipe"
    assert not {"lstm", "no front end", "recurrent readout", "time warp"} & set(names)


def test_too_few_series_to_compare_are_trained_with_the_recipe():
    x, y = waves(6)
    choice = choose(ArrayTask(x, y, test=(x, y)), seconds=10, training=SHORT | {"steps": 2})
    assert choice.winner == "recipe"
    assert "too few" in choice.reason


def test_values_are_chosen_for_too():
    x, _ = waves(24)
    choice = choose(ArrayTask(x, x.mean((1, 2))), seconds=30, training=SHORT | {"steps": 2})
    assert choice.config.training.label_smoothing == 0
    assert all(np.isfinite(trial.loss) for trial in choice.trials)


def test_an_unknown_setting_is_an_error():
    x, y = waves(8)
    with pytest.raises(
        checks.InputError, match=r"setting must be one of .*; got 'hiden_size'. Did you mean 'hidden_size'"
    ):
        recipe(ArrayTask(x, y), model={"hiden_size": 3})


# The command line ---------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path, monkeypatch):
    x, y = waves(20, channels=1)
    lines = [f"{n},{value},{'ab'[y[n]]}" for n, series in enumerate(x[:, :6, 0]) for value in series]
    (tmp_path / "own.csv").write_text("sequence,x,target\n" + "\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "own.csv"


def test_the_printed_command_gives_the_same_config(own):
    choice = choose(OwnSeries(path=str(own)), seconds=30, training={"batch_size": 4, "seed": 7})
    config = replace(choice.config, training=replace(choice.config.training, steps=2, seconds=None, bucket=False))
    args = parse_task(RunArguments, "run", shlex.split(command(config))[2:])
    assert RunConfig(task=args.task, model=args.model, training=args.training) == config
    assert args.preset == "none"


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        ("", "auto"),
        ("--seed 3 --seconds 20 --scaling none", "auto"),
        ("--cell lstm", "none"),
        ("--hidden-size=8", "none"),
        ("--steps 100", "none"),
        ("--preset auto --cell lstm", "auto"),
        ("--preset recipe --cell lstm", "recipe"),
        ("--preset none", "none"),
    ],
)
def test_options_decide_the_preset(own, words, preset):
    args = parse_task(RunArguments, "run", ["own.csv", *words.split()])
    assert preset_of(args.task, args.preset, given_options(words.split())) == preset


def test_generated_tasks_have_no_preset():
    assert preset_of(Adding(), None, set()) == "none"


@pytest.mark.parametrize("task", [HAR(classes=2), DSA(), Digits()], ids=lambda task: task.name)
def test_built_in_series_have_the_recipe_unless_options_describe_a_network(task):
    assert preset_of(task, None, {"classes", "seed", "seconds"}) == "recipe"
    assert preset_of(task, None, {"cell"}) == "none"
    with pytest.raises(checks.InputError, match=f"preset must be recipe or none for {task.name}: auto is for classes"):
        preset_of(task, "auto", set())


def test_the_recipe_of_a_built_in_task_follows_its_training_data():
    config = recipe(Digits(), training={"seed": 1})
    assert (config.reader.front, config.training.batch_size, config.training.select_by) == (CONV, 64, "loss")
    assert config.training.steps == max(1500, 30 * 1197 // 64)


def test_training_a_choice_twice_gives_the_same_bits(tmp_path):
    x, y = waves(20)
    config = choose(ArrayTask(x, y), seconds=30, training=SHORT | {"steps": 5}).config
    one, two = (train(config, tmp_path / name) for name in "ab")
    assert one.test == two.test


@pytest.mark.parametrize(
    ("model", "members"), [({}, 4), ({"members": 2}, 2), ({"streaming": True}, 1)], ids=["time", "given", "streaming"]
)
def test_time_that_is_left_is_used_for_further_networks(monkeypatch, model, members):
    """A step takes 1 ms, and the last training has 1000 s: there is time for more than enough networks."""
    monkeypatch.setattr("autapse.auto.choice.seconds_per_step", lambda job, _: 1e-3 * job.model.members)
    choice = choose(ArrayTask(*waves(6)), seconds=1000, model=model)
    assert choice.config.reader.members == members
    assert ("4 networks that answer together" in choice.reason) == (members == 4)


def test_steps_come_before_further_networks(monkeypatch):
    monkeypatch.setattr("autapse.auto.choice.seconds_per_step", lambda job, _: 1.0 * job.model.members)
    config = choose(ArrayTask(*waves(6)), seconds=1000).config
    assert config.reader.members == 1
    assert 0 < config.training.steps <= 850


@pytest.mark.parametrize(("step", "members"), [(0.6, 2), (0.3, 4), (2.0, 2)])
def test_networks_side_by_side_cost_little(monkeypatch, step, members):
    """Two threads, on which two networks take 1.1 times as long as one: 850 s for 1500 steps at most."""

    def seconds(job, _data):
        return step * (1.1 if job.model.members == 2 and torch.get_num_threads() == 2 else job.model.members)

    monkeypatch.setattr("autapse.auto.choice.seconds_per_step", seconds)
    with threads(2):
        config = choose(ArrayTask(*waves(3)), seconds=1000).config
    assert (config.reader.members, config.training.threads) == (members, None)


def test_a_given_number_of_threads_is_kept(monkeypatch):
    monkeypatch.setattr("autapse.auto.choice.seconds_per_step", lambda job, _: 0.6 * job.model.members)
    config = choose(ArrayTask(*waves(3)), seconds=1000, training={"threads": 1}).config
    assert (config.reader.members, config.training.threads) == (1, 1)
