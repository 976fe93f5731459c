"""RNN, GRU and LSTM against torch.nn beyond torch's own cases: batched, stacked, both ways, packed, dropped out."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import autapse
from networks import D, H, flat
from tolerance import close

T, B = 6, 5
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {"nonlinearity": "tanh"}),
    ("RNN", {"nonlinearity": "relu"}),
    ("GRU", {}),
    ("LSTM", {}),
    ("LSTM", {"proj_size": 2}),
]
every_kind = pytest.mark.parametrize(("name", "options"), KINDS, ids=[f"{n}{o or ''}" for n, o in KINDS])
both_paths = pytest.mark.parametrize("reference", [False, True], ids=["torch_op", "reference"])


def pair(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float64, **keywords: Any) -> tuple[Any, Any]:
    """torch's module and ours with its weights, loaded from its state dict as it is."""
    theirs = getattr(torch.nn, name)(D, H, **options, **keywords, dtype=dtype)
    layer = getattr(autapse, name)(D, H, **options, **keywords, dtype=dtype)
    assert str(layer.load_state_dict(theirs.state_dict())) == "<All keys matched successfully>"
    return theirs, layer


def start(theirs: Any, batch: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Any:
    count = theirs.num_layers * (2 if theirs.bidirectional else 1)
    h = torch.randn(count, *batch, getattr(theirs, "proj_size", 0) or H, dtype=dtype, requires_grad=True)
    if not isinstance(theirs, torch.nn.LSTM):
        return h
    return h, torch.randn(count, *batch, H, dtype=dtype, requires_grad=True)


def results(module: Any, x: Any, h0: Any, leaf: Tensor, **keywords: Any) -> list[Tensor]:
    """Output, h_n, and gradients of a loss of both with respect to the input, h0 and the weights."""
    output, h_n = module(x, h0, **keywords)[:2]
    values = [output.data if isinstance(output, PackedSequence) else output, *flat(h_n)]
    loss = sum((v * torch.linspace(-1, 2, v.numel(), dtype=v.dtype).view(v.shape)).sum() for v in values)
    leaves = [leaf, *([] if h0 is None else flat(h0)), *module.parameters()]
    return [*values, *torch.autograd.grad(loss, leaves, retain_graph=True)]  # type: ignore[arg-type]


def combinations() -> Iterator[Any]:
    for num_layers, bidirectional, batch_first, bias in product((1, 2, 3), (False, True), (False, True), (True, False)):
        keywords = {"num_layers": num_layers, "bidirectional": bidirectional, "batch_first": batch_first, "bias": bias}
        yield pytest.param(keywords, id=f"{num_layers}-{bidirectional:d}{batch_first:d}{bias:d}")


@every_kind
@both_paths
@pytest.mark.parametrize("keywords", list(combinations()))
def test_batched(name: str, options: dict[str, Any], keywords: dict[str, Any], reference: bool) -> None:
    theirs, layer = pair(name, options, **keywords)
    x = torch.randn((B, T, D) if keywords["batch_first"] else (T, B, D), dtype=torch.float64, requires_grad=True)
    extra = {"return_states": True} if reference else {}
    for h0 in (None, start(theirs, (B,))):
        close(results(layer, x, h0, x, **extra), results(theirs, x, h0, x))


@every_kind
@pytest.mark.parametrize("bidirectional", [False, True])
def test_float32(name: str, options: dict[str, Any], bidirectional: bool) -> None:
    theirs, layer = pair(name, options, torch.float32, num_layers=2, bidirectional=bidirectional)
    x = torch.randn(T, B, D, requires_grad=True)
    h0 = start(theirs, (B,), torch.float32)
    close(results(layer, x, h0, x), results(theirs, x, h0, x))
    close(results(layer, x, h0, x, return_states=True), results(theirs, x, h0, x))


@every_kind
@both_paths
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [(6, 5, 3, 3, 1), (2, 6, 1, 6, 3), (4, 4, 4, 4, 4)], ids=str)
def test_packed(
    name: str, options: dict[str, Any], bidirectional: bool, lengths: tuple[int, ...], reference: bool
) -> None:
    theirs, layer = pair(name, options, num_layers=2, bidirectional=bidirectional)
    x = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    ordered = list(lengths) == sorted(lengths, reverse=True)
    packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=ordered)
    assert (packed.sorted_indices is None) == ordered
    extra = {"return_states": True} if reference else {}
    for h0 in (None, start(theirs, (B,))):
        close(results(layer, packed, h0, x, **extra), results(theirs, packed, h0, x))


