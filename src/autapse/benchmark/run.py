"""A whole measurement: a fresh process for each way torch treats denormals, and all of it in one result."""

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
from autapse.results.machine import commit, hardware

Results = dict[str, Any]


def measure(settings: Settings, command: str, tell: Callable[[str], None]) -> Results:
    """Measure in both modes; `tell` hears what is being measured."""
    results: Results = {
        "autapse": __version__,
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "settings": settings.to_json(),
        "hardware": hardware(),
        "modes": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for mode in MODES:
            results["modes"][mode] = _in_child(mode, settings.for_mode(mode), Path(folder) / mode, tell)
    return results


def _in_child(mode: str, settings: Settings, out: Path, tell: Callable[[str], None]) -> Results:
    words = [sys.executable, "-m", "autapse.benchmark.worker", mode, json.dumps(settings.to_json()), str(out)]
    with tempfile.TemporaryFile("w+") as complaints:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=complaints, text=True)
        assert child.stdout is not None, "a pipe was asked for"
        try:
            for line in child.stdout:
                tell(f"{MODES[mode]}: {line.strip()}")
            code = child.wait()
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        complaints.seek(0)
        said = complaints.read().strip()
    if code == UNEQUAL:
        raise Unequal(f"Nothing was timed: {said}")
    if code:
        raise RuntimeError(f"The measuring process ended with code {code}: {said}")
    return files.read_json(out)
