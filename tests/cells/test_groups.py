"""Groups of units: what a group may read, for every cell, at the start, in training and whatever the weights are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.cells.groups import group_mask, group_of, restrict
from networks import D, perturb

N, GROUPS = 6, 3
CELLS = [
    "rnn",
    "irnn",
    "rin",
    "rin:transitions=2",
    "lstm",
    "lstm:peepholes=True",
    "gru",
    "gru:reset=before",
    "ugrnn",
    "fastrnn",
    "fastgrnn",
    "leakyrnn",
    "ernn:alignment=none:inner_steps=2",
    "antisymmetric:structured=False",
    "antisymmetric:structured=False:gated=True",
]
every_cell = pytest.mark.parametrize("cell", CELLS)


def grouped(cell: str, hidden_size: int = N, **options: Any) -> Any:
    """A deep cell of three groups with weights everywhere, also where they are not used."""
    made = autapse.cells.Deep(D, hidden_size, cell=cell, groups=GROUPS, dtype=torch.float64, **options)
    return perturb(made)


def may_read(unit: int, other: int, groups: list[list[int]]) -> bool:
    (own,) = (n for n, members in enumerate(groups) if unit in members)
    (its,) = (n for n, members in enumerate(groups) if other in members)
    return its <= own


def test_the_groups_of_units() -> None:
    assert group_of(6, 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert group_of(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert group_of(3, 3).tolist() == [0, 1, 2]
    for units in range(1, 12):
        for groups in range(1, units + 1):
            sizes = torch.bincount(group_of(units, groups), minlength=groups)
            assert len(sizes) == groups
            assert sizes.max() - sizes.min() <= 1


def test_the_mask_of_groups() -> None:
    groups = [[0, 1], [2, 3], [4, 5]]
    expected = [[may_read(unit, other, groups) for other in range(6)] for unit in range(6)]
    assert group_mask(6, 3).tolist() == expected
    assert group_mask(4, 1).all()


def test_a_restricted_matrix_has_exact_zeros_in_every_block() -> None:
    weight = torch.full((3, 4, 2), float("nan"))  # [..., k·H, H], whatever it was
    weight[:, [0, 2, 3, 1], [0, 0, 0, 1]] = 1.0
    weight[:, 1, 0] = weight[:, 3, 1] = 2.0
    found = restrict(weight, group_mask(2, 2))
    assert found[0].tolist() == [[1.0, 0.0], [2.0, 1.0], [1.0, 0.0], [1.0, 2.0]]


@every_cell
@pytest.mark.parametrize("depth", [0, 2])
def test_a_state_depends_on_its_own_group_and_those_below(cell: str, depth: int) -> None:
    made = grouped(cell, transition_depth=depth)
    states = tuple(torch.rand(50, size, dtype=torch.float64) for size in made.state_sizes)
    jacobian = made.jacobian(torch.randn(50, D, dtype=torch.float64), states).abs().sum(0)
    jacobian = jacobian.unflatten(0, (-1, N)).unflatten(2, (-1, N))  # by state and unit
    groups = [[0, 1], [2, 3], [4, 5]]
    for unit in range(N):
        for other in range(N):
            if not may_read(unit, other, groups):
                assert not jacobian[:, unit, :, other].any()
    lower = jacobian[0, 4:, 0, :2]
    assert lower.any(), "the last group should read the first one"


@every_cell
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_unused_weights_stay_zero_in_training(cell: str, optimizer: Any) -> None:
    torch.manual_seed(0)
    layer = autapse.Deep(D, N, cell=cell, groups=GROUPS, group_input="first", dtype=torch.float64)
    (made,) = layer.cells.values()
    weights = [
        *(getattr(made.inner, name) for name in made.inner.unit_matrices),
        *(m.weight for m in made.transition_maps),
    ]
    weights = [weight for weight in weights if weight is not None]
    before = [weight.detach().clone() for weight in weights]
    training = optimizer(layer.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(5):
        training.zero_grad()
        output, _ = layer(torch.randn(6, 8, D, dtype=torch.float64))
        (output - 1).square().mean().backward()
        training.step()
    unused = ~group_mask(N, GROUPS)
    for weight, start in zip(weights, before, strict=True):
        blocks, old = (w.detach().unflatten(-2, (-1, N)) for w in (weight, start))
        assert not blocks[..., unused].any()
        assert (blocks[..., ~unused] != old[..., ~unused]).any()
    above = made.inner.weight_ih.detach().unflatten(0, (-1, N))[:, 2:]
    assert not above.any()


def test_only_the_first_group_reads_the_input() -> None:
    made = grouped("gru", transition_depth=0, group_input="first")
    state = torch.rand(N, dtype=torch.float64)
    slope = torch.autograd.functional.jacobian(lambda x: made(x, state), torch.randn(D, dtype=torch.float64))
    assert slope[:2].all()
    assert not slope[2:].any()


@pytest.mark.parametrize("depth", [0, 1])
def test_only_the_last_group_is_the_output(depth: int) -> None:
    made = grouped("lstm", 7, group_output="last", output_depth=depth)
    state = tuple(torch.rand(1, 7, dtype=torch.float64) for _ in range(2))
    slope = torch.autograd.functional.jacobian(lambda h: made.output((h, state[1])), state[0])[0, :, 0]
    assert made.output(state).shape == (1, made.output_size)
    assert made.output_size == (7 if depth else 2)  # the groups have 3, 2 and 2 units
    assert slope[:, 5:].any()
    assert not slope[:, :5].any()


def test_the_kernels_serve_groups() -> None:
    layer = autapse.Deep(D, N, cell="gru", transition_depth=0, groups=GROUPS, dtype=torch.float64)
    reference = autapse.GRU(D, N, dtype=torch.float64)
    (made,) = layer.cells.values()
    with torch.no_grad():
        for name, value in made.inner.named_parameters():
            getattr(reference, f"{name}_l0").copy_(value)  # the unused entries are zero at the start
    x = torch.randn(5, 4, D, dtype=torch.float64)
    assert made.form() == "gru"
    torch.testing.assert_close(layer(x), reference(x))


def test_a_parametrized_cell_is_refused() -> None:
    """Its weight is no parameter that could be replaced by a restricted one."""

    class Doubled(torch.nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    layer = autapse.Deep(D, N, cell="rnn", groups=2)
    torch.nn.utils.parametrize.register_parametrization(layer.cells["l0"].inner, "weight_hh", Doubled())
    with pytest.raises(ValueError, match="groups must be 1 for a cell with a parametrization"):
        layer(torch.zeros(2, 1, D))
