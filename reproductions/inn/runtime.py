"""The run times of the paper on implicitly-defined networks (section 4): its solver and ours, on trained weights.

Train the implicit networks of table 1 (`autapse reproduce inn/table1/inn-error/b-0.5`), then
python reproductions/inn/runtime.py measure RUNS...   write results/runtime.json
python reproductions/inn/runtime.py render            write the tables of README.md from it
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autapse import checks, files
from autapse.benchmark.timing import timed
from autapse.layers import ImplicitGRU, Recurrent
from autapse.results.page import fill_between, markdown_table
from autapse.results.power_law import power_law
from autapse.solve import NotConvergedWarning, Paper, Solver, SolveReport, System, recommended
from autapse.solve.inn_paper import Statistics
from autapse.tasks import Walk
from autapse.tasks.base import dense
from autapse.training import load_run

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "runtime.json", HERE / "README.md"
START, END = "<!-- results -->", "<!-- end of results -->"
LENGTHS = (5, 10, 20, 40)
BATCH = 20
RTOL = 1e-4  # relative residual


@dataclass(frozen=True, kw_only=True)
class CountingPaper(Paper):
    """The paper's solver, which also keeps the statistics of its solves."""

    statistics: list[Statistics] = field(default_factory=list, compare=False, repr=False)

    def solve(
        self, system: System, start: Tensor | None = None, rtol: float | None = None
    ) -> tuple[Tensor, SolveReport]:
        z, report, statistics = self.solve_with_statistics(system, start, rtol)
        self.statistics.append(statistics)
        return z, report


def measure(runs: list[Path]) -> None:
    """Newton iterations, inner limits and time for each n and b: the paper's solver and ours, on trained weights."""
    rows = [row for run in runs for row in _measure(run)]
    threads = torch.get_num_threads()
    files.write_json(RESULTS, {"batch": BATCH, "threads": threads, "rows": rows, "fits": _fits(rows)})
    print(f"{RESULTS}: {len(rows)} rows")


def _measure(run: Path) -> list[dict[str, Any]]:
    model, config, _ = load_run(run)
    task = config.task
    assert isinstance(task, Walk), f"{run} must be a run on the walk task"
    data = Walk(bias=task.bias, test_size=40 * BATCH).split("test", 1)
    assert data.lengths is not None
    long = torch.from_numpy(dense(data.inputs)[data.lengths >= LENGTHS[-1]][:BATCH])
    rows = []
    for n in LENGTHS:
        row = {"bias": task.bias, "length": n, "sequences": len(long), **_solve_both(model.layers()[0], long[:, :n])}
        print(row, flush=True)
        rows.append(row)
    return rows


@torch.no_grad()
def _solve_both(layer: Recurrent, x: Tensor) -> dict[str, Any]:
    """Time and counts of the paper's solver, once, and of ours, the best of 5."""
    solver = CountingPaper()
    paper, ours = with_solver(layer, solver), with_solver(layer, recommended())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        paper_seconds = timed(lambda: paper(x))
        ours_seconds = min(timed(lambda: ours(x)) for _ in range(5))
    theirs, mine, statistics = paper.reports[0], ours.reports[0], solver.statistics[0]
    return {
        "paper_seconds": paper_seconds,
        "paper_newton": float(theirs.iterations.double().mean()),
        "paper_newton_most": int(theirs.iterations.max()),
        "paper_evaluations": float(theirs.evaluations.mean()),
        "paper_failures": int((~theirs.converged).sum()),
        "inner_limit_hits": statistics.inner_limit_hits,
        "linear_solves": statistics.linear_solves,
        "ours_seconds": ours_seconds,
        "ours_evaluations": float(mine.evaluations.mean()),
        "ours_failures": int((~mine.converged).sum()),
    }


def with_solver(layer: Recurrent, solver: Solver) -> ImplicitGRU:
    """A layer with the same weights and another solver."""
    other = ImplicitGRU(layer.input_size, layer.hidden_size, batch_first=True, solver=solver, tolerance=RTOL)
    other.load_state_dict(layer.state_dict())
    return other.eval()


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
    """README.md with new text between its markers."""
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
            print(f"{PAGE}: written")
    except checks.InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
