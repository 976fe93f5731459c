"""`autapse online`: a network that learns from a stream, one value after the other."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from autapse import checks, files, terminal
from autapse.cli.parse import parse
from autapse.training.online_config import OnlineConfig


@dataclass(frozen=True, kw_only=True)
class Online(OnlineConfig):
    """Learn online from a stream that changes, by real-time recurrent learning: one update of the weights per value.

    The stream is a noisy oscillator whose frequency changes every --period steps. Each value is predicted before the
    network learns from it.
    """

    out: Path | None = None
    """The run folder; by default a new one below runs."""


def main(words: list[str]) -> int:
    args = parse(Online, "online", words)
    from autapse.training.online_run import OnlineRun

    config = OnlineConfig(**{field.name: getattr(args, field.name) for field in fields(OnlineConfig)})
    run = OnlineRun(config, show=shown)  # errors before there is a folder
    name = Path("runs") / f"online-{config.cell.partition(':')[0]}"
    run.folder = files.numbered_folder(name) if args.out is None else files.new_folder(args.out)
    return finish(run.start())


def resume(folder: Path, steps: int | None) -> int:
    """Continue a run that was stopped."""
    from autapse.training.online_run import OnlineRun

    if steps is not None:
        checks.fail("steps", "be unset for a run that learns online: its stream has its own end", steps)
    run = OnlineRun.resume(folder, shown)
    terminal.write(f"{folder}: continuing at step {run.progress.step}")
    return finish(run)


def finish(run: Any) -> int:
    """Read the stream to its end, and say how good the predictions were."""
    run.run()
    said = run.summary()
    terminal.write(f"{said['cell']}  {said['parameters']} parameters, {said['steps']} steps: mean squared error")
    for words, end in (("of all steps", ""), ("in the second half of each period", "_late")):
        if f"error{end}" not in said:  # the windows are longer than half a period
            continue
        network, trivial, least = (said[f"{name}{end}"] for name in ("error", "trivial", "least"))
        terminal.write(f"  {words}: {network:.4g}  (the value before: {trivial:.4g}; best possible: {least:.4g})")
    terminal.write(f"run: {run.folder}")
    return 0


def shown(window: Any) -> None:
    """One line per window."""
    terminal.write(f"step {window.step}  error {window.error:.4g}  (best possible {window.least:.4g})")
