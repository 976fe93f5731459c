"""`resume --steps` trains a finished run further."""

import pytest
import torch

from autapse import checks
from autapse.training import Trainer, train
from small import autapse, final_tensors, metadata_of, small_config, stopped_at


def test_a_prolonged_run_has_the_bits_of_a_long_one(tmp_path):
    train(small_config(steps=60), tmp_path / "long")
    train(small_config(steps=30), tmp_path / "short")
    summary = Trainer.resume(tmp_path / "short", steps=60).train()
    assert (summary["steps"], summary["stopped_by"]) == (60, "steps")
    long, short = (final_tensors(tmp_path / name) for name in ("long", "short"))
    assert all(torch.equal(long[name], short[name]) for name in long)


def test_a_prolonged_run_that_is_stopped_remembers_its_last_step(tmp_path):
    train(small_config(steps=30), tmp_path / "run")
    trainer = Trainer.resume(tmp_path / "run", steps=50)
    trainer._save()
    trainer._close()
    assert metadata_of(tmp_path / "run")["progress"]["prolonged_to"] == 50
    assert Trainer.resume(tmp_path / "run").train()["steps"] == 50


def test_the_time_limit_of_a_prolonged_run_no_longer_holds(tmp_path):
    summary = train(small_config(steps=1_000_000, seconds=0.05, schedule="cosine"), tmp_path / "run")
    assert summary["stopped_by"] == "time"
    more = summary["steps"] + 20
    assert Trainer.resume(tmp_path / "run", steps=more).train()["steps"] == more


def test_an_average_begins_again_in_a_prolonged_run(tmp_path):
    train(small_config(steps=30, average=0.5), tmp_path / "run")
    Trainer.resume(tmp_path / "run", steps=60).train()
    assert metadata_of(tmp_path / "run")["progress"]["averaged"] == 30


def test_fewer_steps_than_the_run_has_are_an_error(tmp_path):
    stopped_at(12, tmp_path / "run", small_config())
    with pytest.raises(checks.InputError, match=r"steps must be above 12, the steps that .*run has; got 5"):
        Trainer.resume(tmp_path / "run", steps=5)


def test_from_the_command_line(tmp_path):
    train(small_config(steps=10), tmp_path / "run")
    assert "is finished, at step 10" in autapse("resume", "run", cwd=tmp_path).stdout
    done = autapse("resume", "run", "--steps", "20", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 steps in" in done.stdout
