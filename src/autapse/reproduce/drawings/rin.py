"""The RIN paper: iterative estimation, the adding problem, and images pixel by pixel."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from autapse.diagnostics.estimation import IterativeEstimation, iterative_estimation
from autapse.diagnostics.figures.base import COLOURS, curve, finish
from autapse.diagnostics.plots import draw_estimation, new_figure
from autapse.models.base import as_reader
from autapse.reproduce.drawings.base import (
    WIDE,
    Drawn,
    PaperFigure,
    Training,
    binned,
    grid_of,
    recipe_config,
    seconds_of,
    short,
    trained,
)
from autapse.reproduce.recipe import find_recipe
from autapse.tasks import Digits
from autapse.training.config import RunConfig

NETWORKS = ("RIN", "IRNN", "LSTM")
LENGTHS = (25, 50, 100)
EPOCHS = {"adding": 10, "long": 30, "short": 10, "shortest": 6}  # the last three for images
RATES = {"long": 2e-4, "short": 3e-4, "shortest": 3e-4}
SAMPLES = 128
FIRST = 40  # steps of the adding problem in figure 1
ADDING = {
    "task__train_size": 25_600,
    "task__validation_size": 500,
    "task__test_size": 500,
    "training__epochs": EPOCHS["adding"],
    "training__eval_every": 400,
    "training__learning_rate": 1e-4,  # the paper's for T = 200
    "training__select_by": "last",
}


# The adding problem --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _adding(seed: int) -> dict[tuple[int, str], Training]:
    """The networks of the paper on the adding problem, with shorter sequences."""
    trainings = {}
    for length in LENGTHS:
        for name in NETWORKS:
            config = recipe_config(f"rin/figure2/t200/{name.lower()}", seed, task__length=length, **ADDING)
            trainings[length, name] = trained(config)
    return trainings


def figure_1(seed: int) -> Drawn:
    """Equations 1 and 3 for an LSTM on the adding problem."""
    small = {"task__length": FIRST, "task__train_size": 4000, "training__eval_every": 125}
    faster = {"training__epochs": 12, "training__learning_rate": 3e-3}
    config = recipe_config("rin/figure2/t200/lstm", seed, **(ADDING | small | faster))
    one = trained(config)
    inputs: Any = config.task.split("test", seed).inputs
    estimation = iterative_estimation(as_reader(one.model), inputs[:SAMPLES])
    error = one.curve("validation")[1][-1]
    return _estimated({f"LSTM 1-100, error {error:.3g}": [estimation]}, 1)


def figure_2(seed: int) -> Drawn:
    """Validation errors over epochs."""
    return _adding_curves(seed, "validation", "validation error")


def figure_5(seed: int) -> Drawn:
    """Training errors over epochs."""
    return _adding_curves(seed, "loss", "training error")


def _adding_curves(seed: int, key: str, ylabel: str) -> Drawn:
    figure = new_figure(WIDE, 3.2)
    numbers: dict[str, Any] = {}
    final: dict[str, list[float]] = {name: [] for name in NETWORKS}
    for axes, length in zip(figure.subplots(1, len(LENGTHS), sharey=True), LENGTHS, strict=True):
        for name in NETWORKS:
            epochs, values = _adding(seed)[length, name].curve(key)
            epochs, values = binned(epochs, values, 1.0) if key == "loss" else (epochs, values)
            curve(axes, epochs, values, name)
            numbers[f"T = {length}, {name}"] = {"epoch": short(epochs), "error": short(values)}
            final[name].append(float(values[-1]))
        axes.axhline(0.167, color="gray", linestyle="--", linewidth=1, label="trivial: 0.167")
        finish(axes, "epoch", ylabel if length == LENGTHS[0] else "", log=True, title=f"T = {length}")
        axes.get_legend().remove()
    _legend_below(figure)
    ours, worst = _last_errors(final)
    return Drawn(figure, numbers, ours, worst == list(LENGTHS), seconds_of(_adding(seed).values()))


def _last_errors(final: dict[str, list[float]]) -> tuple[str, list[int]]:
    """A sentence about the last errors, and the lengths at which the LSTM is the worst."""
    shown = "; ".join(f"{name} {', '.join(f'{value:.2g}' for value in values)}" for name, values in final.items())
    worst = [T for n, T in enumerate(LENGTHS) if final["LSTM"][n] > max(final["RIN"][n], final["IRNN"][n])]
    where = f"for T = {', '.join(map(str, worst))}" if worst else "nowhere"
    return f"The last errors for T = {', '.join(map(str, LENGTHS))} are: {shown}. The LSTM is the worst {where}.", worst


# Images --------------------------------------------------------------------------------------------------------------


def _digits(row: str, permuted: bool, seed: int, budget: str) -> RunConfig:
    """A network of table 1 on scikit-learn's digits of 8 × 8 pixels, with a learning rate for a short training."""
    config = find_recipe(f"rin/table1/sequential-mnist/{row}").config()
    training = replace(
        config.training,
        epochs=EPOCHS[budget],
        batch_size=32,
        learning_rate=RATES[budget],
        eval_every=37,
        select_by="last",
        seed=seed,
        threads=1,
    )
    return RunConfig(task=Digits(permuted=permuted), model=config.model, training=training)


