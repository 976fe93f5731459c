"""Readouts against loops over single sequences; and models that use them."""

import pytest
import torch
from scipy.special import softmax

from autapse import checks
from autapse.models import Classifier, Regressor, StepRegressor, Tagger
from autapse.models.readout import KINDS, Readout
from tolerance import close

LENGTHS = [6, 2, 4, 1]
BY_HAND = {
    "last": lambda x, query: x[-1],
    "mean": lambda x, query: x.mean(0),
    "max": lambda x, query: x.amax(0),
    "mean-max": lambda x, query: torch.cat([x.mean(0), x.amax(0)]),
    "attention": lambda x, query: torch.from_numpy(softmax((x @ query).numpy()) @ x.numpy()),
}


def batch():
    return torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def readout_of(kind):
    readout = Readout(kind, 3, dtype=torch.float64)
    if kind == "attention":
        readout.query.data = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    return readout


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("garbage", [0.0, 1e30, float("nan")])
def test_a_readout_of_a_padded_batch_is_that_of_each_sequence(kind, garbage):
    readout, x = readout_of(kind), batch()
    query = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    for n, length in enumerate(LENGTHS):
        x[n, length:] = garbage
    expected = torch.stack([BY_HAND[kind](x[n, :length], query) for n, length in enumerate(LENGTHS)])
    close(readout(x, LENGTHS), expected)
    assert readout.output_size == expected.shape[1]
    full = batch()
    close(readout(full), torch.stack([BY_HAND[kind](one, query) for one in full]))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_padding_are_zero(kind):
    x = batch().requires_grad_()
    readout_of(kind)(x, LENGTHS).square().sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all((x.grad[n, length:] == 0).all() for n, length in enumerate(LENGTHS))
    assert all((x.grad[n, :length] != 0).any() for n, length in enumerate(LENGTHS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_without_steps_reads_zeros(kind):
    out = readout_of(kind)(batch(), [6, 0, 3, 2])
    assert (out[1] == 0).all()
    assert torch.isfinite(out).all()


def test_attention_starts_as_a_mean_and_learns():
    readout, x = Readout("attention", 3, dtype=torch.float64), batch()
    close(readout(x, LENGTHS), Readout("mean", 3)(x, LENGTHS))
    readout(x, LENGTHS).square().sum().backward()
    assert (readout.query.grad != 0).all()


@pytest.mark.parametrize("readout", KINDS)
@pytest.mark.parametrize("front", ["none", "frames:size=2", "conv:channels=5:kernels=3,3:pool=2"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_model_reads_each_sequence_alone(readout, front, bidirectional):
    torch.manual_seed(0)
    settings = {"readout_front": front != "none", "output_norm": True, "output_dropout": 0.5}
    model = Classifier("gru", 3, 2, 4, None, 0.0, bidirectional, front=front, readout=readout, **settings)
    model, x = model.double().eval(), batch()
    alone = [model(x[n : n + 1, :length]) for n, length in enumerate(LENGTHS)]
    close(model(x, LENGTHS), torch.cat(alone))
    close(model(x[0]), alone[0][0])  # a single sequence without a batch


def test_the_head_reads_the_layer_and_the_front_end():
    """Against torch.nn.GRU, and the front end by itself."""
    torch.manual_seed(0)
    x = batch().float()
    model = Regressor("gru", 3, 2, 4, front="frames:size=2", readout="mean-max", readout_front=True).eval()
    twin = torch.nn.GRU(6, 4, batch_first=True)
    twin.load_state_dict(model.layer.state_dict())
    frames = x.reshape(4, 3, 6)
    out = twin(frames)[0]
    features = torch.cat([out.mean(1), out.amax(1), frames.mean(1), frames.amax(1)], dim=1)
    close(model(x), model.head(features))


def test_normalisation_of_a_tagger_ignores_padding():
    torch.manual_seed(0)
    model, x = Tagger("gru", 3, 2, 4, output_norm=True).double(), batch()
    twin = torch.nn.GRU(3, 4, batch_first=True).double()
    twin.load_state_dict(model.layer.state_dict())
    rows = torch.cat([twin(x[n : n + 1, :length])[0][0] for n, length in enumerate(LENGTHS)])
    expected = model.head((rows - rows.mean(0)) / (rows.var(0, correction=0) + 1e-5).sqrt())
    out = model(x, LENGTHS)
    close(torch.cat([out[n, :length] for n, length in enumerate(LENGTHS)]), expected)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Classifier, {"readout": "first"}, "readout must be one of last, mean, max, mean-max, attention"),
        (Classifier, {"readout_front": True}, "readout_front must be False without a front end"),
        (Classifier, {"readout_front": 1}, "readout_front must be True or False"),
        (Tagger, {"readout": "mean"}, "readout must be last for a Tagger"),
        (Tagger, {"front": "conv", "readout_front": True}, "readout_front must be False"),
        (Classifier, {"streaming": True, "bidirectional": True}, "bidirectional must be False with streaming"),
        (Classifier, {"streaming": 1}, "streaming must be True or False"),
    ],
)
def test_bad_settings(kind, settings, message):
    with pytest.raises(checks.InputError, match=message):
        kind("gru", 3, 2, 4, **settings)


def test_streaming_needs_a_cell_that_looks_back():
    with pytest.raises(checks.InputError, match="cell must not look ahead with streaming; got 'ImplicitGRU'"):
        Classifier("implicitgru", 3, 2, 4, streaming=True)


def test_values_at_every_step_are_in_the_unit_of_the_targets():
    torch.manual_seed(0)
    model, x = StepRegressor("gru", 3, 2, 4, target_mean=[5.0, -3.0], target_scale=[2.0, 10.0]), batch().float()
    twin = torch.nn.GRU(3, 4, batch_first=True)
    twin.load_state_dict(model.layer.state_dict())
    out = model.head(twin(x)[0])
    close(model(x), torch.stack([5 + 2 * out[..., 0], -3 + 10 * out[..., 1]], dim=-1))
