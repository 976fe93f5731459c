import dataclasses
import json
import os
import signal
import threading

import numpy as np
import pytest
import torch

import autapse
from autapse import checks
from autapse.tasks import Walk, WalkVariance
from autapse.training import Interrupted, ModelConfig, RunConfig, Summary, Tensors, Trainer, evaluate, train
from autapse.training.evaluation import Scores
from autapse.training.log import read_metrics
from autapse.training.objectives import objective
from small import TASK, final_tensors, small_config, step_of, with_seed


def test_a_run_is_a_folder_with_its_records(tmp_path):
    summary = train(small_config(), tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "checkpoint-30.safetensors",
        "config.json",
        "metrics.jsonl",
        "state.json",
        "summary.json",
    ]
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    records = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [r["step"] for r in records if "validation" in r] == [10, 20, 30]
    assert [r["step"] for r in records if "loss" in r] == [10, 20, 30]


def test_training_learns(tmp_path):
    """A GRU sums two marked numbers of ten far better than the trivial predictor."""
    config = small_config(dataclasses.replace(TASK, train_size=2000), steps=600, learning_rate=0.02, eval_every=50)
    assert train(config, tmp_path / "run")["test"] < 0.05 < 1 / 6


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch notes calls only before it uses a GPU")
def test_steps_leave_nothing_behind_in_torch(tmp_path):
    """torch.manual_seed keeps a note of each call, with the whole stack, for GPUs that may be used later."""
    train(small_config(steps=2), tmp_path / "first")
    before = len(torch.cuda._queued_calls)
    train(small_config(), tmp_path / "run")
    assert len(torch.cuda._queued_calls) - before < 5  # of the start of a run, not of its 30 steps


def test_the_first_step_is_adams_on_the_mean_loss(tmp_path):
    """The loop against the same step written out with plain torch."""
    config = small_config(steps=1, eval_every=1, clip_norm=None, learning_rate=1e-3)
    trainer = Trainer(config)
    plain = {n: p.detach().clone().requires_grad_() for n, p in trainer.model.named_parameters()}
    order = np.random.default_rng([0, 0, 7]).permutation(200)[:16]
    data = TASK.split("train", 0)
    x, y = torch.from_numpy(data.inputs[order]), torch.from_numpy(data.targets[order])
    loss = torch.nn.functional.mse_loss(torch.func.functional_call(trainer.model, plain, (x,)), y)
    optimizer = torch.optim.Adam(plain.values(), lr=1e-3)
    loss.backward()
    optimizer.step()
    train(config, tmp_path / "run")
    ours = final_tensors(tmp_path / "run")
    for name, value in plain.items():
        torch.testing.assert_close(ours[f"model.{name}"], value.detach(), rtol=1e-5, atol=1e-7)


def test_same_seed_same_bits_other_seed_other_bits(tmp_path):
    config = small_config(dropout=0.3)
    for name, chosen in {"a": config, "b": config, "c": with_seed(config, 1)}.items():
        train(chosen, tmp_path / name)
    a, b, c = (final_tensors(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[n], b[n]) for n in a)
    assert not torch.equal(a["model.head.weight"], c["model.head.weight"])


def test_the_best_weights_are_kept_and_loaded(tmp_path):
    """With a rate that ruins the model late, the best validation is not the last, and load() gives the best."""
    config = small_config(steps=60, learning_rate=0.5, optimizer="sgd", clip_norm=None)
    summary = train(config, tmp_path / "run")
    records = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if "validation" in r]
    scores = {r["step"]: r["validation"] for r in records}
    assert summary["validation"] == min(scores.values())
    assert summary["best_step"] == min(scores, key=scores.get)
    model = autapse.load(tmp_path / "run")
    data = Tensors.of(TASK.split("validation", 0), "cpu")
    assert evaluate(model, data, objective(TASK)) == pytest.approx(summary["validation"], rel=1e-6)
    assert not model.training


def test_early_stopping_waits_for_its_patience(tmp_path):
    config = small_config(steps=1000, learning_rate=1e-30, early_stop=3)  # nothing ever improves after the first
    summary = train(config, tmp_path / "run")
    assert summary["steps"] == 40


def test_a_plateau_of_the_loss_is_seen_where_the_score_still_improves(tmp_path, monkeypatch):
    scores = iter([Scores(0.5, 1.0), Scores(0.4, 2.0), Scores(0.3, 0.5), Scores(0.3, 0.4)])
    monkeypatch.setattr(Trainer, "_measure", lambda trainer, data: next(scores))
    config = small_config(steps=40, learning_rate=1e-3, schedule="plateau", plateau_by="loss")
    train(config, tmp_path / "run")
    rates = {r["step"]: r["rate"] for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if "rate" in r}
    # Only the second validation has a greater loss. The fourth has the same score as the third, which does not count.
    assert rates == {10: 1e-3, 20: 1e-3, 30: 5e-4, 40: 5e-4}


