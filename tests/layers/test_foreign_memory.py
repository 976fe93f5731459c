"""Layers refuse what could lead a kernel outside of its tensors: packed batches, parameters of another shape."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import autapse
from autapse.checks import InputError, ShapeError
from autapse.layers import Layer
from autapse.layers.registry import LAYERS
from autapse.native import library
from native.kernels import needs_kernels

EVERY = [k for k in vars(autapse.layers).values() if isinstance(k, type) and issubclass(k, Layer)]
EVERY = [kind for kind in EVERY if hasattr(kind, "cell_type")]
every_layer = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
some_layers = pytest.mark.parametrize("name", ["GRU", "RIN", "ImplicitGRU", "EquilibriumTanh"])


@pytest.fixture(params=["fused", "reference"])
def _path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        monkeypatch.setattr(library, "available", lambda: False)
        monkeypatch.setattr(library, "warn_if_missing", lambda: None)


def packed(sizes: Any, order: Any = None, rows: int = 5) -> PackedSequence:
    """Put together by hand, past the checks of PackedSequence's own."""
    whole = pack_padded_sequence(torch.randn(3, 2, 3), torch.tensor([3, 2]))
    inverse = None if order is None else torch.argsort(order)
    return whole._replace(data=torch.randn(rows, 3), batch_sizes=sizes, sorted_indices=order, unsorted_indices=inverse)


# Packed batches -----------------------------------------------------------------------------------------------------


@some_layers
@pytest.mark.parametrize(
    "sizes", [[4, 4000000], [4, 4], [2, 3], [2, 2], [0, 5], [5, 0], [6, -1], [2**62, 5 - 2**62], []], ids=str
)
@pytest.mark.usefixtures("_path")
def test_batch_sizes_that_lead_outside(name: str, sizes: list[int]) -> None:
    with pytest.raises(
        ShapeError, match="batch_sizes of the PackedSequence must be positive, never grow and sum to the 5"
    ):
        getattr(autapse, name)(3, 4)(packed(torch.tensor(sizes, dtype=torch.int64)))


@pytest.mark.parametrize("sizes", [[4, 4000000], [4, 4], [2, 3], [0, 5], [6, -1]], ids=str)
def test_torch_refuses_them_too(sizes: list[int]) -> None:
    with pytest.raises(RuntimeError):
        torch.nn.GRU(3, 4)(packed(torch.tensor(sizes)))


@some_layers
@pytest.mark.parametrize(
    "sizes", [torch.tensor([3, 2]).int(), torch.tensor([3.0, 2.0]), torch.tensor([[3, 2]]), [3, 2], None], ids=str
)
def test_batch_sizes_that_are_no_int64_tensor(name: str, sizes: Any) -> None:
    with pytest.raises(TypeError, match=r"batch_sizes of the PackedSequence must be a tensor of dtype torch\.int64"):
        getattr(autapse, name)(3, 4)(packed(sizes))


@some_layers
@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1], [0, 1, 2, 3], [1, 2, 3], [-1, 0, 1], [[0, 1, 2]]], ids=str)
def test_an_order_that_is_no_permutation(name: str, order: Any) -> None:
    """Results would be missing for the sequences that it leaves out."""
    with pytest.raises(ShapeError, match="sorted_indices of the PackedSequence must have each of the 3 sequences once"):
        getattr(autapse, name)(3, 4)(packed(torch.tensor([3, 2]), torch.tensor(order)))


def test_an_order_of_another_dtype() -> None:
    with pytest.raises(ShapeError, match=r"once, as torch\.int64"):
        autapse.GRU(3, 4)(packed(torch.tensor([3, 2]), torch.tensor([0, 1, 2]).int()))


def test_data_of_another_shape() -> None:
    whole = pack_padded_sequence(torch.randn(3, 2, 3), torch.tensor([3, 2]))
    for data in (torch.randn(5), torch.randn(5, 2), torch.randn(5, 3, 1)):
        with pytest.raises(ShapeError, match="input must"):
            autapse.GRU(3, 4)(whole._replace(data=data))
    with pytest.raises(TypeError, match="data of the PackedSequence must be a tensor; got 'list'"):
        autapse.GRU(3, 4)(whole._replace(data=[1.0]))


