"""Draws the picture of docs/cells/memory.md: the memory of a trained network while it repeats a list.

autapse reproduce textbook/memory/repeat-copy/memory
.venv/bin/python docs/pictures/memory.py [FOLDER]    the folder of the runs; by default runs
"""

from __future__ import annotations

import torch
from picture import fitted, save

import autapse
from autapse.diagnostics.memory import memory_trace
from autapse.diagnostics.plots import draw_memory
from autapse.tasks import RepeatCopy

SHOWN = 24  # slots of the memory


def main() -> None:
    model = autapse.load(fitted("textbook/memory/repeat-copy/memory"))
    task = RepeatCopy(longest=6, repeats=3, test_shortest=10, test_longest=10, test_size=20)
    data = task.split("test", seed=0)
    longest = int(data.inputs[..., -1].sum(1).argmax())  # the sequence with the most repeats
    steps = int((data.inputs[longest, :, :-2].sum() + 1) + 3 * 10 + 1)
    x = torch.as_tensor(data.inputs[longest : longest + 1, :steps])
    figure = draw_memory(memory_trace(model, x))
    for axes in figure.axes:
        axes.set_ylim(SHOWN - 0.5, -0.5)
    save(figure, "memory.svg")


if __name__ == "__main__":
    main()
