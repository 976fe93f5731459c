"""Scores beside the task's metric: per class for classes, in the unit of the targets for values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from autapse.data.ragged import Ragged
from autapse.models.encoder_decoder import Translated
from autapse.models.padding import Padded
from autapse.tasks import IGNORE, Signature
from autapse.tasks.edits import edit_distances
from autapse.tasks.spans import are_spans, span_scores

MOST_CLASSES = 200  # with more, a table of all pairs helps nobody


class ClassTally:
    """Counts which class was predicted for which.

    Args:
        classes: number of classes.
    """

    def __init__(self, classes: int) -> None:
        self.confusion = np.zeros((classes, classes), dtype=np.int64)  # [target, prediction]

    def add(self, output: Tensor, target: Tensor) -> None:
        """Include a batch: the output of a model, [..., classes], and the targets, [...]."""
        predicted, true = output.argmax(-1).flatten().cpu().numpy(), target.flatten().cpu().numpy()
        known = true != IGNORE
        np.add.at(self.confusion, (true[known], predicted[known]), 1)

    def scores(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """Balanced accuracy, macro F1, the table of classes and the confusion matrix, as plain data.

        A class without test sequences is left out of the means.
        """
        hits, true, predicted = np.diag(self.confusion), self.confusion.sum(1), self.confusion.sum(0)
        with np.errstate(invalid="ignore"):
            recall, precision = hits / true, np.where(predicted > 0, hits / predicted, 0.0)
            f1 = 2 * hits / (true + predicted)
        present = true > 0
        rows = [
            {"class": name, "count": int(true[n]), "precision": _rounded(precision[n]), "recall": _rounded(recall[n])}
            | {"f1": _rounded(f1[n])}
            for n, name in enumerate(names or [str(n) for n in range(len(true))])
        ]
        return {
            "balanced_accuracy": float(recall[present].mean()),
            "macro_f1": float(f1[present].mean()),
            "classes": rows,
            "confusion": self.confusion.tolist(),
        }


class SpanTally(ClassTally):
    """Counts classes that mark spans (B-PER, I-PER, O), and the spans.

    Args:
        names: names of the classes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(len(names))
        self._names = np.array(names)
        self._true: list[list[str]] = []
        self._predicted: list[list[str]] = []

    def add(self, output: Tensor, target: Tensor) -> None:  # [B, T, classes], [B, T]
        """Include a batch of whole sequences."""
        super().add(output, target)
        for true, predicted in zip(target.cpu().numpy(), output.argmax(-1).cpu().numpy(), strict=True):
            known = true != IGNORE
            self._true.append(self._names[true[known]].tolist())
            self._predicted.append(self._names[predicted[known]].tolist())

    def scores(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """The scores of the classes, and those of each kind of span."""
        rows = span_scores(self._true, self._predicted)
        rounded = [{name: round(v, 6) if isinstance(v, float) else v for name, v in row.items()} for row in rows]
        return {**super().scores(names), "spans": rounded}


class TreeTally(ClassTally):
    """Counts the classes of all nodes of trees, and the errors at their roots.

    Args:
        classes: number of classes.
    """

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.roots, self.wrong = 0, 0

    def add(self, output: Tensor, target: Tensor) -> None:  # [B, T, classes], [B, T]
        """Include a batch of whole trees."""
        super().add(output, target)
        wrong = (output.argmax(-1) != target).gather(1, last_targets(target)[:, None])
        self.roots, self.wrong = self.roots + len(target), self.wrong + int(wrong.sum())

    def scores(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """The scores of the classes over all nodes, and the error rates of roots and of all nodes."""
        nodes = 1 - float(np.diag(self.confusion).sum()) / max(int(self.confusion.sum()), 1)
        return {**super().scores(names), "root_error": self.wrong / max(self.roots, 1), "node_error": nodes}


def last_targets(target: Tensor) -> Tensor:  # [B, T] -> [B]
    """The place of the last known target of each sequence: the root of a tree."""
    return target.shape[1] - 1 - (target != IGNORE).int().flip(1).argmax(1)


class ValueTally:
    """Sums over predicted values, from which R² and the mean absolute error follow.

    Args:
        values: values per prediction.
    """

    def __init__(self, values: int) -> None:
        self.count = np.zeros(values)
        self.absolute, self.squared, self.total, self.total_squared = (np.zeros(values) for _ in range(4))
        self._origin: np.ndarray | None = None

    def add(self, output: Tensor, target: Tensor) -> None:
        """Include a batch: the output of a model and the targets, [..., values]; targets that are NaN do not count."""
        values = len(self.count)
        predicted = output.reshape(-1, values).double().cpu().numpy()
        true = target.reshape(-1, values).double().cpu().numpy()
        known = ~np.isnan(true)
        if self._origin is None:  # sums of squares of values far from 0 would cancel
            self._origin = np.nan_to_num(np.nanmean(true, axis=0)) if known.any() else np.zeros(values)
        error = np.where(known, predicted - true, 0.0)
        shifted = np.where(known, true - self._origin, 0.0)
        self.count += known.sum(0)
        self.absolute += np.abs(error).sum(0)
        self.squared += np.square(error).sum(0)
        self.total += shifted.sum(0)
        self.total_squared += np.square(shifted).sum(0)

    def scores(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """R² and the mean absolute error of each value, as plain data. R² is None for targets that are all equal."""
        count = np.maximum(self.count, 1)
        spread = self.total_squared - np.square(self.total) / count
        each = [1 - bad / all_ if all_ > 0 else None for bad, all_ in zip(self.squared, spread, strict=True)]
        known = [value for value in each if value is not None and np.isfinite(value)]
        absolute = self.absolute / count
        rows = [
            {"target": name, "r2": None if r2 is None else _rounded(r2), "mean_absolute_error": _rounded(error)}
            for name, r2, error in zip(names or map(str, range(1, len(each) + 1)), each, absolute, strict=True)
        ]
        return {
            "r2": float(np.mean(known)) if known else None,
            "mean_absolute_error": float(absolute.mean()) if np.isfinite(absolute).all() else None,
            "targets": rows if len(rows) > 1 else None,
        }


class EditTally:
    """Sums over translations: how many are wrong, and how many of their symbols."""

    def __init__(self) -> None:
        self.sequences, self.symbols, self.wrong, self.edits = 0, 0, 0, 0

    def add(self, output: Translated, target: Tensor) -> None:
        """Include a batch; the output has the targets too."""
        edits = edits_of(output)
        self.sequences, self.symbols = self.sequences + len(edits), self.symbols + int(output.targets.lengths.sum())
        self.wrong, self.edits = self.wrong + int((edits > 0).sum()), self.edits + int(edits.sum())

    def scores(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """The share of sequences that are wrong, and the share of symbols."""
        return {
            "wrong_sequences": self.wrong / max(self.sequences, 1),
            "symbol_error_rate": self.edits / max(self.symbols, 1),
        }


def edits_of(output: Translated) -> np.ndarray:  # [B]
    """The symbols of each translation to change, to add or to remove."""
    return edit_distances(_ragged(output.sequences), _ragged(output.targets))


def _ragged(sequences: Padded) -> Ragged:
    values, lengths = sequences.values.cpu().numpy(), sequences.lengths.numpy()
    return Ragged(values[np.arange(values.shape[1]) < lengths[:, None]], lengths)


Tally = ClassTally | ValueTally | EditTally


def make_tally(signature: Signature) -> Tally | None:
    """The tally for a kind of task; None for text, forecasts, sequences that are generated, and very many classes."""
    if signature.kind == "translation":
        return EditTally()
    if "regression" in signature.kind:
        return ValueTally(signature.output_size)
    without = signature.kind in ("language", "forecasting") or signature.written is not None
    if without or signature.output_size > MOST_CLASSES:
        return None
    if signature.kind == "trees":
        return TreeTally(signature.output_size)
    if signature.kind == "tagging" and are_spans(signature.classes):
        return SpanTally(signature.classes)
    return ClassTally(signature.output_size)


def _rounded(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
