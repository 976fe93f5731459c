"""The loss on one batch as a function of the weights, with products by its Gauss–Newton matrix.

With the outputs z of the model, the loss L(z) and J = dz/dw, the matrix is G = Jᵀ·L''·J. A product needs a forward
derivative J·v, the second derivative of the loss at the outputs, and a backward pass. Nothing is formed.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from autapse import checks
from autapse.models import Model
from autapse.unfold import Pointwise, Scan

Evaluate = Callable[[Callable[..., Any], Sequence[int]], tuple[Tensor, Callable[[Tensor], Tensor]]]
"""(the model or a replacement, numbers of sequences) -> the outputs, and the mean loss as a function of outputs."""

GROUPS = 8  # of sequences, whose gradients are squared for the preconditioner


class LocalProblem:
    """The loss on one batch around the present weights.

    Args:
        model: the model. Its weights must not change while products are computed.
        evaluate: runs the model, or a replacement, on some sequences of the batch, with the same random numbers at
            each call.
        sequences: the numbers of the sequences of the batch.
        states: the modules whose first outputs are the states that structural damping holds.
        weight_decay: L2 penalty.
        curved: the sequences that the Gauss–Newton matrix is computed on; None for all.
    """

    def __init__(
        self,
        model: nn.Module,
        evaluate: Evaluate,
        sequences: Sequence[int],
        states: Sequence[nn.Module] = (),
        weight_decay: float = 0.0,
        curved: Sequence[int] | None = None,
    ) -> None:
        self.model, self.sequences, self.weight_decay = model, sequences, weight_decay
        self.curved = sequences if curved is None else curved
        self._evaluate, self._layers = evaluate, states
        self._names = [name for name, _ in model.named_parameters()]
        self.parameters = list(model.parameters())

    def loss(self, change: Tensor | None = None) -> float:
        """The loss at the present weights, or at weights that differ from them by a vector."""
        with torch.no_grad():
            weights: list[Tensor] = list(self.parameters)
            if change is not None:
                weights = [p + part for p, part in zip(self.parameters, self.split(change), strict=True)]
            output, loss = self._evaluate(self._with(weights), self.sequences)
            penalty = 0.5 * self.weight_decay * sum(float(w.double().square().sum()) for w in weights)
            return float(loss(output)) + penalty

    def squares(self) -> Tensor:
        """An estimate of the mean over the sequences of the squared gradient, entry by entry.

        The gradient of a group of n sequences, squared and times n, has this expectation if gradients are independent.
        """
        total = torch.zeros(sum(p.numel() for p in self.parameters), dtype=torch.float64)
        for group in (self.sequences[n::GROUPS] for n in range(min(GROUPS, len(self.sequences)))):
            output, loss = self._evaluate(self.model, group)
            gradient = self._flat(torch.autograd.grad(loss(output), self.parameters, allow_unused=True))
            total += len(group) ** 2 / len(self.sequences) * gradient.square()
        return total

    def linearise(self) -> GaussNewton:
        """Products by the Gauss–Newton matrix at the present weights."""
        with _noted(self._layers) as states:
            output, loss = self._evaluate(self.model, self.curved)
        return GaussNewton(self, output, loss, states)

    def push(self, vector: Tensor) -> list[Tensor]:
        """J·v of the outputs and, if they are wanted, of the states."""
        _load_forward_mode()
        with torch.no_grad(), forward_ad.dual_level(), _noted(self._layers) as states:
            parts = zip(self.parameters, self.split(vector), strict=True)
            duals = [forward_ad.make_dual(p.detach(), v) for p, v in parts]
            output, _ = self._evaluate(self._with(duals), self.curved)
            moved = [forward_ad.unpack_dual(tensor) for tensor in (output, *states)]
            return [torch.zeros_like(one.primal) if one.tangent is None else one.tangent for one in moved]

    def _with(self, weights: Sequence[Tensor]) -> Callable[..., Any]:
        """The model with other weights."""
        named = dict(zip(self._names, weights, strict=True))

        def call(*arguments: Any, **keywords: Any) -> Any:
            return torch.func.functional_call(self.model, named, arguments, keywords)

        return call

    def pull(self, outputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
        """Jᵀ·g, of outputs whose graph is kept."""
        grads = torch.autograd.grad(outputs, self.parameters, gradients, retain_graph=True, allow_unused=True)
        return self._flat(grads)

    def split(self, vector: Tensor) -> list[Tensor]:
        """A vector in the shapes of the parameters."""
        parts = vector.split([p.numel() for p in self.parameters])
        return [part.view(p.shape).to(p) for part, p in zip(parts, self.parameters, strict=True)]

    def _flat(self, tensors: Sequence[Tensor | None]) -> Tensor:
        pairs = zip(tensors, self.parameters, strict=True)
        return torch.cat([(torch.zeros_like(p) if t is None else t).flatten().double() for t, p in pairs])


class GaussNewton:
    """G·v = Jᵀ·L''·J·v at fixed weights. The graph of one forward pass is kept for all products."""

    def __init__(
        self, problem: LocalProblem, output: Tensor, loss: Callable[[Tensor], Tensor], states: list[Tensor]
    ) -> None:
        self._problem, self._outputs = problem, [output, *states]
        self._at = output.detach().requires_grad_()
        (self._slope,) = torch.autograd.grad(loss(self._at), self._at, create_graph=True)

    def product(self, vector: Tensor, structural: float = 0.0) -> Tensor:
        """G·v, plus `structural` times the Gauss–Newton matrix of half the mean squared change of the states.

        Args:
            vector: v, all parameters one after the other.
            structural: weight of the change of the states.
        """
        problem = self._problem
        moved, *states = problem.push(vector)
        gradients = [self._curved(moved), *(structural / len(problem.curved) * state for state in states)]
        return problem.pull(self._outputs, gradients) + problem.weight_decay * vector

    def _curved(self, moved: Tensor) -> Tensor:
        """L''·t; zero for a loss that is linear in the outputs."""
        if not self._slope.requires_grad:
            return torch.zeros_like(moved)
        (curved,) = torch.autograd.grad(self._slope, self._at, moved, retain_graph=True)
        return curved


@cache
def _load_forward_mode() -> None:
    """Load what torch loads at its first dual tensor, without the warning that torch then gives about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._decomp.decompositions_for_jvp")


