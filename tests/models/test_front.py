"""Front ends against loops over single sequences, written from their definition with torch.nn's modules."""

import pytest
import torch
from torch.nn import functional as F

from autapse import checks
from autapse.models import Classifier, LanguageModel, QuestionAnswering, Tagger
from autapse.models.front import Convolutions, Frames, make_front
from tolerance import close

LENGTHS = [11, 4, 1, 7]


def batch(channels=3, dtype=torch.float64):
    return torch.randn(4, 11, channels, dtype=dtype, generator=torch.Generator().manual_seed(0))


def front_of(spec, channels=3, length=0, causal=False, every_step=False):
    torch.manual_seed(0)
    return make_front(spec, channels, length, causal, every_step, dtype=torch.float64)


def by_hand(front, x, causal=False):
    """One sequence, [T, D] -> [T', C]: torch's conv1d and batch_norm with given statistics, and a loop over windows."""
    y = x.T[None]
    for convolution, norm, pool in zip(front.convolutions, front.norms, front.pools, strict=True):
        k = convolution.weight.shape[2]
        left = k - 1 if causal else (k - 1) // 2
        y = F.conv1d(F.pad(y, (left, k - 1 - left)), convolution.weight)
        y = F.relu(F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias))
        windows = [y[..., first : first + pool] for first in range(0, y.shape[2], pool)]
        y = torch.stack([w.amax(2) if front.pooling == "max" else w.mean(2) for w in windows], dim=2)
    return y[0].T


def shaken(front):
    """Other statistics and weights than the initial ones, so that the test sees them."""
    for norm in front.norms:
        for tensor in (norm.running_mean, norm.weight.data, norm.bias.data):
            tensor.copy_(torch.randn_like(tensor))
        norm.running_var.uniform_(0.5, 2)
    return front.eval()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "options", ["kernels=5,3:pool=1", "kernels=5,4:pool=3", "kernels=3:pool=4:pooling=mean", "kernels=3,2,3:pool=2,1,3"]
)
def test_convolutions_of_a_padded_batch_are_those_of_each_sequence(options, causal):
    front, x = shaken(front_of(f"conv:channels=6:{options}", causal=causal)), batch()
    y, lengths = front(x, LENGTHS)
    for n, (length, rest) in enumerate(zip(LENGTHS, lengths.tolist(), strict=True)):
        expected = by_hand(front, x[n, :length], causal)
        assert rest == len(expected)
        close(y[n, :rest], expected)
    close(front(x)[0], torch.stack([by_hand(front, one, causal) for one in x]))


@pytest.mark.parametrize("spec", ["conv:channels=4:pool=2,1,3", "conv:channels=4:pool=3:pooling=mean", "frames:size=3"])
def test_padding_changes_no_bit(spec):
    """Neither the results and gradients, nor the statistics that training measures."""
    results = []
    for garbage in (0.0, 1e30, float("nan")):
        front, x = front_of(spec).train(), batch()
        for n, length in enumerate(LENGTHS):
            x[n, length:] = garbage
        x.requires_grad_()
        y, lengths = front(x, LENGTHS)
        (used,) = torch.autograd.grad(sum(y[n, :rest].square().sum() for n, rest in enumerate(lengths)), x)
        kept = [one[:length] for one, length in zip(used, LENGTHS, strict=True)]
        outputs = [one[:rest] for one, rest in zip(y, lengths, strict=True)]
        results.append([*outputs, *kept, *front.state_dict().values()])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_batch_norm_measures_the_steps_of_the_sequences():
    front, x = front_of("conv:channels=5:kernels=3").train(), batch()
    front(x, LENGTHS)
    weight = front.convolutions[0].weight
    alone = [F.conv1d(x[n : n + 1, :length].transpose(1, 2), weight, padding=1)[0] for n, length in enumerate(LENGTHS)]
    rows = torch.cat(alone, dim=1)  # [C, sum of lengths]
    close(front.norms[0].running_mean, 0.1 * rows.mean(1))
    close(front.norms[0].running_var, 0.9 + 0.1 * rows.var(1))


@pytest.mark.parametrize("size", [1, 3, 20])
def test_frames(size):
    x = batch()
    y, lengths = Frames(3, size=size)(x, LENGTHS)
    for n, length in enumerate(LENGTHS):
        rows = [*x[n, :length], *[torch.zeros(3, dtype=x.dtype)] * (-length % size)]
        expected = torch.cat(rows).view(-1, 3 * size)
        assert torch.equal(y[n, : lengths[n]], expected)


