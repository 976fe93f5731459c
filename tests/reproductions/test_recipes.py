"""The recipes: every file reads, its numbers are the papers', and its networks are as large as the papers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autapse.checks import InputError
from autapse.layers.registry import make_layer, parse_network
from autapse.reproduce import Recipe, all_recipes, find_recipe, read_recipe, recipes_below, recipes_root
from autapse.training.config import RunConfig
from autapse.training.model_config import TreeConfig

ROOT = Path(__file__).parents[2] / "reproductions"
RECIPES = all_recipes(ROOT)
BY_ID = {recipe.id: recipe for recipe in RECIPES}
RESULTS = ("accuracy", "error", "perplexity", "solved")

# Typed from the papers' text, row by row as printed there, and not from the recipes.

INN_1 = """
2.0   0.0226  0.0210
1.0   0.0518  0.0589
0.75  0.0782  0.0879
0.5   0.119   0.132
0.25  0.189   0.205
"""
INN_2 = """
gru                96.43
lstm               96.47
bidirectional-gru  97.28
b-lstm             97.25
inn                97.37
"""
ERNN_TOY = """
rnn              86.6
ernn-equation-2  99.7
"""
ERNN_2 = """
fastrnn       127.76  513   11.20
fastgrnn-lsq  115.92  513   12.53
rnn           144.71  129   9.11
spectralrnn   130.20  242   -
lstm          117.41  2052  13.52
ugrnn         119.71  256   11.12
ernn          119.71  529   7.11
"""
ERNN_3 = """
har-2        fastrnn       94.50  29   0.063
har-2        fastgrnn-lsq  95.38  29   0.081
har-2        rnn           91.31  29   0.114
har-2        spectralrnn   95.48  525  0.730
har-2        eurnn         93.11  12   0.740
har-2        lstm          93.65  74   0.183
har-2        gru           93.62  71   0.130
har-2        ugrnn         94.53  37   0.120
har-2        ernn          95.59  34   0.061
dsa-19       fastrnn       84.14  97   0.032
dsa-19       fastgrnn-lsq  85.00  208  0.036
dsa-19       rnn           71.68  20   0.019
dsa-19       spectralrnn   80.37  50   0.038
dsa-19       lstm          84.84  526  0.043
dsa-19       gru           84.84  270  0.039
dsa-19       ugrnn         84.74  399  0.039
dsa-19       ernn          86.87  36   0.015
google-12    fastrnn       92.21  56   0.61
google-12    fastgrnn-lsq  93.18  57   0.63
google-12    rnn           73.25  56   1.11
google-12    spectralrnn   91.59  228  19.0
google-12    eurnn         76.79  210  120.00
google-12    lstm          92.30  212  1.36
google-12    gru           93.15  248  1.23
google-12    ugrnn         92.63  75   0.78
google-12    ernn          94.96  66   0.20
google-30    fastrnn       91.60  96   1.30
google-30    fastgrnn-lsq  92.03  45   1.41
google-30    rnn           80.05  63   2.13
google-30    spectralrnn   88.73  128  11.0
google-30    eurnn         56.35  135  19.00
google-30    lstm          90.31  219  2.63
google-30    gru           91.41  257  2.70
google-30    ugrnn         90.54  260  2.11
google-30    ernn          94.10  70   0.44
pixel-mnist  fastrnn       96.44  166  15.10
pixel-mnist  fastgrnn-lsq  98.72  71   12.57
pixel-mnist  eurnn         95.38  64   122.00
pixel-mnist  rnn           94.10  71   45.56
pixel-mnist  lstm          97.81  265  26.57
pixel-mnist  gru           98.70  123  23.67
pixel-mnist  ugrnn         97.29  84   15.17
pixel-mnist  ernn          98.13  80   2.17
yelp-5       fastrnn       55.38  130  3.61
yelp-5       fastgrnn-lsq  59.51  130  3.91
yelp-5       rnn           47.59  130  3.33
yelp-5       spectralrnn   56.56  89   4.92
yelp-5       eurnn         59.01  122  72.00
yelp-5       lstm          59.49  516  8.61
yelp-5       gru           59.02  388  8.12
yelp-5       ugrnn         58.67  258  4.34
yelp-5       ernn          57.21  138  0.69
"""
ERNN_4 = """
fastrnn       94.50  29  0.063
fastgrnn-lsq  95.38  29  0.081
rnn           91.31  29  0.114
lstm          93.65  74  0.183
ernn-k1       95.59  34  0.061
ernn-k2       96.33  35  0.083
"""
RIN_1 = """
1-100  91.64  83.55  24.10  78.89  62.11  28.49
1-200  94.60  92.86  47.13  85.03  73.73  30.63
2-100  93.69  92.15  39.50  83.37  76.31  41.31
2-200  94.82  94.78  22.27  85.31  83.78  55.44
3-100  94.15  94.03  54.98  84.15  78.78  38.61
3-200  95.19  95.05  61.20  83.41  84.24  53.29
"""
RIN_DT = {"sequential-mnist": 95.41, "permuted-mnist": 86.23}
RIN_3 = """
01  51.9  48.4  50.3
02  18.7  18.7  19
03  18.5  15.3  22.9
04  71.2  72.6  71.6
05  16.4  18.9  36.4
06  50.3  50.3  52.3
07  48.8  48.8  48.9
08  33.6  33.6  33.6
09  64.6  64.7  63.8
10  45.1  43.7  45.1
11  71.6  67.8  78.4
12  70.6  71.4  75.3
13  94.4  94.2  94.4
14  36.7  17.6  23.2
15  54.8  54.1  26.7
16  48.8  49    25.8
17  53.9  53.4  52
18  92.6  46.9  93
19  10.5  10.9  9.9
20  98    98.2  97.3
"""
RIN_3_MEANS = {"rin": 52.6, "irnn": 48.9, "lstm": 51.0}
ANTISYMMETRIC_1 = """
lstm                 97.3  92.6  128  68_000
fc-urnn-116          92.8  92.1  116  16_000
fc-urnn-512          96.9  94.1  512  270_000
soft-orthogonal      94.1  91.4  128  18_000
kru                  96.4  94.5  512  11_000
antisymmetric        98.0  95.8  128  10_000
antisymmetric-gated  98.8  93.1  128  10_000
"""
ANTISYMMETRIC_2 = """
lstm                 59.7  11.6  128  69_000
ablation             54.6  46.2  196  42_000
antisymmetric        58.7  48.3  256  36_000
antisymmetric-gated  62.2  54.7  256  37_000
"""
CITED_BY_ERNN = {"rnn", "spectralrnn", "eurnn", "lstm", "gru", "ugrnn"}

Expected = dict[str, dict[str, Any]]


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def from_inn() -> Expected:
    found: Expected = {}
    for b, inn, lstm in rows(INN_1):
        found[f"inn/table1/inn-error/b-{b}"] = {"error": float(inn)}
        found[f"inn/table1/b-lstm-error/b-{b}"] = {"error": float(lstm)}
        found |= {f"inn/table1/{column}/b-{b}": {} for column in ("b-gru", "b-lstm-100", "b-lstm-600")}
    for row, accuracy in rows(INN_2):
        for tags in ("upos", "xpos"):
            found[f"inn/table2/{tags}/{row}"] = {"accuracy": float(accuracy)}
    return found


def from_ernn() -> Expected:
    ours = ("toy/random-walks/ernn", "toy/random-walks/ernn-equation-2-solved")
    ours += ("table3/har-2/antisymmetric", "table3/har-2/fastgrnn-low-rank")
    ours += ("table3/har-2/eurnn-complex", "table3/pixel-mnist/eurnn-complex")
    found: Expected = {f"ernn/{name}": {} for name in ours}
    for row, accuracy in rows(ERNN_TOY):
        found[f"ernn/toy/random-walks/{row}"] = {"accuracy": float(accuracy)}
    for row, perplexity, size, minutes in rows(ERNN_2):
        time = {} if minutes == "-" else {"minutes": float(minutes)}
        found[f"ernn/table2/ptb/{row}"] = {"perplexity": float(perplexity), "size_kb": int(size), **time}
    lines = [("table3", *line) for line in rows(ERNN_3)] + [("table4", "har-2", *line) for line in rows(ERNN_4)]
    for table, column, row, accuracy, size, hours in lines:
        numbers = {"accuracy": float(accuracy), "size_kb": int(size), "hours": float(hours)}
        found[f"ernn/{table}/{column}/{row}"] = numbers
    for name, numbers in found.items():
        if name.rpartition("/")[2] in CITED_BY_ERNN and "toy" not in name:
            numbers["cited"] = True
    return found


def from_rin() -> Expected:
    found: Expected = {f"rin/table1/{task}/rin-dt-1-100": {"accuracy": value} for task, value in RIN_DT.items()}
    for kind, *numbers in rows(RIN_1):
        columns = [(task, cell) for task in ("sequential-mnist", "permuted-mnist") for cell in ("rin", "irnn", "lstm")]
        for (task, cell), number in zip(columns, numbers, strict=True):
            found[f"rin/table1/{task}/{cell}-{kind}"] = {"accuracy": float(number)}
    for task, *numbers in rows(RIN_3):
        for cell, number in zip(("rin", "irnn", "lstm"), numbers, strict=True):
            found[f"rin/table3/{cell}/task-{task}"] = {"accuracy": float(number)}
        found[f"rin/table3/irnn-1e-3/task-{task}"] = {}
    for length in (200, 300, 400):
        for cell in ("rin", "irnn", "lstm"):
            found[f"rin/figure2/t{length}/{cell}"] = {"solved": (length, cell) != (400, "lstm")}
    return found


def from_antisymmetric() -> Expected:
    found: Expected = {"antisymmetric/table2/last-rows/lstm": {"accuracy": 48.3}}  # the footnote
    for row, mnist, permuted, _, parameters in rows(ANTISYMMETRIC_1):
        cited = {} if row.startswith("antisymmetric") else {"cited": True}
        for column, accuracy in (("mnist", mnist), ("pmnist", permuted)):
            numbers = {"accuracy": float(accuracy), "parameters": int(parameters), **cited}
            found[f"antisymmetric/table1/{column}/{row}"] = numbers
    for row, pixels, noisy, _, parameters in rows(ANTISYMMETRIC_2):
        found[f"antisymmetric/table2/pixel-by-pixel/{row}"] = {"accuracy": float(pixels), "parameters": int(parameters)}
        found[f"antisymmetric/table2/noise-padded/{row}"] = {"accuracy": float(noisy)}
    return found


EXPECTED = from_inn() | from_ernn() | from_rin() | from_antisymmetric()

OWN = "textbook/"  # it has no tables of numbers, so these are ours
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)


def test_every_cell_of_the_tables_has_its_recipe() -> None:
    assert {name for name in BY_ID if not name.startswith(OWN)} == set(EXPECTED)
    assert len(BY_ID) == len(RECIPES)


@pytest.mark.parametrize("paper", ["inn", "ernn", "rin", "antisymmetric"])
def test_numbers_are_the_papers(paper: str) -> None:
    found = {recipe.id: recipe.paper for recipe in RECIPES if recipe.id.startswith(f"{paper}/")}
    assert found == {name: numbers for name, numbers in EXPECTED.items() if name.startswith(f"{paper}/")}


@pytest.mark.parametrize("cell", RIN_3_MEANS)
def test_columns_of_rin_table_3_have_the_printed_means(cell: str) -> None:
    accuracies = [recipe.paper["accuracy"] for recipe in recipes_below(f"rin/table3/{cell}", ROOT)]
    assert sum(accuracies) / 20 == pytest.approx(RIN_3_MEANS[cell], abs=0.0501)


@every_recipe
def test_is_whole(recipe: Recipe) -> None:
    assert len(recipe.id.split("/")) == 4
    assert {"title", "table", "column", "row"} <= set(recipe.about)
    assert "name" in recipe.settings["task"]
    model = set(recipe.settings["model"])
    assert {"hops", "embedding_size"} <= model or {"cell", "hidden_size"} <= model
    assert {"optimizer", "learning_rate", "batch_size"} <= set(recipe.settings["training"])
    assert ("steps" in recipe.settings["training"]) != ("epochs" in recipe.settings["training"])
    if recipe.id.startswith(OWN):
        assert not recipe.paper or recipe.settings["task"]["name"] == "sst"  # which has published numbers
        assert not recipe.budget  # a recipe of ours takes minutes
    elif not any(name in recipe.paper for name in RESULTS):
        assert "not in the paper" in recipe.about["note"]
    assert bool(recipe.budget) == ("reason" in recipe.settings["budget"])
    assert recipe.path.read_text(encoding="utf-8").startswith("# ")  # says on top what it is
    for name, reason in recipe.inferred.items():
        table, _, key = name.partition(".")
        assert key in recipe.settings[table], name
        assert reason.endswith("."), reason


@every_recipe
def test_makes_a_run(recipe: Recipe) -> None:
    if not isinstance(recipe.config().model, TreeConfig):  # their cells have names of their own
        parse_network(recipe.config().model.cell)
    assert recipe.differences(recipe.config()) == []
    changed = {difference.setting for difference in recipe.differences(recipe.config(budget=True))}
    assert changed >= set(recipe.budget)


SIZES = {"har-2": (9, 2), "dsa-19": (45, 19), "google-12": (32, 12), "google-30": (32, 30)}  # channels, classes
SIZES |= {"pixel-mnist": (1, 10), "yelp-5": (128, 5), "mnist": (1, 10), "pmnist": (1, 10), "pixel-by-pixel": (3, 10)}


def parameters(recipe: Recipe) -> int:
    """Of the layer and, but for language models, of the head; of torch's two biases, one."""
    column, (units,) = recipe.id.split("/")[2], recipe.settings["model"]["hidden_size"]
    channels, classes = SIZES.get(column, (units, 0))
    layer = make_layer(recipe.settings["model"]["cell"], channels, units, device="meta")
    own = {name: p.numel() for name, p in layer.named_parameters() if "bias_hh" not in name}
    return sum(own.values()) + (layer.output_size + 1) * classes


