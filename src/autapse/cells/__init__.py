"""What one step is: one network per file, its equation as the docstring."""

from autapse.cells.antisymmetric import Antisymmetric
from autapse.cells.base import Cell, FormCell
from autapse.cells.equilibrium import EquilibriumRule
from autapse.cells.equilibrium_linear import EquilibriumLinear
from autapse.cells.equilibrium_tanh import EquilibriumTanh
from autapse.cells.ernn import ERNN
from autapse.cells.fast import FastGRNN, FastRNN
from autapse.cells.gru import GRU
from autapse.cells.implicit import ImplicitGRU, ImplicitLSTM
from autapse.cells.implicit_midpoint import ImplicitMidpoint
from autapse.cells.leaky import LeakyRNN
from autapse.cells.lstm import LSTM
from autapse.cells.orthogonal import OrthogonalRNN, SpectralRNN
from autapse.cells.rin import RIN
from autapse.cells.rnn import IRNN, RNN
from autapse.cells.ugrnn import UGRNN

__all__ = [
    "ERNN",
    "GRU",
    "IRNN",
    "LSTM",
    "RIN",
    "RNN",
    "UGRNN",
    "Antisymmetric",
    "Cell",
    "EquilibriumLinear",
    "EquilibriumRule",
    "EquilibriumTanh",
    "FastGRNN",
    "FastRNN",
    "FormCell",
    "ImplicitGRU",
    "ImplicitLSTM",
    "ImplicitMidpoint",
    "LeakyRNN",
    "OrthogonalRNN",
    "SpectralRNN",
]
