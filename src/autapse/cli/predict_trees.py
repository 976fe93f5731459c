"""`autapse predict` for a run on trees: each tree in brackets, with the label of every node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from autapse import checks, files, terminal
from autapse.cli.predictions import PIPE
from autapse.tasks.trees import read_trees
from autapse.terminal import visible

if TYPE_CHECKING:
    from autapse.data.trees import Trees
    from autapse.models import TreeTagger


def give_trees(path: Path, model: TreeTagger, out: Path | None, probabilities: bool) -> None:
    """Label the trees of a file, and print or write them.

    Args:
        path: one tree in brackets per line, with or without labels.
        model: the model of the run.
        out: a new file, .txt or .json; None to print.
        probabilities: give the probabilities of the classes of each root instead.
    """
    if out is not None and out != PIPE:
        checks.one_of("out's ending", out.suffix, (".txt", ".json"))
    trees, _ = read_trees(path, labels=None)
    made = model.predict(trees)
    if probabilities:
        chances = [one[-1] for one in model.predict_proba(trees)]
        lines = [" ".join(f"{name}={p:.4f}" for name, p in zip(model.classes, row, strict=True)) for row in chances]
    elif model.tree == "learned":
        lines = [str(one[-1]) for one in made]
    else:
        lines = [trees.brackets(n, one.tolist()) for n, one in enumerate(made)]
    if out is None or out == PIPE:
        for line in lines:
            terminal.write(visible(line))
    else:
        text = json.dumps(lines, ensure_ascii=False) if out.suffix == ".json" else "\n".join(lines)
        files.write_bytes(out, f"{text}\n".encode())
        terminal.write(f"{len(lines)} trees: {out}")
    if line := _score(trees, [str(one[-1]) for one in made]):
        terminal.write(line, error=True)


def _score(trees: Trees, roots: list[str]) -> str:
    """One line with the error rate of the roots; empty if no root has a label."""
    known = [trees.labels[last - 1] for last in trees.parents.starts[1:]]
    pairs = [(made, true) for made, true in zip(roots, known, strict=True) if true is not None]
    if not pairs:
        return ""
    wrong = sum(made != true for made, true in pairs)
    return f"error rate of roots: {wrong / len(pairs):.6g} ({wrong} of {len(pairs)})"
