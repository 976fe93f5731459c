"""The measurement behind docs/implicit-speed.md.

python benchmarks/implicit --out benchmarks/results/implicit.json    measure everything; about half an hour
python benchmarks/implicit --quick --out FILE                        the same on little data, to see that it runs
python benchmarks/implicit --render                                  put the stored tables into docs/implicit-speed.md
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from autapse import files
from autapse.benchmark.denormals import set_flushing
from autapse.results.machine import commit, hardware

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "implicit-speed.md"
RESULTS = ROOT / "benchmarks" / "results" / "implicit.json"


def measure(quick: bool, threads: int) -> dict[str, object]:
    """Everything, each part as a table of rows."""
    kept = set_flushing(True, threads)  # first of all: before any thread has started
    from counts import count_all
    from growth import measure_growth
    from settings import Settings
    from steps import measure_steps
    from weights import train_all

    from autapse.results.machine import software

    settings = Settings.quick() if quick else Settings()
    models = train_all(settings)
    return {
        "settings": settings.to_json(),
        "hardware": hardware(),
        "software": software(),
        "denormals_kept": list(kept),
        "commit": commit(),
        "training": {key: model.facts for key, model in models.items()},
        "counts": count_all(settings, models),
        "growth": measure_growth(settings, models),
        "steps": measure_steps(settings, models),
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python benchmarks/implicit", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the results go, as JSON")
    parser.add_argument("--quick", action="store_true", help="little data and training")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch and of the kernels")
    parser.add_argument("--render", action="store_true", help="make the page from the stored results")
    chosen = parser.parse_args(words)
    if chosen.render:
        from page import render

        files.write_bytes(PAGE, render(PAGE.read_text(encoding="utf-8"), files.read_json(RESULTS)).encode())
        print(f"{PAGE.relative_to(ROOT)}: made from {RESULTS.relative_to(ROOT)}")
        return 0
    if chosen.out is None:
        parser.error("--out must name a file for the results")
    start = time.time()
    results = measure(chosen.quick, chosen.threads)
    results |= {"command": f"python benchmarks/implicit {shlex.join(words)}", "seconds": round(time.time() - start)}
    files.write_json(chosen.out, results)
    print(f"{chosen.out}: {results['seconds']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