@pytest.mark.parametrize("recipe", [r for r in RECIPES if "size_kb" in r.paper], ids=lambda recipe: recipe.id)
def test_widths_fit_the_sizes_in_kilobytes(recipe: Recipe) -> None:
    # The paper's sizes are rounded, now up and now down, and round widths are the likelier ones.
    assert parameters(recipe) * 4 / 1024 == pytest.approx(recipe.paper["size_kb"], abs=1.6)


@pytest.mark.parametrize("recipe", [r for r in RECIPES if "parameters" in r.paper], ids=lambda recipe: recipe.id)
def test_networks_have_the_numbers_of_parameters(recipe: Recipe) -> None:
    stated = recipe.paper["parameters"]
    # A cited number is that of another paper, which may count other details.
    assert parameters(recipe) == pytest.approx(stated, abs=0.08 * stated if recipe.paper.get("cited") else 600)


@pytest.mark.parametrize(("row", "units"), [(line[0], line[3]) for line in rows(ANTISYMMETRIC_2)])
def test_units_of_the_antisymmetric_paper(row: str, units: str) -> None:
    for column in ("pixel-by-pixel", "noise-padded"):
        assert BY_ID[f"antisymmetric/table2/{column}/{row}"].settings["model"]["hidden_size"] == [int(units)]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("rin/figure2/t200/rin", {"task.length": 200, "training.learning_rate": 1e-4, "training.epochs": 300}),
        ("rin/figure2/t300/irnn", {"training.learning_rate": 1e-5, "training.optimizer": "adam"}),
        ("rin/figure2/t400/lstm", {"training.learning_rate": 1e-6, "training.batch_size": 32}),
        ("rin/table1/permuted-mnist/irnn-3-200", {"training.learning_rate": 1e-6, "training.optimizer": "rmsprop"}),
        ("rin/table1/permuted-mnist/irnn-3-200", {"model.num_layers": 3, "model.hidden_size": [200]}),
        ("rin/table1/sequential-mnist/rin-1-100", {"task.permuted": False, "training.epochs": 500}),
        ("rin/table3/irnn/task-07", {"training.learning_rate": 1e-4, "task.number": 7, "training.epochs": 100}),
        ("rin/table3/rin/task-07", {"training.learning_rate": 1e-3, "model.embedding_size": [200]}),
        ("inn/table1/inn-error/b-0.25", {"task.bias": 0.25, "task.train_size": 50_000, "model.hidden_size": [200]}),
        ("inn/table2/xpos/b-lstm", {"model.hidden_size": [628], "model.bidirectional": True, "task.tags": "xpos"}),
        (
            "inn/table2/upos/inn",
            {"model.hidden_size": [448], "training.learning_rate": 0.5, "training.optimizer": "sgd"},
        ),
        (
            "ernn/table3/har-2/ernn",
            {"training.batch_size": 128, "training.learning_rate": 0.01, "protocol.refit": True},
        ),
        ("antisymmetric/table2/noise-padded/lstm", {"training.steps": 10_000, "training.batch_size": 128}),
        ("antisymmetric/table1/pmnist/lstm", {"training.steps": 50_000, "task.permuted": True}),
    ],
)
def test_settings_are_the_papers(name: str, settings: dict[str, Any]) -> None:
    for setting, value in settings.items():
        table, _, key = setting.partition(".")
        assert BY_ID[name].settings[table][key] == value


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


