"""Runs of implicit cells: resumed with their cached solutions to the same bits, and open about what was not solved."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from autapse import checks
from autapse.cli import main
from autapse.layers.registry import make_layer, parse_network
from autapse.solve import NotConvergedWarning, Tolerance, Tridiagonal
from autapse.training import RunConfig, Trainer, train
from autapse.training.log import read_metrics
from autapse.unfold.warm_start import Solutions
from small import final_tensors, metadata_of, small_config, step_of

OPTIONS = (
    "--length 6 --train-size 60 --validation-size 20 --test-size 20 --hidden-size 6 --steps 50 --batch-size 10 "
    "--eval-every 25 --checkpoint-seconds 0 --cell implicitgru:cache=4"
).split()


def test_killed_and_resumed_equals_never_stopped(tmp_path: Path) -> None:
    """From the second epoch on solves begin at kept solutions, so these must survive as they are."""
    command = [sys.executable, "-m", "autapse", "run", "adding", *OPTIONS, "--out", "cut"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cut = tmp_path / "cut"
    while step_of(cut) < 12 and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert 0 < step_of(cut) < 50
    Trainer.resume(cut).train()
    config = RunConfig.from_json(json.loads((cut / "config.json").read_text()), cut / "config.json")
    train(config, tmp_path / "whole")
    a, b = final_tensors(tmp_path / "whole"), final_tensors(cut)
    assert a.keys() == b.keys()
    assert sum(name.startswith("solutions.") for name in a) == 60
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_that_forgets_its_solutions_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above can fail."""
    config = small_config(cell="implicitgru:cache=4")
    train(config, tmp_path / "one")
    monkeypatch.setattr(Solutions, "put", lambda *_: None)
    train(config, tmp_path / "two")
    a, b = final_tensors(tmp_path / "one"), final_tensors(tmp_path / "two")
    assert not all(torch.equal(a[name], b[name]) for name in a if name.startswith("model."))


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_what_solves_cost_is_in_the_metrics(tmp_path: Path) -> None:
    summary = train(small_config(cell="implicitgru"), tmp_path / "run")
    records = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if "loss" in r]
    assert [r["step"] for r in records] == [10, 20, 30]
    assert all(1 < r["evaluations"] < 30 for r in records)
    assert summary["unsolved"] == 0
    train(small_config(cell="gru"), tmp_path / "explicit")
    assert all("evaluations" not in r for r in read_metrics(tmp_path / "explicit" / "metrics.jsonl"))


@pytest.mark.filterwarnings("ignore::autapse.solve.NotConvergedWarning")
def test_unsolved_sequences_are_counted_and_teach_nothing(tmp_path: Path) -> None:
    trainer = Trainer(small_config(cell="implicitgru", steps=3, eval_every=3)).start(_new(tmp_path / "run"))
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.model.layer.solving.solver = Tridiagonal(max_iterations=1)
    summary = trainer.train()
    assert summary["unsolved"] == 3 * 16
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["unsolved"] == 48
    assert metadata_of(tmp_path / "run")["progress"]["unsolved"] == 48
    assert all(torch.equal(p, before[name]) for name, p in trainer.model.named_parameters())


def test_the_layer_of_a_run_warns_once(tmp_path: Path) -> None:
    trainer = Trainer(small_config(cell="implicitgru", steps=2, eval_every=2)).start(_new(tmp_path / "run"))
    trainer.model.layer.solving.solver = Tridiagonal(max_iterations=1)
    with pytest.warns(NotConvergedWarning) as caught:
        trainer.train()
    assert sum("did not converge" in str(w.message) for w in caught) == 1


# Names ----------------------------------------------------------------------------------------------------------------


def test_tolerances_and_caches_in_names() -> None:
    assert parse_network("implicitgru:tolerance=0.001:cache=8")[1] == {"tolerance": 0.001, "cache": 8}
    layer = make_layer("implicitgru:tolerance=0.001:cache=8:stencil=(-2,-1,1,2):boundary=learned", 3, 4)
    assert layer.solving.tolerance == Tolerance(training=0.001, adjoint=0.001, evaluation=0.001)
    assert layer.solving.solutions.limit == 8 << 20
    assert layer.cells["l0"].stencil == (-2, -1, 1, 2)
    assert layer.cells["l0"].edges is not None
    assert make_layer("implicitlstm", 3, 4).solving.tolerance == Tolerance()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("implicitgru:tolerence=1", "Did you mean 'tolerance'"),
        ("implicitgru:tolerance=0", "tolerance must be a finite number above 0; got 0"),
        ("implicitgru:tolerance=-1e-3", "tolerance must be a finite number above 0; got -0.001"),
        ("implicitgru:tolerance=tight", "tolerance must be a number or autapse.solve.Tolerance.*got 'tight'"),
        ("implicitgru:cache=-1", "cache must be .*got -1"),
        ("implicitgru:cache=big", "cache must be .*got 'big'"),
        ("implicitgru:cache=1:cache=2", "have each option once, also cache"),
        ("implicitgru:stencil=(0,1)", "stencil must name each offset once, and not 0"),
        ("implicitgru:solver=paper", "options from: "),
        ("gru:cache=1", "options from: "),
    ],
)
def test_bad_names(spec: str, message: str) -> None:
    with pytest.raises(checks.InputError, match=message):
        make_layer(spec, 3, 4)


def test_implicit_cells_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["cells"])
    listed = capsys.readouterr().out
    assert all(word in listed for word in ("implicitgru", "implicitlstm", "cache", "tolerance"))
