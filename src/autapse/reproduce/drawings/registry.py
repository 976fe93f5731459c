"""Every figure that a command draws."""

from __future__ import annotations

from autapse.reproduce.drawings import antisymmetric, ernn, inn, rin, textbook
from autapse.reproduce.drawings.base import PaperFigure

FIGURES = {one.id: one for paper in (inn, ernn, rin, textbook, antisymmetric) for one in paper.FIGURES}
"""The figures by id, in the order of the papers."""


def figures_below(prefix: str) -> list[PaperFigure]:
    """The figure of an id, or all figures of a paper; all for an empty prefix."""
    wanted = prefix.strip("/")
    return [one for one in FIGURES.values() if not wanted or f"{one.id}/".startswith(f"{wanted}/")]
