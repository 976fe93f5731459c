"""Import public names on first use, so that the command line can answer before torch is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def lazy(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        package: name of the package.
        homes: for each module, its public names, separated by spaces. The names listed under the package itself are its
            submodules.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home_of[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home_of[name]), name)

    return find
