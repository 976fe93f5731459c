"""Runs tests as other machines would: other seeds, instruction sets and threads, one change at a time.

    .venv/bin/python .ci/machines.py                        every configuration, all tests
    .venv/bin/python .ci/machines.py tests/solve --only seed --only threads
    .venv/bin/python .ci/machines.py --list

Prints a markdown table and the failing tests of each configuration. Exits with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from autapse.native import library

ROOT = Path(__file__).parent.parent
COUNTS = ("passed", "failed", "error", "skipped")


# Sums, products, LAPACK and a kernel: most changes of the arithmetic show in some bit of these results.
PROGRAM = """
import autapse, torch
torch.manual_seed(0)
for kind in (torch.float32, torch.float64):
    a, layer = torch.randn(70, 70, dtype=kind), autapse.GRU(70, 70, dtype=kind)
    h = layer(a.unsqueeze(0))[0]
    h.square().sum().backward()
    results = a @ a, torch.linalg.inv(a), a.exp().sum(), torch.randn(9999).norm(), h, layer.weight_hh_l0.grad
    print(*(result.flatten().tolist() for result in results))
"""


class Configuration(NamedTuple):
    name: str
    variables: dict[str, str]
    options: tuple[str, ...] = ()


AS_IT_IS = Configuration("as it is", {})


class Result(NamedTuple):
    name: str
    counts: dict[str, int]
    failing: list[str]
    seconds: str


def configurations() -> list[Configuration]:
    by_variable = {
        "ATEN_CPU_CAPABILITY": ("default", "avx2"),
        "MKL_ENABLE_INSTRUCTIONS": ("AVX2", "SSE4_2"),  # Intel's processors only
        "MKL_CBWR": ("COMPATIBLE",),
        "OMP_NUM_THREADS": ("1", "2"),
        "AUTAPSE_ISA": tuple(library.info()["instruction_sets"]),  # those that this processor has
        "AUTAPSE_NATIVE": ("0",),
    }
    return [
        AS_IT_IS,
        *(Configuration(f"--seed-shift {n}", {}, ("--seed-shift", str(n))) for n in (1, 2, 3)),
        *(Configuration(f"{name}={value}", {name: value}) for name, values in by_variable.items() for value in values),
    ]


def start(program: list[str], configuration: Configuration) -> str:
    """What Python prints in this configuration."""
    usual = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "AUTAPSE_ISA", "AUTAPSE_NATIVE")}
    environment = usual | {"OMP_NUM_THREADS": "1"} | configuration.variables
    command = [sys.executable, *program]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def matters(configuration: Configuration) -> bool:
    """Whether it changes any result on this machine. If not, a run would repeat that of `as it is`."""
    if configuration == AS_IT_IS or configuration.options:
        return True
    return start(["-c", PROGRAM], configuration) != start(["-c", PROGRAM], AS_IT_IS)


def run(configuration: Configuration, arguments: list[str], log: Path | None) -> Result:
    """One run of pytest. All that it prints goes to `log`. No run where the configuration changes nothing."""
    if not matters(configuration):
        return Result(configuration.name, {}, [], "no result differs here: not run")
    output = start(["-m", "pytest", "-q", "-rfE", "--color=no", *configuration.options, *arguments], configuration)
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(output, encoding="utf-8")
    ends = [line for line in output.splitlines() if re.search(r" in \d+\.\d+s", line)]
    if not ends:
        sys.exit(f"{configuration.name}: pytest did not finish.\n{output[-3000:]}")
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)", ends[-1])}
    if not counts:
        sys.exit(f"{configuration.name}: no test ran.\n{output[-3000:]}")
    failing = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return Result(configuration.name, counts, failing, re.findall(r" in (\d+)\.", ends[-1])[-1])


def table(results: list[Result]) -> Iterator[str]:
    yield f"| configuration | {' | '.join(COUNTS)} | seconds |"
    yield "| --- |" + " ---: |" * (len(COUNTS) + 1)
    for result in results:
        counts = " | ".join(str(result.counts.get(word, 0)) for word in COUNTS)
        yield f"| {result.name} | {counts} | {result.seconds} |"
    for result in results:
        if result.failing:
            yield f"\n{result.name}:"
            yield from (f"- `{test}`" for test in result.failing)


def has_word(name: str, text: str) -> bool:
    """Whether a word of the name begins with the text: OMP_NUM_THREADS has "threads", MKL_CBWR=COMPATIBLE not "OMP"."""
    return bool(re.search(rf"(?<![a-z]){re.escape(text)}", name, re.IGNORECASE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="tests to run (default: all)")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="only configurations with a word that begins so"
    )
    parser.add_argument("--workers", default="2", help="processes of pytest-xdist (default: 2)")
    parser.add_argument("--logs", type=Path, help="a folder for the whole output of each run")
    parser.add_argument("--out", type=Path, help="a file for the table, in markdown")
    parser.add_argument("--list", action="store_true", help="list the configurations, and run nothing")
    asked = parser.parse_args()
    chosen = [c for c in configurations() if not asked.only or any(has_word(c.name, text) for text in asked.only)]
    if asked.list or not chosen:
        print("\n".join(c.name for c in (chosen or configurations())))
        return 0 if asked.list else 2
    results = []
    for configuration in chosen:
        log = asked.logs and asked.logs / (re.sub(r"\W+", "-", configuration.name).strip("-") + ".txt")
        results.append(run(configuration, ["-n", asked.workers, *asked.paths], log))
        text = "\n".join(table(results)) + "\n"
        print(f"{configuration.name}: {results[-1].counts}", file=sys.stderr, flush=True)
        if asked.out:  # after each run, so that an interrupted series keeps what it has
            asked.out.write_text(text, encoding="utf-8")
    print(text, end="")
    return int(any(result.failing for result in results))


if __name__ == "__main__":
    sys.exit(main())
