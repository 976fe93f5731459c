"""Cells by name, for cells that contain another one."""

from __future__ import annotations

from typing import Any

from autapse import checks
from autapse.cells.antisymmetric import Antisymmetric
from autapse.cells.base import Cell, cell_options, looks_ahead
from autapse.cells.cfn import CFN
from autapse.cells.clockwork import Clockwork
from autapse.cells.equilibrium_linear import EquilibriumLinear
from autapse.cells.equilibrium_tanh import EquilibriumTanh
from autapse.cells.ernn import ERNN
from autapse.cells.fast import FastGRNN, FastRNN
from autapse.cells.feedforward import Feedforward
from autapse.cells.goru import GORU
from autapse.cells.gru import GRU
from autapse.cells.implicit import ImplicitGRU, ImplicitLSTM
from autapse.cells.implicit_midpoint import ImplicitMidpoint
from autapse.cells.intersection import Intersection
from autapse.cells.kru import KRU
from autapse.cells.leaky import LeakyRNN
from autapse.cells.lstm import LSTM
from autapse.cells.orthogonal import OrthogonalRNN, SpectralRNN
from autapse.cells.phased import PhasedLSTM
from autapse.cells.rin import RIN
from autapse.cells.rnn import IRNN, RNN
from autapse.cells.spec import inside, parse_options, words_of
from autapse.cells.time_delay import TimeDelay
from autapse.cells.ugrnn import UGRNN

CELLS: dict[str, type[Cell]] = {
    cell.__name__.lower(): cell
    for cell in (
        *(RNN, IRNN, RIN, LSTM, GRU, UGRNN, FastRNN, FastGRNN, Antisymmetric, ERNN, OrthogonalRNN, SpectralRNN),
        *(LeakyRNN, Clockwork, Feedforward, TimeDelay, Intersection, PhasedLSTM, GORU, KRU, CFN),
        *(
            EquilibriumTanh,
            EquilibriumLinear,
            ImplicitMidpoint,
            ImplicitGRU,
            ImplicitLSTM,
        ),
    )
}


def cell_class(cell: Any, argument: str = "cell") -> tuple[type[Cell], dict[str, Any]]:
    """The class and the options of a name such as "ernn:inner_steps=2", of a class, or of a pair of both."""
    kind, options = _by_name(cell, argument) if isinstance(cell, str) else _given(cell, argument)
    if looks_ahead(kind):
        checks.fail(argument, "look back: a network that looks ahead has no single step", kind.__name__, "Try gru.")
    return kind, options


def _by_name(text: str, argument: str) -> tuple[type[Cell], dict[str, Any]]:
    name, *words = words_of(inside(text) or text)
    kind = CELLS[checks.one_of(argument, name.lower(), CELLS)]
    return kind, parse_options(argument, text, name, words, cell_options(kind), cell_class)


def _given(cell: Any, argument: str) -> tuple[type[Cell], dict[str, Any]]:
    kind, options = cell if isinstance(cell, tuple | list) and len(cell) == 2 else (cell, {})
    if not (isinstance(kind, type) and issubclass(kind, Cell) and isinstance(options, dict)):
        rule, remedy = "be a name, a cell class, or a pair of a class and its options", "An instance is not accepted."
        checks.fail(argument, rule, cell, remedy, checks.KindError)
    known = cell_options(kind)
    for name in options:
        if name not in known:
            rule = f"be one of: {', '.join(known) or 'none'}"
            checks.fail(f"option of {kind.__name__}", rule, name, checks.closest(name, known))
    return kind, dict(options)


def spec_of(kind: type[Cell], options: dict[str, Any]) -> str:
    """The name of a cell with options."""
    name = next((name for name, known in CELLS.items() if known is kind), f"{kind.__module__}:{kind.__qualname__}")
    return ":".join([name, *(f"{option}={value}" for option, value in options.items())])
