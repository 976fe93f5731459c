"""`autapse data list | fetch | verify | path`: the data sets and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from autapse import checks, terminal
from autapse.cli.listing import print_listing
from autapse.cli.parse import parse, positional, wants_help
from autapse.data import download, paths
from autapse.data.catalogue import DATA_SETS, DataSet, FileSet, UpstreamFile, data_set


@dataclass
class DataArguments:
    """List the data sets, fetch one, verify one's files by size and checksum, or tell where one lies.

    Data sets lie in the folder $AUTAPSE_DATA, by default ~/.cache/autapse/data. AUTAPSE_OFFLINE=1 forbids downloads.
    """

    action: Annotated[
        Literal["list", "fetch", "verify", "path"],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="list|fetch|verify|path"),
    ]
    """What to do."""
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
    """A data set, as `autapse data list` names it; for list and path it may be left out."""
    long: bool = False
    """With list: also the page, the citation and the files with their checksums."""


def main(words: list[str]) -> int:
    if not wants_help(words):
        positional(words, "list, fetch, verify or path", "data", "autapse data list")
    args = parse(DataArguments, "data", words)
    if args.long and args.action != "list":
        checks.fail("--long", "stand with `autapse data list`", args.action)
    if args.name:
        data_set(args.name)
    elif args.action in ("fetch", "verify"):
        raise checks.InputError(
            f"`autapse data {args.action}` needs a data set, as in: autapse data {args.action} mnist"
        )
    if args.action == "list":
        return _list(args.name, args.long)
    return {"fetch": _fetch, "verify": _verify, "path": _path}[args.action](args.name)


def _list(name: str, long: bool) -> int:
    shown = [data_set(name)] if name else list(DATA_SETS.values())
    indent = "\n" + " " * (max(len(each.name) for each in shown) + 2)
    rows = [(each.name, each.title, indent.join(_facts(each) + (_more(each) if long else []))) for each in shown]
    print_listing(rows, f"Data sets lie in {paths.data_root()}. Fetch one: autapse data fetch NAME")
    return 0


def _facts(each: DataSet) -> list[str]:
    """Whether it is here, how large it is, and its licence."""
    folder = paths.folder_of(each.name)
    form = each.complete(folder)
    if form is not None:
        return [f"here: {folder} ({size_text(_size_here(folder, form))})", f"licence: {each.licence}"]
    if each.download is None:
        return ["not here; to be got by hand", f"licence: {each.licence}"]
    return [f"not here; download: {size_text(_size_upstream(each.download))}", f"licence: {each.licence}"]


def _more(each: DataSet) -> list[str]:
    """The page, the citation and the files."""
    form = each.complete(paths.folder_of(each.name)) or each.download or each.forms[0]
    lines = [f"page: {each.home}", f"cite: {each.citation}"]
    return lines + [f"{file.path}: {size_text(file.size)}, sha256 {file.sha256 or 'not known'}" for file in form]


def _size_here(folder: Path, form: FileSet) -> int | None:
    """Bytes on disk; of an unpacked folder, of which one file is known, nothing is said."""
    if all(file.size is None and not file.urls for file in form):
        return None
    return sum((folder / file.path).stat().st_size for file in form)


def _size_upstream(form: FileSet) -> int | None:
    sizes = [file.size for file in form if file.size is not None]
    return sum(sizes) if len(sizes) == len(form) else None


def size_text(size: int | None) -> str:
    """A size for people: decimal units, three digits.

    >>> size_text(11594722), size_text(4542), size_text(None)
    ('11.6 MB', '4.54 kB', 'size not known')
    """
    if size is None:
        return "size not known"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} bytes"


def _fetch(name: str) -> int:
    here = paths.find(name)
    terminal.write(f"{name} is here already: {here}" if here else f"{name} is here now: {paths.require(name)}")
    return 0


def _verify(name: str) -> int:
    wanted, folder = data_set(name), paths.folder_of(name)
    form = wanted.complete(folder)
    if form is None:
        remedy = f"Get it with: autapse data fetch {name}" if wanted.download else paths.how_to_get(wanted, folder)
        raise checks.InputError(f"The data set {name} is not here ({folder}). {remedy}")
    wrong = [file for file in form if not _verify_file(folder / file.path, file)]
    if wrong:
        terminal.write(f"{len(wrong)} of {len(form)} files are wrong. Remove them, then: autapse data fetch {name}")
    return 1 if wrong else 0


def _verify_file(path: Path, file: UpstreamFile) -> bool:
    fault = download.fault(path, file.size, file.sha256)
    unknown = f"no checksum known, size {path.stat().st_size} bytes"
    terminal.write(f"{path}: {f'WRONG ({fault})' if fault else 'ok' if file.sha256 else unknown}")
    return not fault


def _path(name: str) -> int:
    terminal.write(paths.folder_of(name) if name else paths.data_root())
    return 0
