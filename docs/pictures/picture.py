"""What the scripts beside this one share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def save(figure: Any, name: str) -> None:
    """Write a figure as .svg, with the same bytes every time."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "autapse", "svg.fonttype": "none"}):
        figure.savefig(HERE / name, format="svg", metadata={"Date": None}, bbox_inches="tight")


def runs() -> Path:
    """The folder of the runs that are drawn."""
    return Path(sys.argv[1] if len(sys.argv) > 1 else "runs").resolve()


def fitted(recipe: str) -> Path:
    """The run of a recipe, which `autapse reproduce` trained."""
    return runs() / "reproduce" / recipe / "fit"
