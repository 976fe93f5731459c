"""Reports on runs of other kinds than classes and values: nothing fails, and what does not fit is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autapse.cli.kinds import kind_of
from autapse.report import read_facts, render
from autapse.tasks import TASKS
from autapse.training import TrainingConfig, train, translate_config
from autapse.training.config import RunConfig
from autapse.training.model_config import model_config

SMALL = {"train_size": 16, "validation_size": 8, "test_size": 8}


@pytest.mark.parametrize(
    ("name", "reads", "section"),
    [
        ("narma", True, "Residuals"),
        ("copy", True, "Rows: true class"),
        ("reverse", False, "Learning curves"),
        ("brackets", False, "Learning curves"),
        ("shapes", False, "Rows: true class"),
        ("expressions", False, "Rows: true class"),
    ],
)
def test_every_kind_of_task_has_a_report(name: str, reads: bool, section: str, tmp_path: Path) -> None:
    task = TASKS[name](**SMALL)
    usual = kind_of(task).defaults
    training = TrainingConfig() if usual is None else usual.training_config()
    config = RunConfig(
        task=task,
        model=model_config(type(task))() if usual is None else usual.model_config(),
        training=replace(training, steps=2, batch_size=8, eval_every=1, seconds=None, epochs=None),
    )
    train(config, tmp_path / "run")
    facts = read_facts(tmp_path / "run", budget=0.0)
    page = render([facts])
    assert section in page
    assert facts.cost.macs
    assert ("probes are for models that read sequences" in page) is not reads
    assert len(facts.series("validation")) == 2


def test_a_run_of_translate_has_a_report(tmp_path: Path) -> None:
    """With its defaults the decoder reads the symbol before alone."""
    (tmp_path / "pairs.tsv").write_text("".join(f"{n}\t{n + 1}\n" for n in range(40)))
    config = translate_config(
        TASKS["translate"](path=str(tmp_path / "pairs.tsv")),
        model={"hidden_size": (8,), "encoder_size": (4,)},
        training={"steps": 2, "batch_size": 8, "eval_every": 1},
    )
    train(config, tmp_path / "run")
    assert read_facts(tmp_path / "run", budget=0.0).cost.macs


def test_data_that_are_gone_leave_the_rest(tmp_path: Path) -> None:
    lines = [f"{n},{n % 3 + step},{'ab'[n % 2]}" for n in range(30) for step in range(4)]
    path = tmp_path / "own.csv"
    path.write_text("sequence,x,target\n" + "\n".join(lines) + "\n")
    task = TASKS["file"](path=str(path))
    train(RunConfig(task=task, training=TrainingConfig(steps=2, eval_every=1, batch_size=8)), tmp_path / "run")
    path.unlink()
    facts = read_facts(tmp_path / "run")
    page = render([facts])
    assert facts.cost.macs is None
    assert "The test data cannot be read" in page
    assert "Learning curves" in page
