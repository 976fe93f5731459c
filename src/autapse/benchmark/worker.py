"""The measuring process: `python -m autapse.benchmark.worker MODE SETTINGS RESULTS`, progress on stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from autapse import files
from autapse.benchmark.candidate import Unequal
from autapse.benchmark.denormals import set_flushing
from autapse.benchmark.settings import FLUSHED, Settings

UNEQUAL = 3  # exit code


def main(mode: str, settings_text: str, out: str) -> int:
    settings = Settings.from_json(json.loads(settings_text))
    kept = set_flushing(mode == FLUSHED, settings.threads)  # before anything else: no thread may have started
    from autapse.benchmark.measure import measure_all
    from autapse.results.machine import software

    try:
        results = measure_all(settings, lambda line: print(line, flush=True))
    except Unequal as error:
        print(error, file=sys.stderr)
        return UNEQUAL
    files.write_json(
        Path(out), results | {"software": software(), "denormals_kept": {"products": kept[0], "mm": kept[1]}}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
