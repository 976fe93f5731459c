"""What one step is: one network per file, its equation as the docstring."""

from autapse.cells.antisymmetric import Antisymmetric
from autapse.cells.base import Cell, FormCell, constructor_arguments
from autapse.cells.cfn import CFN
from autapse.cells.clockwork import Clockwork
from autapse.cells.deep import Deep
from autapse.cells.delayed import Delayed
from autapse.cells.dilated import Dilated
from autapse.cells.equilibrium import EquilibriumRule
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
from autapse.cells.liquid import Liquid
from autapse.cells.lstm import LSTM
from autapse.cells.memory import Memory
from autapse.cells.orthogonal import OrthogonalRNN, SpectralRNN
from autapse.cells.phased import PhasedLSTM
from autapse.cells.reservoir import Reservoir
from autapse.cells.rin import RIN
from autapse.cells.rnn import IRNN, RNN
from autapse.cells.skip import SkipRNN
from autapse.cells.time_delay import TimeDelay
from autapse.cells.tree import TreeCell
from autapse.cells.tree_affine import TreeAffine, TreeTensor
from autapse.cells.tree_lstm import NaryTreeLSTM, TreeLSTM
from autapse.cells.ugrnn import UGRNN
from autapse.docstrings import arguments, example, examples, inherited, prose

__all__ = [
    "CFN",
    "ERNN",
    "GORU",
    "GRU",
    "IRNN",
    "KRU",
    "LSTM",
    "RIN",
    "RNN",
    "UGRNN",
    "Antisymmetric",
    "Cell",
    "Clockwork",
    "Deep",
    "Delayed",
    "Dilated",
    "EquilibriumLinear",
    "EquilibriumRule",
    "EquilibriumTanh",
    "FastGRNN",
    "FastRNN",
    "Feedforward",
    "FormCell",
    "ImplicitGRU",
    "ImplicitLSTM",
    "ImplicitMidpoint",
    "Intersection",
    "LeakyRNN",
    "Liquid",
    "Memory",
    "NaryTreeLSTM",
    "OrthogonalRNN",
    "PhasedLSTM",
    "Reservoir",
    "SkipRNN",
    "SpectralRNN",
    "TimeDelay",
    "TreeAffine",
    "TreeCell",
    "TreeLSTM",
    "TreeTensor",
]


def _complete_help(cell: type[Cell]) -> None:
    """Add the arguments that a cell has from its base classes to its help, and an example."""
    names = ["input_size", "hidden_size", *constructor_arguments(cell)]
    texts = arguments(names, *(base.__doc__ for base in cell.__mro__ if issubclass(base, Cell)))
    shown = examples(cell.__doc__) or example(f"autapse.Recurrent(autapse.cells.{cell.__name__}, 3, 4)")
    cell.__doc__ = "\n\n".join([prose(cell.__doc__), texts, shown])


for _name in __all__:
    # Base classes have a help of their own, and so have cells of trees.
    if _name not in ("Cell", "EquilibriumRule", "FormCell") and issubclass(globals()[_name], Cell):
        _complete_help(globals()[_name])
EquilibriumRule.__doc__ = inherited(EquilibriumRule)
