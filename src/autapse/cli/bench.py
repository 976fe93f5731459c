"""`autapse bench`: how fast the layers are on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from autapse import checks, files
from autapse.benchmark.cases import networks_of
from autapse.benchmark.settings import FULL, QUICK, TIMES, Settings
from autapse.cli.parse import parse


@dataclass(kw_only=True)
class Bench:
    """Time the layers against torch.nn and others, after a check that the results are equal."""

    shapes: str | None = None
    """Shapes, separated by commas: pixel-mnist, har, adding, tagging, large, batch-1, streaming, or any as TxBxDxH; by
    default all named shapes."""
    cells: str | None = None
    """Networks, separated by commas, with options as in gru:reset=before; by default rnn,gru,lstm,antisymmetric; with
    --full one or more per form."""
    peers: str | None = None
    """Implementations to compare with: torch.nn, loop, compiled, torchrecurrent, reference; by default the fast ones;
    with --full all."""
    repeats: int | None = None
    """Rounds per comparison; the best one counts; by default 3, with --full 10."""
    seconds: float | None = None
    """Time limit per comparison, in seconds; by default 1.5, with --full 4."""
    threads: int | None = None
    """Number of threads; by default that of torch."""
    full: bool = False
    """Measure everything, which takes one to two hours; otherwise a few minutes."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write all measurements, with facts about the machine, to this JSON file."""


def main(words: list[str]) -> int:
    args = parse(Bench, "bench", words)
    run_bench(args, f"autapse bench {shlex.join(words)}".strip())
    return 0


def run_bench(args: Bench, command: str) -> dict[str, Any]:
    """Measure, print the tables, and write the results to `args.out` if it is given."""
    settings = make_settings(args)
    if args.out is not None and not args.out.parent.is_dir():
        raise checks.InputError(f"There is no folder {args.out.parent}. Create it, or choose another --out.")

    from autapse.benchmark.report import print_tables
    from autapse.benchmark.run import measure
    from autapse.console import Console

    console = Console()
    took = TIMES.get(replace(settings, threads=None))
    expected = f"this takes {took} on two idle cores" if took else "the time depends on the options"
    console.print(f"Measuring: {expected}. Other programs on this machine distort the results.")
    with console.working("starting") as show:
        results = measure(settings, command, show)
    if args.out is not None:
        files.write_json(args.out, results)  # first: `autapse bench | head` must not lose an hour's work
    print_tables(console, results)
    if args.out is not None:
        console.print(f"\nresults: {args.out}")
    return results


def make_settings(args: Bench) -> Settings:
    """The quick or the full measurement, with the options that are given."""
    given: dict[str, Any] = {name: _split(name, getattr(args, name)) for name in ("shapes", "cells", "peers")}
    if given["cells"]:
        given["cells"] = tuple(dict.fromkeys(full for name in given["cells"] for full in networks_of(name)))
    given |= {"repeats": args.repeats, "seconds": args.seconds, "threads": args.threads}
    return replace(FULL if args.full else QUICK, **{name: value for name, value in given.items() if value is not None})


def _split(name: str, text: str | None) -> Sequence[str] | None:
    if text is None:
        return None
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    twice = [word for word in words if words.count(word) > 1]
    if twice:
        checks.fail(name, "name each one once", twice[0])
    return words
