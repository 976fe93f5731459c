"""A run folder that was changed, linked, damaged, used by somebody else, or made by an older version."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

import autapse
from autapse import files
from autapse.training import RunConfig, Trainer, train
from autapse.training.checkpoint import discard
from damage import message
from small import autapse as command
from small import final_tensors, metadata_of, rewrite, small_config, step_of

OLD = Path(__file__).parent / "old_run"  # stopped at step 10 of 24, by the version before the progress was moved


@pytest.fixture
def run(stopped_run):
    return stopped_run


def resumed(folder):
    """The progress that a resumed run starts from."""
    trainer = Trainer.resume(folder)
    trainer._close()
    return trainer.progress


# Links, pipes and devices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "state.json", "metrics.jsonl", "checkpoint-12.safetensors"])
def test_a_link_out_of_the_folder_is_refused_and_what_it_leads_to_is_left_alone(run, tmp_path, name):
    with (run / "metrics.jsonl").open("a") as file:
        file.write("a line after the last checkpoint, which resume would cut off\n")
    outside = (run / name).rename(tmp_path / name)
    before = outside.read_bytes()
    (run / name).symlink_to(outside)
    assert message(Trainer.resume, run) == f"{run / name} is a symbolic link, not a regular file."
    assert outside.read_bytes() == before
    assert (run / name).is_symlink()
    if name.startswith(("state", "checkpoint")):
        assert message(autapse.load, run) == f"{run / name} is a symbolic link, not a regular file."


def test_a_file_with_a_second_name_elsewhere_is_not_changed_there(run, tmp_path):
    with (run / "metrics.jsonl").open("a") as file:
        file.write("a line after the last checkpoint\n")
    for path in run.iterdir():
        (tmp_path / path.name).hardlink_to(path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    Trainer.resume(run).train()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert "after the last checkpoint" not in (run / "metrics.jsonl").read_text()


@pytest.mark.parametrize("name", ["/dev/zero", "../run/checkpoint-12.safetensors", "", ".", "checkpoint-x.safetensors"])
def test_a_state_names_only_a_checkpoint_beside_it(run, name):
    state = json.loads((run / "state.json").read_text())
    (run / "state.json").write_text(json.dumps(state | {"checkpoint": name}))
    for read in (Trainer.resume, autapse.load):
        assert message(read, run) == f"{run / 'state.json'} is damaged: it names no checkpoint."


@pytest.mark.parametrize("name", ["state.json", "metrics.jsonl", "checkpoint-12.safetensors"])
def test_a_pipe_does_not_hang(run, name):
    (run / name).unlink()
    os.mkfifo(run / name)
    assert message(Trainer.resume, run) == f"{run / name} is a pipe, not a regular file."


# Damage ----------------------------------------------------------------------------------------------------------


def test_state_json_cannot_change_what_is_resumed(run):
    state = json.loads((run / "state.json").read_text())
    (run / "state.json").write_text(json.dumps(state | {"step": 3, "best": 0.0}))
    assert "state.json is damaged: the progress is in checkpoint-12.safetensors" in message(Trainer.resume, run)


@pytest.mark.parametrize(
    "change",
    [
        {"step": 11},
        {"step": -1},
        {"step": 10**40},
        {"step": True},
        {"step": 12.5},
        {"step": None},
        {"best": float("nan")},
        {"best": float("inf")},
        {"best": "low"},
        {"best_step": 13},
        {"seconds": -1.0},
        {"seconds": 10**400},
        {"processes": 0},
        {"metrics_bytes": 10**9},
        {"metrics_sha256": "0" * 64},
        {"finished": 1},
        {"stopped_by": 5},
        {"stepz": 5},
    ],
    ids=str,
)
def test_progress_that_cannot_be_is_one_line(run, change):
    rewrite(run, lambda about, _: about["progress"].update(change))
    assert "is damaged: " in message(Trainer.resume, run)


@pytest.mark.parametrize("progress", [[], 5, None, "x", {}], ids=str)
def test_progress_of_another_kind_is_one_line(run, progress):
    rewrite(run, lambda about, _: about.update(progress=progress))
    assert "is damaged: " in message(Trainer.resume, run)


def test_a_step_past_the_end_does_not_train_on_for_ever(run):
    rewrite(run, lambda about, _: about["progress"].update(step=31))
    path = (run / "checkpoint-12.safetensors").rename(run / "checkpoint-31.safetensors")
    state = json.loads((run / "state.json").read_text())
    (run / "state.json").write_text(json.dumps(state | {"checkpoint": path.name}))
    assert "step 31 is past the last, 30" in message(Trainer.resume, run)


def test_records_that_were_changed_are_found_though_the_length_is_right(run):
    path = run / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"step": 10', b'"step": 11', 1))
    assert message(Trainer.resume, run) == f"{path} is damaged: it was changed since the last checkpoint."
    path.unlink()
    assert message(Trainer.resume, run) == f"{path} is missing."


ODD = {
    "num_layers": [10**7, 10**30, -1, "2", 2.5, True],
    "hidden_size": [[10**8], [10**8] * 2, 10**20, [], [0], "six", None, {"a": 1}, [[6]], [6.0, 5.0]],
    "cell": [
        "",
        "gru:",
        "gru:x=1",
        "nothing",
        5,
        None,
        ["gru"],
        "ernn:inner_steps=" + "(" * 500,
        "lstm",
        "orthogonalrnn",
    ],
    "dropout": ["no", [0.1], 2, None, 10**400],
    "bidirectional": [1, "yes", None, True],
    "embedding_size": [[3], "x", 10**12],
    "initialisation": ["none", 3],
    "unknown": [1],
}


@pytest.mark.parametrize(
    ("setting", "value"), [(s, v) for s, values in ODD.items() for v in values], ids=lambda v: str(v)[:30]
)
def test_a_checkpoint_with_odd_settings_is_one_line(run, setting, value):
    rewrite(run, lambda about, _: about["config"]["model"].update({setting: value}))
    for read in (autapse.load, Trainer.resume):
        assert "checkpoint-12.safetensors" in message(read, run)
    assert "checkpoint-12.safetensors" in message(autapse.load, run / "checkpoint-12.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "poetry"},
        {"kind": "classification"},
        {"input_size": 10**9},
        {"input_size": "two"},
        {"output_size": 10**12},
        {"output_size": None},
        {"vocabularies": 5},
        {"vocabularies": [[1, 2]]},
        {"mean": ["x"]},
        {"mean": [0.0] * 7, "scale": [1.0] * 7},
        {"more": 1},
    ],
    ids=str,
)
def test_an_odd_signature_is_one_line(run, change):
    rewrite(run, lambda about, _: about["signature"].update(change))
    if change == {"kind": "classification"}:  # a model of the same shape, which only the data do not fit
        assert "changed since it was trained: kind differ" in message(Trainer.resume, run)
    else:
        for read in (autapse.load, Trainer.resume):
            assert "checkpoint-12.safetensors" in message(read, run)


TENSORS = {
    "missing": lambda tensors: tensors.pop("best.head.weight"),
    "too many": lambda tensors: tensors.update({"model.more": torch.zeros(3)}),
    "transposed": lambda tensors: tensors.update({"model.head.weight": torch.zeros(5, 1)}),
    "another dtype": lambda tensors: tensors.update({"best.head.bias": torch.zeros(1, dtype=torch.int64)}),
    "short optimizer state": lambda tensors: tensors.update({"optimizer.head.weight.exp_avg": torch.zeros(1)}),
    "optimizer state without a part": lambda tensors: tensors.pop("optimizer.head.weight.step"),
    "optimizer of nothing": lambda tensors: tensors.update({"optimizer.nothing.exp_avg": torch.zeros(1)}),
    "state of a text": lambda tensors: tensors.update({"carried.0": torch.zeros(1, 16, 6)}),
    "odd carried state": lambda tensors: tensors.update({"carried.x": torch.zeros(1)}),
    "odd solution": lambda tensors: tensors.update({"solutions.a.b.c": torch.zeros(1)}),
    "unknown": lambda tensors: tensors.update({"else": torch.zeros(1)}),
}


@pytest.mark.parametrize("how", TENSORS)
def test_tensors_that_do_not_fit_are_one_line(run, how):
    rewrite(run, lambda _, tensors: TENSORS[how](tensors))
    assert "checkpoint-12.safetensors does not fit the model in its config: " in message(Trainer.resume, run)


# One process at a time -------------------------------------------------------------------------------------------


def test_a_run_is_trained_by_one_process_at_a_time(run):
    part = run / ".state.json.1.part"
    part.write_text("somebody is writing this")
    before = (run / "metrics.jsonl").read_bytes()
    held = files.lock(run / "config.json")
    assert held is not None
    refused = command("resume", "run", cwd=run.parent)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "autapse: run is in use by another process. Wait until it ends, or stop it.\n"
    assert part.exists()
    assert (run / "metrics.jsonl").read_bytes() == before
    held.close()
    assert resumed(run).step == 12


def test_a_run_is_locked_from_its_start_to_its_end(tmp_path):
    (tmp_path / "run").mkdir()
    trainer = Trainer(small_config()).start(tmp_path / "run")
    assert "run is in use by another process" in message(Trainer.resume, tmp_path / "run")
    trainer.train()
    assert resumed(tmp_path / "run").finished


def test_a_refused_resume_releases_the_run(run):
    (run / "metrics.jsonl").rename(run / "elsewhere")
    message(Trainer.resume, run)
    (run / "elsewhere").rename(run / "metrics.jsonl")
    assert resumed(run).step == 12


def test_without_locks_in_the_file_system_runs_are_resumed(run, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_):
        raise OSError("Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    (run / ".state.json.1.part").write_text("perhaps of another process")
    assert resumed(run).step == 12
    assert (run / ".state.json.1.part").exists()


def test_a_run_without_a_checkpoint_is_discarded_unless_it_is_about_to_have_one(run):
    (run / "state.json").rename(run / "later")
    held = files.lock(run / "config.json")
    assert held is not None
    assert "is in use by another process" in message(discard, run)
    held.close()
    (run / "later").rename(run / "state.json")
    assert "has a checkpoint by now" in message(discard, run)
    (run / "state.json").unlink()
    discard(run)
    assert not run.exists()


def test_a_reader_of_a_run_in_training_follows_it_to_the_next_checkpoint(run, monkeypatch):
    """The checkpoint that was named a moment ago may be gone."""
    state = (run / "state.json").read_text()
    read = files.read_bytes

    def superseded(path, **keywords):
        if path.name == "checkpoint-11.safetensors":
            (run / "state.json").write_text(state)
        return read(path, **keywords)

    (run / "state.json").write_text(state.replace("checkpoint-12", "checkpoint-11"))
    monkeypatch.setattr(files, "read_bytes", superseded)
    assert autapse.load(run)


def test_leftovers_are_removed_by_the_next_start(run):
    names = [".state.json.77.part", ".checkpoint-13.safetensors.9.part", "checkpoint-9.safetensors"]
    mine = ["checkpoint-best.safetensors", ".notes.part", "notes.part"]
    for name in names + mine:
        (run / name).write_text("x")
    autapse.load(run)
    assert all((run / name).exists() for name in names)  # reading changes nothing
    resumed(run)
    assert not any((run / name).exists() for name in names)
    assert all((run / name).exists() for name in mine)


# Older runs ------------------------------------------------------------------------------------------------------


@pytest.mark.fixed_seed("the stored run was trained without a shift")
def test_a_run_of_an_older_version_is_loaded_and_resumed(tmp_path):
    run = Path(shutil.copytree(OLD, tmp_path / "run"))
    assert "step" in json.loads((run / "state.json").read_text())
    best = torch.cat([weight.flatten() for weight in autapse.load(run).parameters()])
    config = RunConfig.from_json(json.loads((run / "config.json").read_text()))
    assert resumed(run).step == 10
    Trainer.resume(run).train()
    assert metadata_of(run)["progress"]["step"] == step_of(run) == 24
    train(config, tmp_path / "whole")
    old, new = final_tensors(run), final_tensors(tmp_path / "whole")
    assert old.keys() == new.keys()
    for name in old:
        torch.testing.assert_close(old[name], new[name], rtol=1e-3, atol=1e-5)
    assert torch.isfinite(best).all()


@pytest.mark.parametrize(
    "change", [{"step": 9}, {"step": "ten"}, {"step": -10}, {"best": 10**400}, {"more": 1}], ids=str
)
def test_an_older_state_is_checked_too(tmp_path, change):
    run = Path(shutil.copytree(OLD, tmp_path / "run"))
    state = json.loads((run / "state.json").read_text())
    (run / "state.json").write_text(json.dumps(state | change))
    assert "is damaged: " in message(Trainer.resume, run)


def test_a_state_with_a_number_of_thousands_of_digits(tmp_path):
    run = Path(shutil.copytree(OLD, tmp_path / "run"))
    text = (run / "state.json").read_text()
    for number in ("9" * 5000, "NaN"):
        (run / "state.json").write_text(text.replace('"step": 10', f'"step": {number}'))
        assert "state.json is damaged: " in message(Trainer.resume, run)
    assert sys.get_int_max_str_digits() == 4300
