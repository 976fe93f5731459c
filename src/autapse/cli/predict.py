"""`autapse predict RUN FILE`: apply a trained network to the sequences of a file."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from autapse import checks, files, terminal
from autapse.cli.parse import Trust, parse

if TYPE_CHECKING:
    import numpy as np

    from autapse.data.formats.table import SequenceFile
    from autapse.tasks import Signature


@dataclass
class Predict(Trust):
    """Apply the best weights of a run to the sequences of a file, and print one line per sequence.

    Give the values as they were recorded: the model scales them. If the file has targets, the network does not see
    them, and the score is printed on stderr. A run that forecasts gives the values after the end of each series, with
    prediction intervals. A run that translates gives one translation per line. A run on trees gives them in brackets,
    with the label of each node.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or a checkpoint file."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Sequences: a table like the training file (.csv, .tsv, .parquet), whose channels are found by name; .csv without
    a header for one sequence; .npy [N, T, D] or [T, D]; .npz with `inputs` and, if the sequences differ in length,
    `lengths`; .ts; a .wav file or a folder of them. Sentences: .conllu, or .txt with one word per line and a blank line
    after each sentence. Reviews: .txt with one review per line. To translate: .txt with one text per line, or .tsv with
    the right translation after a tab. Trees: .txt with one tree in brackets per line, with or without labels. Images:
    .npy [N, H, W] or [N, H, W, channels]. With -, standard input: .csv, .npy or .npz, or .txt if the run is on text."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the predictions to this new file instead of printing them: .npy, .csv or .json; for sentences .txt. With -,
    print them in the form of a .csv file."""
    probabilities: bool = False
    """Give the probabilities of all classes instead of the most probable one."""
    numbers: bool = False
    """Print the numbers of the classes instead of their names. A .npy file always has numbers."""
    steps: int | None = None
    """Forecasts only: steps to forecast after the end of each series; by default the horizon."""
    beam: int | None = None
    """Translations only: number of beginnings that are kept at each step; by default 1, or --best if that is given."""
    length_penalty: float | None = None
    """Translations only: they are compared by log-likelihood / (length + 1)^penalty; by default 1."""
    best: int | None = None
    """Translations only: give this many of each text, with their scores."""


def main(words: list[str]) -> None:
    args = parse(Predict, "predict", words)
    from autapse.cli.predictions import PIPE, WRITERS, Predictions, check_out

    if args.file != PIPE and not (args.file.is_file() or args.file.is_dir()):
        raise checks.InputError(f"{args.file} is missing.")
    if args.out is not None:
        check_out(args.out)
    from autapse.cli.predict_words import read_text
    from autapse.data.formats.table import read_sequences
    from autapse.models.base import as_reader
    from autapse.tasks.series import layout_for
    from autapse.training import load_run

    loaded, config, signature = load_run(args.run, trust=args.trust)
    if signature.kind == "translation":
        _translate(args, loaded)
        return
    for name in ("beam", "length_penalty", "best"):
        if getattr(args, name) is not None:
            checks.fail(name, "be omitted for a run that does not translate", getattr(args, name))
    if signature.kind == "trees":
        _label(args, loaded)
        return
    if signature.kind in ("segmentation", "image classification"):
        _see(args, loaded)
        return
    model = as_reader(loaded)
    if args.probabilities and not model.has_classes:
        checks.fail("probabilities", "be False for a run that predicts values", True)
    if args.steps is not None and signature.forecast is None:
        checks.fail("steps", "be omitted for a run that does not forecast", args.steps)
    if signature.forecast is not None:
        from autapse.cli.predict_forecasts import predict_forecasts

        with _opened(args.file, False) as path:
            predict_forecasts(path, model, config.task, signature, args.steps).give(args.out)
        return
    sentences = None
    with _opened(args.file, bool(signature.vocabularies)) as path:
        if signature.vocabularies:
            asked, sentences = read_text(path, config.task, signature)
        else:
            asked = read_sequences(path, layout_for(config.task, signature))
            check_channels(path, asked, signature)
    if sentences is not None and args.probabilities:
        checks.fail("probabilities", "be False for sentences, whose words get one tag each", True)
    if args.out is not None and args.out != PIPE:
        checks.one_of("out's ending", args.out.suffix, (".txt",) if sentences else WRITERS)
    values = tuple(getattr(config.task, "target_column", ()))
    scores = model.scores([asked.inputs[n] for n in range(len(asked.inputs))])
    predicted = Predictions.of(model, scores, asked.names, args.probabilities, args.numbers, values)
    if sentences is None:
        predicted.give(args.out)
    else:
        _give_words(args.out if args.out != PIPE else None, sentences, predicted.answers)
    if line := score(signature, Predictions.of(model, scores).answers, asked.targets):
        terminal.write(line, error=True)


def _translate(args: Predict, model: Any) -> None:
    from autapse.cli.predict_translations import give_translations

    for name in ("probabilities", "numbers", "steps"):
        if getattr(args, name):
            checks.fail(name, "be omitted for a run that translates", getattr(args, name))
    beam = args.beam or args.best or 1
    penalty = 1.0 if args.length_penalty is None else args.length_penalty
    with _opened(args.file, True) as path:
        give_translations(path, model, args.out, beam, penalty, args.best)


def _label(args: Predict, model: Any) -> None:
    from autapse.cli.predict_trees import give_trees

    for name in ("numbers", "steps"):
        if getattr(args, name):
            checks.fail(name, "be omitted for a run on trees", getattr(args, name))
    with _opened(args.file, True) as path:
        give_trees(path, model, args.out, args.probabilities)


def _see(args: Predict, model: Any) -> None:
    from autapse.cli.predict_images import give_images

    for name in ("steps", "numbers"):
        if getattr(args, name):
            checks.fail(name, "be omitted for a run on images", getattr(args, name))
    with _opened(args.file, False) as path:
        give_images(path, model, args.out, args.probabilities)


@contextmanager
def _opened(path: Path, text: bool) -> Iterator[Path]:
    """The file to read. Standard input is copied to a file, whose name says what it is."""
    if path != Path("-"):
        yield path
        return
    content = sys.stdin.buffer.read()
    starts = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz"}
    ending = next((kind for start, kind in starts.items() if content.startswith(start)), ".txt" if text else ".csv")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"stdin{ending}"
        files.write_bytes(copy, content)
        yield copy


def check_channels(path: Path, asked: SequenceFile, signature: Signature) -> None:
    """Check that the file has as many channels as the data of the run."""
    channels = asked.inputs.values.shape[1]
    if channels != signature.input_size:
        rule = f"have {signature.input_size} channels per step, as the run's task has"
        checks.fail(str(path), rule, channels, kind=checks.ShapeError)


def score(signature: Signature, said: list[Any], targets: list[Any] | np.ndarray | None) -> str:
    """One line with the score of the predictions; empty if the file has no targets that can be compared."""
    import numpy as np

    if targets is None:
        return ""
    if "regression" in signature.kind:
        try:
            values, wanted = (np.concatenate([np.ravel(one) for one in rows]) for rows in (said, targets))
            errors = np.square(values - wanted.astype(np.float64))
        except ValueError:  # text, or another number of values
            return ""
        return f"mean squared error: {np.nanmean(errors):.6g}"  # the target of a step may be unknown
    if not isinstance(targets, list):
        return ""
    pairs = list(zip(_flat(said), _flat(targets), strict=True))
    wrong = sum(str(one) != other for one, other in pairs)
    return f"error rate: {wrong / len(pairs):.6g} ({wrong} of {len(pairs)})"


def _flat(rows: list[Any]) -> list[Any]:
    return [value for row in rows for value in (row if isinstance(row, list | tuple) else [row])]


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
