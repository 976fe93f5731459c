"""Draws the pictures of docs/translating.md: the page's own model, and two of the recipes.

for task in reverse dates; do autapse reproduce textbook/attention/$task/multiplicative; done
.venv/bin/python docs/pictures/translating.py [FOLDER]    the folder of these runs; by default runs
"""

from __future__ import annotations

import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from picture import fitted, save  # noqa: E402

import autapse  # noqa: E402
from autapse.diagnostics.plots import draw_attention  # noqa: E402
from test_docs import blocks, run_block  # noqa: E402

LIST = " ".join("31415926535897932384")
DATES = ("tuesday, march 4, 1997", "the 21st of june, 2032")


def panel(axes: Any, model: Any, text: str, title: str = "") -> None:
    """Draw what a model reads while it translates a text."""
    source, target = model.source.split(text), model.target.split(model.translate(text))
    draw_attention(model.attention_weights(text), source, target, axes, title)


def main() -> None:
    from matplotlib.figure import Figure

    reverse, dates = (
        autapse.load(fitted(f"textbook/attention/{task}/multiplicative")) for task in ("reverse", "dates")
    )
    page, text = types.ModuleType("page"), ROOT / "docs" / "translating.md"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in blocks(text):
            run_block(block, page, text)
        os.chdir(HERE)
    figure = Figure(figsize=(2.6, 3.2))
    panel(figure.subplots(), page.model, "94301")  # type: ignore[attr-defined]
    save(figure, "attention-numbers.svg")
    figure = Figure(figsize=(11, 4), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    panel(first, reverse, LIST, "reverse")
    for axes, one in zip((second, third), DATES, strict=True):
        panel(axes, dates, one, "dates")
    save(figure, "attention.svg")


if __name__ == "__main__":
    main()
