"""Recurrent networks with well-behaved feedback. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse import cells, diagnostics, gradient, models, native, readouts, solve, tasks, training, unfold
    from autapse.cells import Cell
    from autapse.data.trees import Trees
    from autapse.layers import (
        CFN,
        ERNN,
        GORU,
        GRU,
        IRNN,
        KRU,
        LSTM,
        RIN,
        RNN,
        UGRNN,
        Antisymmetric,
        Clockwork,
        Deep,
        Delayed,
        Dilated,
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
        Intersection,
        LeakyRNN,
        Liquid,
        Memory,
        OrthogonalRNN,
        PhasedLSTM,
        Recurrent,
        Reservoir,
        SkipRNN,
        SpectralRNN,
        TimeDelay,
        from_torch,
    )
    from autapse.layers.grid import Grid
    from autapse.layers.learned_tree import LearnedTree
    from autapse.layers.tree import Tree
    from autapse.models.echo_state import EchoStateNetwork
    from autapse.training.loading import load

__version__ = "0.1.0"

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
    "EchoStateNetwork",
    "Equilibrium",
    "EquilibriumLinear",
    "EquilibriumTanh",
    "FastGRNN",
    "FastRNN",
    "Feedforward",
    "Grid",
    "Implicit",
    "ImplicitGRU",
    "ImplicitLSTM",
    "ImplicitMidpoint",
    "Intersection",
    "LeakyRNN",
    "LearnedTree",
    "Liquid",
    "Memory",
    "OrthogonalRNN",
    "PhasedLSTM",
    "Recurrent",
    "Reservoir",
    "SkipRNN",
    "SpectralRNN",
    "TimeDelay",
    "Tree",
    "Trees",
    "cells",
    "diagnostics",
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
        "autapse": "cells diagnostics gradient models native readouts solve tasks training unfold",
        "autapse.cells": "Cell",
        "autapse.layers": "CFN ERNN GORU GRU IRNN KRU LSTM RIN RNN UGRNN Antisymmetric Clockwork Deep Delayed Dilated "
        "Equilibrium EquilibriumLinear EquilibriumTanh FastGRNN FastRNN Feedforward Implicit ImplicitGRU ImplicitLSTM "
        "ImplicitMidpoint Intersection LeakyRNN Liquid Memory OrthogonalRNN PhasedLSTM Recurrent Reservoir SkipRNN "
        "SpectralRNN TimeDelay from_torch",
        "autapse.data.trees": "Trees",
        "autapse.layers.grid": "Grid",
        "autapse.layers.learned_tree": "LearnedTree",
        "autapse.layers.tree": "Tree",
        "autapse.models.echo_state": "EchoStateNetwork",
        "autapse.training.loading": "load",
    },
)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
