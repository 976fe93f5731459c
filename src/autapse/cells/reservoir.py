"""Reservoir: a random network whose weights stay as they are drawn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.cells import per_unit
from autapse.cells.base import FormCell
from autapse.cells.fixed import checked_scaling, hold, uniform
from autapse.cells.wiring import random_inputs
from autapse.forms import ACTIVATIONS, Form, Leaky
from autapse.solve.spectral_radius import spectral_radius as radius_of

TOPOLOGIES = ("random", "ring", "distance")
INPUTS = 10  # units that a unit reads, by default
SPARSE = 4  # a matrix is stored as sparse if at most one in so many entries is there


class Reservoir(FormCell):
    """h' = (1 − α) ∘ h + α ∘ act(W·x + R·h + b), W, R and b random and fixed

    The echo state network of the textbook's section 10.7.1 (Jaeger 2003), with leaky units. Nothing here is trained:
    a readout learns from the states. The weights are buffers. W is uniform in ±`input_scaling` and b in
    ±`bias_scaling`. R is uniform, scaled so that its spectral radius is `spectral_radius`. If few of its entries are
    there, R is stored as a sparse matrix, and the compiled kernel computes with those alone.

    Args:
        spectral_radius: the largest absolute value of the eigenvalues of R. Far below 1 the states forget their past
            quickly; closer to 1 they remember longer. None: R is not scaled.
        leak: α, above 0 and at most 1: a number for all units, a tensor with a value per unit, or a pair (low, high):
            each unit then draws its own once, uniformly in log α.
        input_scaling: bound of W: a number, or a list with one number per feature.
        bias_scaling: bound of b.
        connections: how many units each unit reads: a number, or a share such as 0.1; by default 10, or all if there
            are fewer units.
        topology: which units these are: any ("random"); the unit before ("ring", all weights the same, Rodan and Tiňo
            2011); mostly near ones on a three-dimensional grid ("distance"); or R itself, a tensor [H, H].
        reach: with topology "distance", λ in the weight exp(−(d/λ)²) with which a unit at the distance d is chosen.
        nonlinearity: act, one of "tanh", "relu", "sigmoid" and "identity".
        learn: make W, the entries of R, and b parameters, so that training changes them.
    """

    form_class = Leaky
    weight_hh: Tensor
    pattern: Tensor | None  # [2, n], row and column of each entry of a sparse R
    rate: Tensor  # α, [H]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        spectral_radius: float | None = 0.9,
        leak: per_unit.PerUnit = 1.0,
        input_scaling: float | list[float] | Tensor = 0.2,
        bias_scaling: float = 0.1,
        connections: float | None = None,
        topology: str | Tensor = "random",
        reach: float = 2.0,
        nonlinearity: str = "tanh",
        learn: bool = False,
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.spectral_radius = None if spectral_radius is None else _positive("spectral_radius", spectral_radius)
        self.leak = per_unit.checked("leak", leak, hidden_size, lambda a: checks.number("leak", a, high=1.0, above=0.0))
        self.input_scaling = checked_scaling(input_scaling, input_size)
        self.bias_scaling = checks.number("bias_scaling", bias_scaling, low=0.0)
        self.topology = self._checked_topology(topology)
        self.connections = self._checked_connections(connections)
        self.reach = self._checked_reach(reach)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, ACTIVATIONS)
        self.learn = checks.boolean("learn", learn)
        n, is_matrix = hidden_size, isinstance(self.topology, Tensor)
        count = int(torch.count_nonzero(self.topology)) if is_matrix else n * self.inputs  # type: ignore[arg-type]
        is_sparse = SPARSE * count <= n * n
        hold(self, "weight_ih", (n, input_size), self.learn, **self._factory)
        hold(self, "weight_hh", (count,) if is_sparse else (n, n), self.learn, **self._factory)
        hold(self, "bias_h", (n,) if self.bias else None, self.learn, **self._factory)
        places = torch.zeros(2, count, dtype=torch.int64, device=self._factory["device"])
        self.register_buffer("pattern", places if is_sparse else None)
        self.register_buffer("rate", torch.empty(n, **self._factory))
        self.reset_parameters()

    @property
    def inputs(self) -> int:
        """How many units each unit reads."""
        if self.connections is None:
            return 1 if self.topology == "ring" else min(INPUTS, self.hidden_size)
        if isinstance(self.connections, int):
            return self.connections
        return max(1, round(self.connections * self.hidden_size))

    # Options ----------------------------------------------------------------------------------------------------------

    def _checked_topology(self, topology: Any) -> str | Tensor:
        if not isinstance(topology, Tensor):
            return checks.one_of("topology", topology, TOPOLOGIES)
        shape = (self.hidden_size, self.hidden_size)
        if tuple(topology.shape) != shape:
            checks.fail("topology", f"have shape {shape}", tuple(topology.shape), kind=checks.ShapeError)
        if not bool(torch.isfinite(topology).all()):
            checks.fail("topology", "have finite values", "values that are NaN or infinite")
        return topology.detach()

    def _checked_connections(self, connections: Any) -> float | None:
        if connections is None:
            return None
        if isinstance(self.topology, Tensor):
            checks.fail("connections", "be None if topology is a matrix", connections)
        if isinstance(connections, float):
            connections = checks.number("connections", connections, high=1.0, above=0.0)
        else:
            connections = checks.integer("connections", connections, minimum=1, maximum=self.hidden_size)
        if self.topology == "ring" and connections != 1:
            checks.fail("connections", "be 1 in a ring, where each unit reads the unit before", connections)
        return connections

    def _checked_reach(self, reach: Any) -> float:
        if reach != 2.0 and self.topology != "distance":
            checks.fail("reach", 'keep its default unless topology is "distance"', reach)
        return _positive("reach", reach)

    # Weights ----------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.weight_hh.is_meta:
            return
        per_unit.fill_(self.rate, self.leak)
        scaling = torch.as_tensor(self.input_scaling, dtype=torch.float64)
        self.weight_ih.copy_(scaling * uniform(self.hidden_size, self.input_size))
        if self.bias_h is not None:
            self.bias_h.copy_(self.bias_scaling * uniform(self.hidden_size))
        values, pattern = self._drawn()
        values *= self._factor(values, pattern)
        if self.pattern is not None:
            self.pattern.copy_(pattern)
            self.weight_hh.copy_(values)
        else:
            dense = torch.zeros(self.hidden_size, self.hidden_size, dtype=torch.float64)
            self.weight_hh.copy_(dense.index_put(tuple(pattern), values))

    def _drawn(self) -> tuple[Tensor, Tensor]:
        """The entries of R before they are scaled, and the row and the column of each."""
        if isinstance(self.topology, Tensor):
            matrix = self.topology.to("cpu", torch.float64)
            pattern = matrix.nonzero().T
            return matrix[tuple(pattern)], pattern
        units = torch.arange(self.hidden_size)
        if self.topology == "ring":
            return torch.ones(len(units), dtype=torch.float64), torch.stack([units, units.roll(1)])
        reach = self.reach if self.topology == "distance" else None
        pattern = random_inputs(self.hidden_size, self.inputs, reach)
        return uniform(pattern.shape[1]), pattern

    def _factor(self, values: Tensor, pattern: Tensor) -> float:
        """What the entries are multiplied by, for the spectral radius."""
        if self.spectral_radius is None:
            return 1.0
        # All eigenvalues of a ring have the same absolute value, which no iteration separates.
        radius = 1.0 if self.topology == "ring" else radius_of(values, pattern, self.hidden_size)
        if radius <= 1e-9 * float(values.norm()):
            remedy = "Pass spectral_radius=None to use the matrix as it is."
            rule = "have a cycle: all eigenvalues of this matrix are 0, so none can be scaled"
            checks.fail("topology", rule, f"{values.numel()} entries without one", remedy)
        return self.spectral_radius / radius

    def prepare(self) -> Form:
        return Leaky(self.weight_hh, self.nonlinearity, alpha=self.rate, beta=1 - self.rate, pattern=self.pattern)


def _positive(name: str, value: Any) -> float:
    return checks.number(name, value, above=0.0)
