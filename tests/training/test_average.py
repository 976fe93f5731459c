"""Weights averaged over the end of the training, and the statistics of batch norms that belong to them."""

import pytest
import torch
from torch import nn

from autapse.models import Classifier
from autapse.training import Loop, Trainer, fit, train
from autapse.training.average import Average, averaged
from autapse.training.evaluation import Scores
from autapse.training.feeds import Batch
from small import final_tensors, small_config, stopped_at


def test_the_kept_weights_are_the_mean_of_the_last_steps():
    """Against a list of all weights: 30 steps, the last third is averaged."""
    loop = Loop(small_config(average=1 / 3, select_by="last"))
    seen, update = [], loop._update

    def noting(rate: float) -> None:
        update(rate)
        seen.append(loop.model.head.weight.detach().clone())

    loop._update = noting
    loop.run()
    torch.testing.assert_close(loop.model.head.weight, torch.stack(seen[20:]).mean(0))
    assert loop.progress.averaged == 10


def test_a_run_without_averaging_is_unchanged():
    assert fit(small_config()).progress.averaged == 0


@pytest.mark.parametrize(("select_by", "kept"), [("score", 10), ("loss", 20), ("last", 30)])
def test_the_weights_are_kept_that_the_setting_names(monkeypatch, select_by, kept):
    """The last validation, of the average, is neither the best score nor the lowest loss."""
    scores = iter([Scores(0.1, 2.0), Scores(0.2, 1.0), Scores(0.3, 3.0)])
    monkeypatch.setattr(Loop, "_measure", lambda loop, data: next(scores))
    progress = fit(small_config(average=0.2, select_by=select_by)).progress
    assert progress.best_step == kept
    assert progress.best == kept / 100


def test_statistics_of_batch_norms_are_recomputed_for_the_mean_weights():
    """For mean weights, the running mean is the mean of what the norm reads with these weights."""
    torch.manual_seed(0)
    model = Classifier("gru", 2, 3, hidden_size=4)
    model.head = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    batches = [Batch(torch.randn(8, 5, 2), torch.zeros(8)) for _ in range(3)]
    average = Average(model)
    average.add()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.5)
    average.add()
    own = {name: value.clone() for name, value in model.state_dict().items()}
    with averaged(model, average, batches), torch.no_grad():
        read = torch.stack([model.layer(batch.inputs)[0][:, -1].mean(0) for batch in batches]).mean(0)
        torch.testing.assert_close(model.head[0].running_mean, read)
        torch.testing.assert_close(model.head[1].weight, own["head.1.weight"] - 0.25)
        assert model.head[0].momentum == 0.1
    assert all(torch.equal(value, own[name]) for name, value in model.state_dict().items())


def test_a_run_stopped_while_it_averages_resumes_to_the_bit(tmp_path):
    settings = {"average": 0.5, "augment": "jitter, warp, mixup", "warmup": 0.2, "schedule": "cosine"}
    config = small_config(dropout=0.1, select_by="loss", **settings)
    train(config, tmp_path / "whole")
    stopped_at(22, tmp_path / "cut", config)
    assert final_tensors(tmp_path / "cut")["average.head.weight"].shape == (1, 5)
    Trainer.resume(tmp_path / "cut").train()
    whole, cut = (final_tensors(tmp_path / name) for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
