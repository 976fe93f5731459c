"""The ERNN paper: Φ(α), and what its toy data show about stability, discrimination, convergence and η."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from autapse.diagnostics.classes import discrimination
from autapse.diagnostics.equilibria import learned_rates, phi_curve
from autapse.diagnostics.figures.base import curve, finish
from autapse.diagnostics.plots import (
    draw_discrimination,
    draw_phi,
    draw_rates,
    draw_weight_distance,
    new_figure,
)
from autapse.diagnostics.weights import weight_distance
from autapse.layers.recurrent import Recurrent
from autapse.models.base import as_reader
from autapse.reproduce.drawings.base import (
    WIDE,
    Drawn,
    PaperFigure,
    Training,
    binned,
    number,
    recipe_config,
    seconds_of,
    short,
    trained,
)
from autapse.reproduce.recipe import recipes_root
from autapse.reproduce.result import Result, read_results
from autapse.tasks.base import dense

TOY = "ernn/toy/random-walks"
EPOCHS, WALKS = 50, 10_000
CLEARLY = 0.1  # a difference of ratios that can be seen
BUDGET = f"Our training: {EPOCHS} epochs of {WALKS:,} walks, as many walks as in the paper, one seed."


@lru_cache(maxsize=2)
def _toy(seed: int) -> dict[str, Training]:
    """The RNN and the ERNN of the toy data, trained on fewer walks."""
    recipes = {"RNN": f"{TOY}/rnn", "ERNN": f"{TOY}/ernn-equation-2"}
    return {
        name: trained(
            recipe_config(
                recipe,
                seed,
                task__train_size=WALKS,
                task__test_size=2000,
                training__epochs=EPOCHS,
                training__eval_every=WALKS // 128,
                training__select_by="last",
            )
        )
        for name, recipe in recipes.items()
    }


def figure_3a(seed: int) -> Drawn:
    """The distance of the weights to the last ones, per epoch."""
    distances = {name: weight_distance(one.recorder.records) for name, one in _toy(seed).items()}
    figure = new_figure(5.0, 3.4)
    axes = figure.subplots()
    for name, one in distances.items():
        draw_weight_distance(one, axes, name)
    axes.set_xlabel("epoch")
    steps = {name: np.abs(one.step) for name, one in distances.items()}
    smaller = float((steps["ERNN"] < steps["RNN"]).mean())
    numbers = {name: {"distance": short(one.distance), "norm": number(one.norm)} for name, one in distances.items()}
    ours = (
        f"The weights of ERNN are {distances['ERNN'].distance[0]:.2f} from their end before the training, those of the "
        f"RNN {distances['RNN'].distance[0]:.2f}. The distance of ERNN changes less in {smaller:.0%} of the epochs."
    )
    return Drawn(figure, numbers, ours, smaller == 1.0, seconds_of(_toy(seed).values()))


def figure_3b(seed: int) -> Drawn:
    """The ratio of distances within and between classes, over time."""
    figure = new_figure(5.0, 3.4)
    axes, ratios = figure.subplots(), {}
    for name, one in _toy(seed).items():
        data = one.config.task.split("test", seed)
        ratios[name] = discrimination(as_reader(one.model), dense(data.inputs)[:200], dense(data.targets)[:200])
        draw_discrimination(ratios[name], axes, name)
    last = {name: float(one.ratio[-1]) for name, one in ratios.items()}
    first = int(np.argmax(ratios["ERNN"].ratio < ratios["RNN"].ratio))
    ours = (
        f"At the last step the ratio is {last['ERNN']:.2f} for ERNN and {last['RNN']:.2f} for the RNN; "
        "ERNN is below the RNN "
        f"first at step {first + 1}."
    )
    numbers = {name: short(one.ratio) for name, one in ratios.items()}
    return Drawn(figure, numbers, ours, last["ERNN"] < last["RNN"] - CLEARLY, seconds_of(_toy(seed).values()))


def figure_4(seed: int) -> Drawn:
    """The training losses over epochs."""
    figure = new_figure(5.0, 3.4)
    axes, numbers, final = figure.subplots(), {}, {}
    for name, one in _toy(seed).items():
        epochs, losses = binned(*one.curve("loss"), 1.0)
        curve(axes, epochs, losses, name)
        numbers[name] = {"epoch": short(epochs), "loss": short(losses)}
        final[name] = float(losses[-1])
    finish(axes, "epoch", "training loss", log=True)
    errors = {name: one.curve("validation")[1][-1] for name, one in _toy(seed).items()}
    ours = (
        f"After {EPOCHS} epochs the training loss is {final['ERNN']:.3g} for ERNN and {final['RNN']:.3g} "
        "for the RNN, with "
        f"{errors['ERNN']:.1%} and {errors['RNN']:.1%} errors in validation."
    )
    return Drawn(figure, numbers, ours, final["ERNN"] < final["RNN"], seconds_of(_toy(seed).values()))


def figure_5(seed: int) -> Drawn:
    """Φ(α) and its derivative."""
    phi = phi_curve()
    figure = new_figure(5.0, 3.4)
    draw_phi(phi, figure.subplots())
    near = phi_curve(10.0 ** -np.arange(1, 13))
    # Φ³/3 ≈ α near 0, so that dΦ/dα grows as α^(−2/3).
    order = float(np.polyfit(np.log(near.alpha[4:]), np.log(near.slope[4:]), 1)[0])
    numbers = {
        "alpha": short(phi.alpha),
        "phi": short(phi.value),
        "slope": short(phi.slope),
        "slope_near_0": {"alpha": short(near.alpha), "slope": short(near.slope)},
    }
    ours = (
        f"The derivative is {near.slope[2]:.0f} at α = 10⁻³ and {near.slope[-1]:.2g} at α = 10⁻¹²: it "
        f"grows as α^({order:.3f}), "
        "without bound."
    )
    return Drawn(figure, numbers, ours, abs(order + 2 / 3) < 0.01)


def figure_8(seed: int) -> Drawn:
    """The training losses on HAR-2, from the stored results of the recipes."""
    names = {
        "FastRNN": "table3/har-2/fastrnn",
        "FastGRNN-LSQ": "table3/har-2/fastgrnn-lsq",
        "ERNN (K = 1)": "table3/har-2/ernn",
        "ERNN (K = 2)": "table4/har-2/ernn-k2",
    }
    root = recipes_root()
    results = read_results(root, root)
    known: dict[str, Result] = {}
    for name, recipe in names.items():
        runs = results.get(f"ernn/{recipe}", [])
        if runs and runs[0].curve:
            known[name] = runs[0]
    figure = new_figure(5.6, 3.6)
    axes = figure.subplots()
    numbers: dict[str, dict[str, Any]] = {}
    for name, one in known.items():
        assert one.curve is not None
        curve(axes, one.curve.epoch, [np.nan if loss is None else loss for loss in one.curve.loss], name)
        numbers[name] = {"epoch": list(one.curve.epoch), "loss": list(one.curve.loss)}
    finish(axes, "epoch", "training loss", log=True)
    last = {name: content["loss"][-1] for name, content in numbers.items()}
    if len(last) < len(names):
        missing = [name for name in names if name not in last]
        return Drawn(figure, numbers, f"No curve is stored for {', '.join(missing)}.", None)
    ours = "The last losses are " + ", ".join(f"{value:.3g} ({name})" for name, value in last.items()) + "."
    better = last["ERNN (K = 1)"] < last["FastRNN"] and last["ERNN (K = 2)"] < last["FastRNN"]
    return Drawn(figure, numbers, ours, better and last["ERNN (K = 2)"] < last["ERNN (K = 1)"])


def figure_9(seed: int) -> Drawn:
    """The learned η over time, with K = 1 and K = 2."""
    figure = new_figure(WIDE, 3.2)
    rates = {}
    for axes, count in zip(figure.subplots(1, 2, sharey=True), (1, 2), strict=True):
        cell = f"ernn:eta=per_step:max_length=100:inner_steps={count}"
        settings = {"task__train_size": WALKS, "training__epochs": EPOCHS, "training__eval_every": WALKS // 128}
        one = trained(recipe_config(f"{TOY}/ernn", seed, model__cell=cell, **settings))
        layer = one.model.layers()[0]
        assert isinstance(layer, Recurrent)
        rates[count] = learned_rates(layer)
        draw_rates(rates[count], axes)
        axes.set_title(f"K = {count}")
    slope, largest = float(rates[1].slope[0]), float(np.abs(rates[1].eta).max())
    alike = float(np.corrcoef(rates[2].eta.T)[0, 1])
    numbers = {
        f"K = {count}": {"eta": [short(eta) for eta in one.eta.T], "slope": short(one.slope)}
        for count, one in rates.items()
    }
    ours = (
        f"The largest |η| is {largest:.2f}; the line of K = 1 changes by {100 * slope:+.3f} over 100 "
        "steps; the two η of K = 2 "
        f"have the correlation {alike:.2f}; {int((rates[1].eta < 0).sum())} of 100 are negative for K = 1."
    )
    return Drawn(figure, numbers, ours, slope < 0 and largest < 0.5 and alike > 0.9)


FIGURES = (
    PaperFigure(
        "ernn/figure3a",
        f"Distance of all weights to those after the last epoch, on the toy data. {BUDGET}",
        "The change of ERNN per epoch is always smaller than that of the RNN.",
        figure_3a,
    ),
    PaperFigure(
        "ernn/figure3b",
        f"Mean distance within a class, divided by that between classes, for 200 test walks. {BUDGET}",
        "The discrimination of ERNN improves over time and becomes much better than that of the RNN, which saturates.",
        figure_3b,
    ),
    PaperFigure(
        "ernn/figure4",
        f"Training loss on the toy data. {BUDGET}",
        "ERNN converges to a lower loss than the RNN (test accuracies: 99.7 and 86.6 %).",
        figure_4,
    ),
    PaperFigure(
        "ernn/figure5",
        "The solution h = Φ(α) of h = tanh(h + α), and its derivative.",
        "The derivative of Φ at α = 0 is infinite.",
        figure_5,
    ),
    PaperFigure(
        "ernn/figure8",
        "Training loss on HAR-2, from the stored results of the recipes, whose budgets are stated in the "
        "table of results.",
        "ERNNs converge faster than FastRNN and to lower losses; K = 2 stays below K = 1.",
        figure_8,
    ),
    PaperFigure(
        "ernn/figure9",
        f"Learned η over the steps with least-squares lines, on the toy data (the paper: its five data sets). {BUDGET}",
        "η is small, decreases over time, may be negative, and is nearly the same for both inner steps of K = 2.",
        figure_9,
    ),
)
