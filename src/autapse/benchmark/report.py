"""Results as tables: for the page on speed, and for the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from autapse.benchmark.settings import DEFAULT, FLUSHED
from autapse.benchmark.targets import verdicts
from autapse.results.page import fill_between, markdown_table

Results = dict[str, Any]
Row = dict[str, Any]
START, END = "<!-- tables: made by `python benchmarks/speed.py --render` -->", "<!-- end of tables -->"
NOTHING = "No result is stored here yet. The tables come from running the command above."


class Table(NamedTuple):
    title: str
    note: str
    headings: list[str]
    rows: list[list[str]]


def tables(results: Results) -> list[Table]:
    """Every table that the results have numbers for."""
    made = [
        training(results),
        own_times(results),
        inference(results),
        ragged(results),
        streaming(results),
        targets(results),
    ]
    return [table for table in made if table.rows]


def training(results: Results) -> Table:
    note = "How many times faster a training step is. In brackets: with torch's default settings, which keep denormals."
    return _pivot("Training step", note, results, lambda row: row["train"]["ratio"])


def inference(results: Results) -> Table:
    note = "How many times faster a forward pass without gradients is. In brackets: with torch's default settings."
    return _pivot("Inference", note, results, lambda row: row["infer"]["ratio"])


def _pivot(title: str, note: str, results: Results, value: Callable[[Row], float]) -> Table:
    """One row for each network and peer, one column for each shape; the default mode is in brackets."""
    modes = {mode: _by_key(results, mode, "pairs") for mode in (FLUSHED, DEFAULT)}
    shapes = _shapes(results, "pairs")
    lines = list(dict.fromkeys((network, peer) for _, network, peer in modes[FLUSHED]))

    def cell(key: tuple[str, str, str]) -> str:
        flushed, default = (modes[mode].get(key, {}) for mode in (FLUSHED, DEFAULT))
        if "train" not in flushed:
            return flushed.get("reason", "").partition(":")[0]
        return _times(value(flushed)) + (f" ({_times(value(default))})" if "train" in default else "")

    rows = [[network, peer, *(cell((shape, network, peer)) for shape in shapes)] for network, peer in lines]
    return Table(title, note, ["network", "compared with", *shapes], rows)


def own_times(results: Results) -> Table:
    """Our own times and shares, the best of those measured with different peers."""
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for row in results["modes"][FLUSHED]["pairs"]:
        if "train" in row:
            key = (row["network"], row["shape"])
            time = (row["train"]["ours"], row["share"])
            best[key] = min(best.get(key, time), time)
    shapes = _shapes(results, "pairs")
    rate = results["modes"][FLUSHED]["gemm"]["rate"] / 1e9
    note = (
        "autapse's training step, and its matrix products as a share of the rate of torch.mm at 1024³ in float32, "
        f"{rate:.0f} GFLOP/s in the same run."
    )
    rows = [
        [name, *(_time_and_share(best.get((name, shape))) for shape in shapes)]
        for name in dict.fromkeys(network for network, _ in best)
    ]
    return Table("Times and shares", note, ["network", *shapes], rows)


def ragged(results: Results) -> Table:
    modes = {mode: _by_key(results, mode, "ragged") for mode in (FLUSHED, DEFAULT)}
    shapes = _shapes(results, "ragged")
    rows = []
    for network in dict.fromkeys(network for _, network, _ in modes[FLUSHED]):
        for side, label in (("ours", "autapse, `lengths`"), ("torch", "torch.nn, packed")):
            times = [[modes[m].get((s, network, ""), {}).get(side) for m in (FLUSHED, DEFAULT)] for s in shapes]
            if any(flushed for flushed, _ in times):
                rows.append([network, label, *(_parts(flushed, default) for flushed, default in times)])
    note = (
        "Time of a training step on sequences with lengths uniform in 1…T, divided by the time for full lengths. "
        "In brackets: with torch's default settings."
    )
    return Table("Ragged batches", note, ["network", "by", *shapes], rows)


def _parts(flushed: Row | None, default: Row | None) -> str:
    if flushed is None:
        return ""
    return f"{flushed['part']:.2f}" + (f" ({default['part']:.2f})" if default else "")


def streaming(results: Results) -> Table:
    defaults = _by_key(results, DEFAULT, "streaming")
    rows = []
    for key, row in _by_key(results, FLUSHED, "streaming").items():
        ours, peer, ratio = (row["infer"][name] for name in ("ours", "peer", "ratio"))
        beside = f" ({_times(defaults[key]['infer']['ratio'])})" if key in defaults else ""
        rows.append([row["network"], row["against"], _duration(ours), _duration(peer), _times(ratio) + beside])
    note = "One step with batch size 1, with the state kept. In brackets: with torch's default settings."
    return Table("Streaming", note, ["network", "compared with", "autapse", "peer", "times faster"], rows)


def targets(results: Results) -> Table:
    rows = [[v.target, v.shape, v.wanted, v.measured, "met" if v.met else "not met"] for v in verdicts(results)]
    threads = results["modes"][FLUSHED]["software"]["threads"]
    note = (
        "Our targets with two threads and torch's denormals flushed. The slowest network counts. "
        f"Measured with {threads} thread{'s' if threads != 1 else ''}."
    )
    return Table("Targets", note, ["target", "shape", "wanted", "measured", ""], rows)


# Markdown -------------------------------------------------------------------------------------------------------------


def markdown(results: Results) -> str:
    """The whole text for the page."""
    parts = [machine(results), *(_table_text(table) for table in tables(results)), *_reasons(results)]
    return "\n\n".join(parts)


def machine(results: Results) -> str:
    """Where the numbers come from, as a list."""
    hardware, software = results["hardware"], results["modes"][FLUSHED]["software"]
    native, settings = software["native"], results["settings"]
    kernels = native["instruction_set"] if native["available"] else f"off ({native['reason']})"
    peer = software["torchrecurrent"]
    errors = [
        row["error"]
        for mode in results["modes"].values()
        for kind in ("pairs", "ragged", "streaming")
        for row in mode[kind]
        if "error" in row
    ]
    lines = [
        f"- {results['date']}, commit {results['commit'] or 'unknown'}, `{results['command']}`",
        f"- {hardware['cpu']}, {hardware['cores']} cores, load {hardware['load']:.1f} at the start; "
        f"{hardware['system']}; Python {hardware['python']}",
        f"- autapse {results['autapse']}, kernels: {kernels}; torch {software['torch']} "
        f"({software['torch_instruction_set']}); torchrecurrent {peer or 'not installed'}; "
        f"threads: {software['threads']}",
        f"- rounds per comparison: {settings['repeats']}, or as many as start within {settings['seconds']:g} s, "
        "at least 4; if a training step of the other implementation takes more than 4 s, it is timed once",
        f"- results compared before timing: largest difference {max(errors, default=0.0):.1e} of the norm",
    ]
    return "\n".join(lines)


def _reasons(results: Results) -> list[str]:
    """Why a peer has no number, once for each reason."""
    reasons: dict[str, list[str]] = {}
    for row in results["modes"][FLUSHED]["pairs"]:
        if "reason" in row:
            reasons.setdefault(f"{row['peer']}, {row['reason']}", []).append(f"{row['network']} at {row['shape']}")
    if not reasons:
        return []
    return ["Not measured:\n\n" + "\n".join(f"- {reason}: {', '.join(where)}" for reason, where in reasons.items())]


def _table_text(table: Table) -> str:
    return "\n".join([f"### {table.title}", "", table.note, "", markdown_table(table.headings, table.rows)])


def fill(page: str, results: Results | None) -> str:
    """A page with new text between its markers."""
    return fill_between(page, START, END, markdown(results) if results else NOTHING)


# Screen ---------------------------------------------------------------------------------------------------------------


def print_tables(console: Any, results: Results) -> None:
    from rich import box
    from rich.table import Table as Shown

    console.print(machine(results))
    for table in tables(results):
        console.print(f"\n{table.title}", style="bold", soft_wrap=False)
        console.print(table.note.replace("`", ""), soft_wrap=False)
        shown = Shown(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in table.headings:
            shown.add_column(heading)
        for row in table.rows:
            shown.add_row(*(cell.replace("`", "") for cell in row))
        console.print(shown, soft_wrap=False)


# Text -----------------------------------------------------------------------------------------------------------------


def _by_key(results: Results, mode: str, kind: str) -> dict[tuple[str, str, str], Row]:
    rows = results["modes"].get(mode, {}).get(kind, [])
    return {(row["shape"], row["network"], row.get("peer", "")): row for row in rows}


def _shapes(results: Results, kind: str) -> list[str]:
    return list(dict.fromkeys(row["shape"] for row in results["modes"][FLUSHED][kind]))


def _times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 20 else f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"


def _duration(seconds: float) -> str:
    return (
        f"{seconds * 1e6:.1f} µs"
        if seconds < 1e-3
        else f"{seconds * 1e3:.3g} ms"
        if seconds < 1
        else f"{seconds:.2f} s"
    )


def _time_and_share(best: tuple[float, float] | None) -> str:
    return "" if best is None else f"{_duration(best[0])}, {best[1]:.0%}"
