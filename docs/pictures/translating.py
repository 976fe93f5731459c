"""Draws the pictures of docs/translating.md: the page's own model, and two that are trained as the recipes say.

.venv/bin/python docs/pictures/translating.py    about ten minutes on one core
"""

from __future__ import annotations

import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import matplotlib as mpl

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from autapse.diagnostics.plots import draw_attention  # noqa: E402
from autapse.reproduce import find_recipe  # noqa: E402
from autapse.training import fit  # noqa: E402
from test_docs import blocks, run_block  # noqa: E402

LIST = " ".join("31415926535897932384")
DATES = ("tuesday, march 4, 1997", "the 21st of june, 2032")


def panel(axes: Any, model: Any, text: str, title: str = "") -> None:
    """Draw what a model reads while it translates a text."""
    source, target = model.source.split(text), model.target.split(model.translate(text))
    draw_attention(model.attention_weights(text), source, target, axes, title)


def save(figure: Any, name: str) -> None:
    with mpl.rc_context({"svg.hashsalt": "autapse", "svg.fonttype": "none"}):
        figure.savefig(HERE / name, format="svg", metadata={"Date": None}, bbox_inches="tight")


def main() -> None:
    from matplotlib.figure import Figure

    page, text = types.ModuleType("page"), ROOT / "docs" / "translating.md"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in blocks(text):
            run_block(block, page, text)
        os.chdir(HERE)
    figure = Figure(figsize=(2.6, 3.2))
    panel(figure.subplots(), page.model, "94301")  # type: ignore[attr-defined]
    save(figure, "attention-numbers.svg")
    reverse, dates = (
        fit(find_recipe(f"textbook/attention/{task}/multiplicative").config()).model for task in ("reverse", "dates")
    )
    figure = Figure(figsize=(11, 4), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    panel(first, reverse, LIST, "reverse")
    for axes, one in zip((second, third), DATES, strict=True):
        panel(axes, dates, one, "dates")
    save(figure, "attention.svg")


if __name__ == "__main__":
    main()
