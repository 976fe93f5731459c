"""How fast a large table is read: the first time, and from the cache; beside pandas, if it is installed.

    .venv/bin/python benchmarks/read_csv.py --megabytes 100 --pandas /path/to/python

Each reading runs in a new process, so that its memory is its own. The values are compared before times are printed.
CPU seconds are the ones to compare on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CHANNELS = "abcdef"
STEPS = 200  # per series

OURS = """
import json, resource, sys, time
from pathlib import Path
from autapse.data.formats.sequences import FileLayout
from autapse.data.kept import read_kept
clock, cpu = time.perf_counter(), time.process_time()
series = read_kept(Path(sys.argv[1]), FileLayout())
clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
total = float(series.inputs.values.sum(dtype="float64"))
"""
THEIRS = """
import json, resource, sys, time
import pandas
clock, cpu = time.perf_counter(), time.process_time()
table = pandas.read_csv(sys.argv[1])
clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
total = float(table[list("abcdef")].to_numpy("float32").sum(dtype="float64"))
"""
REPORT = """
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": clock, "cpu": cpu, "memory": memory, "total": total}))
"""


def write(path: Path, megabytes: int, form: str) -> None:
    """A table of series with six channels, a time and a class."""
    random, size, n = np.random.default_rng(0), 0, 0
    with path.open("w") as file:
        file.write(f"sequence,time,{','.join(CHANNELS)},target\n")
        while size < megabytes * 1_000_000:
            values = random.normal(0, 50, (STEPS, len(CHANNELS)))
            rows = [",".join(form % value for value in row) for row in values.tolist()]
            size += file.write("".join(f"s{n},{t},{row},{'walk' if n % 3 else 'sit'}\n" for t, row in enumerate(rows)))
            n += 1


def measure(python: str, code: str, path: Path, cache: str) -> dict[str, float]:
    command = [python, "-c", code + REPORT, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "AUTAPSE_CACHE": cache}
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--form", default="%.4f", help="how values are written, such as %%.4f or %%.17g")
    parser.add_argument("--pandas", help="a Python that has pandas")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder, "table.csv"), str(Path(folder, "cache"))
        write(path, args.megabytes, args.form)
        rows = {name: measure(sys.executable, OURS, path, cache) for name in ("first", "cached")}
        if args.pandas:
            rows["pandas"] = measure(args.pandas, THEIRS, path, cache)
        size = path.stat().st_size
        totals = [row["total"] for row in rows.values()]
        if not np.allclose(totals, totals[0], rtol=1e-6):
            print(f"The readers disagree: {totals}")
            return 1
        for name, row in rows.items():
            speeds = f"{size / row['seconds'] / 1e6:6.0f} MB/s, {size / row['cpu'] / 1e6:6.0f} MB per CPU second"
            print(f"{name:8}{speeds}, {row['memory'] / size:.1f} times the file in memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
