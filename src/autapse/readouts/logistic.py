"""Logistic regression: a readout for classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.readouts.base import LinearReadout, rows_of

STEPS = 500
MEMORY = 20  # steps that the optimizer remembers
GRADIENT = 1e-8  # of the mean loss, where it stops


class Logistic(LinearReadout):
    """W, c = argmin Σ −log softmax(W·h + c)_y + λ/2·|W|², h standardised

    The weights are found with L-BFGS in float64, from zero, so that the same states give the same weights. `weight` and
    `bias` are those for states as they are.

    Args:
        penalty: λ, the inverse of scikit-learn's C.

    >>> states = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> readout = autapse.readouts.Logistic(0.1).fit(states, torch.tensor([0, 0, 1, 1]))
    >>> readout.predict(torch.tensor([[0.5], [6.0]])).tolist()
    [0, 1]
    """

    def __init__(self, penalty: float = 1.0) -> None:
        super().__init__()
        self.penalty = checks.number("penalty", penalty, low=0.0)

    def fit(self, states: Any, classes: Any, count: int | None = None) -> Logistic:
        """Compute the weights.

        Args:
            states: [..., H].
            classes: [...], the class of each state, from 0.
            count: number of classes; by default the largest class and one.

        Returns:
            The readout itself.
        """
        H = rows_of("states", states)
        y = torch.as_tensor(classes).reshape(-1).to("cpu", torch.int64)
        if len(y) != len(H):
            checks.fail("classes", f"have one entry per state, {len(H)}", len(y), kind=checks.ShapeError)
        if not len(y):
            checks.fail("states", "have at least 1 row", 0)
        if int(y.min()) < 0:
            checks.fail("classes", "be integers from 0", int(y.min()))
        count = int(y.max()) + 1 if count is None else checks.integer("count", count, minimum=1)
        if int(y.max()) >= count:
            checks.fail("classes", f"be from 0 to {count - 1}", int(y.max()))
        mean, scale = H.mean(0), H.std(0, correction=0)
        scale = torch.where(scale > 0, scale, 1.0)
        weight, bias = self._minimised((H - mean) / scale, y, count)
        self.weight, self.bias = weight / scale, bias - (weight / scale) @ mean
        return self

    def _minimised(self, H: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            W = torch.zeros(count, H.shape[1], dtype=torch.float64, requires_grad=True)
            c = torch.zeros(count, dtype=torch.float64, requires_grad=True)
            options: dict[str, Any] = {"max_iter": STEPS, "history_size": MEMORY, "line_search_fn": "strong_wolfe"}
            optimizer = torch.optim.LBFGS([W, c], tolerance_grad=GRADIENT, tolerance_change=1e-14, **options)

            def loss() -> Tensor:
                optimizer.zero_grad()
                value = F.cross_entropy(F.linear(H, W, c), y) + self.penalty / (2 * len(H)) * W.square().sum()
                value.backward()
                return value

            optimizer.step(loss)
        return W.detach(), c.detach()

    def predict_proba(self, states: Tensor) -> Tensor:  # [..., H] -> [..., classes]
        """The probability of each class for each state.

        Args:
            states: [..., H].

        Returns:
            [..., classes].
        """
        return torch.softmax(self(states), dim=-1)

    def predict(self, states: Tensor) -> Tensor:  # [..., H] -> [...]
        """The most probable class of each state.

        Args:
            states: [..., H].

        Returns:
            [...], numbers of classes.
        """
        return torch.argmax(self(states), dim=-1)
