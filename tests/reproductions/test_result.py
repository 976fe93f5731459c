"""Result files: what they hold, what is refused, and the learning curve in them."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from autapse.checks import InputError
from autapse.cli.main import main
from autapse.cli.parse import parse
from autapse.cli.reproduce import Reproduce, command_of, seconds
from autapse.reproduce.curve import Curve, curve_of
from autapse.reproduce.recipe import Difference
from autapse.reproduce.result import read_result, read_results, result_path, write_result
from small_results import result

ROOT = Path(__file__).parents[2] / "reproductions"
FILES = sorted(ROOT.glob("*/results/*/**/*.json"))
ADDED = {"best_test", "best_seconds", "curve", "scores"}  # keys that the first results did not have
RECIPE = "rin/figure2/t200/rin"
QUICK = [
    *("--set", "task.train_size=64", "--set", "task.validation_size=16", "--set", "task.test_size=16"),
    *("--set", "task.length=12", "--set", "training.steps=40", "--set", "training.eval_every=10"),
]


def test_there_are_results() -> None:
    assert len(FILES) > 70


def test_stored_results_are_read_as_they_are_written() -> None:
    for path in FILES:
        stored = json.loads(path.read_text(encoding="utf-8"))
        read = json.loads(json.dumps(dataclasses.asdict(read_result(path))))
        assert {key: value for key, value in read.items() if key in stored} == stored, path
        assert set(read) - set(stored) <= ADDED, path


def test_stored_results_lie_where_their_recipe_says() -> None:
    for path in FILES:
        one = read_result(path)
        assert result_path(ROOT, one.recipe, one.seed) == path


def test_commands_of_stored_results_are_what_a_reader_types() -> None:
    commands = [one for path in FILES for one in [read_result(path)] if one.command.startswith("autapse reproduce")]
    assert len(commands) > 70
    for one in commands:
        _, _, recipe, *rest = shlex.split(one.command)
        options = parse(Reproduce, "reproduce", rest)
        assert recipe == one.recipe
        assert one.command == command_of(recipe, options)  # so no folder is named
        assert one.seed == options.seed
        assert one.budget == (None if options.budget is None else seconds(options.budget))


def test_a_result_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "differences": (Difference("training.epochs", 300, 25, "time"),),
        "best_test": 96.5,
        "curve": Curve((1.0, 2.0), (0.5, None), (None, 0.25)),
    }
    made = result("ernn/table3/har-2/ernn", 95.0, **changes)
    write_result(tmp_path / "one.json", made)
    assert read_result(tmp_path / "one.json") == made


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda content: [content], "one.json must be a table of keys and values"),
        (lambda content: content | {"our": 1}, "one.json: key must be one of recipe, .* Did you mean 'ours'"),
        (lambda content: {k: v for k, v in content.items() if k not in ("seed", "ours")}, "one.json lacks: ours, seed"),
        (lambda content: content | {"steps": 1.5}, "one.json: steps must be an integer; got 1.5"),
        (lambda content: content | {"parameters": True}, "one.json: parameters must be an integer; got True"),
        (
            lambda content: content | {"ours": "95"},
            "one.json: ours must be true or false or a number or null; got '95'",
        ),
        (lambda content: content | {"differences": [{"setting": "a"}]}, r"differences\[0\] lacks: paper, here, reason"),
        (
            lambda content: content | {"curve": {"epoch": [1], "loss": [1], "validation": ["x"]}},
            r"validation\[0\] must",
        ),
        (lambda content: content | {"inferred": {"a": 1}}, "one.json: inferred.a must be text; got 1"),
    ],
)
def test_what_is_not_a_result_is_one_line(change: Any, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write_result(path, result(RECIPE, True))
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=complaint) as caught:
        read_result(path)
    assert "\n" not in str(caught.value)


def test_results_of_the_last_folder_count(tmp_path: Path) -> None:
    for folder, seed, ours in (("a", 0, 1.0), ("a", 2, 2.0), ("b", 0, 3.0)):
        path = result_path(tmp_path / folder, "rin/table3/rin/task-01", seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_result(path, result("rin/table3/rin/task-01", ours, seed=seed))
    found = read_results(tmp_path / "a", tmp_path / "b")
    assert [(one.seed, one.ours) for one in found["rin/table3/rin/task-01"]] == [(0, 3.0), (2, 2.0)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    folders = ["--results", str(folder / "results"), f"--runs={folder / 'runs'}"]
    assert main(["reproduce", RECIPE, "--seed", "2", *folders, *QUICK]) == 0
    return folder


def test_a_recorded_command_names_no_folder(trained: Path) -> None:
    one = read_result(result_path(trained / "results", RECIPE, 2))
    assert one.command == shlex.join(["autapse", "reproduce", RECIPE, "--seed", "2", *QUICK])


def test_a_result_keeps_the_curve_of_its_run(trained: Path) -> None:
    one = read_result(result_path(trained / "results", RECIPE, 2))
    lines = (trained / "runs" / f"{RECIPE}-seed2" / "fit" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    losses = [record["loss"] for record in records if "loss" in record]
    validations = {record["step"]: record for record in records if "validation" in record}
    assert one.curve is not None
    assert one.curve.epoch[-1] == 40 / 2  # 64 sequences in batches of 32
    assert [loss for loss in one.curve.loss if loss is not None] == pytest.approx(losses, rel=1e-4)
    scores = [score for score in one.curve.validation if score is not None]
    assert scores == pytest.approx([record["validation"] for record in validations.values()], rel=1e-4)
    assert one.best_seconds == pytest.approx(validations[one.best_step]["seconds"], abs=0.06)


def test_a_curve_is_smoothed_over_few_points() -> None:
    records = [{"step": step, "loss": float(step)} for step in range(10, 10_001, 10)]
    records += [{"step": step, "validation": 1 / step} for step in range(500, 10_001, 500)]
    curve = curve_of(records, per_epoch=100)
    assert curve is not None
    assert 50 <= len(curve.epoch) <= 60
    assert curve.epoch[-1] == 100
    assert list(curve.epoch) == sorted(set(curve.epoch))
    width = curve.epoch[1] - curve.epoch[0]
    middles = [100 * (epoch - width / 2) for epoch in curve.epoch[:-1]]  # the mean of a line over an interval
    assert list(curve.loss[:-1]) == pytest.approx(middles, abs=10)
    assert [score for score in curve.validation if score is not None][-1] == 1e-4
    assert sum(score is not None for score in curve.validation) == 20


def test_curves_leave_out_what_is_not_finite() -> None:
    records = [{"step": 10, "loss": None}, {"step": 20, "loss": 1.0}, {"event": "rescue", "step": 5}]
    assert curve_of(records, 10, points=2) == Curve((1.0, 2.0), (None, 1.0), (None, None))
    assert curve_of([{"event": "rescue", "step": 5}], 10) is None
