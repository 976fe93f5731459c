"""Layers that are called like torch.nn.GRU: one per cell, and Recurrent for your own cells."""

from autapse import cells
from autapse.layers.equilibrium import Equilibrium
from autapse.layers.implicit import Implicit, ImplicitGRU, ImplicitLSTM
from autapse.layers.recurrent import Layer, Recurrent
from autapse.layers.stream import Stream
from autapse.layers.torch_compatible import GRU, LSTM, RNN, from_torch


class Feedforward(Layer):
    cell_type = cells.Feedforward


class IRNN(Layer):
    cell_type = cells.IRNN


class RIN(Layer):
    cell_type = cells.RIN


class LeakyRNN(Layer):
    cell_type = cells.LeakyRNN


class Antisymmetric(Layer):
    cell_type = cells.Antisymmetric


class ERNN(Layer):
    cell_type = cells.ERNN


class EquilibriumTanh(Layer):
    cell_type = cells.EquilibriumTanh


class EquilibriumLinear(Layer):
    cell_type = cells.EquilibriumLinear


class ImplicitMidpoint(Layer):
    cell_type = cells.ImplicitMidpoint


class CFN(Layer):
    cell_type = cells.CFN


class GORU(Layer):
    cell_type = cells.GORU


class KRU(Layer):
    cell_type = cells.KRU


class FastRNN(Layer):
    cell_type = cells.FastRNN


class FastGRNN(Layer):
    cell_type = cells.FastGRNN


class UGRNN(Layer):
    cell_type = cells.UGRNN


class Memory(Layer):
    cell_type = cells.Memory


class OrthogonalRNN(Layer):
    cell_type = cells.OrthogonalRNN


class SpectralRNN(Layer):
    cell_type = cells.SpectralRNN


class Deep(Layer):
    cell_type = cells.Deep


class Clockwork(Layer):
    cell_type = cells.Clockwork


class TimeDelay(Layer):
    cell_type = cells.TimeDelay


class Delayed(Layer):
    cell_type = cells.Delayed


class Dilated(Layer):
    cell_type = cells.Dilated


class Intersection(Layer):
    cell_type = cells.Intersection


class PhasedLSTM(Layer):
    cell_type = cells.PhasedLSTM


class SkipRNN(Layer):
    cell_type = cells.SkipRNN


class Liquid(Layer):
    cell_type = cells.Liquid


class Reservoir(Layer):
    cell_type = cells.Reservoir


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
    "Clockwork",
    "Deep",
    "Delayed",
    "Dilated",
    "Equilibrium",
    "EquilibriumLinear",
    "EquilibriumTanh",
    "FastGRNN",
    "FastRNN",
    "Feedforward",
    "Implicit",
    "ImplicitGRU",
    "ImplicitLSTM",
    "ImplicitMidpoint",
    "Intersection",
    "Layer",
    "LeakyRNN",
    "Liquid",
    "Memory",
    "OrthogonalRNN",
    "PhasedLSTM",
    "Recurrent",
    "Reservoir",
    "SkipRNN",
    "SpectralRNN",
    "Stream",
    "TimeDelay",
    "from_torch",
]
