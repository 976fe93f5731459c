"""Models of trees are trained, resumed, loaded and used from the command line as all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.cli.main import main
from autapse.tasks import IGNORE, Expressions, OwnTrees
from autapse.training import RunConfig, Tensors, Trainer, TrainingConfig, TreeConfig, evaluate, fit, objective, train
from autapse.training.scores import TreeTally, last_targets

TASK = Expressions(numbers=4, train_size=40, validation_size=10, test_size=10)
MODEL = TreeConfig(hidden_size=(6, 6), dropout=0.2, embedding_size=4)


def settings(steps: int) -> TrainingConfig:
    return TrainingConfig(steps=steps, batch_size=8, eval_every=3)


def write(folder: Path) -> str:
    words = [("good", "3"), ("bad", "1"), ("fine", "3"), ("dull", "1")]
    lines = [f"({label} (2 {a}) ({label} {word}))" for a in ("so", "very", "quite") for word, label in words]
    (folder / "mine.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "mine.txt")


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    train(RunConfig(task=TASK, model=MODEL, training=settings(6)), tmp_path / "whole")
    train(RunConfig(task=TASK, model=MODEL, training=settings(3)), tmp_path / "parts")
    Trainer.resume(tmp_path / "parts", steps=6).train()
    one, other = (autapse.load(tmp_path / name).state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_recursive_network_learns_expressions_that_a_sequential_one_does_not() -> None:
    """Two operations on digits are a table, which a node looks up; a sequence must first find its brackets."""
    from autapse.tasks import ExpressionsText
    from autapse.training import ModelConfig

    sizes: Any = {"numbers": 6, "train_size": 1000, "validation_size": 100, "test_size": 100}
    training = TrainingConfig(steps=200, batch_size=64, learning_rate=0.01, eval_every=200)
    tree, text = (
        fit(RunConfig(task=kind(**sizes), model=model, training=training)).progress.best
        for kind, model in ((Expressions, TreeConfig(hidden_size=48)), (ExpressionsText, ModelConfig(hidden_size=48)))
    )
    assert tree is not None
    assert text is not None
    assert tree < 0.75 * text


def test_scores_of_roots_and_of_all_nodes() -> None:
    targets = torch.tensor([[0, 1, 2, IGNORE], [1, 1, IGNORE, IGNORE], [IGNORE, 0, 1, 0]])
    assert last_targets(targets).tolist() == [2, 1, 3]
    predicted = torch.tensor([[0, 0, 2, 0], [0, 2, 0, 0], [0, 0, 1, 0]])
    output = torch.nn.functional.one_hot(predicted, 3).float()
    tally = TreeTally(3)
    tally.add(output, targets)
    scores = tally.scores()
    assert scores["root_error"] == pytest.approx(1 / 3)
    assert scores["node_error"] == pytest.approx(3 / 8)


def test_the_metric_is_of_roots_or_of_nodes(tmp_path: Path) -> None:
    found = {}
    for scored in ("root", "nodes"):
        task = OwnTrees(path=write(tmp_path), scored=scored)
        config = RunConfig(task=task, model=TreeConfig(hidden_size=3), training=settings(2))
        summary = train(config, tmp_path / scored)
        assert summary is not None
        found[scored] = (summary.test, summary.root_error, summary.node_error)
        model = autapse.load(tmp_path / scored)
        assert evaluate(model, Tensors.of(task.split("test", 0), "cpu"), objective(task)) == summary.test
    assert found["root"][0] == found["root"][1]
    assert found["nodes"][0] == pytest.approx(found["nodes"][2])


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    options = ["--hidden-size", "8", "--epochs", "20", "--min-count", "1", "--output-dropout", "0"]
    assert main(["run", "mine.txt", "--task", "trees", *options, "--out", "run"]) == 0
    printed = capsys.readouterr().out
    assert "labels: 1, 2, 3" in printed
    assert "error rate of roots" in printed
    assert main(["eval", "run"]) == 0
    capsys.readouterr()
    (tmp_path / "new.txt").write_text("(3 (2 so) (3 good))\n(_ (_ (_ quite) (_ bad)) (_ dull))\n")
    assert main(["predict", "run", "new.txt"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert out.startswith("(")
    assert "so)" in out
    assert "of 1)" in err  # one root has a label
    assert main(["predict", "run", "new.txt", "--probabilities", "--out", "chances.txt"]) == 0
    (tmp_path / "plain.txt").write_text("((so good) (very bad))\n")
    assert main(["predict", "run", "plain.txt", "--out", "labels.json"]) == 0
    assert main(["compare", "expressions", "--cells", "affine,tree-lstm", "--steps", "1", "--train-size", "8"]) == 0
    model: Any = autapse.load("run")
    assert model.predict(["((so good) (very bad))"])[0].shape == (7,)


def test_a_learned_tree_is_trained_on_roots(tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(InputError, match="tree must be given unless only roots have targets"):
        fit(RunConfig(task=OwnTrees(path=path), model=TreeConfig(tree="learned"), training=settings(1)))
    task = OwnTrees(path=path, targets="root")
    model: Any = fit(RunConfig(task=task, model=TreeConfig(tree="learned", hidden_size=4), training=settings(2))).model
    assert model.learned_trees(["((so good) bad)"]).sentence(0) == ("so", "good", "bad")
    assert np.isfinite(model.predict_proba(["(_ (_ so) (_ good))"])[0]).all()
