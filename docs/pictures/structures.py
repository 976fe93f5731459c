"""Draws the pictures of docs/structures.md with two runs, which the page's commands train.

.venv/bin/python docs/pictures/structures.py runs/shapes-gru runs/sst-n-ary-lstm
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from picture import save

from autapse.data.trees import ROOT
from autapse.training import load_run

IMAGES = 3
COLOURS = ("#b2182b", "#ef8a62", "#bbbbbb", "#67a9cf", "#2166ac")  # from very negative to very positive
WORDS = range(8, 13)  # lengths of a sentence that fits into the picture


def draw_shapes(run: str) -> None:
    """Some test images, what the network finds, and the truth."""
    from matplotlib.figure import Figure

    loaded, config, _ = load_run(run)
    model: Any = loaded
    data: Any = config.task.split("test", seed=0)
    figure = Figure(figsize=(6, 2 * IMAGES), layout="constrained")
    names = list(model.classes)
    for n, row in enumerate(figure.subplots(IMAGES, 3)):
        pixels, width = data.inputs[n], int(data.inputs[n][0, 1])
        image, truth = pixels[:, 0].reshape(-1, width), data.targets[n].reshape(-1, width)
        made = np.array([names.index(name) for name in model.predict([image])[0].ravel()]).reshape(truth.shape)
        for axes, values, title in zip(row, (image, made, truth), ("image", "network", "truth"), strict=True):
            classes: Any = {"cmap": "gray"} if values is image else {"cmap": "tab10", "vmin": 0, "vmax": 9}
            axes.imshow(values, interpolation="nearest", **classes)
            axes.set_axis_off()
            if n == 0:
                axes.set_title(title)
    save(figure, "shapes.svg")


def draw_sentence(run: str) -> None:
    """A test sentence with good and bad phrases and the right root, and the sentiment of each phrase."""
    from matplotlib.figure import Figure

    loaded, config, _ = load_run(run)
    model: Any = loaded
    test: Any = config.task.trees()[2]  # type: ignore[attr-defined]
    for n in range(len(test)):
        one = test.take([n])
        (labels,) = model.predict(one)
        inner = {label for label, word in zip(labels.tolist(), one.words, strict=True) if word is None}
        if (
            len(one.sentence(0)) in WORDS
            and labels[-1] == one.labels[-1] != "2"
            and inner & {"0", "1"}
            and inner & {"3", "4"}
        ):
            break
    figure = Figure(figsize=(9, 4))
    _draw_tree(figure.subplots(), one, labels)
    save(figure, "sentiments.svg")


def _draw_tree(axes: Any, tree: Any, labels: Any) -> None:
    parents = tree.parents[0]
    x, height, leaves = np.zeros(len(parents)), np.zeros(len(parents)), 0
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):  # children come first
        if children[node]:
            x[node] = np.mean(x[children[node]])
            height[node] = 1 + max(height[children[node]])
        else:
            x[node], leaves = leaves, leaves + 1
        if parent != ROOT:
            children[parent].append(node)
    for node, parent in enumerate(parents):
        if parent != ROOT:
            axes.plot(x[[node, parent]], height[[node, parent]], color="#999999", linewidth=1, zorder=1)
        axes.scatter(x[node], height[node], s=130, color=COLOURS[int(labels[node])], zorder=2)
        axes.text(x[node], height[node], labels[node], ha="center", va="center", fontsize=7, color="white", zorder=3)
        if tree.words[node] is not None:
            axes.text(x[node], height[node] - 0.6, tree.words[node], ha="center", va="top", fontsize=8)
    axes.set_axis_off()


if __name__ == "__main__":
    shapes, sentiments = sys.argv[1:]
    draw_shapes(shapes)
    draw_sentence(sentiments)
