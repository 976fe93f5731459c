"""The folders of the data sets on this machine, and the download of missing ones."""

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
    # The XDG specification says to ignore relative paths.
    return (Path(base) if Path(base).is_absolute() else _at_home("~/.cache", "HOME")) / "autapse"


def _at_home(path: str, variable: str) -> Path:
    """A path with ~ or ~user replaced."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no user of that name, or a user without a home, as in a container
        checks.fail(variable, "lead to a known home folder", os.environ.get(variable), "Set it to a full path.")


def folder_of(name: str) -> Path:
    """The folder of a data set, whether it is here or not."""
    return data_root() / data_set(name).name


def find(name: str) -> Path | None:
    """The folder of a data set that is here.

    Args:
        name: A name from `autapse data list`.

    Returns:
        The folder; None if no form of the data set is complete.
    """
    folder = folder_of(name)
    return folder if data_set(name).complete(folder) else None


def require(name: str) -> Path:
    """The folder of a data set, which is downloaded if it is missing.

    Args:
        name: A name from `autapse data list`.

    Returns:
        The folder. If the data set cannot be downloaded, an InputError says how to get it by hand.
    """
    here = find(name)
    return here if here is not None else _get(data_set(name), folder_of(name))


def source(name: str) -> Path:
    """The path of a data set for its reader. It is downloaded if it is missing, as by `require`.

    Args:
        name: A name from `autapse data list`.

    Returns:
        The path of the archive if that is here, otherwise of the folder.
    """
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
    """How to get a data set by hand, and where to put it."""
    names = ", ".join(file.path for file in wanted.download or wanted.forms[0])
    page = " ".join([f"Its page is {wanted.home} .", wanted.instructions]).strip()
    return f"{page} Put {names} into {folder}, or set AUTAPSE_DATA to the folder that contains {wanted.name}/."


@contextmanager
def _progress(wanted: DataSet, file: UpstreamFile) -> Iterator[OnProgress]:
    """Show a progress bar on stderr, if that is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from autapse.console import Console, Label

    console = Console(stderr=True)
    columns = (Label("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{wanted.name}/{file.path}", total=file.size)
        yield lambda done, total: bar.update(task, completed=done, total=file.size or total)
