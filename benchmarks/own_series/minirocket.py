"""MiniRocket with a ridge classifier (aeon), in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autapse.data.ragged import Ragged, dense
from autapse.tasks import OwnSeries

AEON = "aeon==1.6.0"
SHORTEST = 9  # steps that MiniRocket needs

# Runs in the other environment: reads arrays, prints one JSON object per seed.
SCRIPT = """
import json, sys, time
import numpy as np
from aeon.classification.convolution_based import MiniRocketClassifier
data = np.load(sys.argv[1])
for seed in json.loads(sys.argv[2]):
    start = time.perf_counter()
    model = MiniRocketClassifier(random_state=seed, n_jobs=-1).fit(data["x"], data["y"])
    accuracy = float((model.predict(data["x_test"]) == data["y_test"]).mean())
    result = {"seed": seed, "accuracy": round(100 * accuracy, 2), "seconds": round(time.perf_counter() - start, 1)}
    print(json.dumps(result), flush=True)
"""


def minirocket(train: Path, test: Path, seeds: Sequence[int], environment: Path) -> list[dict[str, Any]]:
    """The test accuracy of MiniRocket for each seed.

    Args:
        train: the training file.
        test: the test file.
        seeds: of the random biases.
        environment: where the environment with aeon is, or is made.
    """
    python = _environment(environment)
    series = OwnSeries(path=str(train), test=str(test)).both()
    length = max(SHORTEST, *(int(part.inputs.lengths.max()) for part in series))
    arrays = {f"x{end}": _padded(part.inputs, length) for end, part in zip(("", "_test"), series, strict=True)}
    arrays |= {f"y{end}": dense(part.targets) for end, part in zip(("", "_test"), series, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **arrays)  # type: ignore[arg-type]
        command = [str(python), "-c", SCRIPT, str(path), json.dumps(list(seeds))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _padded(inputs: Ragged, length: int) -> np.ndarray:  # [N, channels, length]
    """Series of one length: the last value is repeated."""
    rows = [np.pad(inputs[n], ((0, length - len(inputs[n])), (0, 0)), mode="edge") for n in range(len(inputs))]
    return np.stack(rows).transpose(0, 2, 1).astype(np.float32)


def _environment(folder: Path) -> Path:
    """The Python of the environment with aeon, which is made if it is missing."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", AEON], check=True)
        (folder / "ready").touch()
    return python
