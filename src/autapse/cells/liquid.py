"""Liquid: a random network of units that fire, whose weights stay as they are drawn."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells import per_unit
from autapse.cells.base import Cell
from autapse.cells.fixed import checked_scaling, hold, uniform
from autapse.cells.wiring import random_inputs
from autapse.forms import State

READ = ("traces", "spikes")
INPUTS = 10  # units that a unit reads, by default
THRESHOLD = 1.0


class LiquidWeights(NamedTuple):
    """What a step needs."""

    matrix: Tensor  # R, [H, H]
    kept: Tensor  # λ, [H], the share of the potential that is kept
    remembered: float  # κ, the share of the trace that is kept


class Liquid(Cell):
    """v' = awake ∘ (λ ∘ (1 − z) ∘ v + W·x + R·z + b), z' = [v' ≥ 1], s' = κ·s + (1 − κ)·z', W, R and b random and fixed

    The liquid state machine of the textbook's section 10.7.1 (Maass, Natschläger and Markram 2002): leaky
    integrate-and-fire units with binary outputs. A unit whose potential v reaches the threshold 1 fires (z = 1). Its
    potential is then 0, and it is not awake for `refractory` steps. The units are on a three-dimensional grid and read
    mostly units near them. The units that inhibit have negative weights only, all others positive ones. The trace s is
    what a readout reads: how often a unit has fired lately.

    In the backward pass the derivative of [v ≥ 1] is 1/(1 + slope·|v − 1|)² (Zenke and Ganguli 2018), so that `learn`
    can train a liquid. The state has four parts: the output, z, v, and the steps until the unit is awake. The output
    is s or z.

    Args:
        tau: time in steps after which a potential without input has fallen to 1/e; λ = exp(−1/tau). A number, a tensor
            with a value per unit, or a pair (low, high): each unit then draws its own once, uniformly in log tau.
        trace: the same for the trace; κ = exp(−1/trace).
        refractory: steps after a spike at which a unit cannot fire.
        input_scaling: bound of W, in units of the threshold: a number, or a list with one number per feature.
        input_connections: the share of the units that read a feature; the others have 0 in W.
        bias_scaling: b is uniform between 0 and this.
        recurrent_scaling: mean of the positive weights in R, which have an exponential distribution.
        inhibitory: the share of the units that inhibit.
        inhibition: how much larger their weights are. By default excitation and inhibition have the same sum.
        connections: how many units each unit reads; by default 10, or all others if there are fewer.
        reach: ρ in the weight exp(−(d/ρ)²) with which a unit at the distance d is chosen.
        read: the output, "traces" or "spikes".
        slope: how narrow the surrogate derivative is.
        learn: make W, the entries of R, and b parameters, so that training changes them.
    """

    depends_on_position = False
    weight_ih: Tensor
    weight_hh: Tensor  # [n], the entries of R
    bias_h: Tensor | None
    pattern: Tensor  # [2, n], their rows and columns
    potential_tau: Tensor  # [H]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        tau: per_unit.PerUnit = 20.0,
        trace: float = 20.0,
        refractory: int = 2,
        input_scaling: float | list[float] | Tensor = 1.0,
        input_connections: float = 0.3,
        bias_scaling: float = 0.01,
        recurrent_scaling: float = 0.2,
        inhibitory: float = 0.2,
        inhibition: float = 4.0,
        connections: int | None = None,
        reach: float = 2.0,
        read: str = "traces",
        slope: float = 10.0,
        learn: bool = False,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.tau = per_unit.checked("tau", tau, hidden_size, lambda value: checks.number("tau", value, above=0.0))
        self.trace = checks.number("trace", trace, above=0.0)
        self.refractory = checks.integer("refractory", refractory, minimum=0)
        self.input_scaling = checked_scaling(input_scaling, input_size)
        self.input_connections = checks.number("input_connections", input_connections, high=1.0, above=0.0)
        self.bias_scaling = checks.number("bias_scaling", bias_scaling, low=0.0)
        self.recurrent_scaling = checks.number("recurrent_scaling", recurrent_scaling, low=0.0)
        self.inhibitory = checks.number("inhibitory", inhibitory, low=0.0, high=1.0)
        self.inhibition = checks.number("inhibition", inhibition, low=0.0)
        if connections is not None:
            connections = checks.integer("connections", connections, minimum=0, maximum=hidden_size - 1)
        self.connections = connections
        self.reach = checks.number("reach", reach, above=0.0)
        self.read = checks.one_of("read", read, READ)
        self.slope = checks.number("slope", slope, above=0.0)
        self.learn = checks.boolean("learn", learn)
        n, count = hidden_size, hidden_size * self.inputs
        hold(self, "weight_ih", (n, input_size), self.learn, **self._factory)
        hold(self, "weight_hh", (count,), self.learn, **self._factory)
        hold(self, "bias_h", (n,) if self.bias else None, self.learn, **self._factory)
        self.register_buffer("pattern", torch.zeros(2, count, dtype=torch.int64, device=self._factory["device"]))
        self.register_buffer("potential_tau", torch.empty(n, **self._factory))
        self.reset_parameters()

    @property
    def inputs(self) -> int:
        """How many units each unit reads."""
        return min(INPUTS, self.hidden_size - 1) if self.connections is None else self.connections

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size,) * 4

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.weight_ih.is_meta:
            return
        per_unit.fill_(self.potential_tau, self.tau)
        shape = self.weight_ih.shape
        reads = torch.rand(shape, dtype=torch.float64) < self.input_connections
        scaling = torch.as_tensor(self.input_scaling, dtype=torch.float64)
        self.weight_ih.copy_(scaling * uniform(*shape) * reads)
        if self.bias_h is not None:
            self.bias_h.copy_(self.bias_scaling * torch.rand(shape[0], dtype=torch.float64))
        pattern = random_inputs(self.hidden_size, self.inputs, self.reach, itself=False)
        sign = torch.ones(self.hidden_size, dtype=torch.float64)
        sign[torch.randperm(self.hidden_size)[: round(self.inhibitory * self.hidden_size)]] = -self.inhibition
        sizes = torch.empty(pattern.shape[1], dtype=torch.float64).exponential_()
        self.weight_hh.copy_(self.recurrent_scaling * sizes * sign[pattern[1]])
        self.pattern.copy_(pattern)

    def affine(self) -> tuple[Tensor, Tensor | None]:
        return self.weight_ih, self.bias_h

    def prepare(self) -> LiquidWeights:
        matrix = self.weight_hh.new_zeros(self.hidden_size, self.hidden_size)
        matrix = matrix.index_put((self.pattern[0], self.pattern[1]), self.weight_hh)
        return LiquidWeights(matrix, torch.exp(-1 / self.potential_tau), math.exp(-1 / self.trace))

    def step(self, u: Tensor, state: State, weights: LiquidWeights, t: int) -> State:
        output, z, v, wait = state
        awake = (wait <= 0).to(v)
        v = awake * (weights.kept * (1 - z) * v + u + F.linear(z, weights.matrix))
        z = awake * fires(v - THRESHOLD, self.slope)
        fired = z.detach()
        wait = torch.where(fired > 0, float(self.refractory), (wait - 1).clamp(min=0))
        keep = weights.remembered
        return z if self.read == "spikes" else keep * output + (1 - keep) * z, z, v, wait


def fires(a: Tensor, slope: float) -> Tensor:
    """[a ≥ 0], with the derivative of the fast sigmoid a/(1 + slope·|a|).

    >>> a = torch.tensor([-0.1, 0.0, 0.1], requires_grad=True)
    >>> z = fires(a, slope=10.0)
    >>> z.tolist(), [round(d, 4) for d in torch.autograd.grad(z.sum(), a)[0].tolist()]
    ([0.0, 1.0, 1.0], [0.25, 1.0, 0.25])
    """
    smooth = a / (1 + slope * a.abs())
    return (a.detach() >= 0).to(a) + (smooth - smooth.detach())  # the bracket is exactly 0
