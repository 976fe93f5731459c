"""A benchmark as a script: `--out` measures and stores, `--render` writes its page from what is stored."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from autapse import files, terminal
from autapse.benchmark.denormals import set_flushing
from autapse.results.machine import Origin, software


@dataclass(frozen=True)
class Script:
    """The command line of a benchmark that has a file of results in benchmarks/results and a page in docs."""

    command: str  # how it is called
    about: str | None  # its docstring
    page: Path
    results: Path
    measure: Callable[[bool], dict[str, Any]]  # whether sizes are small -> the results
    render: Callable[[str, Any], str]  # the page and the results -> the new page
    said: Callable[[dict[str, Any]], Iterable[str]]  # what is printed after a measurement
    threads: int = 2

    def main(self, words: list[str]) -> int:
        """Measure, or write the page."""
        parser = argparse.ArgumentParser(prog=self.command, description=(self.about or "").splitlines()[0])
        parser.add_argument("--out", type=Path, help="file for the results, as JSON")
        parser.add_argument("--quick", action="store_true", help="small sizes, to check that it runs")
        parser.add_argument("--threads", type=int, default=self.threads, help="threads of torch and of the kernels")
        parser.add_argument("--render", action="store_true", help="write the page from the stored results")
        chosen = parser.parse_args(words)
        if chosen.render:
            self._write_page()
            return 0
        if chosen.out is None:
            parser.error("--out must name a file for the results")
        results = self._measured(words, chosen.quick, chosen.threads)
        files.write_json(chosen.out, results)
        for line in self.said(results):
            terminal.write(line)
        return 0

    def _measured(self, words: list[str], quick: bool, threads: int) -> dict[str, Any]:
        """The results, with facts about the machine."""
        start, kept = time.time(), set_flushing(True, threads)  # before anything else: no thread may have started
        origin = Origin.here()
        measured = self.measure(quick)
        return {
            "hardware": origin.hardware,
            "software": software(),
            "denormals_kept": list(kept),
            "commit": origin.commit,
            **measured,
            "command": f"{self.command} {shlex.join(words)}",
            "seconds": round(time.time() - start),
        }

    def _write_page(self) -> None:
        root = self.results.parents[2]
        page = self.render(self.page.read_text(encoding="utf-8"), files.read_json(self.results))
        files.write_bytes(self.page, page.encode())
        terminal.write(f"{self.page.relative_to(root)}: written from {self.results.relative_to(root)}")


def measured_on(results: dict[str, Any]) -> str:
    """The machine, the software and the command, as a sentence for a page."""
    hardware, made_with = results["hardware"], results["software"]
    return (
        f"{hardware['cpu']}, threads: {made_with['threads']}, load average {hardware['load']:.0f} "
        f"of {hardware['cores']} cores, torch {made_with['torch']}, commit {results['commit']}, `{results['command']}`."
    )


def training_step(module: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A call that computes a loss and its gradients, and returns the loss."""

    def call() -> Tensor:
        module.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        return value.detach()

    return call
