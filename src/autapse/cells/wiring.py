"""Which units read which: random connections, also of units on a grid that prefer their neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

MOST_AT_ONCE = 1 << 22  # pairs of units


def grid(units: int) -> Tensor:  # [units, 3]
    """The places of units in the smallest cube of a grid that has room for them, row by row.

    >>> grid(9)[-1].tolist()
    [0.0, 2.0, 2.0]
    """
    side = 1
    while side**3 < units:
        side += 1
    places = torch.arange(units)
    return torch.stack([places // side**2, places // side % side, places % side], dim=1).double()


def squared_distances(places: Tensor, others: Tensor) -> Tensor:  # [m, 3], [n, 3] -> [m, n]
    """The squared distance of each place to each of the others."""
    return (places[:, None] - others[None]).square().sum(-1)


def random_inputs(
    units: int, count: int, reach: float | None = None, itself: bool = True
) -> Tensor:  # [2, units·count]
    """The row and the column of each connection: every unit reads `count` different units, chosen at random.

    Args:
        units: number of units.
        count: inputs of each unit.
        reach: λ, if the units are on a grid and a connection over the distance d has a weight exp(−(d/λ)²) in the
            choice; None: all units are equally likely.
        itself: whether a unit may read itself.
    """
    rows = torch.arange(units).repeat_interleave(count)
    if reach is None and itself and 4 * count <= units:
        return torch.stack([rows, _few_of_many(units, count).flatten()])
    places = None if reach is None else grid(units)
    chosen = []
    for some in torch.arange(units).split(max(1, MOST_AT_ONCE // units)):
        # The largest values of log w + Gumbel noise are a sample with weights w, without replacement.
        keys = -torch.log(-torch.log(torch.rand(len(some), units, dtype=torch.float64)))
        if places is not None and reach is not None:
            keys -= squared_distances(places[some], places) / reach**2
        if not itself:
            keys[torch.arange(len(some)), some] = -torch.inf
        chosen.append(keys.topk(count, dim=1).indices.sort(dim=1).values)
    return torch.stack([rows, torch.cat(chosen).flatten()])


def _few_of_many(units: int, count: int) -> Tensor:  # [units, count]
    """For each unit some different units, in ascending order: random ones, with those that occur twice drawn again."""
    chosen = torch.randint(units, (units, count))
    while True:
        chosen = chosen.sort(dim=1).values
        twice = torch.zeros_like(chosen, dtype=torch.bool)
        twice[:, 1:] = chosen[:, 1:] == chosen[:, :-1]
        if not bool(twice.any()):
            return chosen
        chosen[twice] = torch.randint(units, (int(twice.sum()),))
