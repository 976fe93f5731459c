"""Runs on tasks with sequences to generate: resume, loading, scores beside the likelihood."""

import numpy as np
import pytest
import torch

import autapse
from autapse.models import Draw, Elements, Generator, Padded, Scheduled
from autapse.models.feeding import _mixed
from autapse.models.walk import DecoderWalk
from autapse.tasks import Brackets, MackeyGlass, Pendulum, Strokes
from autapse.training import RunConfig, Trainer, TrainingConfig, WriterConfig, fit, train
from autapse.training.generation_scores import generated_lengths, generation_scores
from small import final_tensors, stopped_at
from tolerance import close

SIZES = {"train_size": 24, "validation_size": 6, "test_size": 6}
TASKS = {
    "brackets": Brackets(pairs=(1, 3), missing=0.2, **SIZES),
    "mackey-glass": MackeyGlass(length=8, primed=4, missing=0.2, **SIZES),
    "pendulum": Pendulum(length=8, primed=2, **SIZES),
    "strokes": Strokes(letters=2, **SIZES),
}


def config(name, steps=6, **model):
    training = TrainingConfig(steps=steps, batch_size=8, eval_every=3)
    return RunConfig(task=TASKS[name], model=WriterConfig(hidden_size=(6,), **model), training=training)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("brackets", {"feeding": "scheduled:end=1", "ending": "count"}),
        ("mackey-glass", {"feeding": "free:steps=3", "time_input": True}),
        ("pendulum", {"feeding": "scheduled:end=0.5:shape=sigmoid:own=mean", "cell": "lstm"}),
        ("strokes", {"output_dropout": 0.2, "cell": "feedforward", "ending": "stop"}),
    ],
)
def test_a_stopped_run_ends_with_the_same_bits(tmp_path, name, model):
    settings = config(name, **model)
    summary = train(settings, tmp_path / "whole")
    stopped_at(3, tmp_path / "cut", settings)
    Trainer.resume(tmp_path / "cut").train()
    one, other = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert np.isfinite(summary.test)
    model = autapse.load(tmp_path / "whole")
    written = settings.task.signature().written
    assert (model.separator, model.columns) == (written.separator, written.columns)


def test_the_settings_of_a_task_reach_the_model():
    from autapse.training.model import make_model

    assert make_model(TASKS["mackey-glass"], WriterConfig()).decoder.ending == "given"  # all have one length
    assert make_model(TASKS["mackey-glass"], WriterConfig(ending="stop")).decoder.ending == "stop"
    assert make_model(TASKS["brackets"], WriterConfig()).decoder.ending == "end"
    assert make_model(TASKS["strokes"], WriterConfig(components=3)).decoder.elements.components == 3
    assert make_model(TASKS["brackets"], WriterConfig()).decoder.elements.gaps


class Line(autapse.Cell):
    """h' = x: the step before, as it is."""

    stencil = ()
    depends_on_position = False

    def step(self, u, state, weights, t):
        return (u,)


def straight(slope):
    """A generator whose mean is the value before plus a slope."""
    elements = Elements(values=1, longest=20, scale=(2.0,))
    model = Generator(autapse.Recurrent(Line, 1, 1, batch_first=True), elements, ending="given")
    with torch.no_grad():
        head = model.decoder.head.linear
        head.weight.zero_()
        head.bias.zero_()
        head.weight[1] = 1.0
        head.bias[1] = slope / 2.0  # in units of the deviation
    return model


def test_free_running_errors_are_those_of_the_means():
    model = straight(0.5)
    y = np.zeros((3, 6, 1), dtype=np.float32)
    errors = model.free_running_errors(y, 2)
    np.testing.assert_allclose(errors, [(0.5 * k / 2) ** 2 for k in (1, 2, 3, 4)], rtol=1e-5)
    padded = Padded(torch.from_numpy(y), torch.tensor([6, 4, 3]))
    np.testing.assert_allclose(model.free_running_errors(padded, 2), errors, rtol=1e-5)
    with pytest.raises(autapse.checks.InputError, match="primed must be an integer of at least 1 and at most 2"):
        model.free_running_errors(padded, 3)


def test_lengths_are_compared_with_the_true_ones():
    task = Brackets(pairs=(1, 2), **SIZES)
    model = Generator("gru", Elements(symbols=2, longest=4), ending="count", hidden_size=4)
    with torch.no_grad():
        model.decoder.count.weight.zero_()
        model.decoder.count.bias.copy_(torch.tensor([-99.0, 0.0, -99.0, np.log(3.0)]))
    shares = generated_lengths(model, 4)
    assert shares == pytest.approx([0, 0.25, 0, 0.75], abs=0.02)
    scores = generation_scores(model, task, task.split("test", 0), 0.5)
    assert scores["length_distance"] == pytest.approx(0.25, abs=0.02)
    assert scores["nats_per_sequence"] == pytest.approx(0.5 * task.split("test", 0).targets.lengths.mean())


def test_the_model_of_lengths_starts_with_their_frequencies():
    training = TrainingConfig(steps=1, learning_rate=1e-9, batch_size=8)
    task = Brackets(pairs=(1, 3), train_size=300, validation_size=6, test_size=6)
    model = fit(RunConfig(task=task, model=WriterConfig(hidden_size=(4,), ending="count"), training=training)).model
    share = (task.split("train", 0).targets.lengths == 2).mean()
    assert model.decoder.count.bias.exp()[1].item() == pytest.approx(share, abs=0.002)
    assert model.decoder.count.bias.exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize("ending", ["end", "stop"])
def test_scheduled_sampling_reads_its_own_samples(ending):
    """The likelihood of the true elements after mixed ones, by a loop; and the share of samples among them."""
    torch.manual_seed(0)
    model = Generator("lstm", Elements(symbols=9, longest=30), ending=ending, hidden_size=5, dtype=torch.float64)
    decoder, given, count = model.decoder, model.given(None), 40
    y = Padded(torch.randint(0, 9, (count, 30)), torch.randint(1, 31, (count,)))
    torch.manual_seed(7)
    mixed = _mixed(decoder, y, given, 0.5, Draw())
    changed = (mixed != y.values).double().mean()
    assert 0.35 < changed < 0.54  # a ninth of the samples is the same symbol
    torch.manual_seed(7)
    found = Scheduled(end=0.5).log_likelihood(decoder, y, given, 1.0)
    wanted, walk = decoder.wanted(y), DecoderWalk(decoder, given, count, y.lengths)
    fed = decoder.previous.start.expand(count, -1)
    for t in range(wanted.values.shape[1]):
        ahead = Padded(wanted.values[:, t, None], wanted.lengths - t)
        close(found[:, t], decoder.elements_likelihood(walk(fed)[:, None], ahead)[:, 0])
        if t < 30:
            fed = decoder.previous(mixed[:, t])
