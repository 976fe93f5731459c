"""`autapse predict` for a run that translates: one translation per line of a text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autapse import checks, files, terminal
from autapse.cli.predictions import PIPE
from autapse.data.formats.pairs import read_sources
from autapse.data.ragged import Ragged
from autapse.tasks.edits import edit_distances
from autapse.terminal import visible

if TYPE_CHECKING:
    from autapse.models import EncoderDecoder

WRITERS = (".txt", ".csv", ".json")
COLUMNS = ("source", "translation", "log-likelihood", "score")


def give_translations(
    path: Path, model: EncoderDecoder, out: Path | None, beam: int, length_penalty: float, best: int | None
) -> None:
    """Translate the texts of a file, and print or write the translations.

    Args:
        path: one text per line; or pairs, whose targets are compared with the translations.
        model: the model of the run.
        out: a new file, .txt, .csv or .json; None to print.
        beam: number of beginnings that are kept at each step.
        length_penalty: see `beam_search`.
        best: print this many translations of each text, with scores.
    """
    if out is not None and out != PIPE:
        checks.one_of("out's ending", out.suffix, WRITERS)
    sources, targets = read_sources(path)
    _check_symbols(path, sources, model)
    full = [n for n, text in enumerate(sources) if text.strip()]  # an empty line stays empty
    translations = model.translate([sources[n] for n in full], beam=beam, length_penalty=length_penalty, best=best or 1)
    made = dict(zip(full, translations, strict=True))
    first = [made[n][0].target if n in made else "" for n in range(len(sources))]
    if out is None and best is None:
        for text in first:
            terminal.write(visible(text))
    elif out is None or out == PIPE:
        terminal.write(_table(sources, made), end="")
    else:
        files.write_bytes(out, _written(out.suffix, sources, made, first).encode())
        terminal.write(f"{len(sources)} translations: {out}")
    if targets is not None:
        terminal.write(_score(first, targets, model), error=True)


def _check_symbols(path: Path, sources: list[str], model: EncoderDecoder) -> None:
    """Every symbol must be known, unless the model has a number for all others."""
    assert model.source is not None, "a run on texts knows their symbols"
    for n, text in enumerate(sources, 1):
        if (model.source.ids(text) < 0).any():
            unknown = model.source.unknown(text)[0]
            checks.fail(f"{path}, line {n}", "have only symbols that the run knows", unknown)


def _written(kind: str, sources: list[str], made: dict[int, Any], first: list[str]) -> str:
    if kind == ".txt":
        return "".join(f"{text}\n" for text in first)
    if kind == ".csv":
        return _table(sources, made)
    content = [
        {"source": text, "translations": [one._asdict() for one in made.get(n, [])]} for n, text in enumerate(sources)
    ]
    return json.dumps(content, ensure_ascii=False) + "\n"


def _table(sources: list[str], made: dict[int, Any]) -> str:
    buffer = io.StringIO(newline="")
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(COLUMNS)
    for n, text in enumerate(sources):
        for target, *scores in made.get(n, []):
            rows.writerow([text, target, *(f"{score:.6g}" for score in scores)])
    return buffer.getvalue()


def _score(made: list[str], targets: list[str], model: EncoderDecoder) -> str:
    """One line with the mistakes of the translations."""
    assert model.target is not None, "a run on texts knows their symbols"
    wanted = Ragged.of([model.target.ids(text) for text in targets])
    edits = edit_distances(Ragged.of([model.target.ids(text) for text in made]), wanted)
    wrong, symbols = int((edits > 0).sum()), int(wanted.lengths.sum())
    return f"symbol error rate: {edits.sum() / max(symbols, 1):.6g}; wrong sequences: {wrong} of {len(edits)}"
