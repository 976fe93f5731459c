"""Networks that learn side by side."""

import threading

import numpy as np
import pytest
import torch

from autapse.layers.noise import generator
from autapse.tasks import ArrayTask
from autapse.training import ModelConfig, RunConfig, TrainingConfig
from autapse.training.loop import Loop, threads
from autapse.training.side_by_side import SideBySide, _use_threads


def trained(count: int, **model) -> dict[str, torch.Tensor]:
    """The weights of three networks after four steps, with so many threads."""
    rng = np.random.default_rng(0)
    task = ArrayTask(rng.normal(size=(12, 6, 2)), ["a", "b", "c"] * 4, test_share=0.0, validation=0.0)
    config = RunConfig(
        task=task,
        model=ModelConfig(members=3, **{"hidden_size": (4, 4), **model}),
        training=TrainingConfig(steps=4, batch_size=5, augment="jitter=0.1,scaling=0.1", threads=count),
    )
    loop = Loop(config)
    loop.run()
    return loop.model.state_dict()


@pytest.mark.parametrize(
    "model",
    [
        {"dropout": 0.3, "input_dropout": 0.2, "output_dropout": 0.2, "input_noise": 0.1},
        {"front": "conv:channels=4:kernels=3:pool=2", "readout": "mean-max", "output_norm": True},
        {"cell": "implicitgru", "hidden_size": (3,)},
    ],
    ids=["dropout", "conv", "implicit"],
)
@pytest.mark.parametrize("count", [2, 3])
def test_the_number_of_threads_changes_no_bit(model, count):
    expected, found = trained(1, **model), trained(count, **model)
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("setting", [{"information_flow": 1.0}, {"clip_hidden": 1e-3}], ids=str)
def test_settings_of_the_backward_pass_act_on_each_network_as_on_one_alone(setting):
    """The gradient of each of two networks is half of what it is alone."""
    rng = np.random.default_rng(0)
    task = ArrayTask(rng.normal(size=(12, 6, 2)), ["a", "b", "c"] * 4, test_share=0.0, validation=0.0)

    def gradients(count):
        settings = TrainingConfig(steps=1, batch_size=12, **setting)
        loop = Loop(
            RunConfig(task=task, model=ModelConfig(cell="rnn", hidden_size=4, members=count), training=settings)
        )
        loop._seed_step()
        loop._backward(loop.feed.sequences(0))
        return [p.grad for p in loop.model.members[0].layer.parameters()]

    for one, half in zip(gradients(1), gradients(2), strict=True):
        torch.testing.assert_close(half, one / 2)


def test_each_call_has_a_thread_and_numbers_of_its_own():
    barrier = threading.Barrier(2)  # passes only if both calls run at the same time

    def call(name: str) -> tuple[str, int, float]:
        barrier.wait(timeout=60)
        return name, torch.get_num_threads(), float(torch.rand((), generator=generator()))

    with threads(2):
        (first, own, one), (second, _, two) = SideBySide().map(call, ["a", "b"])
        assert torch.get_num_threads() == 2
    assert (first, second, own) == ("a", "b", 1)
    assert one != two


def test_a_worker_keeps_its_number_of_threads():
    """Also if the first operation comes after another thread has set its own number."""
    ready, changed, seen = threading.Event(), threading.Event(), []

    def work() -> None:
        _use_threads(1)
        ready.set()
        changed.wait(timeout=60)
        seen.append(torch.get_num_threads())

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(timeout=60)
    with threads(2):
        changed.set()
        thread.join()
    assert seen == [1]


def test_the_numbers_follow_torchs_seed():
    def draws() -> list[float]:
        torch.manual_seed(4)
        return SideBySide().map(lambda _: float(torch.rand((), generator=generator())), range(3))

    assert draws() == draws()


def test_an_error_reaches_the_caller():
    def fails(name: str) -> None:
        raise ValueError(name)

    with threads(2), pytest.raises(ValueError, match="a"):
        SideBySide().map(fails, ["a", "b"])
