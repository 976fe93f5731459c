"""Ridge regression from sums: one pass over the states, any number of penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autapse import checks
from autapse.readouts.base import LinearReadout, pairs_of
from autapse.readouts.sums import Sums, gram

BLOCK = 50  # consecutive rows that belong to the same fold: neighbours in time are alike
LEAST_GAP = 1e-13  # smallest eigenvalue relative to the largest; below it, states count as dependent


class _Sums(NamedTuple):
    """The sums over some rows, whose values are relative to a fixed row."""

    rows: int
    state: Tensor  # Σ h, [H]
    target: Tensor  # Σ y, [K]
    products: Sums

    @classmethod
    def of(cls, H: Tensor, Y: Tensor) -> _Sums:
        return cls(len(H), H.sum(0), Y.sum(0), Sums(gram(H), H.T @ Y, Y.square().sum(0)))

    def __add__(self, other: Any) -> _Sums:
        return _Sums(
            self.rows + other.rows,
            self.state + other.state,
            self.target + other.target,
            self.products + other.products,
        )

    def __sub__(self, other: Any) -> _Sums:
        return _Sums(
            self.rows - other.rows,
            self.state - other.state,
            self.target - other.target,
            self.products - other.products,
        )

    @property
    def centered(self) -> Sums:
        """The sums of the products of deviations from the means."""
        n, (features, mixed, targets) = self.rows, self.products
        return Sums(
            features - torch.outer(self.state, self.state) / n,
            mixed - torch.outer(self.state, self.target) / n,
            targets - self.target.square() / n,
        )


class Ridge(LinearReadout):
    """W, c = argmin Σ |y − W·h − c|² + λ·|W|², solved from sums over all states

    `add` takes states in pieces, so that they need not be in memory together. `fit` does all at once. The states may be
    those of any network. They are summed in float64.

    Args:
        penalty: λ. Of several, the one is used whose errors on new states are estimated to be smallest.
        choose: how these errors are estimated: "gcv" (generalised cross-validation), or a number of folds. A fold has
            blocks of 50 consecutive rows.
        relative: multiply the penalties by the mean over the units of Σ (h − h̄)², so that the unit and the number of
            the states do not matter.

    >>> h, _ = autapse.Reservoir(1, 50)(torch.linspace(0, 9, 200).view(-1, 1, 1))
    >>> readout = autapse.readouts.Ridge((1e-6, 1e-3, 1.0)).fit(h[50:], torch.linspace(0, 9, 200).view(-1, 1, 1)[49:-1])
    >>> readout.chosen, readout(h).shape
    (1e-06, torch.Size([200, 1, 1]))
    """

    def __init__(
        self, penalty: float | Sequence[float] = 1e-6, choose: str | int = "gcv", relative: bool = False
    ) -> None:
        super().__init__()
        several = (penalty,) if isinstance(penalty, int | float) else tuple(penalty)
        self.penalties = [checks.number("penalty", one, low=0.0) for one in several]
        if not self.penalties:
            checks.fail("penalty", "be a number, or several", penalty)
        self.choose = self._checked_choice(choose)
        self.relative = checks.boolean("relative", relative)
        self.chosen: float | None = None
        """The one of the given penalties that is used."""
        self.estimates: list[float] = []
        """The estimated mean squared error on new states, for each penalty; empty if there is only one."""
        self.error: Tensor | None = None
        """The root of the mean squared error on the states that were added, for each target."""
        self.reset()

    @staticmethod
    def _checked_choice(choose: Any) -> str | int:
        if isinstance(choose, str):
            return checks.one_of("choose", choose, ("gcv",))
        return checks.integer("choose", choose, minimum=2)

    def reset(self) -> None:
        """Forget all states that were added."""
        self._folds: list[_Sums] = []
        self._origin: tuple[Tensor, Tensor] | None = None
        self._rows = 0

    # The pass over the states -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def add(self, states: Any, targets: Any) -> Ridge:
        """Add states [..., H] with their targets [..., K] to the sums.

        Args:
            states: the states, as a tensor or an array.
            targets: one row per state.

        Returns:
            The readout itself. Call `solve` when all states are added.
        """
        known = (None, None) if self._origin is None else (len(self._origin[0]), len(self._origin[1]))
        H, Y = pairs_of(states, targets, *known)
        if not len(H):
            return self
        if self._origin is None:  # sums of deviations lose fewer digits than sums of values
            self._origin = H.mean(0), Y.mean(0)
        H, Y = H - self._origin[0], Y - self._origin[1]
        folds = self.choose if isinstance(self.choose, int) and len(self.penalties) > 1 else 1
        fold = (torch.arange(self._rows, self._rows + len(H)) // BLOCK) % folds
        for n in range(folds):
            own = _Sums.of(H, Y) if folds == 1 else _Sums.of(H[fold == n], Y[fold == n])
            if len(self._folds) <= n:
                self._folds.append(own)
            else:
                self._folds[n] = self._folds[n] + own
        self._rows += len(H)
        return self

    @torch.no_grad()
    def solve(self) -> Ridge:
        """Compute the weights from the sums. States can be added afterwards, and the weights solved again.

        Returns:
            The readout itself.
        """
        if self._rows < 2:
            checks.fail("states", "have at least 2 rows", self._rows)
        total = self._folds[0]
        for one in self._folds[1:]:
            total = total + one
        sums = total.centered
        penalties = self._absolute(sums)
        if len(penalties) == 1:
            self.chosen, self.estimates = self.penalties[0], []
            self._keep(total, _cholesky(sums, penalties[0]))
            return self
        spectrum = _Spectrum.of(sums)
        if self.choose == "gcv":
            self.estimates = [spectrum.generalised(penalty, total.rows) for penalty in penalties]
        else:
            self.estimates = self._held_out(total)
        best = min(range(len(penalties)), key=self.estimates.__getitem__)
        self.chosen = self.penalties[best]
        self._keep(total, spectrum.weight(penalties[best]))
        return self

    def _absolute(self, sums: Sums) -> list[float]:
        """The penalties as they are added to the sums of the states."""
        unit = float(sums.features.diagonal().mean()) if self.relative else 1.0
        return [penalty * unit for penalty in self.penalties]

    def fit(self, states: Any, targets: Any) -> Ridge:
        """`reset`, `add` and `solve`: weights from these states alone.

        Args:
            states: [..., H], a tensor or an array.
            targets: [..., K], one row per state.

        Returns:
            The readout itself.
        """
        self.reset()
        return self.add(states, targets).solve()

    def _keep(self, total: _Sums, weight: Tensor) -> None:  # [H, K]
        assert self._origin is not None
        mean_state, mean_target = (
            self._origin[0] + total.state / total.rows,
            self._origin[1] + total.target / total.rows,
        )
        self.weight, self.bias = weight.T.contiguous(), mean_target - mean_state @ weight
        features, mixed, targets = total.centered
        squares = targets + (weight * (features @ weight - 2 * mixed)).sum(0)
        self.error = (squares.clamp(min=0.0) / total.rows).sqrt()

    def _held_out(self, total: _Sums) -> list[float]:
        """The mean squared error on each fold, of weights from the other folds; for each penalty."""
        used = [fold for fold in self._folds if fold.rows]
        if len(used) < 2:
            rule = f"have rows in at least 2 of the {self.choose} folds, of {BLOCK} rows each"
            checks.fail("states", rule, self._rows, 'Use choose="gcv".')
        errors = torch.zeros(len(self.penalties), dtype=torch.float64)
        for fold in used:
            rest = total - fold
            sums = rest.centered
            spectrum = _Spectrum.of(sums)
            for n, penalty in enumerate(self._absolute(sums)):
                weight = spectrum.weight(penalty)
                errors[n] += _squared_error(fold, weight, rest.target / rest.rows - rest.state / rest.rows @ weight)
        return (errors / total.rows).tolist()


def _squared_error(rows: _Sums, weight: Tensor, bias: Tensor) -> float:
    """Σ |y − W·h − c|² over some rows."""
    features, mixed, targets = rows.products
    fitted = (weight * (features @ weight)).sum() + 2 * (bias * (rows.state @ weight)).sum()
    fitted = fitted + rows.rows * bias.square().sum()
    return float(targets.sum() - 2 * (weight * mixed).sum() - 2 * (bias * rows.target).sum() + fitted)


def _cholesky(sums: Sums, penalty: float) -> Tensor:  # [H, K]
    matrix = sums.features + penalty * torch.eye(len(sums.features), dtype=sums.features.dtype)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    smallest, largest = factor.diagonal().square().aminmax()
    if int(failed) or smallest <= LEAST_GAP * largest:
        if penalty:  # positive definite but for rounding
            return _Spectrum.of(sums).weight(penalty)
        _fail_dependent(penalty)
    return torch.cholesky_solve(sums.mixed, factor)


class _Spectrum(NamedTuple):
    """The eigenvalues of the sums of the states, which give the weights for every penalty."""

    values: Tensor  # [H]
    vectors: Tensor  # [H, H]
    turned: Tensor  # the mixed sums in the directions of the vectors, [H, K]
    targets: Tensor  # Σ y², [K]

    @classmethod
    def of(cls, sums: Sums) -> _Spectrum:
        values, vectors = torch.linalg.eigh(sums.features)
        return cls(values.clamp(min=0.0), vectors, vectors.T @ sums.mixed, sums.targets)

    def weight(self, penalty: float) -> Tensor:  # [H, K]
        if not penalty and self.values[0] <= LEAST_GAP * self.values[-1]:
            _fail_dependent(penalty)
        return self.vectors @ (self.turned / (self.values + penalty)[:, None])

    def generalised(self, penalty: float, count: int) -> float:
        """Generalised cross-validation: n·RSS / (n − effective parameters)², Golub, Heath and Wahba 1979."""
        shrunk = self.values + penalty
        if not penalty and self.values[0] <= LEAST_GAP * self.values[-1]:
            _fail_dependent(penalty)
        explained = self.turned.square() * ((self.values + 2 * penalty) / shrunk.square())[:, None]
        residual = float((self.targets - explained.sum(0)).clamp(min=0.0).sum())
        free = count - 1 - float((self.values / shrunk).sum())
        return count * residual / free**2 if free > 0 else float("inf")


def _fail_dependent(penalty: float) -> None:
    rule = "be above 0: some states are linear combinations of others, so that least squares has no unique solution"
    checks.fail("penalty", rule, penalty)
