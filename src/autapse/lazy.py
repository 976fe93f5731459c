"""Public names that are imported on first use, so that the command line can answer before torch is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def lazy(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, for a table of homes: module -> the public names in it, with spaces between.

    The names at home in the package itself are its modules.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home_of[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home_of[name]), name)

    return find
