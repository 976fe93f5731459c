"""Recurrent networks whose feedback is well behaved. Names are imported on first use."""

from typing import TYPE_CHECKING

from autapse.lazy import lazy

if TYPE_CHECKING:
    from autapse import cells, models, native, tasks, training
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
        FastGRNN,
        FastRNN,
        LeakyRNN,
        OrthogonalRNN,
        Recurrent,
        SpectralRNN,
        from_torch,
    )
    from autapse.training.checkpoint import load

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
    "FastGRNN",
    "FastRNN",
    "LeakyRNN",
    "OrthogonalRNN",
    "Recurrent",
    "SpectralRNN",
    "cells",
    "from_torch",
    "load",
    "models",
    "native",
    "tasks",
    "training",
]

__getattr__ = lazy(
    __name__,
    {
        "autapse": "cells models native tasks training",
        "autapse.cells": "Cell",
        "autapse.layers": "ERNN GRU IRNN LSTM RIN RNN UGRNN Antisymmetric FastGRNN FastRNN LeakyRNN OrthogonalRNN "
        "Recurrent SpectralRNN from_torch",
        "autapse.training.checkpoint": "load",
    },
)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