@contextmanager
def _noted(layers: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Note the states that some layers compute."""
    states: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _layer, _arguments, result: states.append(result[0])) for layer in layers
    ]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


def held_layers(model: Model) -> list[nn.Module]:
    """The layers whose states structural damping holds."""
    tree = getattr(model, "layer", None)  # reads no sequences, so it is not among the recurrent layers
    return [*model.layers()] or ([tree] if isinstance(tree, nn.Module) else [])


def check_curvature(model: Model, processes: int, structural: float) -> None:
    """Refuse models whose loss is not a function of their output alone, or whose passes have side effects."""
    rule = "be another one than hessian-free for "
    layers = model.layers()
    steps = all(isinstance(layer.strategy, Scan | Pointwise) for layer in layers)
    draws = any(cell.draws for layer in layers for cell in layer.cells.values())
    norms = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    reasons = {
        "a training by several processes": processes > 1,
        "a model that reads what it writes": model.feeds_back,
        "a model that carries its state from batch to batch": model.carries,
        "a network that is not computed step by step": not steps,
        "a model with batch normalisation": norms,
        "a network with a penalty or with draws": draws or any(layer.pays_penalty for layer in layers),
    }
    for reason, holds in reasons.items():
        if holds:
            checks.fail("optimizer", rule + reason, "hessian-free")
    if structural and not held_layers(model):
        checks.fail("structural_damping", "be 0 for a model without a recurrent layer", structural)
