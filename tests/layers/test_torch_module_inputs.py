"""torch's own test inputs for nn.RNN, nn.GRU and nn.LSTM: the same values, gradients, weights and errors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

import autapse
from networks import flat
from tolerance import TOLERANCE, close

INFOS = {info.module_cls: info for info in module_db if info.module_cls in (torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM)}
every_module = pytest.mark.parametrize("module_class", INFOS, ids=lambda c: c.__name__)
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def inputs(module_class: type, dtype: torch.dtype, training: bool, **keywords: Any) -> list[Any]:
    info = INFOS[module_class]
    return info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training, **keywords)


def ours(module_class: type) -> Any:
    return getattr(autapse, module_class.__name__)


def copied(value: Any) -> Any:
    """The same leaf tensors again, for a second backward pass of their own."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(copied(v) for v in value)
    return copy.deepcopy(value)


def leaves(arguments: Any) -> Iterator[Tensor]:
    for argument in arguments:
        yield from flat(argument)


def differentiate(result: Any, module: Any, arguments: Any) -> list[Tensor]:
    output, h_n = result[:2]
    loss = sum((r * torch.linspace(-1, 2, r.numel(), dtype=r.dtype).view(r.shape)).sum() for r in [output, *flat(h_n)])
    return list(torch.autograd.grad(loss, [*leaves(arguments), *module.parameters()]))


def compare(theirs: Any, layer: Any, arguments: tuple[Any, ...], **keywords: Any) -> None:
    again = copied(arguments)
    expected, found = theirs(*arguments), layer(*again, **keywords)
    close(found[0], expected[0])
    close(found[1], expected[1])
    close(differentiate(found, layer, again), differentiate(expected, theirs, arguments))


@every_module
def test_the_cases_are_there(module_class: type) -> None:
    assert len(inputs(module_class, torch.float32, True)) >= 16


@every_module
@every_dtype
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("reference", [False, True], ids=["torch_op", "reference"])
def test_values_and_gradients(module_class: type, dtype: torch.dtype, training: bool, reference: bool) -> None:
    for case in inputs(module_class, dtype, training):
        constructor, call = case.constructor_input, case.forward_input
        theirs = module_class(*constructor.args, **constructor.kwargs, dtype=dtype).train(training)
        layer = ours(module_class)(*constructor.args, **constructor.kwargs, dtype=dtype).train(training)
        layer.load_state_dict(theirs.state_dict())
        assert not call.kwargs
        # return_states is what torch's ops cannot do, so it takes our own scan.
        compare(theirs, layer, call.args, **({"return_states": True} if reference else {}))
        compare(theirs, autapse.from_torch(theirs), call.args)


@every_module
@every_dtype
def test_same_seed_same_weights(module_class: type, dtype: torch.dtype) -> None:
    for case in inputs(module_class, dtype, True):
        constructor = case.constructor_input
        torch.manual_seed(5)
        theirs = module_class(*constructor.args, **constructor.kwargs, dtype=dtype)
        torch.manual_seed(5)
        layer = ours(module_class)(*constructor.args, **constructor.kwargs, dtype=dtype)
        assert [name for name, _ in layer.named_parameters()] == [name for name, _ in theirs.named_parameters()]
        assert list(layer.state_dict()) == list(theirs.state_dict())
        for (name, a), b in zip(layer.named_parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b), name


@pytest.mark.parametrize("module_class", [torch.nn.RNN, torch.nn.GRU], ids=lambda c: c.__name__)
@every_dtype
def test_packed_cases(module_class: type, dtype: torch.dtype) -> None:
    """The cases that torch keeps apart, by its flag with_packed_sequence."""
    cases = inputs(module_class, dtype, True, with_packed_sequence=True)
    packed = [c for c in cases if isinstance(c.forward_input.args[0], torch.nn.utils.rnn.PackedSequence)]
    assert packed
    for case in packed:
        constructor, (x,) = case.constructor_input, case.forward_input.args
        x = x._replace(data=x.data.detach().requires_grad_())
        theirs = module_class(**constructor.kwargs, dtype=dtype)
        layer = ours(module_class)(**constructor.kwargs, dtype=dtype)
        layer.load_state_dict(theirs.state_dict())
        results = []
        for module in (theirs, layer):
            output, h_n = module(x)
            assert type(output) is torch.nn.utils.rnn.PackedSequence
            weights = torch.linspace(-1, 1, output.data.numel(), dtype=dtype).view_as(output.data)
            loss = (weights * output.data).sum() + h_n.square().sum()
            gradients = torch.autograd.grad(loss, [x.data, *module.parameters()])
            results.append([output.data, output.batch_sizes.to(dtype), h_n, *gradients])
        close(results[1], results[0])


def errors() -> Iterator[Any]:
    for module_class, info in INFOS.items():
        for dtype in TOLERANCE:
            cases = info.module_error_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=True)
            for number, case in enumerate(cases):
                yield pytest.param(module_class, case, id=f"{module_class.__name__}-{dtype}-{number}")


@pytest.mark.parametrize(("module_class", "case"), list(errors()))
def test_errors_are_of_torchs_type(module_class: type, case: Any) -> None:
    constructor, call = case.module_error_input.constructor_input, case.module_error_input.forward_input

    def fails(owner: Any) -> None:
        module = owner(*constructor.args, **constructor.kwargs)
        assert case.error_on is ModuleErrorEnum.FORWARD_ERROR, "construction should have failed"
        module(*call.args, **call.kwargs)

    with pytest.raises(case.error_type, match=case.error_regex):
        fails(module_class)  # the case itself still holds in this torch
    with pytest.raises(case.error_type):
        fails(ours(module_class))
