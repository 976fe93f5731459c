"""Logistic regression: a readout for classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.readouts.base import LinearReadout, rows_of

STEPS = 500
MEMORY = 20  # steps that the optimizer remembers
GRADIENT = 1e-8  # of the mean loss, where it stops
LOOSE = 1e-7  # the same while a penalty is chosen
FOLDS = 5
ENOUGH = 10_000  # rows from which on one fold, instead of all, is left out to choose a penalty
CONSTANT = 1e-12  # largest deviation relative to the mean of a state that counts as constant


class Logistic(LinearReadout):
    """W, c = argmin Σ −log softmax(W·h + c)_y + λ/2·|W|², h standardised

    The weights are found with L-BFGS in float64, and no random numbers, so that the same states give the same weights.
    `weight` and `bias` are those for states as they are.

    Args:
        penalty: λ, the inverse of scikit-learn's C. Of several, the one is used whose loss is smallest in
            cross-validation. From 10,000 states on only the first fold is left out.
        folds: number of folds. Each has about the same share of every class.
        block: consecutive states of a class that belong to the same fold; above 1 for the steps of a series, since
            neighbours are alike.

    >>> states = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> readout = autapse.readouts.Logistic(0.1).fit(states, torch.tensor([0, 0, 1, 1]))
    >>> readout.predict(torch.tensor([[0.5], [6.0]])).tolist()
    [0, 1]
    """

    def __init__(self, penalty: float | Sequence[float] = 1.0, folds: int = FOLDS, block: int = 1) -> None:
        super().__init__()
        several = (penalty,) if isinstance(penalty, int | float) else tuple(penalty)
        self.penalties = [checks.number("penalty", one, low=0.0) for one in several]
        if not self.penalties:
            checks.fail("penalty", "be a number, or several", penalty)
        self.folds = checks.integer("folds", folds, minimum=2)
        self.block = checks.integer("block", block, minimum=1)
        self.chosen: float | None = None
        """The one of the given penalties that is used."""
        self.losses: list[float] = []
        """The mean loss on states that were left out, for each penalty; empty if there is only one."""

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
        self.losses = self._left_out(H, y, count) if len(self.penalties) > 1 else []
        self.chosen = min(zip(self.losses or [0.0], self.penalties, strict=True))[1]
        self.weight, self.bias = _solutions(H, y, count, [self.chosen], GRADIENT)[0]
        return self

    def _left_out(self, H: Tensor, y: Tensor, count: int) -> list[float]:
        """The mean loss on the rows of each fold, by the weights for the other rows, for each penalty."""
        numbers = _fold_numbers(y, self.folds, self.block)
        total, rows = torch.zeros(len(self.penalties), dtype=torch.float64), 0
        for fold in range(1 if len(H) >= ENOUGH else self.folds):
            new = numbers == fold
            if not new.any() or new.all():
                continue
            for n, (weight, bias) in enumerate(_solutions(H[~new], y[~new], count, self.penalties, LOOSE)):
                total[n] += F.cross_entropy(F.linear(H[new], weight, bias), y[new], reduction="sum")
            rows += int(new.sum())
        if not rows:
            checks.fail("states", "have at least 2 rows, to choose among penalties", len(H), "Pass one penalty.")
        return (total / rows).tolist()

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


def _fold_numbers(y: Tensor, folds: int, block: int) -> Tensor:  # [N]
    """The fold of each row, so that every fold has about the same share of each class, in any order of the rows."""
    numbers = torch.empty_like(y)
    for n, one in enumerate(y.unique()):
        rows = (y == one).nonzero()[:, 0]
        numbers[rows] = (n + torch.arange(len(rows)) // min(block, -(-len(rows) // folds))) % folds
    return numbers


def _solutions(
    H: Tensor, y: Tensor, count: int, penalties: list[float], tolerance: float
) -> list[tuple[Tensor, Tensor]]:
    """The weights [count, H] and biases [count] for each penalty, for states as they are."""
    mean, scale = H.mean(0), H.std(0, correction=0)
    scale = torch.where(scale > CONSTANT * mean.abs(), scale, 1.0)
    made: dict[float, tuple[Tensor, Tensor]] = {}
    start = (torch.zeros(count, H.shape[1], dtype=torch.float64), torch.zeros(count, dtype=torch.float64))
    for penalty in sorted(penalties, reverse=True):  # a solution is a good start for the next smaller penalty
        start = _minimised((H - mean) / scale, y, penalty, tolerance, *start)
        weight = start[0] / scale
        made[penalty] = weight, start[1] - weight @ mean
    return [made[penalty] for penalty in penalties]


def _minimised(
    H: Tensor, y: Tensor, penalty: float, tolerance: float, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        W, c = (start.clone().requires_grad_() for start in (weight, bias))
        options: dict[str, Any] = {"max_iter": STEPS, "history_size": MEMORY, "line_search_fn": "strong_wolfe"}
        optimizer = torch.optim.LBFGS([W, c], tolerance_grad=tolerance, tolerance_change=1e-14, **options)

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = F.cross_entropy(F.linear(H, W, c), y) + penalty / (2 * len(H)) * W.square().sum()
            value.backward()
            return value

        optimizer.step(loss)
    return W.detach(), c.detach()
