"""Draws the pictures of docs/structures.md with runs that are trained here.

.venv/bin/python docs/pictures/structures.py    about five minutes on one core
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from autapse.reproduce import find_recipe
from autapse.tasks import Shapes
from autapse.training import fit

HERE = Path(__file__).resolve().parent


def save(figure: Any, name: str) -> None:
    with mpl.rc_context({"svg.hashsalt": "autapse", "svg.fonttype": "none"}):
        figure.savefig(HERE / name, format="svg", metadata={"Date": None}, bbox_inches="tight")


def draw_shapes(count: int = 3) -> None:
    """Some test images, what the network finds, and the truth."""
    from matplotlib.figure import Figure

    config = find_recipe("textbook/grid/shapes/both").config()
    model: Any = fit(config).model
    task = config.task
    assert isinstance(task, Shapes)
    data: Any = task.split("test", seed=0)
    figure = Figure(figsize=(6, 2 * count), layout="constrained")
    names = list(model.classes)
    for n, row in enumerate(figure.subplots(count, 3)):
        pixels, width = data.inputs[n], int(data.inputs[n][0, 1])
        image, truth = pixels[:, 0].reshape(-1, width), data.targets[n].reshape(-1, width)
        made = np.array([names.index(name) for name in model.predict([image])[0].ravel()]).reshape(truth.shape)
        for axes, values, title in zip(row, (image, made, truth), ("image", "network", "truth"), strict=True):
            limits = {} if values is image else {"cmap": "tab10", "vmin": 0, "vmax": 9}
            axes.imshow(values, interpolation="nearest", **({"cmap": "gray"} | limits))
            axes.set_axis_off()
            if n == 0:
                axes.set_title(title)
    save(figure, "shapes.svg")


if __name__ == "__main__":
    draw_shapes()