TASK = "[task]\nname = 'adding'\n"


def test_files_are_merged_from_the_top_down(tmp_path: Path) -> None:
    files = {
        "common.toml": "[training]\nbatch_size = 1\nlearning_rate = 0.1\nseed = 1\nepochs = 9\n",
        "p/common.toml": "[training]\nbatch_size = 2\nlearning_rate = 0.2\n",
        "p/t/c/common.toml": "[training]\nbatch_size = 3\n",
        "p/t/c/row.toml": TASK + "[training]\nbatch_size = 4\nsteps = 5\n",
        "p/t/c/other.toml": TASK,
    }
    write(tmp_path, files)
    row, other = (read_recipe(tmp_path, f"p/t/c/{name}").settings["training"] for name in ("row", "other"))
    assert row == {"batch_size": 4, "learning_rate": 0.2, "seed": 1, "steps": 5}  # steps take the place of epochs
    assert other == {"batch_size": 3, "learning_rate": 0.2, "seed": 1, "epochs": 9}


def test_budget_and_overrides_replace_in_this_order(tmp_path: Path) -> None:
    text = TASK + "length = 8\n[training]\nclip_norm = 'none'\nsteps = 50\nlearning_rate = 0.1\nbatch_size = 8\n"
    text += "[budget]\nreason = 'time'\n'training.steps' = 20\n'training.learning_rate' = 0.2\n"
    recipe = read_recipe(write(tmp_path, {"a.toml": text}), "a")
    paper = recipe.config()
    assert (paper.training.steps, paper.training.learning_rate, paper.training.clip_norm) == (50, 0.1, None)
    for word in ("None", "none"):
        assert recipe.config(overrides={"training.clip_norm": word}).training.clip_norm is None
    given = {"training.steps": "30", "task.length": "9", "model.hidden_size": "[3, 4]", "model.cell": "rin"}
    used = recipe.config(budget=True, overrides=given | {"training.seed": 7})
    assert (used.training.steps, used.training.learning_rate, used.training.seed) == (30, 0.2, 7)
    assert (used.model.cell, used.model.hidden_size) == ("rin", (3, 4))
    assert paper == RunConfig.from_json(paper.to_json())
    found = {d.setting: (d.paper, d.here, d.reason) for d in recipe.differences(used)}
    assert found == {
        "task.length": (8, 9, "changed for this run"),
        "model.cell": ("gru", "rin", "changed for this run"),
        "model.hidden_size": ((64,), (3, 4), "changed for this run"),
        "training.steps": (50, 30, "changed for this run"),
        "training.learning_rate": (0.1, 0.2, "time"),
    }


