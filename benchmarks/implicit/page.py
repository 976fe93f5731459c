"""The tables of docs/implicit-speed.md from the stored results."""

from __future__ import annotations

from typing import Any

from autapse.results.page import fill_between, markdown_table, speed

START, END = "<!-- results -->", "<!-- end of results -->"
Results = dict[str, Any]


def render(page: str, results: Results) -> str:
    """A page with new text between its markers."""
    parts = [_machine(results), _steps(results), _counts(results), _growth(results)]
    return fill_between(page, START, END, "\n\n".join(parts))


def _machine(results: Results) -> str:
    hardware, software, training = results["hardware"], results["software"], results["training"]
    words = "; ".join(
        f"k = {hidden}: {facts['seconds']:.0f} s, validation error {facts['validation_error']}, "
        f"{facts['unsolved']} sequences unsolved"
        for hidden, facts in training.items()
    )
    settings = results["settings"]
    return (
        f"{hardware['cpu']}, {hardware['cores']} cores, {software['threads']} threads, torch {software['torch']}, "
        f"kernels for {software['native']['instruction_set']}, commit {results['commit']}; {results['seconds']} s "
        f"in total for `{results['command']}`.\n\nTraining of {settings['phases'][-1]} steps of {settings['batch']} "
        f"walks by Adam at rate {settings['rate']:g}, seed {settings['seed']}, at the default tolerances: {words}."
    )


def _steps(results: Results) -> str:
    rows = []
    for row in results["steps"]:
        for name, seconds in row["seconds"].items():
            compared = speed(row["ratio_to_torch"][name])
            rows.append([row["hidden"], name, row["parameters"][name], f"{1e3 * seconds:.1f} ms", compared])
    text = (
        "### A training step\n\nTime of forward and backward: the best of several rounds, averaged over the batches. "
        "`speed` is in comparison with the faster of torch.nn's two variants. `1e-4`: both tolerances are 1e-4. "
        "`paper`: the paper's solver for the states at that tolerance, with our adjoint, timed once."
    )
    return f"{text}\n\n{markdown_table(['k', 'network', 'parameters', 'time', 'speed'], rows)}"


def _counts(results: Results) -> str:
    rows = []
    for row in results["counts"]:
        adjoint = f"{row['adjoint']} / {row['adjoint_95']}" if "adjoint" in row else ""
        evaluations = f"{row['evaluations']} / {row['evaluations_95']}"
        cells = [row["hidden"], row["step"], row["solver"], evaluations, adjoint, row["iterations"]]
        rows.append([*cells, f"{row['failures']} of {row['sequences']}", f"{1e3 * row['seconds_per_batch']:.1f} ms"])
    text = (
        "### Evaluations and failures\n\nWalks of 1 to 40 steps, relative residual 1e-4. Evaluations of F, mean and "
        "95th percentile; a product with the Jacobian counts as one. `adjoint` counts the products of the adjoint "
        "solve, for the gradient of the task's loss; a backward pass has two more evaluations, before and after. "
        "`time` is the time of one batch, at its first solve. Kernels compute the tridiagonal solvers, the evaluations "
        "of all others, and the adjoint."
    )
    headings = ["k", "step", "solver", "evaluations", "adjoint", "iterations", "failures", "time"]
    return f"{text}\n\n{markdown_table(headings, rows)}"


def _growth(results: Results) -> str:
    growth = results["growth"]
    rows = [
        [
            row["hidden"],
            row["solver"],
            row["length"],
            row["evaluations"],
            row["failures"],
            f"{1e3 * row['seconds']:.1f} ms",
        ]
        for row in growth["rows"]
    ]
    fits = [
        [fit["hidden"], fit["solver"], fit["what"], f"{fit['factor']:.3g} n^{fit['exponent']}", fit["r2"]]
        for fit in growth["fits"]
    ]
    text = (
        "### Growth with the length\n\nTrained weights, 20 sequences of n steps, each made of walks of 20 to 40 "
        "steps joined together. The paper has 0.17 n^1.8 seconds (r² 0.994) on the walk and 0.29 n^1.3 (r² 0.910) on "
        "tagging."
    )
    first = markdown_table(["k", "solver", "n", "evaluations", "failures of 20", "time"], rows)
    return f"{text}\n\n{first}\n\n{markdown_table(['k', 'solver', 'of', 'fit', 'r²'], fits)}"
