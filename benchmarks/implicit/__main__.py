"""The measurement behind docs/implicit-speed.md.

python -m benchmarks.implicit --out benchmarks/results/implicit.json    measure everything; about half an hour
python -m benchmarks.implicit --quick --out FILE                        the same on little data, to check that it runs
python -m benchmarks.implicit --render                                  write the tables of docs/implicit-speed.md
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.implicit.page import render

from autapse.benchmark.script import Script

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "implicit-speed.md"
RESULTS = ROOT / "benchmarks" / "results" / "implicit.json"


def measure(quick: bool) -> dict[str, Any]:
    """One table for each part."""
    # Not at the top: no thread may start before the script has set how denormals are treated.
    from benchmarks.implicit.counts import count_all
    from benchmarks.implicit.growth import measure_growth
    from benchmarks.implicit.settings import ImplicitSettings
    from benchmarks.implicit.steps import measure_steps
    from benchmarks.implicit.weights import train_all

    settings = ImplicitSettings.quick() if quick else ImplicitSettings()
    models = train_all(settings)
    return {
        "settings": settings.to_json(),
        "training": {key: model.facts for key, model in models.items()},
        "counts": count_all(settings, models),
        "growth": measure_growth(settings, models),
        "steps": measure_steps(settings, models),
    }


def said(results: dict[str, Any]) -> list[str]:
    """How long it took."""
    return [f"{results['seconds']} s"]


SCRIPT = Script("python -m benchmarks.implicit", __doc__, PAGE, RESULTS, measure, render, said)

if __name__ == "__main__":
    sys.exit(SCRIPT.main(sys.argv[1:]))
