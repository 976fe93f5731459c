"""A whole measurement: a new process for each way in which torch treats denormals, and one result for all."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autapse import __version__, files
from autapse.benchmark.candidate import Unequal
from autapse.benchmark.settings import MODES, Settings
from autapse.benchmark.worker import UNEQUAL
from autapse.results.machine import Origin

Results = dict[str, Any]


def measure(settings: Settings, command: str, tell: Callable[[str], None]) -> Results:
    """Measure in both modes; `tell` is called with what is being measured."""
    origin = Origin.here()
    results: Results = {
        "autapse": __version__,
        "commit": origin.commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "settings": settings.to_json(),
        "hardware": origin.hardware,
        "modes": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for mode in MODES:
            results["modes"][mode] = _in_worker(mode, settings.for_mode(mode), Path(folder) / mode, tell)
    return results


def _in_worker(mode: str, settings: Settings, out: Path, tell: Callable[[str], None]) -> Results:
    words = [sys.executable, "-m", "autapse.benchmark.worker", mode, json.dumps(settings.to_json()), str(out)]
    with tempfile.TemporaryFile("w+") as errors:
        worker = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert worker.stdout is not None, "a pipe was asked for"
        try:
            for line in worker.stdout:
                tell(f"{MODES[mode]}: {line.strip()}")
            code = worker.wait()
        finally:
            worker.kill()
            worker.wait()
            worker.stdout.close()
        errors.seek(0)
        reason = errors.read().strip()
    if code == UNEQUAL:
        raise Unequal(f"Nothing was timed: {reason}")
    if code:
        raise RuntimeError(f"The measuring process ended with code {code}: {reason}")
    return files.read_json(out)
