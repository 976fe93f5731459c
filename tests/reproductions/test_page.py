"""The page of results: the papers' tables in their own shape, and the page in the repository up to date."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from autapse.checks import InputError
from autapse.cli.main import main
from autapse.reproduce.layout import Layout, read_layout
from autapse.reproduce.paper import read_papers
from autapse.reproduce.recipe import Difference
from autapse.reproduce.report import END, INTRODUCTION, START
from autapse.reproduce.result import Result, read_results
from autapse.reproduce.table import layer_parameters, render_table
from small_results import by_recipe, result

ROOT = Path(__file__).parents[2] / "reproductions"
PAPERS = read_papers(ROOT)
LAYOUTS = {layout.id: layout for paper in PAPERS for layout in paper.layouts}


def rendered(table: str | Layout, *results: Result) -> list[list[str]]:
    """The cells of a rendered table, headings first."""
    layout = LAYOUTS[table] if isinstance(table, str) else table
    lines = [line for line in render_table(layout, by_recipe(*results)).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")]


def below(table: str, *results: Result) -> list[str]:
    return [line[2:] for line in render_table(LAYOUTS[table], by_recipe(*results)).splitlines() if line[:2] == "- "]


# The page in the repository ------------------------------------------------------------------------------------------


def test_the_page_is_what_the_results_give(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "README.md"
    assert main(["reproduce", "report", "--check", "--results", str(ROOT), "--out", str(page)]) == 0, (
        capsys.readouterr()
    )
    assert page.read_text(encoding="utf-8").partition(START)[0] == INTRODUCTION.partition(START)[0]


def test_a_page_that_is_not_up_to_date_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "README.md"
    check = ["reproduce", "report", "--check", "--results", str(tmp_path), "--out", str(page)]
    assert main(check) == 2
    assert "README.md does not exist. Run: autapse reproduce report" in capsys.readouterr().err
    assert not page.exists()
    assert main(["reproduce", "report", "--results", str(tmp_path), "--out", str(page)]) == 0
    assert main(check) == 0
    text = page.read_text(encoding="utf-8")
    changed = re.sub(r"\*\*\d+\.\d+\*\*", "**0.1234567**", text, count=1)  # one of our numbers
    assert changed != text
    page.write_text(changed, encoding="utf-8")
    assert main(check) == 2
    assert "README.md does not match the results. Run: autapse reproduce report" in capsys.readouterr().err
    page.write_text(f"Our own words. {START} old {END} And more.", encoding="utf-8")
    assert main(["reproduce", "report", "--results", str(tmp_path), "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Our own words. ")
    assert text.endswith(" And more.")
    assert "old" not in text.partition(START)[2].partition("\n\n")[0]
    page.write_text("no marks", encoding="utf-8")
    assert main(["reproduce", "report", "--results", str(tmp_path), "--out", str(page)]) == 2
    assert page.read_text(encoding="utf-8") == "no marks"


def test_the_numbers_in_the_readme_are_those_of_the_page() -> None:
    section = (ROOT.parent / "README.md").read_text(encoding="utf-8").partition("## The papers' results")[2]
    numbers = re.findall(r"\*\*([\d.]+)\*\*", section.partition("\n## ")[0])
    assert len(numbers) >= 3
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [number for number in numbers if f"**{number}" not in page] == []


def test_every_recipe_and_every_result_is_on_the_page() -> None:
    placed = [recipe.id for layout in LAYOUTS.values() for recipe in layout.cells.values()]
    every = [recipe.id for layout in LAYOUTS.values() for recipe in layout.recipes]
    assert sorted(placed) == sorted(every)
    assert set(read_results(ROOT)) <= set(placed)
    assert {folder.parent.relative_to(ROOT).as_posix() for folder in ROOT.glob("*/*/common.toml")} <= set(LAYOUTS)


def test_columns_can_show_different_numbers_of_one_result() -> None:
    one = result("textbook/lengths/brackets/end", 0.5773, scores={"length_distance": 0.25}, floor=0.57)
    heads, row = rendered("textbook/lengths", one)[:2]
    assert heads == ["The length", "best possible", "nats per step", "Distance of the lengths"]
    assert row == ["a symbol ends the word", "0.5700", "**0.5773**", "**0.2500**"]
    copied = result("textbook/memory/repeat-copy/memory", 0.004, validation=0.001)
    assert rendered("textbook/memory", copied)[1][1:3] == ["**0.0010**", "**0.0040**"]


# The papers' shapes --------------------------------------------------------------------------------------------------
# Typed from the papers' text, as in test_recipes.py.

ROWS = {
    "inn/table1": "2.0|1.0|0.75|0.5|0.25",
    "inn/table2": "GRU|LSTM|Bidirectional GRU|b-LSTM|INN|Stanford POS Tagger",
    "ernn/table2": "FastRNN|FastGRNN-LSQ|RNN|SpectralRNN|LSTM|UGRNN|ERNN",
    "ernn/table4": "FastRNN|FastGRNN-LSQ|RNN|LSTM|ERNN(K=1)|ERNN(K=2)",
    "rin/table1": "1-100|1-200|2-100|2-200|3-100|3-200|RIN-DT 1-100",
    "antisymmetric/table1": "LSTM|FC uRNN|FC uRNN|Soft orthogonal|KRU|AntisymmRNN|AntisymmRNN w/ gating",
    "antisymmetric/table2": "LSTM|Ablation model|AntisymmRNN|AntisymmRNN w/ gating",
}
ANTISYMMETRIC_CITED = """
LSTM             97.3  92.6  128  68k
FC uRNN          92.8  92.1  116  16k
FC uRNN          96.9  94.1  512  270k
Soft orthogonal  94.1  91.4  128  18k
KRU              96.4  94.5  512  11k
"""
ERNN_3 = {
    "HAR-2": "FastRNN FastGRNN-LSQ RNN SpectralRNN EURNN LSTM GRU UGRNN ERNN",
    "DSA-19": "FastRNN FastGRNN-LSQ RNN SpectralRNN LSTM GRU UGRNN ERNN",
    "Google-12": "FastRNN FastGRNN-LSQ RNN SpectralRNN EURNN LSTM GRU UGRNN ERNN",
    "Google-30": "FastRNN FastGRNN-LSQ RNN SpectralRNN EURNN LSTM GRU UGRNN ERNN",
    "Pixel-MNIST": "FastRNN FastGRNN-LSQ EURNN RNN LSTM GRU UGRNN ERNN",
    "Yelp-5": "FastRNN FastGRNN-LSQ RNN SpectralRNN EURNN LSTM GRU UGRNN ERNN",
}


@pytest.mark.parametrize("table", ROWS)
def test_rows_are_in_the_papers_order(table: str) -> None:
    names = [row[0] for row in rendered(table)[1:]]
    assert [name for name in names if "not in the paper" not in name] == ROWS[table].split("|")


def test_table_3_of_ernn_goes_through_the_data_sets() -> None:
    found: dict[str, list[str]] = {}
    data = ""
    for row in rendered("ernn/table3")[1:]:
        data = row[0] or data
        if "not in the paper" not in row[1]:
            found.setdefault(data, []).append(row[1])
    assert found == {name: rows.split() for name, rows in ERNN_3.items()}


def test_cited_rows_of_antisymmetric_table_1() -> None:
    headings, *rows = rendered("antisymmetric/table1")
    assert headings[:3] == ["Method", "MNIST (%), ours", "paper"]
    cited = [row for row in rows if row[2].endswith("†")]
    assert [[row[0], row[2].strip("†"), row[5].strip("†"), row[7], row[9]] for row in cited] == [
        [line[:17].strip(), *line[17:].split()] for line in ANTISYMMETRIC_CITED.strip().splitlines()
    ]


def test_the_cited_columns_of_rin_table_3_have_the_printed_means() -> None:
    headings, *rows = rendered("rin/table3")
    assert len(rows) == 21
    for name, mean in (("Jing et al. (2017), cited", 52.3), ("Weston et al. (2015), cited", 49.2)):
        column = [float(row[headings.index(name)]) for row in rows]
        assert sum(column[:20]) / 20 == pytest.approx(mean, abs=0.0501)
        assert column[20] == mean
    assert rows[20][0] == "Mean Performance"
    assert [rows[20][n] for n in (2, 4, 7)] == ["52.6", "48.9", "51.0"]


# Our numbers in them -------------------------------------------------------------------------------------------------


def test_ours_stand_beside_the_papers() -> None:
    headings, *rows = rendered("ernn/table3", result("ernn/table3/har-2/ernn", 95.0, parameters=10_240))
    row = next(row for row in rows if row[1] == "ERNN")
    assert dict(zip(headings, row, strict=False))["Accuracy (%), ours"] == "**95.00**"
    assert row[2:5] == ["**95.00**", "95.59", "-0.59"]
    assert row[5:7] == ["40", "34"]  # 10,240 parameters of 4 bytes
    assert row[7:9] == ["≤ 0.1", "0.061"]  # 360 s in all
    missing = next(row for row in rows if row[1] == "GRU")
    assert missing[2:5] == ["–", "93.62†", ""]
    google = next(row for row in rows if row[0] == "Google-12")
    assert google[2:5] == ["cited only", "92.21", ""]


def test_the_time_to_the_best_model_where_it_was_kept() -> None:
    found = result("ernn/table3/har-2/ernn", 95.0, best_seconds=180.0)
    row = next(row for row in rendered("ernn/table3", found) if row[1] == "ERNN")
    assert row[7] == "0.05"
    busy = result("ernn/table3/har-2/ernn", 95.0, best_seconds=180.0, hardware={"cores": 2, "load": 9.0})
    row = next(row for row in rendered("ernn/table3", busy) if row[1] == "ERNN")
    assert row[7] == "≤ 0.05"  # other programs slowed it down


def test_seeds_are_a_mean_and_a_deviation() -> None:
    scores = [result("ernn/table3/har-2/ernn", ours, seed=n) for n, ours in enumerate((94.0, 95.0, 96.0))]
    row = next(row for row in rendered("ernn/table3", *scores) if row[1] == "ERNN")
    assert row[2] == "**95.00 ± 1.00 (3)**"
    assert row[4] == "-0.59"


def test_a_run_without_a_finite_score_is_not_a_run_that_is_missing() -> None:
    broken = result("ernn/table3/har-2/ernn", None, test=None, validation=None, ended="diverged")
    row = next(row for row in rendered("ernn/table3", broken) if row[1] == "ERNN")
    assert row[2:6] == ["not finite", "95.59", "", "4"]
    assert "**ERNN**: diverged: the score is that of the best weights before." in below("ernn/table3", broken)


def test_a_difference_that_rounds_to_nothing_has_no_minus() -> None:
    row = next(row for row in rendered("ernn/table3", result("ernn/table3/har-2/ernn", 95.589)) if row[1] == "ERNN")
    assert row[4] == "+0.00"


def test_the_best_test_epoch_has_a_column_of_its_own() -> None:
    name = "best test epoch (the papers' selection)"
    plain, chosen = result("ernn/table3/har-2/ernn", 95.0), result("ernn/table3/har-2/gru", 94.0, best_test=96.5)
    assert name not in rendered("ernn/table3", plain)[0]
    headings, *rows = rendered("ernn/table3", plain, chosen)
    gru, ernn = (next(row for row in rows if row[1] == label) for label in ("GRU", "ERNN"))
    assert gru[headings.index(name)] == "96.50"
    assert gru[2] == "**94.00**"
    assert gru[headings.index("difference")] == "+0.38"  # of ours, not of the best test epoch
    assert ernn[headings.index(name)] == ""


def test_tagging_has_no_difference() -> None:
    headings, *rows = rendered("inn/table2", result("inn/table2/xpos/inn", 95.0))
    assert headings == ["Architecture", "WSJ accuracy (%), paper", "UD EWT, UPOS (%), ours", "UD EWT, XPOS (%), ours"]
    assert rows[4] == ["INN", "97.37", "–", "**95.00**"]
    assert rows[5] == ["Stanford POS Tagger", "97.33", "cited only", "cited only"]


def test_solved_tasks_and_means() -> None:
    found = [result("rin/figure2/t200/rin", True, solved_step=4000), result("rin/figure2/t200/lstm", False)]
    found += [result("rin/figure2/t200/irnn", True, solved_step=n, seed=n) for n in (3000, 5000)]
    found += [result("rin/figure2/t200/irnn", False, seed=1)]
    row = rendered("rin/figure2", *found)[1]
    assert row == ["T = 200", "yes, 4,000 steps", "yes", "in 2 of 3 runs, 4,000 steps", "yes", "no", "yes"]
    tasks = [result(f"rin/table3/rin/task-{n:02}", 50.0 + n) for n in (1, 2)]
    assert rendered("rin/table3", *tasks)[-1][1] == "**51.5** (2 of 20 rows)"


def test_rows_that_repeat_another_table_show_its_results() -> None:
    repeated = result("ernn/table3/har-2/fastrnn", 94.0)
    assert rendered("ernn/table4", repeated)[1][1] == "**94.00**"
    own = result("ernn/table4/har-2/fastrnn", 93.0)
    assert rendered("ernn/table4", repeated, own)[1][1] == "**93.00**"


def test_the_best_possible_error() -> None:
    one = result("inn/table1/inn-error/b-0.5", 0.13, floor=0.12)
    assert rendered("inn/table1", one)[4][:3] == ["0.5", "0.1200", "**0.1300**"]
    other = result("inn/table1/b-gru/b-0.5", 0.14, floor=0.125)
    assert rendered("inn/table1", one, other)[4][1] == "0.1200 to 0.1250"


def test_layer_sizes_leave_out_word_vectors_and_softmax() -> None:
    units = 10  # an LSTM has four matrices of each kind and, as torch has it, two biases for each
    model = {"cell": "lstm", "hidden_size": [units], "embedding_size": [7], "num_layers": None, "bidirectional": False}
    found = result("ernn/table2/ptb/lstm", 100.0, settings={"model": model}, parameters=10**6)
    assert layer_parameters(found) == 4 * (units * units + units * 7 + 2 * units)


def test_each_width_has_a_column_and_validation_chooses() -> None:
    scores = {"b-lstm-100": (0.14, 0.15), "b-lstm-error": (0.13, 0.17), "b-lstm-600": (0.15, 0.13)}
    found = [
        result(f"inn/table1/{name}/b-0.5", ours, validation=validation) for name, (ours, validation) in scores.items()
    ]
    headings, *rows = rendered("inn/table1", *found)
    start = headings.index("b-LSTM error, 100 wide, ours")
    assert headings[start : start + 6] == [
        "b-LSTM error, 100 wide, ours",
        "b-LSTM error, 300 wide, ours",
        "b-LSTM error, 600 wide, ours",
        "b-LSTM error, the width that validation chose",
        "paper",
        "difference",
    ]
    half = next(row for row in rows if row[0] == "0.5")
    cells = ["**0.1400**", "**0.1300**", "**0.1500**", "**0.1500** (600)", "0.132", "+0.0180"]
    assert half[start : start + 6] == cells
    assert rows[0][start : start + 6] == ["–", "–", "–", "–", "0.0210", ""]


def test_recipes_that_a_layout_does_not_name(tmp_path: Path) -> None:
    root = tmp_path / "reproductions"
    shutil.copytree(ROOT / "ernn", root / "ernn", ignore=shutil.ignore_patterns("results"))
    own = "[about]\nrow = 'Mine'\nnote = 'not in the paper'\n[model]\ncell = 'gru'\nhidden_size = [8]\n"
    (root / "ernn/table3/dsa-19/mine.toml").write_text(own)
    names = [row[:2] for row in rendered(read_layout(root, root / "ernn/table3"))]
    after = names[names.index(["DSA-19", "FastRNN"]) + 1 :]
    assert after[after.index(["Google-12", "FastRNN"]) - 1] == ["", "Mine (not in the paper)"]
    (root / "ernn/table2/other").mkdir()
    (root / "ernn/table2/other/mine.toml").write_text(own)
    with pytest.raises(
        InputError, match=r"table\.toml has no place for ernn/table2/other/mine\. Add a row or a column"
    ):
        read_layout(root, root / "ernn/table2")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("headings", "heading"), "key must be one of caption, headings"),
        (("headings", 'id = "a"\nheadings'), "key must be one of caption, headings"),
        (('facts = ["size_kb"', 'facts = ["weight"'), "facts must be among units, parameters"),
        (('id = "har-2/gru"', 'id = "har-2/gur"'), "row 'har-2/gur' has no recipe and no cited numbers"),
        (('labels = ["HAR-2", "GRU"]', 'labels = ["GRU"]'), "row 'har-2/gru' must have 2 labels; got 1"),
        (('label = "Accuracy (%)"', 'label = "Accuracy (%)"\nshow = "all"'), "show of column '' must be one of both"),
        (('labels = ["HAR-2", "GRU"]', 'labels = ["HAR-2", "GRU"]\ncited = { a = 1 }'), "must name columns or facts"),
        (("caption = ", "caption ="), None),
        (("caption = ", "caption"), "is not TOML"),
    ],
)
def test_mistakes_in_layouts(change: tuple[str, str], complaint: str | None, tmp_path: Path) -> None:
    root = tmp_path / "reproductions"
    shutil.copytree(ROOT / "ernn", root / "ernn", ignore=shutil.ignore_patterns("results"))
    path = root / "ernn/table3/table.toml"
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    if complaint is None:
        assert read_layout(root, path.parent).id == "ernn/table3"
        return
    with pytest.raises(InputError, match=f"table.toml.*{complaint}"):
        read_layout(root, path.parent)


# What differs --------------------------------------------------------------------------------------------------------


def changed(*settings: tuple[str, object, object]) -> tuple[Difference, ...]:
    return tuple(Difference(f"training.{name}", paper, here, "") for name, here, paper in settings)


def test_runs_with_the_same_differences_share_a_line() -> None:
    clip, long = ("clip_norm", 1.0, None), ("epochs", 25, 300)
    every = [("har-2/rnn", (clip, long)), ("har-2/gru", (clip, long)), ("dsa-19/gru", (clip,)), ("dsa-19/rnn", (clip,))]
    found = [result(f"ernn/table3/{name}", 90.0, differences=changed(*some)) for name, some in every]
    lines = below("ernn/table3", *found)
    assert [line for line in lines if line.startswith("**")] == [
        "**All**: clip_norm: 1.0 (paper: none).",
        "**HAR-2**: epochs: 25 (paper: 300).",
    ]


def test_differences_are_named_by_what_they_share() -> None:
    names = ("har-2/ernn", "dsa-19/ernn", "har-2/rnn", "har-2/gru", "dsa-19/gru", "har-2/fastgrnn-lsq")

    def lines(*changed_ones: str) -> list[str]:
        some = [
            result(f"ernn/table3/{name}", 90.0, differences=changed(("epochs", 5, 9)) if name in changed_ones else ())
            for name in names
        ]
        return [line for line in below("ernn/table3", *some) if line.startswith("**")]

    assert lines("har-2/ernn", "dsa-19/ernn") == ["**ERNN**: epochs: 5 (paper: 9)."]
    assert lines("har-2/rnn") == ["**HAR-2 (RNN)**: epochs: 5 (paper: 9)."]
    assert lines("har-2/rnn", "dsa-19/gru") == ["**RNN; GRU (DSA-19)**: epochs: 5 (paper: 9)."]
    assert lines(*names[2:]) == ["**All but ERNN**: epochs: 5 (paper: 9)."]
    assert lines(*names) == ["**All**: epochs: 5 (paper: 9)."]


def test_what_is_inferred_and_what_was_cut_off() -> None:
    inferred = {"training.epochs": "Not stated."}
    first = result("ernn/table3/har-2/rnn", 90.0, differences=changed(("epochs", 25, 300)), inferred=inferred)
    late = {"ended": "out of time", "budget": 30.0, "paper_epochs": 100}
    second = result("ernn/table3/har-2/gru", 90.0, **late, epochs=4.43)
    third = result("ernn/table3/har-2/lstm", 90.0, **late, epochs=79.0)
    lines = below("ernn/table3", first, second, third)
    assert "**RNN**: epochs: 25 (paper: 300, our choice)." in lines
    assert "**LSTM, GRU**: cut off by a time limit of 30 s, after 4.4 to 79 epochs (paper: 100)." in lines


def test_how_often_a_run_validates_is_not_listed() -> None:
    one = result("ernn/table3/har-2/rnn", 90.0, differences=changed(("eval_every", 24, 57)))
    lines = below("ernn/table3", one)
    assert not any("eval_every" in line for line in lines)
    assert "No setting that the paper states was changed." in lines
