"""`autapse predict RUN FILE`: apply a trained network to the sequences of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from autapse import checks, files, terminal
from autapse.cli.parse import Trust, parse
from autapse.terminal import visible

if TYPE_CHECKING:
    import numpy as np

    from autapse.data.formats.table import SequenceFile
    from autapse.data.ragged import Ragged
    from autapse.models import SequenceModel
    from autapse.tasks import Signature

BATCH = 256


@dataclass
class Predict(Trust):
    """Apply the best weights of a run to the sequences of a file, and print one line per sequence.

    Give the values as they were recorded: the model standardises them. If the file has targets, the network does not
    see them, and the score is printed on stderr.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or a checkpoint file."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Sequences: a table as the training file (.csv, .tsv, .parquet), whose channels are found by name; .csv without a
    header for one sequence; .npy [N, T, D] or [T, D]; .npz with `inputs` and, if the sequences differ in length,
    `lengths`; .ts; a .wav file or a folder of them. Sentences: .conllu, or .txt with one word
    per line and a blank line after each sentence. Reviews: .txt with one review per line."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the predictions to this new file instead of printing them: .npy, .csv or .json; for sentences .txt."""
    numbers: bool = False
    """Print the numbers of the classes instead of their names. A .npy file always has numbers."""


def main(words: list[str]) -> None:
    args = parse(Predict, "predict", words)
    if not (args.file.is_file() or args.file.is_dir()):
        raise checks.InputError(f"{args.file} is missing.")
    if args.out is not None:
        _check_out(args.out)
    from autapse.cli.predict_words import read_text
    from autapse.data.formats.table import read_sequences
    from autapse.tasks.series import layout_for
    from autapse.training import load_run

    model, config, signature = load_run(args.run, trust=args.trust)
    sentences = None
    if signature.vocabularies:
        asked, sentences = read_text(args.file, config.task, signature)
    else:
        asked = read_sequences(args.file, layout_for(config.task, signature))
        check_channels(args.file, asked, signature)
    if args.out is not None:
        checks.one_of("out's ending", args.out.suffix, (".txt",) if sentences else WRITERS)
    predicted = predictions(model, asked.inputs)
    shown = predicted if args.numbers else named(predicted, signature.classes)
    if sentences is None:
        _give(args.out, asked.names, predicted, shown)
    else:
        _give_words(args.out, sentences, shown)
    if line := score(signature, named(predicted, signature.classes), asked.targets):
        terminal.write(line, error=True)


def _check_out(path: Path) -> None:
    if path.suffix not in (*WRITERS, ".txt"):
        checks.fail("out", f"end in one of {', '.join(WRITERS)}, or .txt for sentences", str(path))
    if path.exists():
        raise checks.InputError(f"{path} exists already and is not overwritten. Choose another name.")
    if not path.parent.is_dir():
        raise checks.InputError(f"There is no folder {path.parent} for {path.name}. Create it first.")


def check_channels(path: Path, asked: SequenceFile, signature: Signature) -> None:
    """Check that the file has as many channels as the data of the run."""
    channels = asked.inputs.values.shape[1]
    if channels != signature.input_size:
        rule = f"have {signature.input_size} channels per step, as the run's task has"
        checks.fail(str(path), rule, channels, kind=checks.ShapeError)


def predictions(model: SequenceModel, inputs: Ragged) -> list[Any]:
    """The predictions of the model, one per sequence: a class, a class for every step, or values."""
    import numpy as np
    import torch

    from autapse.models import Tagger

    order = np.argsort(inputs.lengths, kind="stable")  # similar lengths need little padding
    predicted: list[Any] = [None] * len(inputs)
    for first in range(0, len(inputs), BATCH):
        chosen = order[first : first + BATCH]
        batch = [torch.from_numpy(np.ascontiguousarray(inputs[n])) for n in chosen]
        lengths = torch.from_numpy(inputs.lengths[chosen])
        rows = model.predict(torch.nn.utils.rnn.pad_sequence(batch, batch_first=True), lengths).tolist()
        for n, row in zip(chosen, rows, strict=True):
            predicted[n] = row[: inputs.lengths[n]] if isinstance(model, Tagger) else row
    return predicted


def named(predicted: Sequence[Any], classes: Sequence[str]) -> list[Any]:
    """The predictions with class names instead of numbers, if the classes have names."""
    if not classes:
        return list(predicted)
    return [[classes[n] for n in row] if isinstance(row, list) else classes[row] for row in predicted]


def score(signature: Signature, said: list[Any], targets: list[Any] | np.ndarray | None) -> str:
    """One line with the score of the predictions; empty if the file has no targets that can be compared."""
    import numpy as np

    if targets is None:
        return ""
    if signature.kind == "regression":
        try:
            wanted = np.asarray(targets, dtype=np.float64).reshape(len(said), -1)
        except ValueError:  # text
            return ""
        right_size = wanted.shape[1] == signature.output_size
        return f"mean squared error: {np.square(np.asarray(said) - wanted).mean():.6g}" if right_size else ""
    if not isinstance(targets, list):
        return ""
    pairs = list(zip(_flat(said), _flat(targets), strict=True))
    wrong = sum(str(one) != other for one, other in pairs)
    return f"error rate: {wrong / len(pairs):.6g} ({wrong} of {len(pairs)})"


def _flat(rows: list[Any]) -> list[Any]:
    return [value for row in rows for value in (row if isinstance(row, list | tuple) else [row])]


def _give(out: Path | None, names: tuple[str, ...], predicted: list[Any], shown: list[Any]) -> None:
    import json

    if out is not None:
        files.write_bytes(out, WRITERS[out.suffix](names, predicted if out.suffix == ".npy" else shown))
        terminal.write(f"{len(predicted)} predictions: {out}")
        return
    for name, value in zip(names or [""] * len(shown), shown, strict=True):
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
        terminal.write(f"{visible(name)}\t{visible(text)}" if names else visible(text))


def _give_words(out: Path | None, sentences: list[tuple[str, ...]], tags: list[Any]) -> None:
    """Print or write one word and its tag per line, and a blank line after each sentence."""
    text = "".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(words, row, strict=True)) + "\n"
        for words, row in zip(sentences, tags, strict=True)
    )
    if out is None:
        terminal.write(text, end="")
    else:
        files.write_bytes(out, text.encode())
        terminal.write(f"{len(sentences)} sentences: {out}")


def _npy(_: tuple[str, ...], predicted: list[Any]) -> bytes:
    """The predictions as a .npy file. Shorter rows are filled with IGNORE."""
    import io

    import numpy as np

    from autapse.tasks import IGNORE

    if predicted and isinstance(predicted[0], list):
        longest = max(map(len, predicted))
        predicted = [row + [IGNORE] * (longest - len(row)) for row in predicted]
    buffer = io.BytesIO()
    values = np.array(predicted)
    np.save(buffer, values.astype(np.float32) if values.dtype.kind == "f" else values, allow_pickle=False)
    return buffer.getvalue()


def _csv(names: tuple[str, ...], shown: list[Any]) -> bytes:
    import csv
    import io

    buffer = io.StringIO(newline="")
    rows = [value if isinstance(value, list) else [value] for value in shown]
    with_names = [[name, *row] for name, row in zip(names, rows, strict=True)] if names else rows
    csv.writer(buffer, lineterminator="\n").writerows(with_names)
    return buffer.getvalue().encode()


def _json(names: tuple[str, ...], shown: list[Any]) -> bytes:
    import json

    content = dict(zip(names, shown, strict=True)) if names else shown
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


WRITERS = {".npy": _npy, ".csv": _csv, ".json": _json}