def test_about_so_many_steps_remain():
    assert make_front("conv:steps=150", 1, 1460, False, False).pools == [3, 1, 3]
    assert make_front("conv:steps=150", 1, 300, False, False).pools == [1, 1, 2]
    assert make_front("conv:steps=150", 1, 500, False, False).pools == [2, 1, 2]
    assert make_front("conv:kernels=5,3", 1, 500, False, False).pools == [2, 2]
    assert make_front("conv:kernels=3", 1, 1460, False, False).pools == [10]
    assert make_front("conv:steps=150", 1, 100, False, False).pool == 1
    assert make_front("conv", 1, 0, False, False).pool == 1
    assert make_front("conv:pool=7", 1, 1460, False, False).pools == [1, 1, 7]
    assert make_front("conv:pool=7,2,1", 1, 1460, False, False).pool == 14
    assert make_front("conv", 1, 1460, False, True).pool == 1  # an output at every step


def test_options_are_read():
    front = make_front("conv:channels=8:kernels=9,5:pooling=mean:pool=2", 3, 0, False, False)
    assert [tuple(c.weight.shape) for c in front.convolutions] == [(8, 3, 9), (8, 8, 5)]
    assert (front.pool, front.pooling, front.output_size) == (2, "mean", 8)
    assert make_front("none", 3, 0, False, False) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cnv", "front must be one of none, frames, conv; got 'cnv'. Did you mean 'conv'"),
        ("conv:chanels=8", "front must be conv with options from: channels, .*Did you mean 'channels'"),
        ("conv:channels=8:channels=9", "each option once"),
        ("conv:channels=0", "front: channels must be an integer of at least 1; got 0"),
        ("conv:kernels=3,x", "front: kernels must be"),
        ("conv:kernels=0", "front: kernels must be an integer of at least 1"),
        ("conv:pool=2,2", "front: pool must be one integer, or one for each of the 3 kernels"),
        ("conv:pooling=sum", "front: pooling must be one of max, mean"),
        ("conv:causal=true", "options from"),
        ("frames:size=0", "front: size must be an integer of at least 1"),
        ("frames:4", "as in frames:option=value"),
        ("none:size=3", "front must be none without options"),
        (3, "front must be text"),
    ],
)
def test_bad_front_ends(spec, message):
    with pytest.raises(checks.InputError, match=message):
        make_front(spec, 3, 0, False, False)


def test_a_model_with_an_output_at_every_step_keeps_its_steps():
    model = Tagger("gru", 3, 2, hidden_size=4, front="conv:channels=4", length=10_000)
    assert model(torch.zeros(2, 9, 3)).shape == (2, 9, 2)
    for front in ("frames:size=2", "conv:pool=2"):
        with pytest.raises(checks.InputError, match="front must keep the number of steps"):
            Tagger("gru", 3, 2, hidden_size=4, front=front)


@pytest.mark.parametrize("kind", [LanguageModel, QuestionAnswering])
@pytest.mark.parametrize("setting", [{"front": "conv"}, {"readout": "mean"}, {"output_norm": True}])
def test_models_without_a_front_end(kind, setting):
    with pytest.raises(checks.InputError, match=f"{next(iter(setting))} must keep its default for a {kind.__name__}"):
        kind("gru", 1, 5, hidden_size=4, vocabularies=[5], embedding_size=[3], **setting)


def test_one_step_alone_can_be_trained_on():
    model = Classifier("gru", 3, 2, hidden_size=4, front="conv:channels=4:pool=5", output_norm=True)
    model(torch.ones(1, 1, 3)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_a_causal_front_end_ignores_later_steps():
    front, x = shaken(front_of("conv:channels=4", causal=True)), batch()
    whole, _ = front(x)
    part, _ = front(x[:, :5])
    close(whole[:, :5], part)
    assert not torch.allclose(shaken(front_of("conv:channels=4"))(x)[0][:, :5], part)


def test_convolutions_start_from_given_sizes():
    front = Convolutions(2, channels=4, kernels=3, device="meta")
    assert all(tensor.is_meta for tensor in front.state_dict().values())
