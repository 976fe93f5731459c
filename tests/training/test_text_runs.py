"""Runs on text and other files: cut and resumed to the same bits, within budgets, and loaded where the data are not."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import autapse
from autapse import checks
from autapse.tasks import IMDB, MNIST, POS, PTB, BAbI
from autapse.training import Interrupted, ModelConfig, RunConfig, Tensors, Trainer, TrainingConfig, evaluate, train
from autapse.training.log import read_metrics
from autapse.training.objectives import objective
from damage import message
from small import final_tensors, metadata_of, rewrite, step_of, stopped_at
from small_data import data_in
from upstream import write_mnist
from upstream_text import write_babi, write_conllu, write_imdb, write_ptb


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for write in (write_ptb, write_conllu, write_babi, write_imdb):
        write(root)
    write_mnist(root, n=20)
    with data_in(root):
        yield root


def text_config(cell="lstm", task=None, **training) -> RunConfig:
    model = ModelConfig(cell=cell, hidden_size=(6, 5), embedding_size=(4,), dropout=0.2, output_dropout=0.2)
    settings = {"steps": 60, "batch_size": 4, "eval_every": 20, **training}
    return RunConfig(task=task or PTB(span=5), model=model, training=TrainingConfig(**settings))


def test_coefficients_per_step_need_spans_of_their_own(tmp_path):
    cell = "ernn:eta=per_step:max_length=5"
    with pytest.raises(checks.InputError, match=r"cell must be the same at every step where .*--no-carry"):
        Trainer(text_config(cell))
    assert train(text_config(cell, PTB(span=5, carry=False)), tmp_path / "run")["steps"] == 60


def same_run(one, other):
    a, b = final_tensors(one), final_tensors(other)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    records = [
        [{k: v for k, v in record.items() if k != "seconds"} for record in read_metrics(folder / "metrics.jsonl")]
        for folder in (one, other)
    ]
    assert records[0] == records[1]


class Crash(Exception):  # noqa: N818
    pass


def run_until(trainer: Trainer, step: int) -> None:
    """Save at a step, then die."""
    sequences = trainer.feed.sequences

    def dying(at):
        if at == step:
            trainer._save()
            raise Crash
        return sequences(at)

    trainer.feed.sequences = dying
    with pytest.raises(Crash):
        trainer.train()


@pytest.mark.parametrize("cell", ["lstm", "gru", "rin"])
def test_a_run_that_died_mid_text_ends_with_the_same_bits(tmp_path, cell):
    config = text_config(cell)
    train(config, tmp_path / "whole")
    (tmp_path / "cut").mkdir()
    trainer = Trainer(config)
    assert 10 < trainer.feed.per_epoch < 60  # the text begins anew within the run, and not where it is cut
    run_until(trainer.start(tmp_path / "cut"), 7)
    run_until(Trainer.resume(tmp_path / "cut"), 8)
    cut = final_tensors(tmp_path / "cut")
    assert len([name for name in cut if name.startswith("carried.")]) == (4 if cell == "lstm" else 2)
    run_until(Trainer.resume(tmp_path / "cut"), 43)
    Trainer.resume(tmp_path / "cut").train()
    same_run(tmp_path / "whole", tmp_path / "cut")


def test_the_carried_state_matters(tmp_path):
    """Without it the resumed run ends elsewhere, so that the test above can fail."""
    config = text_config()
    train(config, tmp_path / "whole")
    (tmp_path / "cut").mkdir()
    run_until(Trainer(config).start(tmp_path / "cut"), 7)
    trainer = Trainer.resume(tmp_path / "cut")
    trainer.carried = None
    trainer.train()
    a, b = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert not torch.equal(a["model.head.weight"], b["model.head.weight"])


@pytest.mark.parametrize(
    ("names", "shape"),
    [(["0", "0.0"], (1, 4, 6)), (["all"], (1, 4, 6)), (["0", "1"], (1, 3, 6)), (["0", "1"], (9, 4, 6))],
)
def test_a_state_that_does_not_fit_is_one_line(tmp_path, names, shape):
    def change(_, tensors):
        for name in [name for name in tensors if name.startswith("carried.")]:
            del tensors[name]
        tensors.update({f"carried.{name}": torch.zeros(shape) for name in names})

    stopped_at(7, tmp_path / "run", text_config("gru"))
    rewrite(tmp_path / "run", change)
    assert "; got " in message(lambda: Trainer.resume(tmp_path / "run").train())


def test_killed_and_resumed_equals_never_stopped(tmp_path):
    config = text_config(steps=2000, eval_every=500, checkpoint_seconds=0.0)
    code = (
        "import json, sys; from pathlib import Path; from autapse.training import RunConfig, train; "
        "train(RunConfig.from_json(json.loads(sys.argv[1])), 'cut')"
    )
    process = subprocess.Popen([sys.executable, "-c", code, json.dumps(config.to_json())], cwd=tmp_path)
    deadline = time.monotonic() + 120
    while step_of(tmp_path / "cut") < 13:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    reached = step_of(tmp_path / "cut")
    assert 13 <= reached < 2000
    ends = reached + 5
    whole = Trainer(text_config(steps=2000, eval_every=500))
    (tmp_path / "whole").mkdir()
    run_until(whole.start(tmp_path / "whole"), ends)
    run_until(Trainer.resume(tmp_path / "cut"), ends)
    same_run(tmp_path / "whole", tmp_path / "cut")


DISTRIBUTED = """
import json, os, shutil, signal, sys
from pathlib import Path
from autapse.training import Interrupted, RunConfig, Trainer, train
from autapse.training.distributed import join, leave

