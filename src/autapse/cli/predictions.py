"""What `autapse predict` prints and writes: one entry per sequence, or per step, as text, .csv, .json or .npy."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autapse import checks, files, terminal
from autapse.tasks import IGNORE
from autapse.terminal import visible

if TYPE_CHECKING:
    from autapse.models import SequenceModel

PIPE = Path("-")  # standard input or output


@dataclass(frozen=True)
class Predictions:
    """The predictions for some sequences.

    Args:
        answers: What is predicted, one entry per sequence, in the form that people read: a class, a list of values, or
            a list of these for every step; with probabilities, mappings from classes to probabilities.
        numbers: The same as numbers, one array per sequence.
        names: The names of the sequences; empty if they have none.
        columns: Names of the columns of a table.
        every_step: Whether there is a prediction at every step.
        first_step: The number of the first step.
    """

    answers: list[Any]
    numbers: list[np.ndarray]
    names: tuple[str, ...]
    columns: tuple[str, ...]
    every_step: bool
    first_step: int = 0

    @classmethod
    def of(
        cls,
        model: SequenceModel,
        scores: list[np.ndarray],
        names: tuple[str, ...] = (),
        probabilities: bool = False,
        numbers: bool = False,
        values: tuple[str, ...] = (),
    ) -> Predictions:
        """The predictions of a model.

        Args:
            model: the model.
            scores: what `model.scores` returns, one array per sequence.
            names: their names, if they have names.
            probabilities: the probabilities of all classes instead of the most probable one.
            numbers: numbers of classes instead of their names.
            values: names of the values that are predicted, if they are several.
        """
        classes = tuple(str(n) for n in range(model.head.out_features))
        classes = model.classes if model.classes and not numbers else classes
        if probabilities:
            from autapse.models.base import softmax

            shares = [softmax(one) for one in scores]
            mapped: list[Any] = [
                _each(lambda row: dict(zip(classes, row, strict=True)), one.tolist()) for one in shares
            ]
            return cls(mapped, shares, names, classes, model.every_step)
        if not model.has_classes:
            outputs = model.head.out_features
            several = values or tuple(f"prediction {n + 1}" for n in range(outputs))
            columns = ("prediction",) if outputs == 1 else several
            return cls([_shortest(one) for one in scores], scores, names, columns, model.every_step)
        chosen = [one.argmax(-1) for one in scores]
        named = [one.tolist() if numbers or not model.classes else np.array(classes)[one].tolist() for one in chosen]
        return cls(named, chosen, names, ("prediction",), model.every_step)

    def table(self) -> list[list[Any]]:
        """A header, and one row per sequence, or per step."""
        known = self.names or [str(n) for n in range(len(self.answers))]
        rows: list[list[Any]] = [["sequence", *(["step"] if self.every_step else []), *self.columns]]
        for name, answer in zip(known, self.answers, strict=True):
            if self.every_step:
                rows += [[name, step, *_cells(one)] for step, one in enumerate(answer, self.first_step)]
            else:
                rows.append([name, *_cells(answer)])
        return rows

    def lines(self) -> list[str]:
        """One line per sequence: the name, if there is one, and the answer; with several columns a table."""
        if isinstance(_first(self.answers), dict) or len(self.columns) > 1:
            return ["\t".join(visible(cell) for cell in row) for row in self.table()]
        texts = [json.dumps(one, ensure_ascii=False) if isinstance(one, list) else str(one) for one in self.answers]
        if not self.names:
            return [visible(text) for text in texts]
        return [f"{visible(name)}\t{visible(text)}" for name, text in zip(self.names, texts, strict=True)]

    def give(self, out: Path | None) -> None:
        """Print the predictions, or write them to a file."""
        if out is None:
            for line in self.lines():
                terminal.write(line)
        elif out == PIPE:
            terminal.write(_csv(self).decode(), end="")
        else:
            files.write_bytes(out, WRITERS[out.suffix](self))
            terminal.write(f"{len(self.answers)} predictions: {out}")


def check_out(path: Path) -> None:
    """Check the name of a file for predictions, before any work is done."""
    if path == PIPE:
        return
    if path.suffix not in (*WRITERS, ".txt"):
        checks.fail("out", f"end in one of {', '.join(WRITERS)}, or .txt for sentences; or be -", str(path))
    check_new(path)


def check_new(path: Path) -> None:
    """Check that a file can be created, before any work is done."""
    if path.exists():
        raise checks.InputError(f"{path} exists already and is not overwritten. Choose another name.")
    if not path.parent.is_dir():
        raise checks.InputError(f"There is no folder {path.parent} for {path.name}. Create it first.")


def _each(function: Callable[[list[float]], Any], values: list[Any]) -> Any:
    """A function of a row, or of every row."""
    return [function(row) for row in values] if isinstance(values[0], list) else function(values)


def _shortest(values: np.ndarray) -> Any:
    """Values as Python numbers, with as many digits as float32 has."""
    texts: Any = np.vectorize(lambda value: float(str(value)), otypes=[float])(values.astype(np.float32))
    return texts.tolist()


def _cells(answer: Any) -> list[Any]:
    """The cells of a row of a table."""
    return list(answer.values()) if isinstance(answer, dict) else answer if isinstance(answer, list) else [answer]


def _first(answers: Any) -> Any:
    """The first answer that is not a list."""
    return _first(answers[0]) if isinstance(answers, list) and answers else answers


def _npy(predictions: Predictions) -> bytes:
    """A .npy file with numbers. At steps after the end of a sequence, classes are IGNORE and values NaN."""
    values = predictions.numbers
    if predictions.every_step:
        longest, filler = max(map(len, values)), np.nan if values[0].dtype.kind == "f" else IGNORE
        room = [((0, longest - len(one)), *[(0, 0)] * (one.ndim - 1)) for one in values]
        values = [np.pad(one, pad, constant_values=filler) for one, pad in zip(values, room, strict=True)]
    together, buffer = np.stack(values), io.BytesIO()
    np.save(buffer, together.astype(np.float32) if together.dtype.kind == "f" else together, allow_pickle=False)
    return buffer.getvalue()


def _csv(predictions: Predictions) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(predictions.table())
    return buffer.getvalue().encode()


def _json(predictions: Predictions) -> bytes:
    names, answers = predictions.names, predictions.answers
    content = dict(zip(names, answers, strict=True)) if names else answers
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


WRITERS: dict[str, Callable[[Predictions], bytes]] = {".npy": _npy, ".csv": _csv, ".json": _json}