@lru_cache(maxsize=128)
def _image_run(row: str, permuted: bool, seed: int, budget: str) -> Training:
    return trained(_digits(row, permuted, seed, budget))


def _curves(rows: dict[str, str], keys: tuple[str, ...], seed: int, budget: str = "short") -> Drawn:
    """Curves on sequential and on permuted digits, a panel for each key."""
    figure = new_figure(WIDE, 0.8 + 2.8 * len(keys))
    numbers: dict[str, Any] = {}
    final: dict[tuple[str, bool], float] = {}
    panels = iter(grid_of(figure, 2 * len(keys), 2))
    names = list(dict.fromkeys(label.split()[0] for label in rows))
    for key in keys:
        for permuted in (False, True):
            axes, kind = next(panels), "permuted" if permuted else "sequential"
            for label, row in rows.items():
                one = _image_run(row, permuted, seed, budget)
                epochs, values = binned(*one.curve(key), 1.0)
                values = 100 * (1 - values) if key == "validation" else values
                name, kind_of = label.split()
                style = ("-", "--", ":")[int(kind_of[0]) - 1]  # by the number of layers
                curve(axes, epochs, values, label, color=COLOURS[names.index(name)], linestyle=style)
                numbers[f"{kind}, {label}, {key}"] = {"epoch": short(epochs), "value": short(values)}
                if key == "validation":
                    final[label, permuted] = float(values[-1])
                elif "validation" not in keys:
                    final[label, permuted] = -float(values[-1])
            finish(axes, "epoch", "accuracy, %" if key == "validation" else "training loss", title=f"{kind} digits")
            axes.get_legend().remove()
    _legend_below(figure)
    best = {
        kind: max((label for label, p in final if p is kind), key=lambda label: final[label, kind])
        for kind in (False, True)
    }
    word = "accuracy" if "validation" in keys else "loss"
    shown = ", ".join(f"{label} {abs(value):.3g}" for (label, p), value in final.items() if not p)
    rins = all(name.startswith("RIN") for name in best.values())
    ours = (
        f"After {EPOCHS[budget]} epochs the best {word} has {best[False]} (sequential) and {best[True]} (permuted). "
        f"Sequential: {shown}."
    )
    runs = [_image_run(row, permuted, seed, budget) for row in rows.values() for permuted in (False, True)]
    return Drawn(figure, numbers, ours, rins, seconds_of(runs))


def figure_3(seed: int) -> Drawn:
    """Losses and accuracies of networks with 200 units."""
    rows = {
        "RIN 1-200": "rin-1-200",
        "RIN-DT 1-100": "rin-dt-1-100",
        "IRNN 1-200": "irnn-1-200",
        "LSTM 1-200": "lstm-1-200",
    }
    return _curves(rows, ("loss", "validation"), seed, "long")


def _all_types() -> dict[str, str]:
    return {f"{name} {layers}-100": f"{name.lower()}-{layers}-100" for layers in (1, 2, 3) for name in NETWORKS}


def figure_6(seed: int) -> Drawn:
    """Training losses of all depths."""
    return _curves(_all_types(), ("loss",), seed)


def figure_7(seed: int) -> Drawn:
    """Validation accuracies of all depths."""
    return _curves(_all_types(), ("validation",), seed)


# Iterative estimation ------------------------------------------------------------------------------------------------


def _estimation(kind: str) -> Any:
    """The figure of equations 1 and 3 for a type of network such as 2-100."""
    layers = int(kind[0])

    def draw(seed: int) -> Drawn:
        inputs: Any = Digits().split("test", seed).inputs
        estimations = {}
        for name in NETWORKS:
            one = _image_run(f"{name.lower()}-{kind}", False, seed, _budget(kind))
            estimations[f"{name} {kind}"] = [
                iterative_estimation(as_reader(one.model), inputs[:SAMPLES], layer=n) for n in range(layers)
            ]
        return _estimated(estimations, layers)

    return draw


