"""What one step is: one network per file, its equation as the docstring."""

from autapse.cells.antisymmetric import Antisymmetric
from autapse.cells.base import Cell, FormCell
from autapse.cells.ernn import ERNN
from autapse.cells.fast import FastGRNN, FastRNN
from autapse.cells.gru import GRU
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
    "FastGRNN",
    "FastRNN",
    "FormCell",
    "LeakyRNN",
    "OrthogonalRNN",
    "SpectralRNN",
]
