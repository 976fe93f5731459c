"""Draws the pictures of docs/generating.md from trained runs.

autapse run strokes --cell gru --hidden-size 128 --steps 4000 --batch-size 32 --learning-rate 3e-3 --schedule cosine \
    --out runs/strokes
for ending in end stop count; do autapse reproduce textbook/lengths/brackets/$ending; done
.venv/bin/python docs/pictures/generating.py [FOLDER]    the folder of these runs; by default runs
"""

from __future__ import annotations

from typing import Any

from picture import HERE, fitted, runs

import autapse
from autapse.diagnostics.figures.sequences import plot_drawings, plot_lengths
from autapse.tasks import Brackets, Strokes
from autapse.training.generation_scores import generated_lengths

ENDINGS = {"end": "end symbol", "stop": "stop unit", "count": "length first"}
ROWS = 4  # of letters that a network drew


def draw_letters(model: Any) -> None:
    """A row of the data, then rows that the model drew."""
    task = Strokes()
    data = task.split("test", seed=0)
    kinds = data.inputs.reshape(len(data), -1)[:, 0].astype(int).tolist()
    letters = model.words[0]
    true = [data.targets[kinds.index(n)] for n in range(len(letters))]
    rows = [model.sample(list(letters), seed=seed) for seed in range(ROWS)]
    every = [one for row in (true, *rows) for one in row]
    titles = [*letters, *[""] * (len(every) - len(letters))]
    plot_drawings(HERE / "strokes.svg", every, titles)


def draw_lengths() -> None:
    """How long generated words are, for each way to model the length."""
    true = Brackets().length_chances()
    shares = {
        title: generated_lengths(autapse.load(fitted(f"textbook/lengths/brackets/{name}")), len(true))
        for name, title in ENDINGS.items()
    }
    plot_lengths(HERE / "lengths.svg", true, shares)


def main() -> None:
    draw_lengths()
    draw_letters(autapse.load(runs() / "strokes"))


if __name__ == "__main__":
    main()