def _estimated(estimations: dict[str, list[IterativeEstimation]], layers: int) -> Drawn:
    """Equation 1 beside equation 3, a row for each layer."""
    figure = new_figure(WIDE, 0.4 + 2.6 * layers)
    panels = grid_of(figure, 2 * layers, 2)
    numbers: dict[str, Any] = {}
    for n in range(layers):
        for name, every in estimations.items():
            for change, axes in ((False, panels[2 * n]), (True, panels[2 * n + 1])):
                draw_estimation(every[n], axes, name, change=change)
                axes.set_title(f"layer {n + 1}, equation {3 if change else 1}", fontsize="medium")
                axes.get_legend().remove()
            numbers[f"{name}, layer {n + 1}"] = {"to_end": short(every[n].to_end), "change": short(every[n].change)}
    _legend_below(figure)
    ratios = {name: max(map(_share, every)) for name, every in estimations.items()}
    far = {name: max(float(np.abs(one.to_end).max()) for one in every) for name, every in estimations.items()}
    steps = {name: max(float(np.abs(one.change[1:]).max()) for one in every) for name, every in estimations.items()}
    shown = "; ".join(
        f"{name}: {far[name]:.2g} and {steps[name]:.2g} ({ratios[name]:.2f} of the deviation)" for name in estimations
    )
    ours = f"The largest mean of h_t − h_T and of h_t − h_(t−1) after the first step: {shown}."
    return Drawn(figure, numbers, ours, all(ratio < 1 for ratio in ratios.values()))


def _legend_below(figure: Any) -> None:
    """One legend for all panels, which have the same lines."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    columns = 4 if len(labels) <= 4 else 3
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small")


def _share(one: IterativeEstimation) -> float:
    """The largest mean change of a step, as a part of the standard deviation of the changes at that step."""
    deviation = np.sqrt(one.change_variance[1:])
    return float((np.abs(one.change[1:]) / np.maximum(deviation, 1e-12)).max())


def _budget(kind: str) -> str:
    """The networks of figure 4 are those of figure 3; the others train for a short time."""
    return "long" if kind == "1-200" else "shortest"


def _images(budget: str) -> str:
    rate = f"{RATES[budget] * 1e4:g}·10⁻⁴"
    as_much = " (rate times steps is 0.2, about as much as in the paper)" if budget == "long" else ""
    return (
        "Ours: scikit-learn's digits of 8 × 8 pixels (64 steps, 1,197 images) instead of MNIST (784 steps), RMSprop at "
        f"{rate}, batches of 32, {EPOCHS[budget]} epochs{as_much}."
    )


SHORT = (
    f"Ours: T = {', '.join(map(str, LENGTHS))} instead of 200, 300, 400; {EPOCHS['adding']} epochs of 25,600 sequences "
    "instead of up to 300 of 100,000; otherwise the paper's settings for T = 200, such as Adam at 10⁻⁴."
)
IDENTITY = "The average estimation errors are close to 0 in all networks: they learn an identity mapping."
TYPES = {
    "figure4": "1-200",
    "figure8": "1-100",
    "figure9": "2-100",
    "figure10": "2-200",
    "figure11": "3-100",
    "figure12": "3-200",
}


def _estimation_figure(name: str) -> PaperFigure:
    kind = TYPES[name]
    caption = "Means of h_t − h_T (equation 1) and h_t − h_(t−1) (equation 3) over 128 test images, with bands of one "
    caption += f"standard deviation, for networks of type {kind}. {_images(_budget(kind))}"
    paper = IDENTITY
    if name == "figure4":
        paper += " The variance grows over the last 200 steps in IRNN and RIN."
    return PaperFigure(f"rin/{name}", caption, paper, _estimation(kind))


FIGURES = (
    PaperFigure(
        "rin/figure1",
        "Means of h_t − h_T (equation 1) and h_t − h_(t−1) (equation 3) for an LSTM on the adding problem, "
        "over 128 test "
        f"sequences, with bands of one standard deviation. Ours: T = {FIRST} instead of 200, 12 epochs of "
        "4,000 sequences, "
        "Adam at 3·10⁻³.",
        "Both are close to 0 at all steps: the LSTM estimates its last state iteratively.",
        figure_1,
    ),
    PaperFigure(
        "rin/figure2",
        f"Errors on the adding problem, on validation data (the paper: on test data). {SHORT}",
        "RIN and IRNN are comparable at all lengths, and the LSTM is the worst.",
        figure_2,
    ),
    PaperFigure(
        "rin/figure3",
        f"Training loss and validation accuracy. {_images('long')}",
        "RINs and RIN-DTs converge much faster than IRNNs and LSTMs, and end with a better accuracy.",
        figure_3,
    ),
    _estimation_figure("figure4"),
    PaperFigure(
        "rin/figure5",
        f"Training errors on the adding problem. {SHORT}",
        "RIN and IRNN converge, RIN more stably, and the LSTM is the worst.",
        figure_5,
    ),
    PaperFigure(
        "rin/figure6",
        "Training losses for one, two and three layers of 100 units (the paper also has 200 units and "
        f"accuracies). {_images('short')}",
        "RINs and RIN-DTs converge much faster than IRNNs and LSTMs.",
        figure_6,
    ),
    PaperFigure(
        "rin/figure7",
        "Validation accuracies for one, two and three layers of 100 units (the paper: test losses and "
        f"accuracies). {_images('short')}",
        "RINs and RIN-DTs converge much faster than IRNNs and LSTMs.",
        figure_7,
    ),
    *map(_estimation_figure, ("figure8", "figure9", "figure10", "figure11", "figure12")),
)