config, world = RunConfig.from_json(json.loads(Path("config.json").read_text())), join()
if world.leads:
    Path("whole").mkdir(), Path("cut").mkdir()
world.agree(0.0)
Trainer(config).start(Path("whole")).train()
trainer = Trainer(config).start(Path("cut"))
update = trainer._update
def stopping(rate):
    update(rate)
    if trainer.progress.step == 7 and world.leads:
        os.kill(os.getpid(), signal.SIGINT)
trainer._update = stopping
try:
    trainer.train()
    raise SystemExit("it was not interrupted")
except Interrupted as stop:
    print(stop)
if world.leads:
    shutil.copytree("cut", "alone")
world.agree(0.0)
Trainer.resume(Path("cut")).train()
leave()
"""


def test_two_processes_save_the_states_of_all_rows(tmp_path):
    config = text_config(batch_size=5, steps=24, eval_every=12)
    config = replace(config, model=replace(config.model, dropout=0.0, output_dropout=0.0))
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    (tmp_path / "both.py").write_text(DISTRIBUTED)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    both = [
        subprocess.Popen([sys.executable, "both.py"], cwd=tmp_path, env={**os.environ, **place, "RANK": str(rank)})
        for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=300) for process in both] == [0, 0]
    finally:
        for process in both:
            process.kill()
    same_run(tmp_path / "whole", tmp_path / "cut")
    # One process takes over from two, and does what one would have done from the beginning.
    Trainer.resume(tmp_path / "alone").train()
    train(config, tmp_path / "one")
    one, alone = final_tensors(tmp_path / "one"), final_tensors(tmp_path / "alone")
    for name in one:
        torch.testing.assert_close(alone[name], one[name], rtol=1e-3, atol=1e-5)
    assert one["carried.0.0"].shape == (1, 5, 6)


def test_a_state_that_is_not_finite_is_not_carried_on(tmp_path):
    """One bad step is rescued, and the text after it is read with fresh states."""
    (tmp_path / "run").mkdir()
    trainer = Trainer(text_config("gru", steps=20, max_rescues=2)).start(tmp_path / "run")
    loss = trainer.objective.loss

    def once(output, target):
        bad = trainer.progress.step == 3
        if bad:
            trainer.carried = tuple(torch.full_like(part, torch.nan) for part in trainer.carried)
        return loss(output, target) * (torch.nan if bad else 1.0)

    trainer.objective = trainer.objective._replace(loss=once)
    summary = trainer.train()
    assert summary["rescues"] == 1
    assert summary["steps"] == 20


# Budgets ---------------------------------------------------------------------------------------------------------


def test_a_budget_of_time_stops_the_run_and_says_so(tmp_path):
    config = text_config(steps=1_000_000, seconds=0.5, eval_every=100_000)
    summary = train(config, tmp_path / "run")
    assert summary["stopped_by"] == "time"
    assert 0.5 <= summary["seconds"] < 5
    assert 0 < summary["steps"] < 1_000_000
    records = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [r["step"] for r in records if "validation" in r] == [summary["steps"]]  # scored where it stopped
    assert summary["validation"] is not None
    assert metadata_of(tmp_path / "run")["progress"]["finished"]


def test_time_is_counted_over_all_sessions(tmp_path):
    config = text_config(steps=1_000_000, seconds=0.5, eval_every=100_000)
    (tmp_path / "run").mkdir()
    run_until(Trainer(config).start(tmp_path / "run"), 3)
    trainer = Trainer.resume(tmp_path / "run")
    trainer.progress.seconds = 0.45
    begun = time.perf_counter()
    summary = trainer.train()
    assert summary["stopped_by"] == "time"
    assert time.perf_counter() - begun < 0.45 + 0.5


@pytest.mark.parametrize(("epochs", "per_epoch"), [(2, 1.0), (0.5, 0.5), (1e-9, None)])
def test_epochs_are_passes_over_the_data(tmp_path, epochs, per_epoch):
    # 20 images in batches of 3: six full ones an epoch.
    model = ModelConfig(cell="rnn", hidden_size=3)
    settings = TrainingConfig(epochs=epochs, batch_size=3, eval_every=1000, steps=7)
    summary = train(RunConfig(task=MNIST(validation=0.0), model=model, training=settings), tmp_path / "run")
    assert summary["steps"] == (1 if per_epoch is None else round(epochs * 6))
    assert summary["stopped_by"] == "steps"
    assert summary["epochs"] == pytest.approx(summary["steps"] / 6, abs=1e-3)


def test_an_epoch_of_text_is_the_text(data):
    tokens = len((data / "ptb" / "ptb.train.txt").read_text().replace("\n", " <eos> ").split())
    trainer = Trainer(text_config(epochs=3.0))
    pieces = -(-((tokens - 1) // 4) // 5)  # four rows, five words at a time
    assert trainer.steps == 3 * pieces


# Without validation ----------------------------------------------------------------------------------------------


def test_without_validation_the_last_weights_are_kept(tmp_path):
    config = text_config(task=PTB(span=5, validation=0.0), steps=23, learning_rate=0.5, optimizer="sgd")
    summary = train(config, tmp_path / "run")
    assert (summary["best_step"], summary["validation"]) == (23, None)
    tensors = final_tensors(tmp_path / "run")
    weights = [name.removeprefix("model.") for name in tensors if name.startswith("model.")]
    assert all(torch.equal(tensors[f"model.{name}"], tensors[f"best.{name}"]) for name in weights)
    assert not any("validation" in record for record in read_metrics(tmp_path / "run" / "metrics.jsonl"))
    test = Tensors.of(config.task.split("test", 0), "cpu")
    score = evaluate(autapse.load(tmp_path / "run"), test, objective(config.task))
    assert summary["test"] == pytest.approx(score, rel=1e-6)


@pytest.mark.parametrize("settings", [{"early_stop": 2}, {"schedule": "plateau"}])
def test_settings_that_go_by_validation_need_some(settings):
    with pytest.raises(checks.InputError, match=r"validation must be above 0 with early_stop or the plateau schedule"):
        Trainer(text_config(task=PTB(validation=0.0), **settings))


# Without the data ------------------------------------------------------------------------------------------------

MODELS = {
    "ptb": (lambda: PTB(span=5), (4,)),
    "pos": (POS, (4, 2)),
    "babi": (lambda: BAbI(number=2), (4,)),
    "imdb": (IMDB, (4,)),
    "mnist": (MNIST, None),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_loaded_where_its_data_are_not(tmp_path, monkeypatch, name):
    make, embedding = MODELS[name]
    task = make()
    model = ModelConfig(cell="gru", hidden_size=4, embedding_size=embedding)
    config = RunConfig(task=task, model=model, training=TrainingConfig(steps=3, batch_size=4, eval_every=2))
    summary = train(config, tmp_path / "run")
    test, signature = Tensors.of(task.split("test", 0), "cpu"), task.signature()
    if name == "mnist":
        assert test.inputs.dtype == torch.uint8
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("AUTAPSE_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("AUTAPSE_OFFLINE", "1")
    with pytest.raises(checks.InputError, match="is not here"):
        task.split("test", 0)
    loaded, _, known = autapse.training.load_run(tmp_path / "run")
    assert known == signature
    assert evaluate(loaded, test, objective(task)) == pytest.approx(summary["test"], rel=1e-6)


def test_a_loaded_model_takes_pixels_as_they_are(tmp_path):
    """Bytes in, standardised inside: the same as floats divided by hand into a network without that."""
    task = MNIST()
    model = ModelConfig(cell="gru", hidden_size=4)
    train(RunConfig(task=task, model=model, training=TrainingConfig(steps=2, batch_size=4)), tmp_path / "run")
    loaded = autapse.load(tmp_path / "run")
    twin = torch.nn.GRU(1, 4, batch_first=True)
    twin.load_state_dict(loaded.layer.state_dict())
    pixels = torch.from_numpy(np.ascontiguousarray(task.split("test", 0).inputs[:3]))
    expected = loaded.head(twin(pixels.float() / 255)[1][-1])
    torch.testing.assert_close(loaded(pixels), expected, rtol=1e-4, atol=1e-5)


def test_ctrl_c_is_told_with_the_step(tmp_path):
    (tmp_path / "run").mkdir()
    trainer = Trainer(text_config(steps=50)).start(tmp_path / "run")
    update = trainer._update

    def stopping(rate):
        update(rate)
        if trainer.progress.step == 4:
            os.kill(os.getpid(), 2)

    trainer._update = stopping
    with pytest.raises(Interrupted, match=r"Stopped at step 5, saved at step 5\."):
        trainer.train()
    Trainer.resume(tmp_path / "run").train()
    train(text_config(steps=50), tmp_path / "whole")
    same_run(tmp_path / "whole", tmp_path / "run")


def test_a_lone_size_of_embedding_is_welcome():
    assert ModelConfig(embedding_size=7).embedding_size == (7,)
    assert ModelConfig(embedding_size=[7, 2]).embedding_size == (7, 2)
    with pytest.raises(checks.InputError, match="embedding_size must be an integer of at least 1; got 0"):
        ModelConfig(embedding_size=0)
    config = RunConfig(task=MNIST(), model=ModelConfig(embedding_size=7))
    with pytest.raises(checks.InputError, match="embedding_size must be omitted: mnist has features, not words"):
        Trainer(config)
