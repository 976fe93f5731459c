"""`autapse report RUN [RUN …]`: one HTML file about runs, a comparison or a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from autapse import checks, files
from autapse.cli.parse import Trust, parse

if TYPE_CHECKING:
    from autapse.report import RunFacts

FILE = "report.html"
COMPARISON = "comparison.json"


@dataclass
class ReportArguments(Trust):
    """Write one HTML file about runs: scores, curves, predictions, what probes find inside, settings, commands."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folders, and folders that `autapse compare` wrote. Several runs are shown side by side."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The file. By default report.html in the folder; for several folders, in the current one."""
    diagnose: bool = True
    """Run the probes of `autapse diagnose` for runs that have no diagnosis yet."""
    budget: float = 60.0
    """Seconds for the probes of all runs together. Probes stop when the time is over."""

    def __post_init__(self) -> None:
        checks.number("budget", self.budget, low=0.0)


@dataclass(frozen=True)
class Subject:
    """The runs that a report is about."""

    folders: tuple[Path, ...]
    names: tuple[str, ...] = ()
    """How the report calls them; by default by their folders."""
    title: str = ""
    remarks: tuple[str, ...] = ()


def main(words: list[str]) -> None:
    args = parse(ReportArguments, "report", words)
    if not args.runs:
        raise checks.InputError("`autapse report` needs a run first, as in: autapse report runs/adding-gru")
    from autapse.console import Console

    out = args.out or (args.runs[0] / FILE if len(args.runs) == 1 else Path(FILE))
    subject = joined([subject_of(folder) for folder in args.runs])
    check_out(out)
    budget = args.budget / len(subject.folders) if args.diagnose else None
    with Console(stderr=True).working("reading the runs") as say:
        write(out, subject, budget, args.trust, say)
    Console().print(f"report: {out}")


def subject_of(folder: Path) -> Subject:
    """The run in a folder, or the runs of a comparison."""
    path = folder / COMPARISON
    if not path.is_file():
        from autapse.training.loading import find_run

        return Subject((find_run(folder),))
    content = files.read_json(path, follow=False)
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, list) or not all(isinstance(one, dict) and one.get("folder") for one in results):
        raise checks.InputError(f"{path} is damaged: it has no list of results.")
    # The folder may have been moved since, but its runs are still in it.
    inside = tuple(folder / Path(str(one["folder"])).name for one in results)
    diverged = content.get("diverged") or []
    remarks = [f"Diverged: {', '.join(map(str, diverged))}."] if isinstance(diverged, list) and diverged else []
    cells = tuple(str(one.get("cell")) for one in results)
    return Subject(inside, cells, f"Comparison {folder.resolve().name}", tuple(remarks))


def joined(subjects: Sequence[Subject]) -> Subject:
    """Several folders as one subject. A run that is named twice is shown once."""
    if len(subjects) == 1:
        return subjects[0]
    folders = {folder.resolve(): folder for one in subjects for folder in one.folders}
    remarks = tuple(dict.fromkeys(remark for one in subjects for remark in one.remarks))
    return Subject(tuple(folders.values()), remarks=remarks)


def check_out(path: Path) -> None:
    """Refuse to replace a file that is not a report."""
    from autapse.report import is_report

    if path.is_dir():
        raise checks.InputError(f"{path} is a folder. Choose a file with --out, as in: {path / FILE}")
    if path.exists():
        with files.open_regular(path) as file:
            if not is_report(file.read(1000)):
                raise checks.InputError(f"{path} exists and is not a report. Choose another file with --out.")
    if not path.parent.is_dir():
        raise checks.InputError(f"The folder {path.parent} does not exist. Create it, or choose another file.")


def write(out: Path, subject: Subject, budget: float | None, trust: bool = False, say: Any = None) -> None:
    """Read the runs and write the report. A budget of None leaves out the probes."""
    from autapse.cli.repeat import command
    from autapse.report import read_facts, render

    names = subject.names if len(set(subject.names)) == len(subject.folders) else names_of(subject.folders)
    facts: list[RunFacts] = []
    for folder, name in zip(subject.folders, names, strict=True):
        if say:
            say(name)
        notify = (lambda probe, name=name: say(f"{name}: {probe}")) if say else None
        facts.append(read_facts(folder, name, command=command, budget=budget, trust=trust, notify=notify))
    page = render(facts, subject.title, subject.remarks)
    files.write_bytes(out, page.encode())


def names_of(folders: Sequence[Path]) -> list[str]:
    """A short name for each folder: its own, with those above it where two are the same.

    >>> names_of([Path("/a/gru"), Path("/b/gru"), Path("/b/lstm")])
    ['a/gru', 'b/gru', 'b/lstm']
    """
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return names
