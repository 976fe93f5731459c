"""`autapse report`: what it writes, and its errors."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autapse.cli.kind import RunArguments
from autapse.cli.kinds import kind_of
from autapse.cli.main import main
from autapse.cli.repeat import command
from autapse.cli.run import parse_task
from autapse.tasks import TASKS, OwnSeries
from autapse.tasks.base import Generated
from autapse.training import Trainer, TrainingConfig, train
from autapse.training.config import RunConfig
from autapse.training.model_config import model_config
from command_line import mistake, said
from small import small_config, stopped_at

SEARCH = {  # what a search writes into choice.json
    "tried": [
        {"name": name, "score": 0.1, "loss": 0.2, "folds": 2, "steps": 4, "seconds": 1.5, "ended": ended, "chosen": won}
        for name, ended, won in (("recipe", "", True), ("no front end", "out", False), ("lstm", "no time", False))
    ],
    "chosen": "recipe",
    "reason": "recipe: the other",
}
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(small_config(steps=20, eval_every=10), folder)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


def test_a_report_has_scores_curves_settings_and_the_command(run: Path, capsys: Any) -> None:
    assert said(capsys, "report", str(run)) == f"report: {run / 'report.html'}\n"
    text = (run / "report.html").read_text()
    summary = json.loads((run / "summary.json").read_text())
    assert f"{summary['test']:.3g}" in text
    assert f"{summary['baseline']:.3g}" in text
    for words in ("Validation mean squared error", "Training loss", "model.hidden_size", "Predicted against true"):
        assert words in text
    commands = plain(run / "report.html").partition("To repeat it")[2]
    assert commands.startswith("autapse run adding --preset none ")
    assert " --length 10 " in commands
    assert "Gradients over 10 steps" in text
    assert json.loads((run / "diagnosis.json").read_text())["findings"]


def plain(page: Path) -> str:
    """The text of a page, without its tags."""
    return html.unescape(re.sub(r"<[^>]*>", "", page.read_text()))


def test_a_run_of_a_search_shows_what_was_tried_and_the_command_without_the_limit_of_time(
    tmp_path: Path, capsys: Any
) -> None:
    train(small_config(steps=4, eval_every=2, seconds=1000.0), tmp_path / "run")
    said(capsys, "report", str(tmp_path / "run"), "--no-diagnose")
    assert " --seconds 1000.0" in plain(tmp_path / "run" / "report.html")
    (tmp_path / "run" / "choice.json").write_text(json.dumps(SEARCH))
    said(capsys, "report", str(tmp_path / "run"), "--no-diagnose")
    page = tmp_path / "run" / "report.html"
    assert " --seconds" not in plain(page).partition("To repeat it")[2]
    assert "The run had a time limit of 16.7 min. The clock can end such a run early" in plain(page)
    found = plain(page).partition("Search")[2].partition("Settings")[0]
    assert found.startswith("Chosen: recipe: the othertriedmean squared error")
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.read_text().partition("<h2>Search")[2].partition("<h2>")[0])[1:]
    ends = [re.sub(r"<[^>]*>", " ", row).split("  ")[-1].strip() for row in rows]
    assert ends == ["kept to the end", "clearly worse", "no time"]


def test_the_diagnosis_is_read_while_it_is_fresh(run: Path, capsys: Any) -> None:
    finding = {"name": "n", "value": 1.0, "sentence": "A sentence of the file."}
    (run / "diagnosis.json").write_text(json.dumps({"findings": [finding], "sequences": 3, "split": "test"}))
    said(capsys, "report", str(run))
    assert "A sentence of the file." in (run / "report.html").read_text()
    os.utime(run / "diagnosis.json", (1, 1))  # older than the checkpoint: the run was continued since
    said(capsys, "report", str(run))
    assert "A sentence of the file." not in (run / "report.html").read_text()


def test_without_probes(run: Path, capsys: Any) -> None:
    said(capsys, "report", str(run), "--no-diagnose")
    assert "Inside the network" not in (run / "report.html").read_text()
    assert not (run / "diagnosis.json").exists()


def test_foreign_text_is_escaped(run: Path, tmp_path: Path, capsys: Any) -> None:
    named = run.rename(tmp_path / "<b>run")
    summary = json.loads((named / "summary.json").read_text())
    (named / "summary.json").write_text(json.dumps(summary | {"classes": [{"class": HOSTILE}], "confusion": [[1]]}))
    (named / "diagnosis.json").write_text(json.dumps({"findings": [{"name": HOSTILE, "sentence": HOSTILE}]}))
    (named / "choice.json").write_text(json.dumps({"tried": [{"name": HOSTILE, "score": HOSTILE}], "reason": HOSTILE}))
    said(capsys, "report", str(named))
    text = (named / "report.html").read_text()
    assert "<img" not in text
    assert "<b>" not in text
    assert "\x1b" not in text
    assert text.count("&lt;img src=x") >= 4


def test_an_unfinished_run_is_shown_as_far_as_it_is(tmp_path: Path, capsys: Any) -> None:
    stopped_at(15, tmp_path / "run", small_config(steps=30, eval_every=5))
    said(capsys, "report", str(tmp_path / "run"), "--no-diagnose")
    text = (tmp_path / "run" / "report.html").read_text()
    assert "The training is not finished: 15 steps. The best validation mean squared error so far is " in text


def test_a_comparison_names_its_report_which_has_all_runs(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    options = "--length 8 --steps 4 --train-size 64 --validation-size 16 --test-size 16 --hidden-size 4".split()
    text = said(capsys, "compare", "adding", "--cells", "gru,ernn:inner_steps=2", *options)
    assert "report: runs/compare-adding/report.html (`autapse report runs/compare-adding` adds" in text
    page = (tmp_path / "runs/compare-adding/report.html").read_text()
    assert "ernn:inner_steps=2" in page
    assert "Inside the network" not in page
    moved = (tmp_path / "runs/compare-adding").rename(tmp_path / "elsewhere")
    said(capsys, "report", str(moved))
    page = (moved / "report.html").read_text()
    assert "Inside the networks" in page
    assert "Test mean squared error" in page


def test_several_folders_go_into_the_current_one(trained: Path, run: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(run.parent)
    assert said(capsys, "report", str(trained), str(run), str(run), "--no-diagnose") == "report: report.html\n"
    text = (run.parent / "report.html").read_text()
    assert text.count("<pre>") == 2  # a run that is named twice is shown once


def test_errors_are_one_line_and_write_nothing(run: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty").mkdir()
    other = tmp_path / "page.html"
    other.write_text("<!DOCTYPE html><p>mine")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    Trainer(small_config()).start(fresh)._close()
    assert "needs a run first" in mistake(capsys, "report")
    assert f"There is no run at {tmp_path / 'empty'}" in mistake(capsys, "report", str(tmp_path / "empty"))
    assert "is not trained yet. `autapse resume" in mistake(capsys, "report", str(fresh))
    assert "exists and is not a report" in mistake(capsys, "report", str(run), "--out", str(other))
    assert "is a folder. Choose a file" in mistake(capsys, "report", str(run), "--out", str(tmp_path))
    assert "does not exist" in mistake(capsys, "report", str(run), "--out", str(tmp_path / "no" / "x.html"))
    assert "budget must be a finite number" in mistake(capsys, "report", str(run), "--budget", "-1")
    assert other.read_text() == "<!DOCTYPE html><p>mine"
    (run / "metrics.jsonl").write_text("{not json\n")
    assert "metrics.jsonl is damaged" in mistake(capsys, "report", str(run))
    (run / "comparison.json").write_text("{}")
    assert "comparison.json is damaged: it has no list of results" in mistake(capsys, "report", str(run))
    assert not (run / "report.html").exists()


def test_a_crash_while_writing_keeps_the_old_report(run: Path, monkeypatch: Any, capsys: Any) -> None:
    said(capsys, "report", str(run), "--no-diagnose")
    before = (run / "report.html").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("autapse.files.os.fsync", full)
    assert main(["report", str(run), "--no-diagnose"]) == 2
    assert (run / "report.html").read_bytes() == before
    assert not list(run.glob(".*.part"))


@pytest.mark.parametrize("name", sorted(name for name, task in TASKS.items() if issubclass(task, Generated)))
def test_the_command_gives_the_same_config(name: str) -> None:
    task = TASKS[name]()
    kind = kind_of(task)
    model = model_config(type(task))() if kind.defaults is None else kind.defaults.model_config()
    training = TrainingConfig() if kind.defaults is None else kind.defaults.training_config()
    config = RunConfig(task=task, model=model, training=replace(training, steps=7, clip_norm=None, bucket=False))
    args = parse_task(RunArguments, "run", shlex.split(command(config))[2:])
    assert RunConfig(task=args.task, model=args.model, training=args.training) == config


def test_a_file_is_named_by_its_path() -> None:
    assert (
        command(RunConfig(task=OwnSeries(path="my data.csv")))
        == f"autapse run '{Path('my data.csv').resolve()}' --preset none"
    )
