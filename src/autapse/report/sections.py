"""The sections of a report: what it says about runs, as HTML."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from autapse.report import svg
from autapse.report.classes import class_tables
from autapse.report.html import Html, Number, joined, table, tag
from autapse.report.run import RunFacts
from autapse.report.svg import shown
from autapse.training.config import RunConfig

PARTS = ("task", "model", "training")


def section(title: str, *content: Any) -> Html:
    """A section with its heading; nothing if it has no content."""
    inside = joined(content)
    return tag("section", tag("h2", title), inside) if inside else Html("")


# Scores --------------------------------------------------------------------------------------------------------------


def verdicts(runs: Sequence[RunFacts]) -> Html:
    """For one run what it reached, with tiles of the main numbers; for several the best one, and those of no use."""
    if len(runs) == 1:
        return joined([*(tag("p", sentence) for sentence in _verdict(runs[0])), _tiles(runs[0])])
    tests = {run.name: run.summary.test for run in runs if run.summary and run.summary.test is not None}
    if not tests or len({(run.config.task.name, run.metric) for run in runs}) > 1:
        return Html("")
    best = min(runs, key=lambda run: tests.get(run.name, math.inf))
    useless = [run.name for run in runs if run.summary and run.summary.trivial]
    text = f"Not better than the trivial predictor, so of no use: {', '.join(useless)}."
    first = [tag("p", "Best: ", tag("strong", best.name), ". ", sentence) for sentence in _verdict(best)]
    return joined([*first, tag("p", text) if useless else ""])


def _verdict(run: RunFacts) -> Iterator[str]:
    summary, metric = run.summary, run.metric
    if summary is None:
        best = run.progress.best
        known = "" if best is None else f" The best validation {metric} so far is {shown(best)}."
        yield f"The training is not finished: {run.progress.step:,} steps.{known} The test data are not scored yet."
        return
    if summary.baseline is None:
        yield "There is no test data."
        return
    if summary.test is None:
        yield f"The test {metric} is not finite. This model is of no use."
        return
    share = f"{summary.test / summary.baseline:.1%} of" if summary.baseline else "against"
    floor = "" if summary.floor is None else f" The best possible score is {shown(summary.floor)}."
    useless = " It is not better than the trivial predictor: this model is of no use." if summary.trivial else ""
    trivial = f"{shown(summary.baseline)} of the trivial predictor" + (f" ({run.trivial})" if run.trivial else "")
    yield f"The test {metric} is {shown(summary.test)}, {share} the {trivial}.{floor}{useless}"


def _tiles(run: RunFacts) -> Html:
    summary = run.summary
    facts = [(f"validation {run.metric}", shown(run.progress.best))]
    if summary is not None:
        facts = [(f"test {summary.metric}", shown(summary.test)), ("trivial", shown(summary.baseline))]
        facts += [] if summary.floor is None else [("best possible", shown(summary.floor))]
    facts += [("parameters", f"{run.cost.parameters:,}"), ("size", _bytes(run.cost.size))]
    facts += [] if run.cost.macs is None else [("multiply-accumulates per step", shown(round(run.cost.macs)))]
    facts += [("training time", _time(run.progress.seconds))]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="tiles")


def scores(runs: Sequence[RunFacts]) -> Html:
    """A table with one row for each run, and a bar for each score. A single run has one row for each fact."""
    heads = ["run", "network", "test", "of trivial", "validation", "parameters", "bytes", "MACs per step"]
    heads += ["best step", "steps", "epochs", "time", "ended by"]
    rows = [_row(run) for run in runs]
    if all(run.name == run.config.model.network for run in runs):
        heads, rows = [heads[0], *heads[2:]], [[row[0], *row[2:]] for row in rows]
    tests = {run.name: run.summary.test for run in runs if run.summary and run.summary.test is not None}
    metrics = {run.metric for run in runs}
    bars = Html("")
    if len(tests) > 1 and len(metrics) == 1:
        metric = metrics.pop()
        bars = svg.bar_chart(f"Test {metric}", tests, levels(runs), f"test {metric} (less is better)")
    note = "Scores: less is better. Best possible: " + "; ".join(dict.fromkeys(map(_floor, runs))) + "."
    counted = (
        "MACs per step: multiply-accumulates of the matrix products for one test sequence, head included, divided "
    )
    counted += "by its steps. Bytes: parameters and buffers."
    if len(runs) == 1:  # so that it is not wider than a phone
        (name, *heads), ((run, *facts),) = heads, rows
        body = table([name, run], [pair for pair in zip(heads, facts, strict=True) if not _is_empty(pair[1])])
    else:
        body = table(heads, rows)
    return joined([body, tag("p", f"{note} {counted}", class_="note"), bars])


def _is_empty(fact: Any) -> bool:
    return isinstance(fact, Number) and fact.value is None


def _floor(run: RunFacts) -> str:
    return "not known" if run.summary is None or run.summary.floor is None else shown(run.summary.floor)


def _row(run: RunFacts) -> list[Any]:
    summary, progress = run.summary, run.progress
    test = summary.test if summary else None
    trivial = summary.baseline if summary else None
    share = test / trivial if test is not None and trivial else None
    epochs = summary.epochs if summary else None
    return [
        run.name,
        run.config.model.network,
        Number(test, shown(test)),
        Number(share, "" if share is None else f"{share:.1%}"),
        Number(progress.best, shown(progress.best)),
        Number(run.cost.parameters, f"{run.cost.parameters:,}"),
        Number(run.cost.size, f"{run.cost.size:,}"),
        Number(run.cost.macs, "" if run.cost.macs is None else f"{run.cost.macs:,.0f}"),
        Number(progress.best_step, f"{progress.best_step:,}"),
        Number(progress.step, f"{progress.step:,}"),
        Number(epochs, "" if epochs is None else f"{epochs:.3g}"),
        Number(progress.seconds, _time(progress.seconds)),
        progress.stopped_by or "not finished",
    ]


def levels(runs: Sequence[RunFacts]) -> dict[str, float]:
    """The trivial and the best possible score, if all runs have the same ones."""
    shared: dict[str, float] = {}
    for name, text in (("baseline", f"trivial: {runs[0].trivial}"), ("floor", "best possible")):
        values = {run.summary[name] for run in runs if run.summary}
        if len(values) == 1 and _finite(value := values.pop()):
            shared[text] = value
    return shared


# Curves --------------------------------------------------------------------------------------------------------------


def curves(runs: Sequence[RunFacts]) -> Html:
    """Validation score, training loss, norm of the gradient, learning rate and evaluations of solves over the steps."""
    numbers = {run.name: n for n, run in enumerate(runs)}
    metric = runs[0].metric if len({run.metric for run in runs}) == 1 else "score"
    charts = []
    for key, title, lines in (
        ("validation", f"Validation {metric}", levels(runs)),
        ("loss", "Training loss", {}),
        ("norm", "Norm of the gradient", {}),
        ("rate", "Learning rate", {}),
        ("evaluations", "Evaluations of a solve", {}),
    ):
        drawn = {run.name: points for run in runs if (points := run.series(key))}
        if key == "rate" and all(len({y for _, y in points}) == 1 for points in drawn.values()):
            continue  # a constant is not a curve
        charts.append(svg.line_chart(title, drawn, lines, "step", title[0].lower() + title[1:], numbers))
    return tag("div", *charts, class_="charts") if any(charts) else Html("")


# Predictions ---------------------------------------------------------------------------------------------------------


def predictions(run: RunFacts, number: int) -> Html:
    """The confusion matrix and the table of classes, or the residuals."""
    summary = run.summary
    if summary is not None and summary.classes and summary.confusion:
        return class_tables(summary)
    if not run.residuals:
        return Html("")
    errors = [predicted - true for true, predicted in run.residuals]
    mean = sum(errors) / len(errors)
    deviation = math.sqrt(sum((error - mean) ** 2 for error in errors) / len(errors))
    charts = [
        svg.scatter_chart("Predicted against true", run.residuals, "true", "predicted", number),
        svg.histogram("Residuals: predicted − true", errors, "residual", number),
    ]
    r2 = summary.r2 if summary else None
    known = "" if r2 is None else f" R² is {r2:.4f}."
    text = f"{len(errors):,} test values: the residuals have the mean {shown(mean)} and the standard deviation "
    return joined([tag("p", f"{text}{shown(deviation)}.{known}"), tag("div", *charts, class_="charts")])


# Inside --------------------------------------------------------------------------------------------------------------


def diagnoses(runs: Sequence[RunFacts]) -> Html:
    """The numbers of the probes side by side, and their sentences."""
    known = [run for run in runs if run.diagnosis]
    names = dict.fromkeys(one["name"] for run in known for one in _findings(run))
    parts = []
    if len(known) > 1:
        rows = []
        for name in names:
            values = [next((one["value"] for one in _findings(run) if one["name"] == name), None) for run in known]
            rows.append([name.replace("_", " "), *(Number(value, shown(value)) for value in values)])
        parts.append(table(["number", *(run.name for run in known)], rows))
    for run in known:
        sentences = tag("ul", *(tag("li", one["sentence"]) for one in _findings(run)))
        about = run.diagnosis or {}
        where = f"{run.name}: {about.get('sequences')} {about.get('split')} sequences"
        parts.append(tag("details", tag("summary", where), sentences, open=len(known) == 1))
    return joined(parts)


def _findings(run: RunFacts) -> list[dict[str, Any]]:
    """The findings in a diagnosis.json that have a name, a number or none, and a sentence."""
    findings = (run.diagnosis or {}).get("findings")
    return [
        {"name": str(one.get("name")), "value": one["value"] if _finite(one.get("value")) else None, **_sentence(one)}
        for one in (findings if isinstance(findings, list) else [])
        if isinstance(one, dict)
    ]


def _sentence(one: dict[str, Any]) -> dict[str, str]:
    return {"sentence": str(one.get("sentence", ""))}


# Search --------------------------------------------------------------------------------------------------------------


def search(run: RunFacts) -> Html:
    """What a search tried, and what it chose."""
    content = run.choice or {}
    tried = [row for row in content.get("tried") or [] if isinstance(row, dict)]
    if not tried:
        return Html("")
    keys = ("score", "loss", "folds", "steps", "seconds")
    ends = {"": "kept to the end", "out": "clearly worse"}  # "out": in runs of older versions
    rows = [
        [row.get("name"), *(_number(row.get(key)) for key in keys), ends.get(str(row.get("ended")), row.get("ended"))]
        for row in tried
    ]
    chosen = [n for n, row in enumerate(tried) if row.get("chosen")]
    words = tag("p", "Chosen: ", content.get("reason"))
    return joined([words, table(["tried", run.metric, *keys[1:], "ended"], rows, marked=chosen)])


def _number(value: Any) -> Number:
    return Number(value, shown(value)) if _finite(value) else Number(None, "")


# Settings ------------------------------------------------------------------------------------------------------------


def settings(runs: Sequence[RunFacts]) -> Html:
    """The settings that are not the defaults or that differ between the runs; below them all others."""
    flat = [_flat(run.config) for run in runs]
    usual = [_usual(run.config) for run in runs]
    names = list(dict.fromkeys(name for one in flat for name in one))
    special: list[list[str]] = []
    rest: list[list[str]] = []
    for name in names:
        values = [one.get(name, "") for one in flat]
        plain = all(one.get(name) == known.get(name) for one, known in zip(flat, usual, strict=True))
        row = [name, *(_written(value) for value in values)]
        (rest if plain and len(set(map(str, values))) == 1 else special).append(row)
    heads = ["setting", *(run.name for run in runs)]
    more = tag("details", tag("summary", f"{len(rest)} settings with default values"), table(heads, rest))
    return tag("div", table(heads, special) if special else "", more if rest else "", class_="settings")


def _flat(config: RunConfig) -> dict[str, Any]:
    content = config.to_json()
    return {f"{part}.{name}": value for part in PARTS for name, value in content[part].items()}


def _usual(config: RunConfig) -> dict[str, Any]:
    """The default of each setting that has one."""
    defaults = {}
    for part in PARTS:
        for field in dataclasses.fields(getattr(config, part)):
            if field.default is not dataclasses.MISSING:
                defaults[f"{part}.{field.name}"] = field.default
    return defaults


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value)


# Repeat --------------------------------------------------------------------------------------------------------------


def commands(runs: Sequence[RunFacts]) -> Html:
    """The command that trains each run again."""
    parts = []
    for run in runs:
        text = run.command or "The run was trained from Python, on arrays in memory: no command repeats it."
        words = joined((tag("span", word) for word in text.split(" ")), " ")  # a line never breaks inside --option
        limit = run.config.training.seconds
        timed = f"The run had a time limit of {_time(limit or 0)}. The clock can end such a run early and "
        timed += "move its learning rate, so a repetition may differ a little."
        note = tag("p", timed, class_="note") if run.command and limit is not None else ""
        parts.append(joined([tag("h3", run.name) if len(runs) > 1 else "", tag("pre", words), note]))
    return joined(parts)


def notes(runs: Sequence[RunFacts]) -> Html:
    """What could not be measured."""
    lines = [f"{run.name}: {note}" for run in runs for note in run.notes]
    return tag("ul", *(tag("li", line) for line in lines), class_="note") if lines else Html("")


def _bytes(count: int) -> str:
    return f"{count:,} bytes"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