@every_kind
@both_paths
@pytest.mark.parametrize("batch_first", [False, True])
def test_lengths_are_what_torch_does_with_packing(
    name: str, options: dict[str, Any], batch_first: bool, reference: bool
) -> None:
    theirs, layer = pair(name, options, num_layers=2, bidirectional=True, batch_first=batch_first)
    shape = (B, T, D) if batch_first else (T, B, D)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    lengths, h0 = [2, 6, 1, 6, 3], start(theirs, (B,))

    def through_packing(x: Tensor, h0: Any) -> tuple[Tensor, Any]:
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first, enforce_sorted=False)
        output, h_n = theirs(packed, h0)
        return pad_packed_sequence(output, batch_first)[0], h_n

    through_packing.parameters = theirs.parameters  # type: ignore[attr-defined]
    expected = results(through_packing, x, h0, x)
    close(results(layer, x, h0, x, lengths=lengths, return_states=reference), expected)


@every_kind
def test_packed_output_is_like_torchs(name: str, options: dict[str, Any]) -> None:
    theirs, layer = pair(name, options, bidirectional=True)
    packed = pack_padded_sequence(
        torch.randn(T, B, D, dtype=torch.float64), torch.tensor([2, 6, 1, 6, 3]), enforce_sorted=False
    )
    found, expected = layer(packed)[0], theirs(packed)[0]
    assert type(found) is PackedSequence
    for field in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        assert torch.equal(getattr(found, field), getattr(expected, field))


@every_kind
def test_dropout_with_the_same_seed_is_torchs(name: str, options: dict[str, Any]) -> None:
    theirs, layer = pair(name, options, num_layers=3, dropout=0.5, bidirectional=True)
    x = torch.randn(T, B, D, dtype=torch.float64)
    outputs = []
    for module in (theirs, layer, layer):
        torch.manual_seed(3)
        outputs.append(module(x)[0])
    torch.manual_seed(4)
    assert not torch.equal(layer(x)[0], outputs[1]), "dropout should be on"
    close(outputs[1], outputs[0])
    assert torch.equal(outputs[2], outputs[1])
    close(layer.eval()(x), theirs.eval()(x))


@every_kind
def test_same_seed_same_weights_and_names(name: str, options: dict[str, Any]) -> None:
    for keywords in ({}, {"num_layers": 3, "bidirectional": True}, {"bias": False, "num_layers": 2}):
        torch.manual_seed(1)
        theirs = getattr(torch.nn, name)(D, H, **options, **keywords)
        torch.manual_seed(1)
        layer = getattr(autapse, name)(D, H, **options, **keywords)
        assert [n for n, _ in layer.named_parameters()] == [n for n, _ in theirs.named_parameters()]
        assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), theirs.parameters(), strict=True))
        torch.manual_seed(2)
        theirs.reset_parameters()
        torch.manual_seed(2)
        layer.reset_parameters()
        assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), theirs.parameters(), strict=True))


@every_kind
def test_torch_loads_our_state_dict(name: str, options: dict[str, Any]) -> None:
    theirs, layer = pair(name, options, num_layers=2)
    layer.reset_parameters()
    theirs.load_state_dict(layer.state_dict())
    x = torch.randn(T, B, D, dtype=torch.float64)
    close(layer(x), theirs(x))


