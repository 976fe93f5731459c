"""`autapse run X_TRAIN.ts` with default settings on seven archive sets, beside MiniRocket and published InceptionTime.

python -m benchmarks.own_series --data FOLDER    measure everything: 70 minutes of two cores
python -m benchmarks.own_series --render         write the table again, from the file of results

Each run is a process of its own with `--seed` as the only option, so that it is what a user gets. The same series go to
`RecurrentClassifier(random_state=seed).fit(X, y)`. MiniRocket (aeon) runs on the same machine, in an environment of its
own that this script makes, outside the repository.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.own_series.minirocket import minirocket
from benchmarks.own_series.page import page

from autapse import checks, files
from autapse.auto.choice import SECONDS
from autapse.cli.parse import parse
from autapse.data.ragged import dense
from autapse.results.machine import Origin
from autapse.sklearn import RecurrentClassifier
from autapse.tasks import OwnSeries

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "own_series.json"
SETS = ("JapaneseVowels", "BasicMotions", "PenDigits", "ECG5000", "GunPoint", "ItalyPowerDemand", "ACSF1")
PARTS = ("autapse", "estimator", "minirocket")


@dataclass(kw_only=True)
class OwnSeriesBenchmark:
    """Measure the default settings for one's own series."""

    data: Path = Path("uea-ucr")
    """Folder with a folder per data set, NAME/NAME_TRAIN.ts and NAME_TEST.ts (or .tsv)."""
    sets: tuple[str, ...] = SETS
    """The data sets."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds."""
    seconds: float | None = None
    """Time limit of a run; by default that of `autapse run`, 120 s."""
    environment: Path = field(default_factory=lambda: Path.home() / ".cache" / "autapse-minirocket")
    """Where the environment of MiniRocket is made."""
    parts: tuple[str, ...] = PARTS
    """What is measured. Results of the other parts, and of other seeds, stay in the file."""
    out: Path = RESULTS
    """The file of results. It is written after each set; sets that are not measured stay as they are."""
    render: bool = False
    """Only write the table, from the file of results."""


def main(words: list[str]) -> int:
    args = parse(OwnSeriesBenchmark, "own_series", words)
    for part in args.parts:
        checks.one_of("parts", part, PARTS)
    if not args.render:
        measure(args, f"python -m benchmarks.own_series {shlex.join(words)}".strip())
    files.write_bytes(args.out.with_suffix(".md"), page(files.read_json(args.out)).encode())
    print(args.out.with_suffix(".md").read_text(encoding="utf-8"))
    return 0


def measure(args: OwnSeriesBenchmark, command: str) -> None:
    """Run everything, set by set, and write the results after each."""
    origin = Origin.here()
    results = files.read_json(args.out) if args.out.exists() else {"sets": {}}
    results |= {
        "limit": args.seconds or SECONDS,
        "command": command,
        "commit": origin.commit,
        "hardware": origin.hardware,
    }
    for name in args.sets:
        train, test = (data_file(args.data, name, part) for part in ("TRAIN", "TEST"))
        rows = results["sets"].setdefault(name, {})
        if "autapse" in args.parts:
            _replace(rows, "autapse", [one_run(train, seed, args.seconds) for seed in args.seeds])
        if "estimator" in args.parts:
            _replace(rows, "estimator", [one_fit(train, test, seed, args.seconds) for seed in args.seeds])
        if "minirocket" in args.parts:
            _replace(rows, "minirocket", minirocket(train, test, args.seeds, args.environment))
        files.write_json(args.out, results)


def _replace(rows: dict[str, Any], part: str, measured: list[dict[str, Any]]) -> None:
    """Put in results. Those of other seeds stay, so that a set can be measured in pieces."""
    by_seed = {result["seed"]: result for result in [*rows.get(part, []), *measured]}
    rows[part] = [by_seed[seed] for seed in sorted(by_seed)]


def data_file(folder: Path, name: str, part: str) -> Path:
    """The file of a data set."""
    for suffix in (".ts", ".tsv"):
        path = folder / name / f"{name}_{part}{suffix}"
        if path.exists():
            return path
    raise checks.InputError(f"{folder / name / name}_{part}.ts is missing. Pass its folder as --data.")


def one_run(train: Path, seed: int, seconds: float | None) -> dict[str, Any]:
    """One run of the command line; its score, and how it went."""
    limit = [] if seconds is None else ["--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["run", str(train), "--seed", str(seed), *limit, "--out", str(run)]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "autapse", *words], check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - start
        names = ("summary.json", "choice.json", "config.json")
        summary, choice, config = (json.loads((run / name).read_text()) for name in names)
    result = {
        "seed": seed,
        "accuracy": round(100 * (1 - summary["test"]), 2),
        "chosen": choice["chosen"],
        "members": config["model"]["members"],
        "steps": summary["steps"],
        "stopped_by": summary["stopped_by"],
        "seconds": round(took, 1),
    }
    print(train.name, result, flush=True)
    return result


def one_fit(train: Path, test: Path, seed: int, seconds: float | None) -> dict[str, Any]:
    """One fit of the estimator with its default settings; its score."""
    (x, y), (x_test, y_test) = (
        ([part.inputs[n].T for n in range(len(part.inputs))], dense(part.targets))
        for part in OwnSeries(path=str(train), test=str(test)).both()
    )
    start = time.perf_counter()
    model = RecurrentClassifier(random_state=seed)
    if seconds is not None:
        model.set_params(time_limit=seconds)
    model.fit(x, y)
    took = time.perf_counter() - start
    result = {
        "seed": seed,
        "accuracy": round(100 * model.score(x_test, y_test), 2),
        "chosen": next(row["name"] for row in model.trials_ if row["chosen"]),
        "members": len(model.model_.members),
        "steps": model.n_iter_,
        "seconds": round(took, 1),
    }
    print("RecurrentClassifier", train.name, result, flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
