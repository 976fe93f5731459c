"""Where data sets lie on this machine, and how a missing one gets there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autapse import checks
from autapse.data.catalogue import DataSet, UpstreamFile, data_set
from autapse.data.download import OnProgress, fetch


def data_root() -> Path:
    """The folder of all data sets: $AUTAPSE_DATA, or autapse/data in the user's cache."""
    chosen = os.environ.get("AUTAPSE_DATA")
    if not chosen:
        return _user_cache() / "data"
    root = _at_home(chosen, "AUTAPSE_DATA")
    if not root.is_dir():
        remedy = "Make that folder, or unset AUTAPSE_DATA to use the default."
        checks.fail("AUTAPSE_DATA", "be a folder that exists", chosen, remedy)
    return root


def parsed_root() -> Path:
    """The folder of parsed arrays: $AUTAPSE_CACHE, or autapse/parsed in the user's cache.

    Never below AUTAPSE_DATA, which may be read-only.
    """
    chosen = os.environ.get("AUTAPSE_CACHE")
    return _at_home(chosen, "AUTAPSE_CACHE") if chosen else _user_cache() / "parsed"


def _user_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(base) if Path(base).is_absolute() else _at_home("~/.cache", "HOME")) / "autapse"


def _at_home(path: str, variable: str) -> Path:
    """A path with ~ or ~user replaced."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # nobody of that name, or a container's user without a home
        checks.fail(variable, "lead to a home folder that is known", os.environ.get(variable), "Set it to a full path.")


def folder_of(name: str) -> Path:
    """Where a data set is or belongs."""
    return data_root() / data_set(name).name


def find(name: str) -> Path | None:
    """The folder of a data set, if any of its forms is there complete."""
    folder = folder_of(name)
    return folder if data_set(name).complete(folder) else None


def require(name: str) -> Path:
    """The folder of a data set; what can be downloaded is downloaded, else the error says how to get it."""
    here = find(name)
    return here if here is not None else _get(data_set(name), folder_of(name))


def source(name: str) -> Path:
    """What to hand to a reader: the archive, where that is what is here, or else the folder. Downloads as `require`."""
    folder = require(name)
    form = data_set(name).complete(folder) or ()
    single = len(form) == 1 and "/" not in form[0].path
    return folder / form[0].path if single else folder


def _get(wanted: DataSet, folder: Path) -> Path:
    missing = f"The data set {wanted.name} is not here. {how_to_get(wanted, folder)}"
    if wanted.download is None:
        raise checks.InputError(missing)
    if os.environ.get("AUTAPSE_OFFLINE", "0") not in ("", "0"):
        raise checks.InputError(f"{missing} AUTAPSE_OFFLINE is set, so nothing is downloaded.")
    try:
        for file in wanted.download:
            with _progress(wanted, file) as progress:
                fetch(file.urls, folder / file.path, file.size, file.sha256, progress)
    except checks.InputError as error:
        raise checks.InputError(f"{error} {how_to_get(wanted, folder)}") from None
    except OSError as error:
        raise checks.InputError(f"{folder} cannot be written ({error.strerror}). {missing}") from None
    return folder


def how_to_get(wanted: DataSet, folder: Path) -> str:
    """How to get a data set by hand, and exactly where to put it."""
    names = ", ".join(file.path for file in wanted.download or wanted.forms[0])
    page = " ".join([f"Its page is {wanted.home} .", wanted.instructions]).strip()
    return f"{page} Put {names} into {folder}, or set AUTAPSE_DATA to the folder that has {wanted.name}/."


@contextmanager
def _progress(wanted: DataSet, file: UpstreamFile) -> Iterator[OnProgress]:
    """A bar on stderr, if that is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from autapse.console import Console, Label

    console = Console(stderr=True)
    columns = (Label("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{wanted.name}/{file.path}", total=file.size)
        yield lambda done, total: bar.update(task, completed=done, total=file.size or total)
