"""A module with cells of one's own, as a user would write it, and a package that offers them."""

from pathlib import Path

MODULE = """
import torch
import autapse

class Mean(autapse.Cell):
    def __init__(self, input_size, hidden_size, weight=0.5):
        super().__init__(input_size, hidden_size)
        self.weight = weight
        self.matrix = torch.nn.Parameter(torch.eye(hidden_size, input_size))

    def drive(self, x):
        return x @ self.matrix.t()

    def step(self, u, state, weights, t):
        return (self.weight * u + (1 - self.weight) * state[0],)

class Settled(autapse.cells.EquilibriumRule):
    def phi(self, h, previous, u, weights):
        return 0.5 * h + u

NUMBER = 3
"""
NAME = "cells_of_mine"


def write_module(folder: Path) -> str:
    (folder / f"{NAME}.py").write_text(MODULE)
    return NAME


def write_package(folder: Path, entry_points: str) -> None:
    """What pip leaves of an installed package."""
    info = folder / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
