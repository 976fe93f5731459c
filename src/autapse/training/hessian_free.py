"""Hessian-free optimisation (Martens 2010; with structural damping, Martens & Sutskever 2011)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from autapse.solve.conjugate_gradients import Iterate, conjugate_gradients
from autapse.training.curvature import LocalProblem

DECAY = 0.95  # of the last solution, from which the next solve starts
POWER = 0.75  # of the preconditioner
SHRINK, SUFFICIENT, TRIALS = 0.8, 0.01, 60  # of the line search
LOW, HIGH, FACTOR = 0.25, 0.75, 1.5  # of the Levenberg–Marquardt rule


class HessianFree(Optimizer):
    """w' = w + r·δ, where δ minimises gᵀδ + ½·δᵀ(G + λ·I + λμ·S)δ by conjugate gradients.

    G is the Gauss–Newton matrix of the loss on the batch, S that of half the mean squared change of the states, and λ
    follows the Levenberg–Marquardt rule: it rises if the quadratic model promised too much, and falls if it was right.

    Args:
        parameters: the weights.
        lr: 1. The line search chooses the length of a step.
        damping: the first λ, above 0.
        structural_damping: μ; 0 for no structural damping.
        cg_steps: largest number of steps of conjugate gradients.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1.0,
        damping: float = 1.0,
        structural_damping: float = 0.0,
        cg_steps: int = 100,
    ) -> None:
        super().__init__(parameters, {"lr": lr})
        self.structural_damping, self.cg_steps = structural_damping, cg_steps
        self._weights: list[nn.Parameter] = self.param_groups[0]["params"]
        for weight in self._weights:  # all that a checkpoint needs
            self.state[weight] = {
                "direction": torch.zeros_like(weight),
                "damping": torch.tensor(damping, dtype=torch.float64),
            }

    @property
    def damping(self) -> float:
        """λ."""
        return float(self.state[self._weights[0]]["damping"])

    def step(self, problem: LocalProblem) -> float:  # type: ignore[override]
        """Take one step, from the gradients that the weights have.

        Args:
            problem: the loss on the batch.

        Returns:
            The share r of the solution that the line search accepted.
        """
        damping, before = self.damping, problem.loss()
        gradient, matrix = self._gradient(problem.weight_decay), problem.linearise()

        def damped(vector: Tensor) -> Tensor:
            return matrix.product(vector, damping * self.structural_damping) + damping * vector

        diagonal = (problem.squares() + problem.weight_decay + damping) ** POWER
        last = _flat(self.state[weight]["direction"] for weight in self._weights)
        iterates = conjugate_gradients(damped, -gradient, DECAY * last, diagonal, self.cg_steps)
        if not iterates:  # at a minimum, or the matrix is not positive definite
            self._keep(problem.split(torch.zeros_like(gradient)), damping * (FACTOR if gradient.any() else 1.0))
            return 0.0
        chosen, loss = _backtrack(problem, iterates)
        slope = float(gradient @ chosen)
        promised = slope + 0.5 * float(chosen @ matrix.product(chosen))
        share = _search(problem, chosen, before, loss, slope)
        self._move(problem.split(share * chosen))
        ratio = (loss - before) / promised if promised < 0 else 0.0
        self._keep(problem.split(iterates[-1].x), _next_damping(damping, ratio))
        return share

    def _gradient(self, weight_decay: float) -> Tensor:
        pairs = ((w, torch.zeros_like(w) if w.grad is None else w.grad) for w in self._weights)
        return _flat(gradient + weight_decay * weight.detach() for weight, gradient in pairs)

    @torch.no_grad()
    def _move(self, changes: list[Tensor]) -> None:
        for weight, change in zip(self._weights, changes, strict=True):
            weight.add_(change)

    def _keep(self, direction: list[Tensor], damping: float) -> None:
        for weight, part in zip(self._weights, direction, strict=True):
            self.state[weight] = {"direction": part.clone(), "damping": torch.tensor(damping, dtype=torch.float64)}


def _backtrack(problem: LocalProblem, kept: list[Iterate]) -> tuple[Tensor, float]:
    """The last iterate before which the loss does not fall, and its loss: later ones may fit only the model."""
    chosen = kept[-1]
    loss = _finite(problem.loss(chosen.x))
    for earlier in reversed(kept[:-1]):
        other = _finite(problem.loss(earlier.x))
        if other >= loss:
            break
        chosen, loss = earlier, other
    return chosen.x, loss


def _search(problem: LocalProblem, x: Tensor, before: float, loss: float, slope: float) -> float:
    """The share of a step at which the loss falls by enough; 0 if there is none."""
    share = 1.0
    for _ in range(TRIALS):
        if loss <= before + SUFFICIENT * share * min(slope, 0.0):
            return share
        share *= SHRINK
        loss = _finite(problem.loss(share * x))
    return 0.0


def _finite(loss: float) -> float:
    return loss if loss < float("inf") else float("inf")  # also for NaN


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten().double() for tensor in tensors])


def _next_damping(damping: float, ratio: float) -> float:
    """The Levenberg–Marquardt rule: `ratio` is the true decrease of the loss by the promised one."""
    if ratio < LOW:
        return damping * FACTOR
    return damping / FACTOR if ratio > HIGH else damping
