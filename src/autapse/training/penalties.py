"""Terms of the loss that depend on the weights alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from autapse import checks
from autapse.cells import Cell
from autapse.models import Model


def orthogonality(model: Model) -> Tensor:
    """Σ‖RᵀR − I‖² over the recurrent matrices of a model, one per gate: 0 if they are orthogonal.

    The soft constraint of Vorontsov et al. 2017. The networks `OrthogonalRNN` and `SpectralRNN` have a hard one.

    Args:
        model: its cells say which their recurrent matrices are.

    Returns:
        The sum, a scalar.

    >>> model = autapse.models.Classifier("irnn", 3, 2, hidden_size=4)  # it starts with R = I
    >>> orthogonality(model).item()
    0.0
    """
    return torch.stack([_distance(R) for cell in _cells(model) for R in cell.recurrent_matrices()]).sum()


def check_orthogonality(model: Model, name: str) -> None:
    """Raise an error if a cell has no recurrent matrix that the penalty can act on.

    Args:
        model: the model.
        name: of its cell.
    """
    cells = list(_cells(model))
    if not cells or not all(cell.recurrent_matrices() for cell in cells):
        rule = "be 0 for a cell without free recurrent matrices"
        checks.fail("orthogonality", rule, name, "Use rnn, irnn, leakyrnn, gru or lstm.")


def _cells(model: Model) -> Iterator[Cell]:
    return (cell for layer in model.layers() for cell in layer.cells.values())


def _distance(matrix: Tensor) -> Tensor:
    identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    return (matrix.t() @ matrix - identity).square().sum()
