"""The memory cell: what heads do when they are told exactly, its options, its start, its controllers.

That each step is the equation, and all that layers have in common, is tested with the other networks (networks.py).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.cells.base import looks_ahead
from autapse.cells.heads import Heads
from autapse.cells.named import CELLS
from autapse.checks import InputError
from tolerance import close

N, W = 6, 4
SURE = 60.0  # a logit that is certain


def told(**given: Any) -> Tensor:
    """The numbers of one read head and one write head. By default both stay where they are, and nothing is written."""
    keys = given.get("keys", torch.zeros(2, W))
    add = torch.as_tensor(given.get("add", torch.zeros(W)), dtype=torch.float32)
    sharp = [given.get("sharpness", SURE)] * 2
    gate = [SURE if given.get("by_content") else -SURE] * 2
    erase = [SURE if given.get("replace") else -SURE] * W
    moves = [SURE * (given.get("move", 0) == m) for m in (1, 0, -1)] * 2
    parts = [torch.atanh(keys).flatten(), torch.atanh(add), *map(torch.tensor, (sharp, [SURE] * 2, gate, erase, moves))]
    return torch.cat([part.float() for part in parts])[None]


def test_what_is_written_at_each_place_is_read_again_by_place_and_by_content() -> None:
    heads = Heads(1, 1, N, W)
    vectors = 0.9 * torch.nn.functional.normalize(torch.randn(N, W), dim=1)
    memory, addresses = torch.full((1, N, W), 1e-6), torch.eye(N)[:1].expand(1, 2, N)
    for n in range(N):  # write to slot n, and move on
        memory, addresses, _ = heads.access(told(add=vectors[n], replace=True, move=1 if n else 0), memory, addresses)
    close(memory[0], vectors)
    for n in range(N):  # both heads go around the circle once more
        memory, addresses, read = heads.access(told(move=1), memory, addresses)
        close(read[0, 0], vectors[n])
    for n in (4, 0, 2):  # and jump
        told_keys = told(keys=vectors[n].expand(2, W), by_content=True, sharpness=1e4)
        memory, addresses, read = heads.access(told_keys, memory, addresses)
        close(read[0, 0], vectors[n])
        _, _, after = heads.access(told(move=1), memory, addresses)
        close(after[0, 0], vectors[(n + 1) % N])
    close(memory[0], vectors)


def test_a_new_vector_replaces_the_old_one() -> None:
    heads, at = Heads(1, 1, N, W), torch.eye(N)[3].expand(1, 2, N)
    memory, new = torch.randn(1, N, W), torch.rand(W)
    written = heads.access(told(add=new, replace=True), memory, at).memory
    expected = memory.clone()
    expected[0, 3] = new
    close(written, expected)
    close(heads.access(told(add=new), memory, at).memory[0, 3], memory[0, 3] + new)  # without erasing


def test_the_states_are_those_that_the_help_names() -> None:
    cell = autapse.cells.Memory(3, 5, slots=N, width=W, read_heads=2)
    state = cell(torch.randn(2, 3))
    controller, reads, memory, addresses, drawn = cell.parts(state)
    assert [tuple(part.shape) for part in controller] == [(2, 5), (2, 5)]
    assert reads.shape == (2, 2, W)
    assert memory.shape == (2, N, W)
    assert addresses.shape == (2, 3, N)
    assert drawn is None
    close(state[0], torch.cat([controller[0], reads.flatten(1)], dim=1))
    close(cell.joined(cell.parts(state)), state)
    close(addresses.sum(-1), torch.ones(2, 3))
    close(reads, addresses[:, :2] @ memory)


def test_the_memory_at_every_step_is_returned() -> None:
    layer, x = autapse.Memory(3, 5, slots=N, width=W), torch.randn(7, 2, 3)
    _, h_n, states = layer(x, lengths=[7, 3], return_states=True)
    memory = states[0][2]
    assert memory.shape == (7, 2, 1, N * W)
    close(memory[6, 0], h_n[2][:, 0])
    close(memory[2, 1], h_n[2][:, 1])
    assert not memory[3:, 1].any()


# Delayed and timedelay carry more than one state; units of clockwork and phasedlstm may not change in five steps.
OTHERS = ("clockwork", "delayed", "phasedlstm", "timedelay")
CONTROLLERS = [name for name, cell in CELLS.items() if not (looks_ahead(cell) or name in OTHERS)]


@pytest.mark.parametrize("controller", [*CONTROLLERS, "ernn:inner_steps=2", "phasedlstm:periods=(2,4):open_ratio=0.9"])
def test_every_controller_learns(controller: str) -> None:
    layer = autapse.Memory(3, 4, controller=controller, slots=N, width=W)
    output, _ = layer(torch.randn(5, 2, 3))
    output.square().sum().backward()
    found = {name: p.grad for name, p in layer.named_parameters()}
    assert all(g is not None and bool(g.isfinite().all()) for g in found.values()), found
    assert sum(bool(g.any()) for g in found.values()) == len(found)  # type: ignore[union-attr]


class Twice(autapse.Cell):
    """h' = tanh(x₁² + h): not affine, and without a bias of its own."""

    depends_on_position = False

    def drive(self, x: Tensor) -> Tensor:
        return x[..., : self.hidden_size].square() + x.sum(-1, keepdim=True)

    def step(self, u: Tensor, state: Any, weights: Any, t: int) -> Any:
        return (torch.tanh(u + state[0]),)


