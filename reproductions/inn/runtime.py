"""The run times of the paper on implicitly-defined networks (section 4): its solver and ours, on trained weights.

Train the implicit networks of table 1 (`autapse reproduce inn/table1/inn-error/b-0.5`), then
python reproductions/inn/runtime.py measure RUNS...   into results/runtime.json
python reproductions/inn/runtime.py render            the tables of README.md from it
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

from autapse import checks, files
from autapse.results.page import fill_between, markdown_table
from autapse.results.power_law import power_law

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "runtime.json", HERE / "README.md"
START, END = "<!-- results -->", "<!-- end of results -->"
LENGTHS = (5, 10, 20, 40)
BATCH = 20


def measure(runs: list[Path]) -> None:
    """Newton iterations, inner limits, time against n and b: the paper's solver and ours, on trained weights."""
    import torch

    rows = [row for run in runs for row in _measure(run)]
    threads = torch.get_num_threads()
    files.write_json(RESULTS, {"batch": BATCH, "threads": threads, "rows": rows, "fits": _fits(rows)})
    print(f"{RESULTS}: {len(rows)} rows")


def _measure(run: Path) -> list[dict[str, Any]]:
    import torch

    from autapse.solve import NotConvergedWarning, Paper, recommended
    from autapse.tasks import Walk
    from autapse.training import load_run

    model, config, _ = load_run(run)
    task = config.task
    assert isinstance(task, Walk)
    x = torch.from_numpy(Walk(bias=task.bias, test_size=40 * BATCH).split("test", 1).inputs)
    lengths = (x.abs().sum(2) > 0).sum(1) + 1
    long = x[lengths >= LENGTHS[-1]][:BATCH]
    rows = []
    for n in LENGTHS:
        system = _system(model.layer, long[:, :n])
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            start = time.perf_counter()
            _, report, facts = Paper().solve_with_statistics(system, rtol=1e-4)
            paper = time.perf_counter() - start
            times = []
            for _ in range(5):
                start = time.perf_counter()
                _, ours = recommended().solve(system, rtol=1e-4)
                times.append(time.perf_counter() - start)
        row = {
            "bias": task.bias,
            "length": n,
            "sequences": len(long),
            "paper_seconds": paper,
            "paper_newton": float(report.iterations.double().mean()),
            "paper_newton_most": int(report.iterations.max()),
            "paper_evaluations": float(report.evaluations.mean()),
            "paper_failures": int((~report.converged).sum()),
            "inner_limit_hits": facts.inner_limit_hits,
            "linear_solves": facts.linear_solves,
            "ours_seconds": min(times),
            "ours_evaluations": float(ours.evaluations.mean()),
            "ours_failures": int((~ours.converged).sum()),
        }
        print(row, flush=True)
        rows.append(row)
    return rows


def _system(layer: Any, x: Any) -> Any:
    """The coupled system of the layer's cell for a batch of equal lengths."""
    import torch

    from autapse.unfold.coupled import Coupled
    from autapse.unfold.coupled_fused import FusedCoupled, can_fuse_rule
    from autapse.unfold.lattice import Lattice

    cell = layer.cells["l0"]
    count, steps, size = x.shape
    lattice = Lattice(torch.full((count,), steps), cell.stencil, x.device, False)
    with torch.no_grad():
        rows = x.transpose(0, 1).reshape(-1, size).index_select(0, lattice.packed)
        rule, u, edges = cell.prepare(), cell.drive(rows), x.new_zeros(1, cell.hidden_size)
        return (
            FusedCoupled(rule, u, lattice, edges) if can_fuse_rule(rule, u, edges) else Coupled(rule, u, lattice, edges)
        )


def _fits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """factor·n^exponent of the seconds."""
    fits = []
    for bias in dict.fromkeys(row["bias"] for row in rows):
        own = [row for row in rows if row["bias"] == bias]
        for who in ("paper", "ours"):
            fit = power_law([row["length"] for row in own], [row[f"{who}_seconds"] for row in own])
            fits.append({"bias": bias, "who": who, **fit._asdict()})
    return fits


# The page -----------------------------------------------------------------------------------------------------------


def render() -> str:
    """README.md with the text between its markers made anew."""
    return fill_between(PAGE.read_text(encoding="utf-8"), START, END, _section_four(files.read_json(RESULTS)))


def _section_four(facts: dict[str, Any]) -> str:
    rows = [
        [row["bias"], row["length"], f"{row['paper_newton']:.1f}", row["paper_newton_most"],
         f"{row['inner_limit_hits']} of {row['linear_solves']}", f"{row['paper_evaluations']:.0f}",
         row["paper_failures"], f"{row['paper_seconds']:.2f} s", f"{row['ours_evaluations']:.1f}",
         row["ours_failures"], f"{1e3 * row['ours_seconds']:.1f} ms"]
        for row in facts["rows"] if row["length"] in (10, 20, 40)
    ]  # fmt: skip
    headings = ["b", "n", "Newton iterations", "most", "inner limit hit", "evaluations", "failures", "time"]
    first = markdown_table([*headings, "ours: evaluations", "failures", "time"], rows)
    fits = [
        [fit["bias"], fit["who"], f"{fit['factor']:.3g} n^{fit['exponent']:.2f}", f"{fit['r2']:.3f}"]
        for fit in facts["fits"]
    ]
    words = f"Threads: {facts['threads']}; trained weights, relative residual 1e-4; theirs once, ours the best of 5."
    second = markdown_table(["b", "solver", "seconds", "r²"], fits)
    return f"### Run time of a batch of {facts['batch']}\n\n{words}\n\n{first}\n\n{second}"


def main(words: list[str]) -> int:
    if not words or words[0] not in ("measure", "render"):
        print(__doc__)
        return 2
    runs = [Path(word) for word in words[1:]]
    try:
        if words[0] == "measure":
            measure(runs)
        else:
            files.write_bytes(PAGE, render().encode())
            print(f"{PAGE}: made")
    except checks.InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
