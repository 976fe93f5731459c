from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from autapse.tasks import Adding, Data
from autapse.training import Diverged, train
from autapse.training.clipping import clip, finite
from autapse.training.log import read_metrics
from autapse.training.rescue import random_step
from small import TASK, final_tensors, small_config


@dataclass(frozen=True, kw_only=True)
class Poisoned(Adding):
    """Adding with inputs that are not finite in some training sequences."""

    name: ClassVar[str] = "poisoned"
    every: int = 1

    def split(self, split, seed):
        data = super().split(split, seed)
        if split == "train":
            data.inputs[:: self.every, 0, 0] = np.inf
        return data


def poisoned(every: int) -> Poisoned:
    return Poisoned(length=10, train_size=200, validation_size=40, test_size=40, every=every)


def parameters(*gradients):
    found = []
    for g in gradients:
        p = torch.nn.Parameter(torch.zeros(len(g), dtype=torch.float64))
        p.grad = torch.tensor(g, dtype=torch.float64)
        found.append(p)
    return found


def test_clipping_by_norm_scales_all_gradients_together():
    found = parameters([3.0, 0.0], [4.0])
    assert clip(found, norm=1.0, value=None) == pytest.approx(5.0)
    assert found[0].grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-5)
    assert found[1].grad.tolist() == pytest.approx([0.8], rel=1e-5)


def test_a_short_gradient_is_not_lengthened():
    found = parameters([0.3], [0.4])
    clip(found, norm=1.0, value=None)
    assert [p.grad.item() for p in found] == pytest.approx([0.3, 0.4])


def test_clipping_by_value_comes_before_the_norm():
    found = parameters([30.0, -0.1])
    assert clip(found, norm=0.5, value=1.0) == pytest.approx(np.hypot(30, 0.1))
    assert found[0].grad.tolist() == pytest.approx([0.5 / np.hypot(1, 0.1), -0.05 / np.hypot(1, 0.1)], rel=1e-5)


def test_large_but_finite_gradients_are_clipped_not_rescued():
    p = torch.nn.Parameter(torch.zeros(3))
    p.grad = torch.full((3,), 1e20)  # its norm overflows float32
    assert clip([p], norm=1.0, value=None) == pytest.approx(3**0.5 * 1e20, rel=1e-6)
    assert p.grad.tolist() == pytest.approx([3**-0.5] * 3, rel=1e-5)
    p.grad = torch.full((3,), 1e20)
    clip([p], norm=None, value=2.0)
    assert p.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_told_and_left(bad):
    found = parameters([bad, 1.0])
    assert not finite(clip(found, norm=1.0, value=1.0))
    assert found[0].grad[1] == 1.0


def test_a_random_step_has_its_length_and_its_seed():
    def stepped(seed):
        found = parameters([0.0] * 20, [0.0] * 30)
        random_step(found, rate=0.1, norm=2.0, seed=seed)
        return torch.cat([p.detach() for p in found])

    assert float(stepped(1).norm()) == pytest.approx(0.2, rel=1e-6)
    assert torch.equal(stepped(1), stepped(1))
    assert not torch.equal(stepped(1), stepped(2))


@pytest.mark.parametrize("rescue", ["skip", "random"])
def test_a_run_survives_poisoned_batches(tmp_path, rescue):
    folder = tmp_path / "run"
    config = small_config(poisoned(every=100), rescue=rescue, steps=60, learning_rate=0.03)  # 2 of 200 sequences
    summary = train(config, folder)
    events = [r for r in read_metrics(folder / "metrics.jsonl") if r.get("event") == "rescue"]
    assert summary["rescues"] == len(events) > 0
    assert {e["action"] for e in events} == {rescue}
    assert all(bool(t.isfinite().all()) for t in final_tensors(folder).values())
    assert summary["test"] < 0.5  # about 7/6 before training, 1/6 for the mean of the targets


def test_skipping_takes_no_step_at_all(tmp_path):
    with pytest.raises(Diverged):
        train(small_config(poisoned(every=1), max_rescues=3), tmp_path / "run")
    tensors = final_tensors(tmp_path / "run")
    fresh = train(small_config(TASK, steps=1, eval_every=1, learning_rate=1e-30), tmp_path / "fresh")
    assert fresh["rescues"] == 0
    untouched = final_tensors(tmp_path / "fresh")
    for name in (n for n in tensors if n.startswith("model.")):
        torch.testing.assert_close(tensors[name], untouched[name], rtol=0, atol=1e-25)


def test_a_run_that_cannot_recover_names_step_batch_and_checkpoint(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Diverged, match=r"4 gradients in a row .* at step 3 .* \[\d+, .*checkpoint-0\.safetensors"):
        train(small_config(poisoned(every=1), max_rescues=3), folder)
    last = read_metrics(folder / "metrics.jsonl")[-1]
    assert last["event"] == "diverged"
    assert len(last["sequences"]) == 16


def test_data_of_the_poisoned_task_is_poisoned():
    data: Data = poisoned(every=100).split("train", 0)
    assert np.isinf(data.inputs).sum() == 2