def test_a_controller_of_ones_own() -> None:
    cell = autapse.cells.Memory(3, 4, controller=Twice, slots=N, width=W, dtype=torch.float64)
    x, state = torch.randn(2, 3, dtype=torch.float64), cell(torch.randn(2, 3, dtype=torch.float64))
    h, reads = state[0].split([4, W], dim=1)
    both = torch.cat([x, reads], dim=1)
    close(cell(x, state)[0][:, :4], torch.tanh(both[:, :4] ** 2 + both.sum(1, keepdim=True) + h))
    assert repr(autapse.Memory(3, 4, controller="GRU", slots=8)) == "Memory(3, 4, controller='gru', slots=8)"


def test_a_memory_beside_a_memory() -> None:
    class Inner(autapse.cells.Memory):
        def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **factory: Any) -> None:
            super().__init__(input_size, hidden_size, bias, slots=3, width=2, initial_memory="learned", **factory)

    layer = autapse.Memory(3, 4, controller=Inner, slots=N, width=W)
    output, h_n = layer(torch.randn(5, 2, 3))
    assert output.shape == (5, 2, 4 + 2 + W)
    assert [h.shape[-1] for h in h_n] == [10, 4, 6, 6, N * W, 2 * N]
    output.sum().backward()
    assert layer.cells["l0"].controller.first_memory.grad.any()


def test_how_it_starts() -> None:
    def start(**options: Any) -> Any:
        cell = autapse.cells.Memory(3, 4, slots=N, width=W, **options)
        return cell.parts(cell.initial_state(2, torch.empty(0)))

    close(start().memory, torch.full((2, N, W), 1e-6))
    close(start().addresses, torch.eye(N)[0].expand(2, 2, N))
    close(start(initial_address="uniform").addresses, torch.full((2, 2, N), 1 / N))
    learned = start(initial_address="learned", initial_memory="learned")
    assert bool((learned.addresses.argmax(-1) == 0).all())
    close(learned.addresses.sum(-1), torch.ones(2, 2))
    assert learned.memory.std() > 0.1
    assert not start().reads.any()


def test_zero_inputs_give_finite_numbers_and_gradients_in_float32() -> None:
    """All slots are alike at first, so that a cosine of zero vectors and a logarithm of zero weights occur."""
    layer = autapse.Memory(3, 8, slots=N, width=W)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    output, h_n = layer(torch.zeros(20, 2, 3), tuple(torch.zeros_like(h) for h in layer(torch.zeros(1, 2, 3))[1]))
    (output.sum() + h_n[2].sum()).backward()
    assert all(bool(t.isfinite().all()) for t in (output, *h_n, *(p.grad for p in layer.parameters())))


@pytest.mark.parametrize(("scale", "steps"), [(1e3, 20), (1e6, 3)])  # more would be more than float32 can hold
def test_very_sure_heads_give_finite_gradients_in_float32(scale: float, steps: int) -> None:
    layer = autapse.Memory(3, 8, slots=N, width=W)
    with torch.no_grad():
        layer.cells["l0"].weight_heads.mul_(scale)
    output, _ = layer(torch.randn(steps, 2, 3))
    output.square().sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in layer.parameters())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": 0}, "slots must be an integer of at least 1; got 0."),
        ({"read_heads": 0}, "read_heads must be an integer of at least 1; got 0."),
        ({"addressing": "contents"}, "addressing must be one of content, location, content+location; got 'contents'."),
        ({"shifts": 3}, "shifts must be at most (slots − 1)/2 with slots = 6; got 3."),
        ({"slots": 2}, "shifts must be at most (slots − 1)/2 with slots = 2; got 1. Use more slots."),
        ({"addressing": "content", "shifts": 2}, "shifts must be 1 with addressing='content', which uses no location"),
        ({"addressing": "content", "initial_address": "learned"}, "initial_address must be 'first' with addressing="),
        ({"addressing": "location", "similarity": "dot"}, "similarity must be 'cosine', the default, with addressing="),
        ({"greedy": False}, "greedy must be True with hard='no', which draws nothing; got False."),
        ({"hard": True}, "hard must be one of no, sample, straight-through; got True."),
        ({"controller": "lsmt"}, "Did you mean 'lstm'?"),
        (
            {"controller": autapse.GRU(3, 4)},
            "controller must be a name, a cell class, or a pair",
        ),
        (
            {"controller": autapse.cells.Delayed},
            "must be a cell that reads at most one state",
        ),
        (
            {"controller": autapse.cells.ImplicitGRU},
            "controller must look back",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        autapse.Memory(3, 4, **({"slots": N, "width": W} | options))
    assert message in str(error.value)
