"""The table of capabilities in index.md: `python docs/cells/capabilities.py` writes it, and a test compares it.

Papers, gates and matrices are stated here. All other columns are read from the code.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from autapse.cells.base import Cell, looks_ahead
from autapse.checks import InputError
from autapse.forms.implicit_gru import ImplicitGRURule
from autapse.layers.recurrent import Layer
from autapse.layers.registry import LAYERS
from autapse.native.operands import KERNELS
from autapse.results.page import fill_between, markdown_table
from autapse.unfold import Parallel

PAGE = Path(__file__).with_name("index.md")
MARKS = "<!-- capabilities -->", "<!-- end of capabilities -->"
HEADINGS = "network", "paper", "steps run", "Jacobian", "stream", "`Parallel()`", "gates", "recurrent matrix"
YES, NO = "yes", "—"


class Facts(NamedTuple):
    """What the code does not know about a network."""

    paper: str
    gates: str = NO
    matrix: str = "free"


FACTS = {
    "RNN": Facts("Elman 1990"),
    "IRNN": Facts("Le et al. 2015", matrix="free, starts as the identity"),
    "RIN": Facts("the RIN paper", matrix="identity plus a free one"),
    "LSTM": Facts("Hochreiter and Schmidhuber 1997", "input, forget, output"),
    "GRU": Facts("Cho et al. 2014", "reset, update"),
    "UGRNN": Facts("Collins et al. 2017", "update"),
    "Intersection": Facts("Collins et al. 2017", "over time, over depth"),
    "PhasedLSTM": Facts("Neil et al. 2016", "input, forget, output, rhythm"),
    "CFN": Facts("Laurent and von Brecht 2017", "forget, input"),
    "GORU": Facts("Jing et al. 2017", "reset, update", "orthogonal"),
    "FastRNN": Facts("Kusupati et al. 2018", "two numbers"),
    "FastGRNN": Facts("Kusupati et al. 2018", "update", "free, shared by gate and candidate, or of low rank"),
    "Antisymmetric": Facts("the AntisymmetricRNN paper", "input, by option", "antisymmetric"),
    "ERNN": Facts("the ERNN paper"),
    "EquilibriumTanh": Facts("the ERNN paper"),
    "EquilibriumLinear": Facts("the ERNN paper"),
    "ImplicitMidpoint": Facts("the AntisymmetricRNN paper's equation", matrix="antisymmetric"),
    "OrthogonalRNN": Facts("Wisdom et al. 2016; Jing et al. 2017", matrix="orthogonal, or unitary by option"),
    "KRU": Facts("Jose et al. 2018", matrix="Kronecker product of free factors"),
    "SpectralRNN": Facts("Zhang et al. 2018", matrix="bounded singular values"),
    "LeakyRNN": Facts("the textbook, section 10.7.3; Mozer 1992", "time constants"),
    "Deep": Facts("Pascanu et al. 2014", "of the inner cell", "of the inner cell"),
    "Delayed": Facts("Lin et al. 1996", "of the inner cell", "one per delay"),
    "Dilated": Facts("Chang et al. 2017", "of the inner cell", "of the inner cell"),
    "SkipRNN": Facts("Campos et al. 2018", "of the inner cell, and whole steps", "of the inner cell"),
    "Clockwork": Facts("El Hihi and Bengio 1996; Koutník et al. 2014", "periods", "block triangular"),
    "Memory": Facts("Graves et al. 2014", "of the controller", "of the controller"),
    "Reservoir": Facts("Jaeger 2003", matrix="fixed, also sparse"),
    "Liquid": Facts("Maass et al. 2002", matrix="fixed, sparse"),
    "ImplicitGRU": Facts("the INN paper", "reset, update, switch"),
    "ImplicitLSTM": Facts("the INN paper", "input, forget, output, switch"),
    "Feedforward": Facts("the textbook, figure 10.4", matrix=NO),
    "TimeDelay": Facts("Lang and Hinton 1988", matrix=NO),
}


def row(layer: type[Layer]) -> list[str]:
    """The row of a network, with its default options."""
    cell = layer.cell_type(3, 8)
    facts = FACTS[layer.__name__]
    return [
        f"`{layer.__name__}`",
        facts.paper,
        runs_by(cell),
        jacobian_of(cell),
        NO if looks_ahead(cell) else YES,
        YES if in_parallel(cell) else NO,
        facts.gates,
        facts.matrix,
    ]


def runs_by(cell: Cell) -> str:
    """What computes the steps of a sequence on a CPU."""
    if looks_ahead(cell):
        return "solved, by kernels" if isinstance(cell.rule(cell.prepare()), ImplicitGRURule) else "solved, reference"
    if not cell.stencil:
        return "all at once"
    if cell.is_solved:
        return "solved, reference"
    return "kernel" if cell.runs_in_parts or type(cell.fused(cell.prepare())) in KERNELS else "reference"


def jacobian_of(cell: Cell) -> str:
    """How `jacobian` is computed."""
    if looks_ahead(cell):
        return NO
    own = type(cell)._jacobian is not Cell._jacobian
    return "closed form" if own or cell.fused(cell.prepare()) is not None else "automatic"


def in_parallel(cell: Cell) -> bool:
    """Whether `unfold=Parallel()` computes all steps at once."""
    try:
        Parallel().check(cell)
    except InputError:
        return False
    return True


def table() -> str:
    """The table of all networks, in the order of `autapse cells`."""
    return markdown_table(HEADINGS, [row(layer) for layer in LAYERS.values()])


if __name__ == "__main__":
    PAGE.write_text(fill_between(PAGE.read_text(), *MARKS, table()))
