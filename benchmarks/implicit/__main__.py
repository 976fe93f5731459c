"""The measurement behind docs/implicit-speed.md.

python -m benchmarks.implicit --out benchmarks/results/implicit.json    measure everything; about half an hour
python -m benchmarks.implicit --quick --out FILE                        the same on little data, to check that it runs
python -m benchmarks.implicit --render                                  write the tables of docs/implicit-speed.md
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from autapse import files
from autapse.benchmark.denormals import set_flushing
from autapse.results.machine import Origin

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "implicit-speed.md"
RESULTS = ROOT / "benchmarks" / "results" / "implicit.json"


def measure(quick: bool, threads: int) -> dict[str, object]:
    """All results: facts about the machine, and one table for each part."""
    kept = set_flushing(True, threads)  # before anything else: no thread may have started
    from benchmarks.implicit.counts import count_all
    from benchmarks.implicit.growth import measure_growth
    from benchmarks.implicit.settings import ImplicitSettings
    from benchmarks.implicit.steps import measure_steps
    from benchmarks.implicit.weights import train_all

    from autapse.results.machine import software

    settings, origin = ImplicitSettings.quick() if quick else ImplicitSettings(), Origin.here()
    models = train_all(settings)
    return {
        "settings": settings.to_json(),
        "hardware": origin.hardware,
        "software": software(),
        "denormals_kept": list(kept),
        "commit": origin.commit,
        "training": {key: model.facts for key, model in models.items()},
        "counts": count_all(settings, models),
        "growth": measure_growth(settings, models),
        "steps": measure_steps(settings, models),
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.implicit", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="file for the results, as JSON")
    parser.add_argument("--quick", action="store_true", help="little data and training")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch and of the kernels")
    parser.add_argument("--render", action="store_true", help="write the page from the stored results")
    chosen = parser.parse_args(words)
    if chosen.render:
        from benchmarks.implicit.page import render

        files.write_bytes(PAGE, render(PAGE.read_text(encoding="utf-8"), files.read_json(RESULTS)).encode())
        print(f"{PAGE.relative_to(ROOT)}: written from {RESULTS.relative_to(ROOT)}")
        return 0
    if chosen.out is None:
        parser.error("--out must name a file for the results")
    start = time.time()
    results = measure(chosen.quick, chosen.threads)
    results |= {"command": f"python -m benchmarks.implicit {shlex.join(words)}", "seconds": round(time.time() - start)}
    files.write_json(chosen.out, results)
    print(f"{chosen.out}: {results['seconds']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
