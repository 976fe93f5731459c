"""Four networks over an image, against torch.nn on each row and each column by itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import autapse
from autapse.checks import InputError
from tolerance import close

B, H, W, D, UNITS = 2, 4, 3, 2, 5
CELLS = (
    "rnn",
    "gru",
    "lstm",
    "rin:transitions=2",
    "ernn:inner_steps=2",
    "antisymmetric",
    "deep:cell=gru",
    "feedforward",
)


def by_torch(layer: autapse.Recurrent, sequences: list[Tensor]) -> list[Tensor]:
    """torch.nn.GRU in both directions, with the weights of a layer, on each sequence alone."""
    module = nn.GRU(layer.input_size, UNITS, bidirectional=True, dtype=torch.float64)
    module.load_state_dict(layer.state_dict())
    return [module(one[:, None])[0][:, 0] for one in sequences]


def expected(grid: Any, image: Tensor) -> Tensor:  # [H, W, D] -> [H, W, 4·units]
    """The equation: rows and columns one at a time."""
    for pair in grid.along:
        rows = torch.stack(by_torch(pair["rows"], list(image)))
        columns = torch.stack(by_torch(pair["columns"], list(image.transpose(0, 1))), dim=1)
        image = torch.cat([rows, columns], dim=-1)
    return image


def test_every_row_and_every_column_is_a_sequence() -> None:
    grid = autapse.Grid("gru", D, UNITS, num_layers=2, dtype=torch.float64)
    x = torch.randn(B, H, W, D, dtype=torch.float64)
    output = grid(x)
    assert output.shape == (B, H, W, 4 * UNITS) == (B, H, W, grid.output_size)
    close(output, torch.stack([expected(grid, image) for image in x]))
    close(grid(x[0]), output[0])


@pytest.mark.parametrize("merge", ["concat", "sum", "linear"])
@pytest.mark.parametrize("cell", CELLS)
def test_ragged_images_are_as_if_alone_and_zero_outside(cell: str, merge: str) -> None:
    grid = autapse.Grid(cell, D, UNITS, num_layers=2, merge=merge, dtype=torch.float64)
    sizes = [[H, W], [2, 1], [0, 0], [1, W]]
    x = torch.randn(len(sizes), H, W, D, dtype=torch.float64)
    output = grid(x, torch.tensor(sizes))
    for image, out, (height, width) in zip(x, output, sizes, strict=True):
        if height:
            close(out[:height, :width], grid(image[:height, :width]))
        outside = torch.ones(H, W, dtype=torch.bool)
        outside[:height, :width] = False
        assert not out[outside].any()
    far = x.clone()
    far[1, 2:] = 1e3  # what is outside is not read
    assert torch.equal(grid(far, sizes), output)


@pytest.mark.parametrize("axes", ["rows", "columns", "both"])
def test_a_point_depends_on_what_it_should(axes: str) -> None:
    grid = autapse.Grid("gru", D, UNITS, axes=axes, dtype=torch.float64)
    x = torch.randn(1, H, W, D, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(grid(x)[0, 1, 2].sum(), x)
    read = gradient[0].abs().sum(-1) > 0
    wanted = torch.zeros(H, W, dtype=torch.bool)
    if axes != "columns":
        wanted[1] = True
    if axes != "rows":
        wanted[:, 2] = True
    assert torch.equal(read, wanted)


def test_two_layers_see_the_whole_image() -> None:
    grid = autapse.Grid("gru", D, UNITS, num_layers=2, dtype=torch.float64)
    x = torch.randn(1, H, W, D, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(grid(x)[0, 0, 0].sum(), x)
    assert (gradient.abs().sum(-1) > 0).all()


def test_gradients_are_those_of_finite_differences() -> None:
    grid = autapse.Grid("gru", D, 2, num_layers=2, merge="linear", dtype=torch.float64)
    x = torch.randn(2, 3, 2, D, dtype=torch.float64, requires_grad=True)
    parameters = list(grid.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: grid(x, [[3, 2], [2, 1]]), (x, *parameters))


def test_the_sum_is_of_the_four_directions() -> None:
    torch.manual_seed(0)
    side = autapse.Grid("gru", D, UNITS)
    torch.manual_seed(0)
    added = autapse.Grid("gru", D, UNITS, merge="sum")
    x = torch.randn(B, H, W, D)
    close(added(x), side(x).unflatten(-1, (4, UNITS)).sum(-2))


def test_dropout_is_between_layers_and_in_training_only() -> None:
    grid = autapse.Grid("gru", D, UNITS, num_layers=2, dropout=0.5)
    x = torch.randn(B, H, W, D)
    assert not torch.equal(grid(x), grid(x))
    grid.eval()
    assert torch.equal(grid(x), grid(x))


def test_sizes_per_layer_and_a_state_dict() -> None:
    grid, other = (autapse.Grid("lstm", D, [4, 3]) for _ in range(2))
    assert [layer.hidden_size for layer in grid.layers()] == [4, 4, 3, 3]
    other.load_state_dict(grid.state_dict())
    x = torch.randn(B, H, W, D)
    assert torch.equal(grid(x), other(x))
    other.reset_parameters()
    assert not torch.equal(grid(x), other(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"axes": "diagonal"}, "axes must be one of both, rows, columns"),
        ({"merge": "max"}, "merge must be one of concat, sum, linear"),
        ({"cell": "implicitgru"}, "cell must not look ahead: .*; got 'implicitgru'. Try gru"),
        ({"cell": "gruu"}, "Did you mean 'gru'"),
        ({"hidden_size": [3, 4], "num_layers": 3}, "hidden_size must be one size, or one for each of the 3 layers"),
        ({"hidden_size": 0}, "hidden_size must be an integer of at least 1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        autapse.Grid(**{"cell": "gru", "input_size": D, "hidden_size": UNITS, **arguments})


@pytest.mark.parametrize(
    ("x", "sizes", "message"),
    [
        (torch.zeros(B, H, W), None, r"input must have shape \(B, H, W, 2\)"),
        (torch.zeros(B, 0, W, D), None, "at least one pixel"),
        ([[1.0]], None, "input must be a tensor"),
        (torch.zeros(H, W, D), [[1, 1]], "sizes must be None for a single image"),
        (torch.zeros(B, H, W, D), [[1, 1]], r"sizes must be integers of shape \(2, 2\)"),
        (torch.zeros(B, H, W, D), [[1, 1], [H + 1, 1]], "heights from 0 to 4, and widths from 0 to 3"),
        (torch.zeros(B, H, W, D), [[1.0, 1.0], [1.0, 1.0]], "sizes must be integers"),
        (torch.zeros(B, H, W, D), "all", "sizes must be integers"),
    ],
)
def test_bad_input_is_named(x: Any, sizes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        autapse.Grid("gru", D, UNITS)(x, sizes)