@every_kind
@both_paths
def test_no_sequences(name: str, options: dict[str, Any], reference: bool) -> None:
    theirs, layer = pair(name, options, num_layers=2, bidirectional=True)
    x = torch.zeros(T, 0, D, dtype=torch.float64)
    found, expected = layer(x, return_states=reference), theirs(x)
    close(found[0], expected[0])
    close(found[1], expected[1])


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(
    "x",
    [torch.zeros(0, 2, D), torch.zeros(0, D), torch.zeros(D), torch.zeros(2, 2, 2, D), torch.zeros(2, 2, D + 1)],
    ids=lambda x: str(tuple(x.shape)),
)
def test_bad_inputs_fail_as_torchs_do(name: str, x: Tensor) -> None:
    theirs, layer = getattr(torch.nn, name)(D, H), getattr(autapse, name)(D, H)
    fails_alike(lambda: theirs(x), lambda: layer(x))


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("shape", [(1, 2, H), (2, H), (1, 3, H + 1), (2, 3, H), (3,)], ids=str)
def test_bad_states_fail_as_torchs_do(name: str, shape: tuple[int, ...]) -> None:
    theirs, layer = getattr(torch.nn, name)(D, H), getattr(autapse, name)(D, H)
    x, h0 = torch.zeros(4, 3, D), torch.zeros(shape)
    h0 = (h0, h0) if name == "LSTM" else h0
    fails_alike(lambda: theirs(x, h0), lambda: layer(x, h0))
    # torch.nn.LSTM writes past its memory when packed input comes with such states, so there is nothing to compare with
    with pytest.raises(RuntimeError, match="h0 must have shape"):
        layer(pack_padded_sequence(x, torch.tensor([4, 4, 4])), h0)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_bad_unbatched_states_fail_as_torchs_do(name: str) -> None:
    theirs, layer = getattr(torch.nn, name)(D, H), getattr(autapse, name)(D, H)
    for h0 in (torch.zeros(1, 1, H), torch.zeros(H), torch.zeros(2, H)):
        given = (h0, h0) if name == "LSTM" else h0
        fails_alike(
            lambda given=given: theirs(torch.zeros(4, D), given), lambda given=given: layer(torch.zeros(4, D), given)
        )


def fails_alike(theirs: Any, ours: Any) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - the type is what is compared
        theirs()
    with pytest.raises(expected.type):
        ours()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("RNN", (D, H, 2, "relu", False, True, 0.0, True)),
        ("GRU", (D, H, 2, False, True, 0.0, True)),
        ("LSTM", (D, H, 2, False, True, 0.0, True, 2)),
    ],
)
def test_positional_arguments_are_torchs(name: str, arguments: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*arguments)
    torch.manual_seed(0)
    layer = getattr(autapse, name)(*arguments)
    x = torch.randn(B, T, D)
    close(layer(x), theirs(x))


@every_kind
def test_torchs_names_of_the_arguments(name: str, options: dict[str, Any]) -> None:
    theirs, layer = pair(name, options)
    x, h = torch.randn(T, B, D, dtype=torch.float64), start(theirs, (B,))
    close(flat(layer(input=x, hx=h)), flat(theirs(input=x, hx=h)))
    close(flat(layer(x, hx=h)), flat(theirs(x, hx=h)))
    close(flat(layer(input=x)), flat(theirs(input=x)))
    close(flat(layer(x=x, h0=h, lengths=[T] * B)), flat(theirs(x, h)))
    packed = pack_padded_sequence(x, torch.tensor([T] * B))
    close(layer(input=packed, hx=h)[0].data, theirs(input=packed, hx=h)[0].data)


@every_kind
def test_an_argument_under_both_names(name: str, options: dict[str, Any]) -> None:
    theirs, layer = pair(name, options)
    x, h = torch.randn(T, B, D, dtype=torch.float64), start(theirs, (B,))
    with pytest.raises(autapse.checks.InputError, match="input must be None if x is given"):
        layer(x, input=x)
    with pytest.raises(autapse.checks.InputError, match="hx must be None if h0 is given"):
        layer(x, h, hx=h)
    with pytest.raises(TypeError, match="input must be a tensor or a PackedSequence; got 'NoneType'"):
        layer(hx=h)


@every_kind
def test_a_model_that_swaps_the_class_trains_alike(name: str, options: dict[str, Any]) -> None:
    theirs, layer = pair(name, options, num_layers=2)
    head = torch.nn.Linear(theirs(torch.zeros(1, D, dtype=torch.float64))[0].shape[-1], 1, dtype=torch.float64)
    losses: list[list[float]] = []
    for module, top in ((theirs, copy.deepcopy(head)), (layer, copy.deepcopy(head))):
        torch.manual_seed(0)
        optimizer = torch.optim.Adam([*module.parameters(), *top.parameters()], lr=0.01)
        losses.append([])
        for _ in range(10):
            x = torch.randn(T, B, D, dtype=torch.float64)
            loss = (top(module(x)[0][-1]).squeeze(-1) - x[0, :, 0]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-9)
    assert losses[0][0] != losses[0][-1]