def test_epochs_given_for_steps_are_one_difference_each(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, {"a.toml": TASK + "[training]\nepochs = 3\n"}), "a")
    found = {d.setting: (d.paper, d.here) for d in recipe.differences(recipe.config(overrides={"training.steps": 5}))}
    assert found == {"training.epochs": (3, None), "training.steps": (None, 5)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[task\n", "is not TOML"),
        ("[task]\nname = " + "[" * 5000, "is not TOML: maximum recursion depth exceeded"),
        ("[task]\nname = " + "9" * 5000, "is not TOML: Exceeds the limit"),
        ("[task]\n" + "a." * 50_000, "has 100007 bytes; the limit is 65536"),
        ("[tusk]\n", "table must be one of .*Did you mean 'task'"),
        ("task = 1\n", r"task must be a table, \[task\]; got 1"),
        ("[paper]\naccuracies = 1\n", "Did you mean 'accuracy'"),
        ("[about]\nname = 'x'\n", r"setting of \[about\] must be one of"),
        ("[about]\nnote = 3\n", "about.note must be text; got 3"),
        ("[inferred]\nhidden_size = 'x'\n", "must be <table>.<setting>"),
        ("[budget]\n'paper.accuracy' = 1\n", "must be <table>.<setting>"),
    ],
)
def test_what_a_file_may_not_have(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, {"p/a.toml": text})
    with pytest.raises(InputError, match=message) as error:
        all_recipes(tmp_path)
    assert str(error.value).startswith(str(tmp_path / "p" / "a.toml"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TASK + "lenght = 3\n", "Did you mean 'length'"),
        (TASK + "[model]\nhiden_size = [3]\n", "Did you mean 'hidden_size'"),
        (TASK + "[training]\nlearning_rate = -1.0\n", "learning_rate must be a finite number above 0"),
        ("[task]\nname = 'ading'\n", "Did you mean 'adding'"),
        ("[model]\ncell = 'gru'\n", r"\[task\] must have a name"),
        (TASK + "[protocol]\nrefit = 'yes'\n", "protocol.refit must be True or False"),
    ],
)
def test_wrong_settings_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    recipe = read_recipe(write(tmp_path, {"a.toml": text}), "a")
    with pytest.raises(InputError, match=message) as error:
        recipe.config(overrides={"training.seed": int(recipe.refit)})
    assert str(error.value).startswith(str(tmp_path / "a.toml"))


