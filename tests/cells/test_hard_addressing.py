"""Hard addresses: what is drawn, straight-through gradients, and REINFORCE against the sum over all draws."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
from autapse.cells import memory as module
from autapse.checks import InputError
from autapse.layers.noted import DRAWS
from autapse.models.baseline import RunningBaseline
from tolerance import close

SMALL: dict[str, Any] = {"slots": 3, "width": 2, "controller": "rnn", "dtype": torch.float64}


def layer_of(hard: str, **options: Any) -> Any:
    torch.manual_seed(1)
    layer = autapse.Memory(2, 3, hard=hard, **SMALL, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(2.0)
    return layer


@pytest.mark.parametrize("hard", ["sample", "straight-through"])
def test_each_head_uses_one_slot(hard: str) -> None:
    layer, x = layer_of(hard), torch.randn(6, 5, 2, dtype=torch.float64)
    addresses = layer(x, return_states=True)[2][0][2].unflatten(-1, (2, 3))
    assert set(addresses.unique().tolist()) == {0.0, 1.0}
    assert bool((addresses.sum(-1) == 1).all())
    torch.manual_seed(0)
    first = layer(x)[0]
    second = layer(x)[0]
    torch.manual_seed(0)
    assert torch.equal(layer(x)[0], first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("hard", ["sample", "straight-through"])
def test_evaluation_takes_the_most_probable_slot(hard: str) -> None:
    layer, x = layer_of(hard).eval(), torch.randn(1, 4, 2, dtype=torch.float64)
    soft = layer_of("no")
    soft.load_state_dict(layer.state_dict())
    weights = soft(x, return_states=True)[2][0][2].unflatten(-1, (2, 3))
    chosen = layer(x, return_states=True)[2][0][2].unflatten(-1, (2, 3))
    assert torch.equal(chosen.argmax(-1), weights.argmax(-1))
    assert torch.equal(layer(x)[0], layer(x)[0])
    stream = layer.train().stream(4)  # a stream evaluates, also in a layer that is being trained
    close(stream(x[0]), layer.eval()(x)[0][0])
    drawing = layer_of(hard, greedy=False).eval()
    assert len({float(drawing(x)[0].detach().sum()) for _ in range(20)}) > 1


def test_straight_through_has_the_gradient_of_the_weights() -> None:
    """d loss / d soft is taken to be d loss / d address, at the address that was drawn."""
    cell = layer_of("straight-through").cells["l0"]
    x, state = torch.randn(4, 2, dtype=torch.float64), cell.initial_state(4, torch.empty(0, dtype=torch.float64))
    leaf = cell.weight_heads
    torch.manual_seed(3)
    (found,) = torch.autograd.grad(weighed(cell(x, state)), leaf)

    weights = cell.prepare()
    controller, reads, memory, before, _ = cell.parts(state)
    u = cell.drive(x) + reads.flatten(1) @ weights.reads
    controller = cell.controller.step(u, controller, weights.controller, 0)
    told = cell.heads.commands(torch.nn.functional.linear(controller[0], leaf, cell.bias_heads))
    soft = cell.heads.address(told, memory, before)
    torch.manual_seed(3)
    drawn = module.draw(soft.detach()).requires_grad_()
    memory, addresses, reads = cell.heads.use(told, memory, drawn)
    loss = weighed(cell.joined(module.MemoryParts(controller, reads, memory, addresses, None)))
    by_commands, by_address = torch.autograd.grad(loss, [leaf, drawn], retain_graph=True)
    (by_weights,) = torch.autograd.grad(soft, leaf, by_address)
    close(found, by_commands + by_weights)


def weighed(state: Any) -> Tensor:
    return sum((s * torch.linspace(-1, 2, s.numel(), dtype=s.dtype).view_as(s)).sum() for s in state)  # type: ignore[return-value]


# REINFORCE ----------------------------------------------------------------------------------------------------------

STEPS, HEADS, SLOTS = 2, 2, 3


def losses_of(output: Tensor) -> Tensor:  # [T, B, O] -> [B]
    weights = torch.linspace(-1, 2, output[:, 0].numel(), dtype=output.dtype).view(output[:, :1].shape)
    return ((output - weights) ** 2).sum((0, 2))


def every_draw() -> Iterator[list[Tensor]]:
    """One tensor [1, heads, slots] per step, for each way to draw."""
    for slots in itertools.product(range(SLOTS), repeat=STEPS * HEADS):
        yield list(torch.eye(SLOTS, dtype=torch.float64)[list(slots)].view(STEPS, 1, HEADS, SLOTS))


def exact(layer: Any, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Tensor]:
    """The expected loss, as the sum over all draws of probability times loss, and its gradient."""
    expected, total = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for draws in every_draw():
        waiting = iter(draws)
        monkeypatch.setattr(module, "draw", lambda soft, waiting=waiting: next(waiting))
        output, h_n = layer(x)
        probability = h_n[-1].exp().squeeze()
        expected, total = expected + probability * losses_of(output)[0], total + probability
    monkeypatch.undo()
    close(total.detach(), torch.ones((), dtype=torch.float64))
    return expected.detach(), flat_gradient(expected, layer)


def test_reinforce_estimates_the_gradient_of_the_expected_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of("sample", initial_memory="learned")  # it matters which slot is read
    with torch.no_grad():
        layer.cells["l0"].first_memory.mul_(3.0)
    x = torch.randn(STEPS, 1, 2, dtype=torch.float64)
    truth, gradient = exact(layer, x, monkeypatch)
    baseline, count, batches = RunningBaseline(dtype=torch.float64), 400, 60
    means, estimates = [], []
    for _ in range(batches):
        with DRAWS.noted() as draws:
            output, h_n = layer(x.expand(-1, count, -1))
        close(draws[0], h_n[-1][0, :, 0])
        losses = losses_of(output)
        total = losses.sum() + baseline(losses, torch.ones(count, dtype=torch.float64), sum(draws))  # type: ignore[arg-type]
        estimates.append(flat_gradient(total / count, layer))
        means.append(losses.detach().mean())
        baseline.update(float(means[-1]))
    close_to_mean(torch.stack(means)[:, None], truth[None])
    close_to_mean(torch.stack(estimates), gradient)
    # Without the term for the draws, it is another gradient.
    plain = flat_gradient(losses_of(layer(x.expand(-1, 4000, -1))[0]).mean(), layer)
    assert float((plain - gradient).norm()) > 0.2 * float(gradient.norm())


def flat_gradient(loss: Tensor, layer: Any) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(layer.parameters()))])


def close_to_mean(values: Tensor, truth: Tensor) -> None:
    """The mean over the first axis is the truth up to its own error: 5.5 deviations, for each of many numbers."""
    deviation = values.std(0) / len(values) ** 0.5
    assert bool(((values.mean(0) - truth).abs() <= 5.5 * deviation + 1e-9).all())


def test_a_baseline_makes_less_noise_and_no_bias() -> None:
    losses, log_p = 10 + torch.randn(4000).double(), torch.randn(4000).double()  # log p stands for its derivative
    one = torch.ones(()).double()
    with_mean, without = RunningBaseline(dtype=torch.float64), RunningBaseline(dtype=torch.float64)
    for _ in range(50):
        with_mean.update(10.0)
    terms = [
        [float(b(x[None], one, d[None])) for x, d in zip(losses, log_p, strict=True)] for b in (with_mean, without)
    ]
    assert torch.tensor(terms[0]).std() < 0.2 * torch.tensor(terms[1]).std()


def test_the_running_mean_follows_the_loss() -> None:
    baseline = RunningBaseline()
    baseline.update(3.0)
    assert float(baseline.mean) == 3.0  # the first step decides, before that it is 0
    for _ in range(200):
        baseline.update(1.0)
    assert abs(float(baseline.mean) - 1.0) < 1e-3
    assert set(baseline.state_dict()) == {"mean", "steps"}


def test_lengths_and_order_of_the_log_probabilities() -> None:
    layer, x = layer_of("sample", num_layers=2), torch.randn(5, 3, 2, dtype=torch.float64)
    with DRAWS.noted() as draws:
        _, h_n = layer(x, lengths=[2, 5, 0])
    assert len(draws) == 1
    close(draws[0], h_n[-1][:, :, 0].sum(0))
    assert float(draws[0][2].detach()) == 0.0
    assert float(draws[0][1].detach()) < float(draws[0][0].detach()) < 0
    layer(x)
    assert len(draws) == 1, "only calls inside the context count"
    with DRAWS.noted() as draws:
        layer(x[:, 0])  # a single sequence
        autapse.GRU(2, 3)(x.float())
        layer_of("straight-through")(x)
    assert [tuple(d.shape) for d in draws] == [(1,)]


def test_both_directions_draw() -> None:
    layer = layer_of("sample", bidirectional=True)
    with DRAWS.noted() as draws:
        _, h_n = layer(torch.randn(4, 2, 2, dtype=torch.float64))
    close(draws[0], h_n[-1][:, :, 0].sum(0))


@pytest.mark.parametrize("hard", ["sample", "straight-through"])
def test_recomputation_in_the_backward_pass_draws_the_same(hard: str) -> None:
    x, found = torch.randn(7, 3, 2, dtype=torch.float64), []
    for every in (None, 2):
        layer = layer_of(hard, checkpoint_every=every)
        torch.manual_seed(5)
        output, h_n = layer(x)
        loss = output.square().sum() + (h_n[-1].sum() if hard == "sample" else 0)
        found.append([output, *torch.autograd.grad(loss, list(layer.parameters()))])
    close(found[1], found[0])


def test_steps_that_are_computed_several_times_cannot_draw() -> None:
    with pytest.raises(
        InputError, match=r"unfold must be None: Memory draws random numbers, and Parallel\(\) computes"
    ):
        layer_of("sample", unfold=autapse.unfold.Parallel())