def test_the_test_set_can_be_recorded_and_decides_nothing(tmp_path):
    config = small_config(learning_rate=0.02, record_test=True)
    summary = train(config, tmp_path / "with")
    without = train(small_config(learning_rate=0.02), tmp_path / "without")
    scores = [r["test"] for r in read_metrics(tmp_path / "with" / "metrics.jsonl") if "test" in r]
    assert len(scores) == 3
    assert summary["best_test"] == min(scores)
    assert without["best_test"] is None
    one, other = (final_tensors(tmp_path / name) for name in ("with", "without"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    model = autapse.load(tmp_path / "with")
    data = Tensors.of(TASK.split("test", 0), "cpu")
    assert evaluate(model, data, objective(TASK)) == pytest.approx(summary["test"], rel=1e-6)
    assert any(score == pytest.approx(summary["test"], rel=1e-6) for score in scores)


def test_the_plateau_schedule_halves_when_validation_does_not_improve(tmp_path):
    config = small_config(steps=60, learning_rate=1e-30, schedule="plateau", plateau_patience=1)
    train(config, tmp_path / "run")
    rates = {r["step"]: r["rate"] for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if "rate" in r}
    # Best at 10; waits at 20, halves at 30, waits at 40, halves at 50.
    assert [rates[s] / 1e-30 for s in (10, 30, 40, 50, 60)] == pytest.approx([1, 1, 0.5, 0.5, 0.25])


def test_stop_when_solved(tmp_path):
    task = dataclasses.replace(TASK, train_size=2000)
    config = small_config(task, steps=3000, learning_rate=0.01, eval_every=25, stop_when_solved=True)
    summary = train(config, tmp_path / "run")
    assert summary["solved_step"] == summary["steps"] < 3000
    assert summary["validation"] < 0.01


def test_tagging_with_lengths_trains_and_scores(tmp_path):
    task = Walk(train_size=100, validation_size=20, test_size=30, max_length=9, bias=2.0)
    summary = train(small_config(task, steps=20), tmp_path / "run")
    test = task.split("test", 0)
    model = autapse.load(tmp_path / "run")
    wrong = total = 0
    for x, y, n in zip(test.inputs, test.targets, test.lengths, strict=True):  # one at a time, nothing padded
        said = model.predict(torch.from_numpy(x[None, :n]))[0].numpy()
        wrong, total = wrong + int((said != y[:n]).sum()), total + int(n)
    assert summary["test"] == pytest.approx(wrong / total)
    assert summary["floor"] <= summary["test"]


def test_interrupt_saves_and_resume_ends_with_the_same_bits(tmp_path):
    config = small_config(steps=300, dropout=0.2)
    train(config, tmp_path / "whole")
    (tmp_path / "cut").mkdir()
    trainer = Trainer(config).start(tmp_path / "cut")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted, match=r"saved at step \d+\. To continue: autapse resume"):
        trainer.train()
    assert 0 < step_of(tmp_path / "cut") < 300
    Trainer.resume(tmp_path / "cut").train()
    whole, cut = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[n], cut[n]) for n in whole)


def test_a_run_is_never_overwritten(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(checks.InputError, match="exists already and is not overwritten"):
        train(small_config(), tmp_path / "run")


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("steps", 0, "steps must be an integer of at least 1; got 0"),
        ("batch_size", 1.5, "batch_size must be an integer"),
        ("learning_rate", 0.0, "learning_rate must be a finite number above 0"),
        ("learning_rate", float("nan"), "learning_rate must be a finite number above 0"),
        ("clip_norm", -1.0, "clip_norm must be a finite number above 0"),
        ("seed", -1, "seed must be an integer of at least 0"),
    ],
)
def test_bad_settings(setting, value, message):
    with pytest.raises(checks.InputError, match=message):
        small_config(**{setting: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "cosin"}, "schedule must be one of .*; got 'cosin'. Did you mean 'cosine'"),
        ({"optimizer": "adm"}, "optimizer must be one of .*; got 'adm'. Did you mean 'adam'"),
        ({"rescue": "foo"}, "rescue must be one of skip, random; got 'foo'"),
        ({"stop_when_solved": "no"}, "stop_when_solved must be True or False; got 'no'"),
    ],
)
def test_words_and_switches_are_checked(settings, message):
    with pytest.raises(checks.InputError, match=message):
        small_config(**settings)


def test_a_lone_size_and_a_list_of_sizes_are_welcome():
    assert ModelConfig(hidden_size=7).hidden_size == (7,)
    assert ModelConfig(hidden_size=[7, 8]).hidden_size == (7, 8)
    with pytest.raises(checks.InputError, match="bidirectional must be True or False"):
        ModelConfig(bidirectional="no")


def test_a_folder_with_something_in_it_is_neither_used_nor_removed(tmp_path):
    (tmp_path / "precious.txt").write_text("precious")
    with pytest.raises(checks.InputError, match="is not empty, and is not overwritten"):
        Trainer(small_config()).start(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


def test_a_changed_config_is_not_resumed(tmp_path):
    train(small_config(), tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    path.write_text(path.read_text().replace('"batch_size": 16', '"batch_size": 17'))
    with pytest.raises(
        checks.InputError, match=r"config\.json was changed since checkpoint-30\.safetensors was written"
    ):
        Trainer.resume(tmp_path / "run")


def test_random_rescue_needs_a_norm():
    with pytest.raises(checks.InputError, match="clip_norm must be set with rescue"):
        small_config(rescue="random", clip_norm=None)


def test_config_round_trip_and_strictness():
    for task in (Walk(bias=0.25), WalkVariance(variances=(0.5, 2.0))):
        config = small_config(task, cell="ernn:inner_steps=2")
        content = json.loads(json.dumps(config.to_json()))
        assert RunConfig.from_json(content) == config
    content["training"]["stepz"] = 3
    with pytest.raises(checks.InputError, match=r"key must be one of .*got 'stepz'.* Did you mean 'steps'"):
        RunConfig.from_json(content)
    with pytest.raises(checks.InputError, match="damaged"):
        RunConfig.from_json({"task": {"name": "adding"}})


def test_a_summary_has_fields_and_keys(tmp_path):
    summary = train(small_config(), tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert Summary.from_json(stored) == summary == stored
    assert list(summary) == list(stored)
    assert summary["test"] == summary.test == stored["test"]
    with pytest.raises(KeyError):
        summary["tset"]
