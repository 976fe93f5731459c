"""Every wrong argument of a layer: the message names the argument, its rule, the value, and mostly the remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import autapse
from autapse.checks import InputError, KindError, ShapeError
from networks import D, H, Network, every_layer

T, B = 5, 3


def fails(kind: type[Exception], message: str) -> Any:
    return pytest.raises(kind, match=re.escape(message))


# Construction -------------------------------------------------------------------------------------------------------

BAD_ARGUMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"input_size": 0}, InputError, "input_size must be an integer of at least 1; got 0."),
    ({"input_size": "3"}, TypeError, "input_size must be an integer of at least 1; got '3'."),
    ({"hidden_size": 0}, ValueError, "hidden_size must be an integer of at least 1; got 0."),
    ({"hidden_size": 2.0}, TypeError, "hidden_size must be an integer, or a list with one per layer; got 2.0."),
    ({"hidden_size": []}, TypeError, "hidden_size must be an integer, or a list with one per layer; got []."),
    ({"hidden_size": "44"}, TypeError, "hidden_size must be an integer, or a list with one per layer; got '44'."),
    ({"hidden_size": [4, 0]}, ValueError, "hidden_size must be an integer of at least 1; got 0."),
    ({"hidden_size": [4, "4"]}, TypeError, "hidden_size must be an integer of at least 1; got '4'."),
    ({"hidden_size": None}, TypeError, "hidden_size must be an integer, or a list with one per layer; got None."),
    ({"num_layers": 0}, ValueError, "num_layers must be an integer of at least 1; got 0."),
    ({"num_layers": 1.5}, TypeError, "num_layers must be an integer of at least 1; got 1.5."),
    ({"num_layers": True}, TypeError, "num_layers must be an integer of at least 1; got True."),
    (
        {"hidden_size": [4, 4], "num_layers": 3},
        ValueError,
        "num_layers must agree with the 2 sizes in hidden_size; got 3. Omit num_layers.",
    ),
    ({"bias": 1}, TypeError, "bias must be True or False; got 1."),
    ({"batch_first": None}, TypeError, "batch_first must be True or False; got None."),
    ({"bidirectional": "yes"}, TypeError, "bidirectional must be True or False; got 'yes'."),
    ({"dropout": 1.5}, ValueError, "dropout must be a finite number at least 0 and at most 1; got 1.5."),
    ({"dropout": -0.1}, ValueError, "dropout must be a finite number at least 0 and at most 1; got -0.1."),
    ({"dropout": "0.5"}, TypeError, "dropout must be a finite number at least 0 and at most 1; got '0.5'."),
    ({"dropout": True}, TypeError, "dropout must be a finite number at least 0 and at most 1; got True."),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD_ARGUMENTS, ids=[str(a) for a, _, _ in BAD_ARGUMENTS])
@pytest.mark.parametrize("name", ["RIN", "GRU"])
def test_bad_argument(name: str, arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with fails(kind, message):
        getattr(autapse, name)(**{"input_size": D, "hidden_size": H} | arguments)


SETTINGS = "checkpoint_every, clip_hidden, information_flow"  # of every layer that takes steps


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("RIN", "transition", f"must be one of this layer's: transitions, {SETTINGS}; got 'transition'. "
                              "Did you mean 'transitions'?"),
        ("IRNN", "nonlinearity", f"option of IRNN must be one of this layer's: {SETTINGS}; got 'nonlinearity'."),
        ("GRU", "proj_size", f"must be one of this layer's: reset, gates, longest, {SETTINGS}; got 'proj_size'."),
        ("LSTM", "peephole", "got 'peephole'. Did you mean 'peepholes'?"),
        ("ERNN", "innersteps", "got 'innersteps'. Did you mean 'inner_steps'?"),
        ("Antisymmetric", "difusion", "got 'difusion'. Did you mean 'diffusion'?"),
    ],
)  # fmt: skip
def test_unknown_option(name: str, option: str, message: str) -> None:
    with fails(InputError, message):
        getattr(autapse, name)(D, H, **{option: 1})


@every_layer
def test_no_layer_ignores_an_option(network: Network) -> None:
    with fails(InputError, f"option of {network.name} must be one of this layer's: "):
        network.layer_class(D, H, nonsense=1)


def test_too_many_positional_arguments() -> None:
    with pytest.raises(TypeError, match="positional"):
        autapse.RIN(D, H, 1, True, False, 0.0, False, None, None, 1)


# Input --------------------------------------------------------------------------------------------------------------

SHAPE_RULE = "input must have shape (T, B, D), (B, T, D) with batch_first, or (T, D); got "


@pytest.mark.parametrize("name", ["RIN", "GRU", "LSTM"])
@pytest.mark.parametrize("shape", [(D,), (), (2, T, B, D)], ids=str)
def test_wrong_dimensions(name: str, shape: tuple[int, ...]) -> None:
    with fails(ShapeError, f"{SHAPE_RULE}{shape}."):
        getattr(autapse, name)(D, H)(torch.zeros(shape))


@pytest.mark.parametrize("name", ["RIN", "GRU", "LSTM"])
@pytest.mark.parametrize("shape", [(T, B, D + 1), (T, D + 1)], ids=str)
def test_wrong_features(name: str, shape: tuple[int, ...]) -> None:
    message = f"input must have input_size = {D} features in its last dimension; got {shape}."
    with fails(ShapeError, message):
        getattr(autapse, name)(D, H)(torch.zeros(shape))


def test_wrong_features_of_packed_input() -> None:
    packed = pack_padded_sequence(torch.zeros(T, B, D + 1), torch.tensor([5, 4, 3]))
    with fails(ShapeError, f"input must have input_size = {D} features in its last dimension; got (12, {D + 1})."):
        autapse.RIN(D, H)(packed)


@every_layer
@pytest.mark.parametrize("shape", [(0, B, D), (0, D)], ids=str)
def test_no_steps(network: Network, shape: tuple[int, ...]) -> None:
    message = f"input must have at least one step; got {shape}. For a sequence of length 0, use a padded batch with"
    with fails(ShapeError, message):
        network.layer()(torch.zeros(shape, dtype=torch.float64))


def test_no_steps_with_batch_first() -> None:
    with fails(RuntimeError, f"input must have at least one step; got ({B}, 0, {D})."):
        autapse.RIN(D, H, batch_first=True)(torch.zeros(B, 0, D))


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_wrong_dtype(network: Network, dtype: torch.dtype) -> None:
    message = f"input must have the dtype of the weights, torch.float64; got {dtype}. Convert the input with "
    other = " or the layer with .to(torch.float32)." if dtype.is_floating_point else "."
    with fails(ValueError, f"{message}.to(torch.float64){other}"):
        network.layer()(torch.zeros(T, B, D, dtype=dtype))


@pytest.mark.parametrize("x", [[[1.0]], None, "text"], ids=str)
def test_no_tensor(x: Any) -> None:
    with fails(TypeError, f"input must be a tensor or a PackedSequence; got '{type(x).__name__}'."):
        autapse.RIN(D, H)(x)


# Initial states -----------------------------------------------------------------------------------------------------


@every_layer
def test_wrong_shape_of_h0(network: Network) -> None:
    layer, x = network.layer(num_layers=2, bidirectional=True), torch.zeros(T, B, D, dtype=torch.float64)
    sizes = network.state_sizes()
    for i, wrong in enumerate(sizes):
        h0 = [torch.zeros(4, B, size, dtype=torch.float64) for size in sizes]
        h0[i] = torch.zeros(2, B, wrong, dtype=torch.float64)
        message = (
            f"h0 must have shape (num_layers·directions, B, H) = (4, {B}, {wrong}); got (2, {B}, {wrong}). Pass h0=None"
        )
        with fails(ShapeError, message):
            layer(x, h0[0] if len(h0) == 1 else tuple(h0))


@pytest.mark.parametrize("name", ["RIN", "GRU"])
@pytest.mark.parametrize("shape", [(B, H), (1, B, H + 1), (1, B + 1, H), (H,), (1, 1, B, H)], ids=str)
def test_wrong_shapes_of_h0(name: str, shape: tuple[int, ...]) -> None:
    message = f"h0 must have shape (num_layers·directions, B, H) = (1, {B}, {H}); got {shape}. Pass h0=None for zeros."
    with fails(ShapeError, message):
        getattr(autapse, name)(D, H)(torch.zeros(T, B, D), torch.zeros(shape))


@pytest.mark.parametrize("name", ["RIN", "GRU"])
def test_wrong_shape_of_unbatched_h0(name: str) -> None:
    message = f"h0 must have shape (num_layers·directions, H) = (1, {H}); got (1, 1, {H}). Pass h0=None for zeros."
    with fails(ShapeError, message):
        getattr(autapse, name)(D, H)(torch.zeros(T, D), torch.zeros(1, 1, H))


@pytest.mark.parametrize("name", ["RIN", "GRU"])
def test_wrong_dtype_of_h0(name: str) -> None:
    message = "h0 must have the dtype of the input, torch.float32; got torch.float64."
    with fails(InputError, message):
        getattr(autapse, name)(D, H)(torch.zeros(T, B, D), torch.zeros(1, B, H, dtype=torch.float64))


@pytest.mark.parametrize("h0", [0.0, "zeros", [torch.zeros(1, B, H)]], ids=["number", "str", "list"])
def test_h0_of_another_type(h0: Any) -> None:
    with fails(KindError, f"h0 must be a tensor of shape (num_layers·directions, B, H); got '{type(h0).__name__}'."):
        autapse.RIN(D, H)(torch.zeros(T, B, D), h0)


@pytest.mark.parametrize(
    ("h0", "got"),
    [
        (torch.zeros(1, B, H), "'Tensor'"),
        ((torch.zeros(1, B, H),) * 3, "3."),
        (5, "'int'."),
    ],
    ids=["tensor", "three", "number"],
)
def test_lstm_needs_both_states(h0: Any, got: str) -> None:
    with fails(InputError, f"h0 must be a tuple of 2 states; got {got}"):
        autapse.LSTM(D, H)(torch.zeros(T, B, D), h0)


def test_h0_for_sizes_of_their_own() -> None:
    layer, x = autapse.RIN(D, [5, 3], bidirectional=True), torch.zeros(T, B, D)
    with fails(ShapeError, "h0 must have one tensor per layer, 2 in all; got 1."):
        layer(x, (torch.zeros(2, B, 5),))
    with fails(ShapeError, f"h0 must have shape (directions, B, H) = (2, {B}, 3); got (2, {B}, 5)."):
        layer(x, (torch.zeros(2, B, 5), torch.zeros(2, B, 5)))
    for wrong in (3, torch.zeros(2, B, 5)):
        got = type(wrong).__name__
        with fails(KindError, f"h0 must have one tensor per layer, 2 in all; got '{got}'. Pass a tuple."):
            layer(x, wrong)


# Lengths ------------------------------------------------------------------------------------------------------------

RULE = f"lengths must be {B} integers from 0 to {T}, one per sequence; got "


@pytest.mark.parametrize("name", ["RIN", "GRU"])
@pytest.mark.parametrize(
    ("lengths", "got"),
    [
        ([5, 4], "[5, 4]"),
        ([5, 4, 3, 2], "[5, 4, 3, 2]"),
        ([5, 4, -1], "[5, 4, -1]"),
        ([5, 4, 6], "[5, 4, 6]"),
        (5, "5"),
        (torch.tensor(5), "5"),
        (torch.tensor([[5, 4, 3]]), "[[5, 4, 3]]"),
        ([5.0, 4.0, 3.0], "[5.0, 4.0, 3.0]. Convert them with int()."),
        (torch.tensor([5.0, 4, 3]), "[5.0, 4.0, 3.0]. Convert them with .long()."),
        ([True, False, True], "[True, False, True]. Convert them with int()."),
        (["a", "b", "c"], "['a', 'b', 'c']"),
        ([None, 1, 2], "[None, 1, 2]"),
        ("555", "'555'"),
        ([[5, 4], [3]], "[[5, 4], [3]]"),
        ([], "[]"),
        ([1] * 20, "[1, 1, 1, 1, 1, 1, 1, 1, '...']"),
    ],
    ids=str,
)
def test_bad_lengths(name: str, lengths: Any, got: str) -> None:
    with fails(InputError, RULE + got):
        getattr(autapse, name)(D, H)(torch.zeros(T, B, D), lengths=lengths)


def test_lengths_with_packed_input() -> None:
    packed = pack_padded_sequence(torch.zeros(T, B, D), torch.tensor([5, 4, 3]))
    with fails(InputError, "lengths must be None with a PackedSequence, which has its own; got [5, 4, 3]."):
        autapse.RIN(D, H)(packed, lengths=[5, 4, 3])


def test_lengths_with_unbatched_input() -> None:
    with fails(
        InputError, "lengths must be used with batched input of shape (T, B, D); got [5]. Cut the sequence instead."
    ):
        autapse.RIN(D, H)(torch.zeros(T, D), lengths=[5])


@pytest.mark.parametrize("start", [-1, 1.5, None, True], ids=str)
@pytest.mark.parametrize("name", ["ERNN", "GRU"])
def test_bad_start(name: str, start: Any) -> None:
    with fails(InputError, f"start must be an integer of at least 0; got {start}."):
        getattr(autapse, name)(D, H)(torch.zeros(T, B, D), start=start)


def test_errors_are_of_one_family() -> None:
    """One except clause catches them all, and torch's types still do."""
    assert issubclass(ShapeError, InputError)
    assert issubclass(ShapeError, RuntimeError)
    assert issubclass(KindError, InputError)
    assert issubclass(KindError, TypeError)
    assert issubclass(InputError, ValueError)
