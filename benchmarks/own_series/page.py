"""The table of the results."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

# Accuracy of InceptionTime (an ensemble of five networks), in percent: results-InceptionTime-128.csv at commit 365ce4d2
# and results-mts.csv at commit 0d623a3b of https://github.com/hfawaz/InceptionTime.
INCEPTIONTIME = {
    "JapaneseVowels": 99.19,
    "BasicMotions": 100.0,
    "PenDigits": 98.63,
    "ECG5000": 94.09,
    "GunPoint": 100.0,
    "ItalyPowerDemand": 96.50,
    "ACSF1": 92.0,
}
MEASURED = ("autapse", "estimator", "minirocket")
ABOUT = """# One's own series with default settings

Test accuracy in percent: the mean over the seeds ± standard deviation. `autapse run NAME_TRAIN.ts --seed N` chose the
settings and trained, within {limit:.0f} seconds. `RecurrentClassifier(random_state=N).fit(X, y)` got the same series.
MiniRocket with a ridge classifier (aeon) ran on the same machine; shorter series were filled with their last value.
InceptionTime is as published by its authors
(https://github.com/hfawaz/InceptionTime: results-InceptionTime-128.csv, results-mts.csv).

"""


def page(results: dict[str, Any]) -> str:
    """The page, from the file of results."""
    lines = [
        "| data set | autapse run | chosen | seconds | RecurrentClassifier | MiniRocket | InceptionTime |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    sums: dict[str, list[float]] = {key: [] for key in (*MEASURED, "inceptiontime")}
    for name, rows in results["sets"].items():
        scores = {key: [run["accuracy"] for run in rows.get(key, [])] for key in MEASURED}
        published = INCEPTIONTIME.get(name)
        for key, values in scores.items():
            sums[key] += [mean(values)] if values else []
        sums["inceptiontime"] += [] if published is None else [published]
        runs = rows.get("autapse", [])
        chosen = ", ".join(dict.fromkeys(run["chosen"] for run in runs))
        took = f"{mean(run['seconds'] for run in runs):.0f}" if runs else ""
        last = "" if published is None else f"{published:.1f}"
        ours, fitted, theirs = (_with_deviation(scores[key]) for key in MEASURED)
        lines.append(f"| {name} | {ours} | {chosen} | {took} | {fitted} | {theirs} | {last} |")
    means = {key: f"{mean(values):.1f}" if len(values) == len(results["sets"]) else "" for key, values in sums.items()}
    ours, *others = means.values()
    lines.append(f"| **mean** | {ours} | | | {' | '.join(others)} |")
    hardware = results["hardware"]
    where = f"{hardware['cpu']}, {hardware['cores']} cores, load {hardware['load']:.1f} at the start"
    seeds = sorted({run["seed"] for rows in results["sets"].values() for key in MEASURED for run in rows.get(key, [])})
    origin = (
        f"\nSeeds: {', '.join(map(str, seeds))}. Commit {results['commit']}; {where}. Command: `{results['command']}`\n"
    )
    return ABOUT.format(limit=results["limit"]) + "\n".join(lines) + "\n" + origin


def _with_deviation(values: list[float]) -> str:
    if not values:
        return ""
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
