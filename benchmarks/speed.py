"""The measurement behind docs/speed.md.

python benchmarks/speed.py --out benchmarks/results/speed.json    measure everything; options as in `autapse bench`
python benchmarks/speed.py --render                               write the tables of docs/speed.md from that file
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from autapse import checks, files
from autapse.benchmark.report import fill
from autapse.cli.bench import Bench, run_bench
from autapse.cli.parse import parse

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "speed.md"
RESULTS = ROOT / "benchmarks" / "results" / "speed.json"


def render() -> str:
    """The page with the tables of the stored results."""
    results = files.read_json(RESULTS) if RESULTS.exists() else None
    return fill(PAGE.read_text(encoding="utf-8"), results)


def main(words: list[str]) -> int:
    if words == ["--render"]:
        files.write_bytes(PAGE, render().encode())
        source = RESULTS.relative_to(ROOT) if RESULTS.exists() else "no results yet"
        print(f"{PAGE.relative_to(ROOT)}: written from {source}")
        return 0
    try:
        run_bench(parse(Bench, "bench", ["--full", *words]), f"python benchmarks/speed.py {shlex.join(words)}".strip())
    except checks.InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
