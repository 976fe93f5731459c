"""`autapse predict RUN FILE`: a trained network on the sequences of a file."""

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
    """Apply the best weights of a run to the sequences of a file, and print one line for each. Numbers go in as they
    were recorded: the network standardises them itself. Targets in the file are not read by the network; they are
    scored, on stderr.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or a checkpoint file."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Sequences: .npy [N, T, D] or [T, D]; .npz with `inputs` and, if the sequences differ in length, `lengths`; .ts;
    .tsv; .csv with a column `sequence`, or without a header for one sequence. Sentences: .conllu, or .txt with one word
    per line and a blank line after each sentence. Reviews: .txt with one per line."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the predictions here (.npy, .csv or .json; of sentences .txt; must not exist) instead of printing them."""
    numbers: bool = False
    """Classes by number, also where they have names; .npy has numbers always."""


def main(words: list[str]) -> None:
    args = parse(Predict, "predict", words)
    if not args.file.is_file():
        raise checks.InputError(f"{args.file} is missing.")
    if args.out is not None:
        _check_out(args.out)
    from autapse.cli.predict_words import read_text
    from autapse.data.formats.table import read_sequences
    from autapse.training import load_run

    model, config, signature = load_run(args.run, trust=args.trust)
    sentences = None
    if signature.vocabularies:
        asked, sentences = read_text(args.file, config.task, signature)
    else:
        asked = read_sequences(args.file)
        check_channels(args.file, asked, signature)
    if args.out is not None:
        checks.one_of("out's ending", args.out.suffix, (".txt",) if sentences else WRITERS)
    found = predictions(model, asked.inputs)
    shown = found if args.numbers else named(found, signature.classes)
    if sentences is None:
        _give(args.out, asked.names, found, shown)
    else:
        _give_words(args.out, sentences, shown)
    if line := score(signature, named(found, signature.classes), asked.targets):
        terminal.write(line, error=True)


def _check_out(path: Path) -> None:
    if path.suffix not in (*WRITERS, ".txt"):
        checks.fail("out", f"end in one of {', '.join(WRITERS)}, or .txt for sentences", str(path))
    if path.exists():
        raise checks.InputError(f"{path} exists already and is not overwritten. Choose another name.")
    if not path.parent.is_dir():
        raise checks.InputError(f"There is no folder {path.parent} for {path.name}. Make it first.")


def check_channels(path: Path, asked: SequenceFile, signature: Signature) -> None:
    """The file must have what the run's task has at each step."""
    channels = asked.inputs.values.shape[1]
    if channels != signature.input_size:
        rule = f"have {signature.input_size} channels per step, as the run's task has"
        checks.fail(str(path), rule, channels, kind=checks.ShapeError)


def predictions(model: SequenceModel, inputs: Ragged) -> list[Any]:
    """What the model says of each sequence: a class, or one for each of its steps, or numbers."""
    import numpy as np
    import torch

    from autapse.models import Tagger

    order = np.argsort(inputs.lengths, kind="stable")  # little is padded this way
    found: list[Any] = [None] * len(inputs)
    for first in range(0, len(inputs), BATCH):
        chosen = order[first : first + BATCH]
        batch = [torch.from_numpy(np.ascontiguousarray(inputs[n])) for n in chosen]
        lengths = torch.from_numpy(inputs.lengths[chosen])
        rows = model.predict(torch.nn.utils.rnn.pad_sequence(batch, batch_first=True), lengths).tolist()
        for n, row in zip(chosen, rows, strict=True):
            found[n] = row[: inputs.lengths[n]] if isinstance(model, Tagger) else row
    return found


def named(found: Sequence[Any], classes: Sequence[str]) -> list[Any]:
    """Predictions with the classes' names, where there are any."""
    if not classes:
        return list(found)
    return [[classes[n] for n in row] if isinstance(row, list) else classes[row] for row in found]


def score(signature: Signature, said: list[Any], targets: list[Any] | np.ndarray | None) -> str:
    """One line on how the predictions fit the file's own targets, if it has any that can be compared."""
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


def _give(out: Path | None, names: tuple[str, ...], found: list[Any], shown: list[Any]) -> None:
    import json

    if out is not None:
        files.write_bytes(out, WRITERS[out.suffix](names, found if out.suffix == ".npy" else shown))
        terminal.write(f"{len(found)} predictions: {out}")
        return
    for name, value in zip(names or [""] * len(shown), shown, strict=True):
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
        terminal.write(f"{visible(name)}\t{visible(text)}" if names else visible(text))


def _give_words(out: Path | None, sentences: list[tuple[str, ...]], tags: list[Any]) -> None:
    """A word and its tag per line, a blank line after each sentence."""
    text = "".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(words, row, strict=True)) + "\n"
        for words, row in zip(sentences, tags, strict=True)
    )
    if out is None:
        terminal.write(text, end="")
    else:
        files.write_bytes(out, text.encode())
        terminal.write(f"{len(sentences)} sentences: {out}")


def _npy(_: tuple[str, ...], found: list[Any]) -> bytes:
    """Of unequal rows, IGNORE past each end."""
    import io

    import numpy as np

    from autapse.tasks import IGNORE

    if found and isinstance(found[0], list):
        longest = max(map(len, found))
        found = [row + [IGNORE] * (longest - len(row)) for row in found]
    buffer = io.BytesIO()
    values = np.array(found)
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
