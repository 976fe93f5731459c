"""Random changes of training sequences: what each does to values, lengths and targets."""

from types import SimpleNamespace

import pytest
import torch

from autapse import checks
from autapse.tasks import IGNORE
from autapse.training import TrainingConfig, fit
from autapse.training.amounts import Amounts, augmentation
from autapse.training.augment import change_batch, changed_inputs
from autapse.training.feeds import Batch
from small import small_config

OFF = dict.fromkeys(("jitter", "scaling", "slice", "warp", "mixup"), 0.0)


def only(**amounts: float) -> Amounts:
    return Amounts(**{**OFF, **amounts})


def test_a_name_alone_has_its_own_amount():
    assert augmentation("jitter, mixup=0.4") == only(jitter=0.05, mixup=0.4)
    assert augmentation("none") == only()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jiter", "augment must be one of jitter, .*; got 'jiter'. Did you mean 'jitter'?"),
        ("jitter=-1", "augment must have amounts above 0; got 'jitter=-1'"),
        ("warp=1.5", "augment must have amounts above 0 and below 1; got 'warp=1.5'"),
        ("none, jitter", "augment must be none alone"),
    ],
)
def test_a_setting_that_means_nothing_is_an_error(text, message):
    with pytest.raises(checks.InputError, match=message):
        TrainingConfig(augment=text)


def reader(inputs: torch.nn.Module) -> SimpleNamespace:
    """As much of a model as is changed."""
    return SimpleNamespace(members=[SimpleNamespace(inputs=inputs)])


def test_jitter_has_its_deviation_in_half_of_the_sequences_and_only_in_training():
    torch.manual_seed(0)
    inputs = torch.nn.Identity()
    model = reader(inputs)
    x = torch.zeros(400, 50, 2)
    with changed_inputs(model, only(jitter=0.3)):
        changed = inputs(x)
    moved = changed.abs().sum((1, 2)) > 0
    assert 150 < int(moved.sum()) < 250
    assert changed[moved].std() == pytest.approx(0.3, rel=0.02)
    assert torch.equal(inputs(x), x)


def test_scaling_multiplies_a_channel_by_one_factor():
    torch.manual_seed(0)
    inputs = torch.nn.Identity()
    model = reader(inputs)
    x = torch.rand(50, 20, 3) + 1
    with changed_inputs(model, only(scaling=0.2)):
        factors = inputs(x) / x
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))
    assert factors.std() > 0.05


def test_a_stretched_line_is_still_monotone_and_stays_inside_the_sequence():
    """Sequences that count their own steps show the times at which they are read."""
    torch.manual_seed(1)
    lengths = torch.tensor([10, 20, 1, 20] * 20)
    x = torch.arange(20.0)[None, :, None].repeat(80, 1, 1) * (torch.arange(20)[None] < lengths[:, None])[..., None]
    batch, mixed = change_batch(Batch(x, torch.zeros(80), lengths), only(slice=0.5, warp=0.5), per_step=False)
    assert mixed is None
    for row, length in zip(batch.inputs[..., 0], lengths.tolist(), strict=True):
        assert (row[:length].diff() >= 0).all()
        assert 0 <= row[0] <= row[length - 1] <= length - 1
        assert (row[length:] == 0).all()
    assert not torch.equal(batch.inputs, x)


@pytest.mark.parametrize("values", [False, True])
def test_targets_of_steps_move_with_their_steps(values):
    torch.manual_seed(2)
    x = torch.arange(30.0)[None, :, None].repeat(40, 1, 1)
    targets = x.repeat(1, 1, 2) if values else x[..., 0].long()
    batch, _ = change_batch(Batch(x, targets), only(slice=0.4), per_step=True)
    assert batch.targets.shape == targets.shape
    assert ((batch.inputs[..., 0] - (batch.targets[..., 1] if values else batch.targets)).abs() <= 0.5).all()
    assert not torch.equal(batch.inputs, x)


def test_mixing_two_sequences_mixes_both_targets_over_the_steps_that_both_have():
    torch.manual_seed(0)
    targets = torch.tensor([[1, 1, IGNORE], [2, 2, 2]])
    x = targets.float().clamp(min=0)[..., None]
    tries = [change_batch(Batch(x, targets, torch.tensor([2, 3])), only(mixup=1.0), per_step=True) for _ in range(20)]
    batch, mixed = next((batch, mixed) for batch, mixed in tries if mixed and mixed.targets[0, 0] == 2)
    assert batch.lengths.tolist() == [2, 2]
    assert batch.targets.tolist() == [[1, 1, IGNORE], [2, 2, IGNORE]]
    assert mixed.targets.tolist() == [[2, 2, IGNORE], [1, 1, IGNORE]]
    torch.testing.assert_close(batch.inputs[0, :2, 0], torch.full((2,), 1 + mixed.share))
    assert 0 <= mixed.share <= 0.5


def test_a_missing_value_does_not_spread():
    torch.manual_seed(0)
    x = torch.ones(20, 30, 1)
    x[:, 10] = torch.nan
    batch, _ = change_batch(Batch(x, torch.zeros(20)), only(slice=0.3, warp=0.3), per_step=False)
    assert int(batch.inputs.isnan().sum()) < 3 * 20
    assert (batch.inputs[~batch.inputs.isnan()] == 1).all()


def test_augmented_training_has_the_same_bits_twice_and_others_than_without():
    text = "jitter, scaling, slice, warp, mixup"
    models = [fit(small_config(augment=augment)).model for augment in (text, text, "none")]
    one, same, plain = (model.head.weight for model in models)
    assert torch.equal(one, same)
    assert not torch.equal(one, plain)
