"""Networks and tasks of other installed packages, from the entry points `autapse.cells` and `autapse.tasks`."""

from __future__ import annotations

from collections.abc import Container
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from autapse import checks


def offered(group: str, ours: Container[str]) -> dict[str, EntryPoint]:
    """The entry points of a group by name, not loaded yet. Names in `ours` are skipped."""
    return {point.name: point for point in entry_points(group=group) if point.name not in ours}


def load(what: str, point: EntryPoint) -> Any:
    """Load the object of an entry point. `what` (network or task) is used in the error message."""
    try:
        return point.load()
    except Exception as error:
        raise checks.InputError(f"{what} {point.name} of another package cannot be loaded: {error!r}.") from error
