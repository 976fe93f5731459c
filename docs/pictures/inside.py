"""Trains the two networks of docs/inside.md, and draws its pictures. The numbers of the page are printed.

.venv/bin/python docs/pictures/inside.py RUNS    trains both networks again, in the folder RUNS: two minutes on one core
.venv/bin/python docs/pictures/inside.py         draws the networks that are stored beside this file
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

import autapse
from autapse.diagnostics import (
    GradientFlow,
    JacobianSpectrum,
    Lesion,
    LinearMemory,
    LossGradient,
    gradient_flow,
    jacobian_spectrum,
    lesion,
    linear_memory,
    loss_gradient,
    plots,
)
from autapse.diagnostics.figures.base import write_figure
from autapse.tasks import Adding
from autapse.training import ModelConfig, RunConfig, TrainingConfig, make_model, train

HERE = Path(__file__).resolve().parent
TASK = Adding(length=400, train_size=50_000, test_size=1000)
TRAINING = TrainingConfig(steps=4000, batch_size=32, learning_rate=2e-3, eval_every=200, threads=1)
NETWORKS = {"RNN": "rnn", "ERNN": "ernn"}


class Probed(NamedTuple):
    """What the five probes say about a network."""

    flow: GradientFlow
    loss: LossGradient
    spectrum: JacobianSpectrum
    memory: LinearMemory
    lesion: Lesion


def config(cell: str) -> RunConfig:
    return RunConfig(task=TASK, model=ModelConfig(cell=cell, hidden_size=(32,)), training=TRAINING)


def stored(name: str) -> Path:
    """The trained network of the page."""
    return HERE / f"inside-{name.lower()}.safetensors"


def untrained(name: str) -> Any:
    torch.manual_seed(TRAINING.seed)
    return make_model(TASK, config(NETWORKS[name]).model)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """64 sequences of the test data."""
    test = TASK.split("test", TRAINING.seed)
    x, y = (torch.from_numpy(values[:64]) for values in (test.inputs, test.targets))
    return x, y


def look(model: Any) -> Probed:
    """The five probes of the page."""
    x, y = data()

    def error(output: torch.Tensor) -> torch.Tensor:
        return (output - y).square().mean()

    read = linear_memory(model, x, lags=range(60))
    return Probed(
        gradient_flow(model, x[:16], spectra=0),
        loss_gradient(model, x, error),
        jacobian_spectrum(model, x[:4], steps=[100, 200, 300]),
        replace(read, r2=read.r2[:, :1]),  # the numbers; the other feature is the mark
        lesion(model, x, error, steps=range(0, 400, 4)),
    )


def facts(found: Probed) -> dict[str, float]:
    """The numbers of a network in the text of the page."""
    norm = found.loss.norm[0].mean(1)
    return {
        "factor per step": found.flow.rate,
        "steps with 1 % of a gradient": found.flow.reach(),
        "gradient at the last step": norm[-1],
        "gradient at the first step": norm[0],
        "radius": found.spectrum.radius.mean(),
        "steps that can be read": found.memory.reach(),
        "R² of the present number": found.memory.r2[0, 0],
        "error": found.lesion.intact,
        "error without a step": found.lesion.score.mean(),
        "error without the worst step": found.lesion.score.max(),
    }


def draw(probed: dict[str, Probed], before: dict[str, GradientFlow]) -> None:
    figure = plots.new_figure(7.2, 3.2)
    flow, loss = figure.subplots(1, 2)
    for name, found in probed.items():
        plots.draw_gradient_flow(found.flow, flow, name)
        plots.draw_loss_gradient(found.loss, loss, name)
    for name, start in before.items():
        plots.draw_gradient_flow(start, flow, f"{name}, untrained")
    write_figure(HERE / "inside-gradients.svg", figure)

    figure = plots.new_figure(7.2, 2.8)
    spectrum, memory, changed = figure.subplots(1, 3)
    for name, found in probed.items():
        plots.draw_spectrum(found.spectrum, spectrum, name)
        plots.draw_linear_memory(found.memory, memory, name)
        plots.draw_lesion(found.lesion, changed, name, "mean squared error")
    for axes, title in ((spectrum, "spectrum of a step"), (memory, "linear memory"), (changed, "lesions")):
        axes.set_title(title, fontsize="medium")
    write_figure(HERE / "inside-states.svg", figure)


def main(runs: Path | None) -> None:
    probed, before = {}, {}
    for name, cell in NETWORKS.items():
        if runs is not None:
            train(config(cell), runs / name)
            shutil.copy(next((runs / name).glob("checkpoint-*.safetensors")), stored(name))
            print(name, (runs / name / "summary.json").read_text())
        probed[name] = look(autapse.load(stored(name)))
        before[name] = gradient_flow(untrained(name), data()[0][:16], spectra=0)
        print(name, facts(probed[name]))
        for when, flow in (("trained", probed[name].flow), ("untrained", before[name])):
            print(name, when, "gain over 400 steps", flow.typical[-1], "factor", flow.rate, "reach", flow.reach())
        print(name, "gradient of the loss", probed[name].loss.norm[0].mean(1)[[0, 100, 200, 300, 350, 399]])
        print(name, "R²", probed[name].memory.r2[[0, 1, 2, 5, 10, 20], 0].round(3).tolist())
    draw(probed, before)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
