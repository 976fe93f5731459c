"""Recurrent networks with well-behaved feedback. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse import cells, gradient, models, native, readouts, solve, tasks, training, unfold
    from autapse.cells import Cell
    from autapse.layers import (
        ERNN,
        GRU,
        IRNN,
        LSTM,
        RIN,
        RNN,
        UGRNN,
        Antisymmetric,
        Deep,
        Equilibrium,
        EquilibriumLinear,
        EquilibriumTanh,
        FastGRNN,
        FastRNN,
        Feedforward,
        Implicit,
        ImplicitGRU,
        ImplicitLSTM,
        ImplicitMidpoint,
        LeakyRNN,
        Liquid,
        Memory,
        OrthogonalRNN,
        Recurrent,
        Reservoir,
        SpectralRNN,
        from_torch,
    )
    from autapse.models.echo_state import EchoStateNetwork
    from autapse.training.loading import load

__version__ = "0.1.0"

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
    "Deep",
    "EchoStateNetwork",
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
    "LeakyRNN",
    "Liquid",
    "Memory",
    "OrthogonalRNN",
    "Recurrent",
    "Reservoir",
    "SpectralRNN",
    "cells",
    "from_torch",
    "gradient",
    "load",
    "models",
    "native",
    "readouts",
    "solve",
    "tasks",
    "training",
    "unfold",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse": "cells gradient models native readouts solve tasks training unfold",
        "autapse.cells": "Cell",
        "autapse.layers": "ERNN GRU IRNN LSTM RIN RNN UGRNN Antisymmetric Deep Equilibrium EquilibriumLinear "
        "EquilibriumTanh FastGRNN FastRNN Feedforward Implicit ImplicitGRU ImplicitLSTM ImplicitMidpoint LeakyRNN "
        "Liquid Memory OrthogonalRNN Recurrent Reservoir SpectralRNN from_torch",
        "autapse.models.echo_state": "EchoStateNetwork",
        "autapse.training.loading": "load",
    },
)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
