"""Draws the pictures of docs/own-data.md from the page itself: its code is run in order, in an empty folder.

.venv/bin/python docs/pictures/own_data.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from autapse.diagnostics.plots import Panel, draw_svg  # noqa: E402
from test_docs import blocks, run_block  # noqa: E402


def main() -> None:
    page, text = types.ModuleType("page"), ROOT / "docs" / "own-data.md"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in blocks(text):
            run_block(block, page, text)
        os.chdir(HERE)
    recordings = {state: page.measure(state, 50) for state in page.SPEED}
    channels = []
    for n, name in enumerate(("vibration", "temperature")):
        curves = {state: [(t, values[n]) for t, values in enumerate(one)] for state, one in recordings.items()}
        channels.append(Panel("", "minute", name, False, curves))
    (HERE / "pumps.svg").write_bytes(draw_svg(channels))
    scores = {
        name: [(t, float(answer[n])) for t, answer in enumerate(page.answers)]
        for n, name in enumerate(page.live.classes)
    }
    (HERE / "stream.svg").write_bytes(draw_svg([Panel("a blocked pump", "minute", "probability", False, scores)]))


if __name__ == "__main__":
    main()