def test_a_right_one_put_together_by_hand() -> None:
    theirs = torch.nn.GRU(3, 4)
    given = packed(torch.tensor([3, 2]), torch.tensor([2, 0, 1]))
    output, h_n = autapse.from_torch(theirs)(given)
    expected, expected_n = theirs(given)
    torch.testing.assert_close(output.data, expected.data)
    torch.testing.assert_close(h_n, expected_n)


# Parameters ---------------------------------------------------------------------------------------------------------


def test_every_named_layer_is_here() -> None:
    assert {kind.__name__.lower() for kind in EVERY} == set(LAYERS)


def other_shapes(parameter: Tensor) -> list[Tensor]:
    """Smaller, larger, with a dimension more, and one that broadcasts."""
    shape = parameter.shape
    larger = torch.randn([n + 1 for n in shape]) if shape else torch.randn(2)
    return [torch.randn(2, 2), larger, torch.randn(1, *shape), torch.randn([1] * (len(shape) + 1))]


@every_layer
@pytest.mark.usefixtures("_path")
def test_a_parameter_of_another_shape(kind: type[Layer]) -> None:
    layer, x = kind(3, 5), torch.randn(4, 2, 3)
    fixed = [(name, value) for name, value in layer.named_buffers() if value.is_floating_point()]
    for name, parameter in [*layer.named_parameters(), *fixed]:
        right = parameter.data
        for other in other_shapes(parameter):
            parameter.data = other
            message = rf"{name} must have shape \({', '.join(map(str, right.shape))},?\).*; got \("
            with pytest.raises(ShapeError, match=message):
                layer(x)
        parameter.data = right
    layer(x)


@pytest.mark.parametrize("name", ["GRU", "RIN"])
def test_a_parameter_of_another_shape_in_a_stream(name: str) -> None:
    layer = getattr(autapse, name)(3, 5)
    stream = layer.stream()
    next(layer.parameters()).data = torch.randn(2, 2)
    with pytest.raises(ShapeError, match="must have shape"):
        layer.stream()
    with pytest.raises(ShapeError, match="must have shape"):
        stream.reset()


def test_a_copied_layer_is_checked_too() -> None:
    layer = copy.deepcopy(autapse.GRU(3, 5))
    layer.weight_hh_l0.data = torch.randn(2, 2)
    with pytest.raises(ShapeError, match="weight_hh_l0 must have shape"):
        layer(torch.randn(4, 2, 3))


def test_what_replaces_a_parameter_is_checked_too() -> None:
    layer, x = autapse.GRU(3, 5), torch.randn(4, 2, 3)
    with pytest.raises(ShapeError, match="weight_hh_l0 must have shape"):
        torch.func.functional_call(layer, {"weight_hh_l0": torch.randn(2, 2)}, (x,))
    layer.weight_hh_l0 = torch.nn.Parameter(torch.randn(2, 2))
    with pytest.raises(ShapeError, match="weight_hh_l0 must have shape"):
        layer(x)


@needs_kernels
@pytest.mark.parametrize("name", ["GRU", "UGRNN"])
def test_a_parametrization_that_gives_another_shape(name: str) -> None:
    """It is no parameter, so the op that gets it refuses it."""

    class Cut(torch.nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight[:2, :2]

    layer = getattr(autapse, name)(3, 5)
    owner, attribute = (layer, "weight_hh_l0") if name == "GRU" else (layer.cells["l0"], "weight_hh")
    torch.nn.utils.parametrize.register_parametrization(owner, attribute, Cut(), unsafe=True)
    with pytest.raises(InputError, match=r"matrix must be a tensor of shape .*; got \(2, 2\)"):
        layer(torch.randn(4, 2, 3))
