"""Trains the two networks of docs/inside.md, and draws its pictures. The numbers of the page are printed.

.venv/bin/python docs/pictures/inside.py RUNS

RUNS is a folder for the two runs. A run that is there already is not trained again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

import autapse
from autapse.diagnostics import gradient_flow, jacobian_spectrum, lesion, linear_memory, loss_gradient, plots
from autapse.diagnostics.figures.base import write_figure
from autapse.tasks import Adding
from autapse.training import ModelConfig, RunConfig, TrainingConfig, make_model, train

HERE = Path(__file__).resolve().parent
TASK = Adding(length=200, test_size=1000)
TRAINING = TrainingConfig(
    steps=4000, batch_size=32, learning_rate=2e-3, eval_every=200, stop_when_solved=True, seconds=170.0
)
NETWORKS = {"RNN": "rnn", "ERNN": "ernn"}


def config(cell: str) -> RunConfig:
    return RunConfig(task=TASK, model=ModelConfig(cell=cell, hidden_size=(32,)), training=TRAINING)


def main(runs: Path) -> None:
    test = TASK.split("test", 0)
    x, y = (torch.from_numpy(values[:64]) for values in (test.inputs, test.targets))
    models: dict[str, Any] = {}

    def error(output: torch.Tensor) -> torch.Tensor:
        return (output - y).square().mean()

    for name, cell in NETWORKS.items():
        if not (runs / name / "summary.json").exists():
            train(config(cell), runs / name)
        torch.manual_seed(0)
        models[f"{name}, untrained"] = make_model(TASK, config(cell).model)
        models[name] = autapse.load(runs / name)
        print(name, (runs / name / "summary.json").read_text())

    figure = plots.new_figure(9.6, 3.6)
    flow, loss = figure.subplots(1, 2)
    for name, model in models.items():
        found = gradient_flow(model, x[:16], spectra=0)
        print(name, "gain", found.typical[-1], "rate", found.rate, "reach", found.reach())
        plots.draw_gradient_flow(found, flow, name)
        if "untrained" not in name:
            gradient = loss_gradient(model, x, error)
            print(name, "error", gradient.loss, "gradient", gradient.norm[0].mean(1)[[0, 50, 100, 150, 199]])
            plots.draw_loss_gradient(gradient, loss, name)
    flow.set_ylim(bottom=1e-12)
    write_figure(HERE / "inside-gradients.svg", figure)

    figure = plots.new_figure(9.6, 3.2)
    spectrum, memory, changed = figure.subplots(1, 3)
    for name in NETWORKS:
        model = models[name]
        eigenvalues = jacobian_spectrum(model, x[:4], steps=[50, 100, 150])
        print(name, "radius", float(eigenvalues.radius.mean()))
        plots.draw_spectrum(eigenvalues, spectrum, name)
        read = linear_memory(model, x, lags=range(60))
        print(name, "linear memory", read.reach(), read.r2[[0, 1, 2, 5, 10, 20]].round(3).tolist())
        plots.draw_linear_memory(read, memory, name)
        hurt = lesion(model, x, error)
        print(name, "lesion", hurt.intact, hurt.score.mean(), hurt.score.max())
        plots.draw_lesion(hurt, changed, name, "mean squared error")
    spectrum.set_title("eigenvalues of a step")
    write_figure(HERE / "inside-states.svg", figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