def test_wrong_overrides_do_not_blame_the_file(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, {"a.toml": TASK}), "a")
    with pytest.raises(InputError, match=r"^a, with training.stepz given: .*Did you mean 'steps'"):
        recipe.config(overrides={"training.stepz": 1})
    with pytest.raises(InputError, match=r"setting must be <table>.<setting>, the table one of task, model, training"):
        recipe.config(overrides={"steps": 1})


def test_ids_are_in_natural_order(tmp_path: Path) -> None:
    write(
        tmp_path,
        {f"p/task-{i}.toml": TASK for i in (10, 2, 1)} | {"p/common.toml": "", "README.md": "", "b.toml": TASK},
    )
    assert [recipe.id for recipe in all_recipes(tmp_path)] == ["b", "p/task-1", "p/task-2", "p/task-10"]


def test_find_recipe() -> None:
    assert find_recipe("rin/table1/permuted-mnist/rin-1-100").about["row"] == "RIN 1-100"
    assert find_recipe("inn/table1/inn-error/b-0.5").settings["task"]["bias"] == 0.5
    with pytest.raises(
        InputError, match=r"one of the 38 below rin/table1: .*permuted-mnist, rin/table1/sequential-mnist"
    ):
        find_recipe("rin/table1")
    with pytest.raises(InputError, match="Did you mean 'rin/table1/permuted-mnist/rin-1-100'"):
        find_recipe("rin/table1/permutedmnist/rin-1-100")
    with pytest.raises(InputError, match="Did you mean 'rin/table3'"):
        find_recipe("rin/table33")
    assert len(recipes_below("rin/table3")) == 80
    assert [recipe.id for recipe in recipes_below("ernn/table4/har-2/ernn-k2")] == ["ernn/table4/har-2/ernn-k2"]
    with pytest.raises(InputError, match="recipe must be the id of a recipe"):
        recipes_below("nothing-like-it")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no.toml cannot be read: No such file"):
        read_recipe(tmp_path, "no")


def test_recipes_stand_beside_the_sources() -> None:
    assert recipes_root() == ROOT
