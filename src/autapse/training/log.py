"""What a run records (JSONL, for programs) and what it shows (for people)."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Protocol

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TimeRemainingColumn
from rich.progress import Progress as Bar

from autapse import checks, files
from autapse.console import Console, Label, plain


class MetricsLog:
    """metrics.jsonl: one JSON object per line, cut back to the last checkpoint on resume."""

    def __init__(self, path: Path, length: int = 0, sha256: str = "") -> None:
        """Continue after the first `length` bytes. They must have this checksum, unless it is empty."""
        kept = _beginning(path, length) if length else b""
        self._length, self._digest = length, hashlib.sha256(kept)
        if sha256 and self._digest.hexdigest() != sha256:
            raise checks.InputError(f"{path} is damaged: it was changed since the last checkpoint.")
        # A new file, not the old one truncated: the old one may have hard links elsewhere.
        files.write_bytes(path, kept)
        self._file = files.open_regular(path, "ab", follow=False)

    def write(self, **record: Any) -> None:
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        self._file.write(line)
        self._digest.update(line)
        self._length += len(line)

    def flush(self) -> tuple[int, str]:
        """Write everything to disk; return the file's length in bytes and its checksum."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._length, self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()


def _beginning(path: Path, length: int) -> bytes:
    try:
        with files.open_regular(path, follow=False) as file:
            if os.fstat(file.fileno()).st_size < length:
                raise checks.InputError(f"{path} is damaged: it is shorter than at the last checkpoint.")
            return file.read(length)
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl; an incomplete last line, as after a crash, is dropped."""
    lines = files.read_bytes(path, follow=False).decode().split("\n")
    return [json.loads(line) for line in lines[:-1]]


class Show(Protocol):
    """Where a run shows its progress."""

    def begin(self, step: int, steps: int) -> None: ...
    def update(self, step: int, loss: float) -> None: ...
    def validated(self, step: int, score: float) -> None: ...
    def note(self, text: str) -> None: ...


class Quiet:
    """Shows nothing."""

    def begin(self, step: int, steps: int) -> None:
        pass

    def update(self, step: int, loss: float) -> None:
        pass

    def validated(self, step: int, score: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Notes(Quiet):
    """Shows notes only."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, text: str) -> None:
        self._console.print(text)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Any:
        return plain(f"{task.speed:.0f} steps/s" if task.speed else "", "progress.data.speed")


class Screen:
    """A progress bar on a terminal; elsewhere one line per tenth of the run."""

    def __init__(self, console: Console, name: str, metric: str) -> None:
        self._console, self._name, self._metric = console, name, metric
        self._score, self._steps, self._tenth = "", 1, 0
        self._bar: Bar | None = None
        if console.is_terminal:
            counted = [BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()]
            score = Label("{task.fields[score]}")
            self._bar = Bar(Label("{task.description}"), *counted, score, console=console)
            self._task = self._bar.add_task(name, total=None, score="")

    def __enter__(self) -> Screen:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, step: int, steps: int) -> None:
        """The run trains from `step` to `steps`."""
        self._steps, self._tenth = steps, 10 * step // steps
        if self._bar:
            self._bar.update(self._task, total=steps, completed=step)

    def update(self, step: int, loss: float) -> None:
        if self._bar:
            self._bar.update(self._task, completed=step)

    def validated(self, step: int, score: float) -> None:
        self._score = f"{self._metric} {score:.4g}"
        if self._bar:
            self._bar.update(self._task, score=self._score)
        elif 10 * step // self._steps > self._tenth:
            self._tenth = 10 * step // self._steps
            self.note(f"{self._name}  step {step}/{self._steps}  validation {self._score}")

    def note(self, text: str) -> None:
        self._console.print(text)
