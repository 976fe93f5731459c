"""Results of recipes: what they hold, going on after a stop, and the page that sets them against the papers'."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autapse.checks import InputError
from autapse.cli.main import main
from autapse.cli.reproduce import seconds
from autapse.reproduce import find_recipe
from autapse.reproduce.report import START
from autapse.reproduce.result import read_results, result_path
from autapse.reproduce.run import Plan, in_papers_unit
from autapse.reproduce.score import duration

QUICK = [
    *("--set", "task.train_size=64", "--set", "task.validation_size=16", "--set", "task.test_size=16"),
    *("--set", "task.length=12", "--set", "training.steps=4", "--set", "training.eval_every=2"),
]
RECIPE = "rin/figure2/t200/rin"


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_result_holds_what_made_it(in_empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", RECIPE, "--budget", "1m", "--seed", "3", *QUICK]) == 0
    printed = capsys.readouterr().out
    path = result_path(Path("reproductions"), RECIPE, 3)
    assert str(path) == "reproductions/rin/results/figure2/t200/rin-seed3.json"
    result = json.loads(path.read_text())
    assert result["recipe"] == RECIPE
    assert result["command"].startswith(f"autapse reproduce {RECIPE} --budget 1m --seed 3")
    assert (result["unit"], result["ours"], result["paper"]) == ("solved", False, True)
    assert result["steps"] == 4
    assert result["epochs"] == pytest.approx(4 / (64 // 32))
    assert result["paper_epochs"] == 300
    assert result["budget"] == 60
    assert result["ended"] == "to the end of a shorter training"
    assert result["seed"] == result["settings"]["training"]["seed"] == 3
    assert result["hardware"]["cores"] >= 1
    assert result["software"]["torch"]
    changed = {difference["setting"]: difference for difference in result["differences"]}
    assert changed["task.length"] | {"reason": ""} == {
        "setting": "task.length",
        "paper": 200,
        "here": 12,
        "reason": "",
    }
    assert "task.length: 12 instead of the paper's 200" in printed
    reasons = {difference["reason"] for difference in result["differences"]}
    assert [printed.count(f"why: {reason}\n") for reason in reasons] == [1] * len(reasons)
    assert "training.seconds" not in changed
    weights = next(Path("runs/reproduce").glob(f"{RECIPE}-seed3/fit/checkpoint-*.safetensors"))
    assert weights.stat().st_size > 0


def test_the_papers_steps_are_counted_in_epochs_of_its_own_batches(in_empty_folder: Path):
    recipe = "inn/table1/b-gru/b-0.5"
    sizes = ["train_size=60", "validation_size=10", "test_size=10"]
    changes = [*(f"task.{size}" for size in sizes), "training.steps=2", "training.batch_size=5"]
    assert main(["reproduce", recipe, *(word for change in changes for word in ("--set", change))]) == 0
    result = json.loads(result_path(Path("reproductions"), recipe, 0).read_text())
    assert result["epochs"] == pytest.approx(2 * 5 / 60, abs=1e-4)
    assert result["paper_epochs"] == pytest.approx(7500 * 20 / 60, rel=1e-3)  # 20 walks a step


def test_a_result_is_never_overwritten(in_empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", RECIPE, *QUICK]) == 0
    path = result_path(Path("reproductions"), RECIPE, 0)
    before = path.read_bytes()
    assert main(["reproduce", RECIPE, *QUICK]) == 2
    assert "exists already and is not overwritten" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_several_seeds_of_all_recipes_in_a_folder(in_empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    folder = "rin/figure2/t200"
    assert main(["reproduce", folder]) == 2
    assert "To train all of them, add --seeds 1" in capsys.readouterr().err
    assert main(["reproduce", RECIPE, *QUICK]) == 0
    kept = result_path(Path("reproductions"), RECIPE, 0)
    before = kept.stat().st_mtime_ns
    assert main(["reproduce", folder, "--seeds", "2", *QUICK]) == 0
    written = {path.stem for path in Path("reproductions/rin/results/figure2/t200").iterdir()}
    assert written == {f"{network}{seed}" for network in ("irnn", "lstm", "rin") for seed in ("", "-seed1")}
    assert kept.stat().st_mtime_ns == before
    assert main(["reproduce", folder, "--seeds", "0"]) == 2


def test_the_same_command_goes_on_and_another_does_not(in_empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", RECIPE, *QUICK]) == 0
    path = result_path(Path("reproductions"), RECIPE, 0)
    first = json.loads(path.read_text())
    path.unlink()
    (Path("runs/reproduce") / RECIPE / "fit" / "summary.json").unlink()  # as if stopped before its end
    assert main(["reproduce", RECIPE, *QUICK]) == 0
    assert json.loads(path.read_text())["test"] == first["test"]
    path.unlink()
    summary = Path("runs/reproduce") / RECIPE / "fit" / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"test": 0.0, "steps": 5000}))
    assert main(["reproduce", RECIPE, *QUICK]) == 0
    again = json.loads(path.read_text())
    assert (again["test"], again["steps"]) == (first["test"], first["steps"])  # the checkpoint counts
    path.unlink()
    assert main(["reproduce", RECIPE, *QUICK, "--set", "training.learning_rate=0.5"]) == 2
    assert "has a run with other settings" in capsys.readouterr().err


def test_a_run_that_diverges_is_a_result_too(in_empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    wild = ["--set", "training.learning_rate=1e30", "--set", "training.steps=60", "--set", "training.max_rescues=3"]
    assert main(["reproduce", RECIPE, *QUICK, *wild]) == 0
    result = json.loads(result_path(Path("reproductions"), RECIPE, 0).read_text())
    assert result["ended"] == "diverged"
    assert result["ours"] is not True
    assert "not finite" in capsys.readouterr().out


def test_the_page_has_ours_the_papers_and_what_was_not_run(in_empty_folder: Path):
    assert main(["reproduce", RECIPE, *QUICK]) == 0
    assert main(["reproduce", "report", "--out", "page.md"]) == 0
    page = Path("page.md").read_text()
    assert START in page
    assert "| T = 200 | no | yes |" in page  # ours takes the place of the stored result
    assert "length: 12 (paper: 200)" in page
    assert re.search(r"\| – \| \d+\.\d+ \|", page)  # not run, and the paper's number
    kept = page.replace("Each table", "Our own words")
    Path("page.md").write_text(kept)
    assert main(["reproduce", "report", "--out", "page.md"]) == 0
    assert Path("page.md").read_text() == kept


def test_our_own_results_are_of_recipes_that_there_are():
    results = read_results(Path(__file__).parents[2] / "reproductions")
    for name, found in results.items():
        recipe = find_recipe(name)
        for result in found:
            unit, _ = in_papers_unit(recipe, result.metric, 0.0)
            assert result.unit == unit
            assert result.paper == recipe.paper.get(unit)
            assert result.settings["task"]["name"] == recipe.settings["task"]["name"]


@pytest.mark.parametrize(
    ("summary", "paper", "expected"),
    [
        ({"test": 0.0441, "metric": "error rate", "solved_step": None}, "ernn/table3/har-2/ernn", ("accuracy", 95.59)),
        ({"test": 0.119, "metric": "error rate", "solved_step": None}, "inn/table1/inn-error/b-0.5", ("error", 0.119)),
        ({"test": 119.71, "metric": "perplexity", "solved_step": None}, "ernn/table2/ptb/ernn", ("perplexity", 119.71)),
        ({"test": 0.02, "metric": "mean squared error", "solved_step": 7}, RECIPE, ("solved", False)),
        ({"test": 0.0099, "metric": "mean squared error", "solved_step": None}, RECIPE, ("solved", True)),
        ({"test": None, "metric": "error rate", "solved_step": None}, "ernn/table3/har-2/ernn", ("accuracy", None)),
    ],
)
def test_scores_in_the_papers_unit(summary: dict[str, object], paper: str, expected: tuple[str, object]):
    assert in_papers_unit(find_recipe(paper), summary["metric"], summary["test"]) == expected


def test_a_refit_uses_all_data_for_as_long_as_validation_chose():
    plan = Plan.of(find_recipe("ernn/table3/dsa-19/ernn"), None, 0, {"task.validation": 0.2, "training.period": 1000})
    assert plan.refit
    refit = plan.refit_config(12.5)
    assert refit.task.validation == 0
    assert refit.training.epochs == 12.5
    assert refit.training.period == 1250  # as many epochs, of a quarter more steps
    assert refit.training.seconds is None
    cosine = Plan.of(plan.recipe, 600.0, 0, {"training.schedule": "cosine", "training.period": "none"})
    assert cosine.refit_config(12.5).training.epochs == cosine.config.training.epochs
    assert cosine.config.training.seconds + cosine.refit_config(12.5).training.seconds == pytest.approx(600)


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("45", 45)])
def test_budgets(text: str, expected: float):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "ten", "0m", "-5m", "5d"])
def test_no_budgets(text: str):
    with pytest.raises(InputError, match="budget must be a time such as"):
        seconds(text)


def test_durations():
    assert [duration(s) for s in (59.94, 570, 3600, 7200)] == ["59.9 s", "9.5 min", "60 min", "2 h"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["rin/figure2/t200/run"], "Did you mean 'rin/figure2/t200/rin'?"),
        (["rin/figure2/t200"], "recipe must be one of the 3 below rin/figure2/t200"),
        ([RECIPE, "--set", "training.learning_rate"], "set must be SETTING=VALUE"),
        ([RECIPE, "--set", "training.lerning_rate=1"], "lerning_rate"),
        ([RECIPE, "--budget", "soon"], "budget must be a time"),
        ([RECIPE, "--set", "training.seed=5"], "set must leave training.seed to --seed"),
        ([RECIPE, "--set", "training.seconds=30"], "set must leave training.seconds to --budget"),
        (
            ["ernn/table3/har-2/gru", "--set", "training.early_stop=3"],
            "set must leave plateau and early_stop to recipes without a refit",
        ),
        ([], "needs a recipe, list, show or report first"),
        (["list", "no-such"], "recipe must be the id of a recipe"),
    ],
)
def test_mistakes(words: list[str], complaint: str, in_empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", *words]) == 2
    assert complaint in capsys.readouterr().err
    assert not list(in_empty_folder.iterdir())


def test_a_place_that_cannot_be_written_to_shows_at_once(in_empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("taken").write_text("a file")
    assert main(["reproduce", RECIPE, *QUICK, "--results", "taken"]) == 2
    assert "taken" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_one_process_only(in_empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["reproduce", RECIPE]) == 2
    assert "runs in one process only" in capsys.readouterr().err


def test_a_list_and_a_recipe_shown(capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", "list", "rin/table1/sequential-mnist"]) == 0
    assert "paper: accuracy 91.64" in capsys.readouterr().out
    assert main(["reproduce", "show", "ernn/table3/har-2/ernn"]) == 0
    assert "hidden_size = [63]" in capsys.readouterr().out
