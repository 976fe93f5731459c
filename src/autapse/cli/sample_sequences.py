"""Sequences from a generator: printed, written to files, and drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autapse import checks, files, terminal
from autapse.cli.predictions import WRITERS, Predictions, check_new
from autapse.cli.sample_options import Sample
from autapse.data.formats.sequences import FileLayout
from autapse.data.formats.table import read_sequences
from autapse.data.reading import read_bytes

if TYPE_CHECKING:
    from autapse.models import Generator

COUNT = 10
TEXT, TABLES, PICTURES = (".txt",), (".csv", ".npz", ".npy"), (".svg", ".png")
ROWS = (".txt", ".csv", ".tsv", ".npy", ".npz", ".parquet", ".ts")


def write_sequences(model: Generator, args: Sample) -> None:
    """Draw sequences, print them or write them, and draw a picture of them."""
    symbols = bool(model.decoder.elements.symbols)
    _check(args, symbols)
    drawn = model.sample(
        read_given(model, args.given),
        args.count or COUNT,
        start=None if args.start is None else args.start if symbols else read_start(model, args.start),
        lengths=args.length,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=args.seed,
    )
    if args.picture is not None:
        _draw(model, drawn, args.picture)
        terminal.write(f"{len(drawn)} sequences drawn: {args.picture}")
    if symbols:
        _give_text([one if isinstance(one, str) else " ".join(map(str, one.tolist())) for one in drawn], args.out)
    elif args.out is not None or args.picture is None:
        _give_values(drawn, column_names(model), args.out)


def _check(args: Sample, symbols: bool) -> None:
    """Check the files before any work is done."""
    if symbols and args.picture is not None:
        checks.fail("picture", "be omitted for a run that writes symbols", str(args.picture))
    if not symbols:
        for name in ("top_k", "top_p"):
            if getattr(args, name) is not None:
                checks.fail(name, "be omitted for a run that draws values", getattr(args, name))
    for name, path, endings in (
        ("out", args.out, TEXT if symbols else TABLES),
        ("picture", args.picture, PICTURES),
    ):
        if path is not None:
            if path.suffix not in endings:
                checks.fail(name, f"end in {' or '.join(endings)}", str(path))
            check_new(path)


def column_names(model: Generator) -> tuple[str, ...]:
    """The names of the columns that a model generates."""
    made = model.decoder.elements
    return model.columns or tuple(f"x{n + 1}" for n in range(made.values + made.binary))


def read_given(model: Generator, text: str | None) -> Any:
    """What sequences depend on, from the words of the command line or from a file."""
    if model.inputs is None:
        if text is not None:
            checks.fail("given", "be omitted: sequences of this run depend on nothing", text)
        return None
    if text is None:
        raise checks.InputError(f"Sequences of this run depend on {_what(model)}. Say it with --given.")
    path = Path(text)
    if model.depends == "sequence":
        if not path.is_file():
            checks.fail("given", f"be a file with {_what(model)}", text, "It is a table with a row per step.")
        table = read_sequences(path, FileLayout(channels=model.channels, single=True, missing=True))
        return [table.inputs[n] for n in range(len(table.inputs))]
    if path.suffix in ROWS and path.is_file():
        lines = [line.strip() for line in read_bytes(path).decode("utf-8-sig").splitlines()]
        return [_entries(model, line.split(",")) for line in lines if line]
    entries = text.split(",")
    if model.inputs.input_size == 1:
        return [_entries(model, [entry]) for entry in entries]
    return [_entries(model, entries)]


def _what(model: Generator) -> str:
    """What sequences depend on, in words."""
    columns = f" ({', '.join(model.channels)})" if model.channels else ""
    if model.depends == "sequence":
        return f"series of the same length{columns}"
    if model.words:
        return f"a class: {', '.join(model.words[0])}"
    assert model.inputs is not None, "it depends on something"
    return f"{model.inputs.input_size} numbers{columns}"


def _entries(model: Generator, words: list[str]) -> list[Any]:
    """The entries of one vector: names of classes first, then numbers."""
    assert model.inputs is not None, "the model depends on something"
    size, classes = model.inputs.input_size, len(model.inputs.tables)
    for word, names in zip(words, model.words, strict=False):
        if word.strip() not in names:
            checks.fail("given", f"be {_what(model)}", word, checks.closest(word, names))
    if len(words) != size:
        noun = "entry" if size == 1 else "entries, separated by commas"
        checks.fail("given", f"have {size} {noun}", ",".join(words))
    entries: list[Any] = [word.strip() for word in words[:classes]]
    for word in words[classes:]:
        try:
            entries.append(float(word))
        except ValueError:
            checks.fail("given", "have numbers", word)
    return entries


def read_start(model: Generator, text: str) -> list[np.ndarray]:
    """The known beginnings of series, from a file."""
    path = Path(text)
    if not path.is_file():
        checks.fail("start", "be a file with the first steps of a series, for a run that draws values", text)
    table = read_sequences(path, FileLayout(targets=None, channels=model.columns, single=True, missing=True))
    return [table.inputs[n] for n in range(len(table.inputs))]


def _give_text(lines: list[str], out: Path | None) -> None:
    if out is None:
        for line in lines:
            terminal.write(line)
        return
    files.write_bytes(out, "".join(f"{line}\n" for line in lines).encode())
    terminal.write(f"{len(lines)} sequences: {out}")


def _give_values(drawn: list[np.ndarray], columns: tuple[str, ...], out: Path | None) -> None:
    table = Predictions([one.tolist() for one in drawn], drawn, (), columns, every_step=True)
    if out is None:
        terminal.write(WRITERS[".csv"](table).decode(), end="")
        return
    files.write_bytes(out, _npz(drawn, columns) if out.suffix == ".npz" else WRITERS[out.suffix](table))
    terminal.write(f"{len(drawn)} sequences: {out}")


def _npz(drawn: list[np.ndarray], columns: tuple[str, ...]) -> bytes:
    """A .npz file that `autapse run` and `autapse predict` can read."""
    lengths = np.array([len(one) for one in drawn])
    inputs = np.zeros((len(drawn), max(1, lengths.max()), len(columns)), dtype=np.float32)
    for row, one in zip(inputs, drawn, strict=True):
        row[: len(one)] = one
    buffer = io.BytesIO()
    np.savez(buffer, inputs=inputs, lengths=lengths, channels=np.array(columns))
    return buffer.getvalue()


def _draw(model: Generator, drawn: list[np.ndarray], path: Path) -> None:
    from autapse.diagnostics.figures.sequences import is_pen, plot_drawings, plot_series

    columns = column_names(model)
    if is_pen(columns):
        plot_drawings(path, drawn)
    else:
        plot_series(path, drawn, columns)
