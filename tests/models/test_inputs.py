"""Words and numbers made readable, against lookups and arithmetic by hand."""

import math

import pytest
import torch

from autapse import checks
from autapse.models import Classifier
from autapse.models.inputs import Inputs


def test_words_are_looked_up_and_numbers_follow():
    inputs = Inputs(4, vocabularies=[5, 3], embedding_size=[2, 6], dtype=torch.float64)
    x = torch.tensor([[[4, 0, 7, -1], [0, 2, 0, 9]]], dtype=torch.int32)
    first, second = (table.weight.detach() for table in inputs.tables)
    by_hand = [
        torch.cat([first[4], second[0], torch.tensor([7.0, -1.0])]),
        torch.cat([first[0], second[2], torch.tensor([0.0, 9.0])]),
    ]
    assert torch.equal(inputs(x), torch.stack(by_hand)[None])
    assert inputs.output_size == 2 + 6 + 2
    assert inputs(x).dtype == torch.float64


def test_vectors_of_words_start_small():
    (table,) = Inputs(1, vocabularies=[300], embedding_size=[40]).tables
    assert 0.099 < table.weight.abs().max() <= 0.1
    assert table.weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.02)  # a uniform distribution's


def test_the_last_size_holds_for_further_vocabularies():
    inputs = Inputs(5, vocabularies=[5, 4, 3], embedding_size=[7, 2])
    assert [tuple(table.weight.shape) for table in inputs.tables] == [(5, 7), (4, 2), (3, 2)]
    assert inputs.output_size == 7 + 2 + 2 + 2


@pytest.mark.parametrize("kind", [torch.uint8, torch.int32, torch.float32, torch.float64])
def test_numbers_are_standardised(kind):
    inputs = Inputs(2, mean=(10.0, 0.0), scale=(2.0, 255.0))
    x = torch.tensor([[[0, 255], [14, 51]]]).to(kind)
    expected = torch.tensor([[[-5.0, 1.0], [2.0, 0.2]]])
    torch.testing.assert_close(inputs(x).float(), expected)
    assert set(inputs.state_dict()) == {"mean", "scale"}  # they go with the weights


def test_mean_or_scale_alone():
    x = torch.tensor([[[4.0]]])
    assert Inputs(1, mean=(1.0,))(x).item() == 3
    assert Inputs(1, scale=(2.0,))(x).item() == 2


def test_words_and_standardised_numbers():
    inputs = Inputs(2, vocabularies=[3], embedding_size=[1], mean=(5.0,), scale=(2.0,))
    out = inputs(torch.tensor([[[1, 9]]]))
    assert out[0, 0].tolist() == [inputs.tables[0].weight[1, 0].item(), 2.0]


def test_numbers_as_they_are():
    x = torch.randn(2, 3, 4)
    assert torch.equal(Inputs(4)(x), x)
    assert torch.equal(Inputs(2)(torch.tensor([[[3, 255]]], dtype=torch.uint8)), torch.tensor([[[3.0, 255.0]]]))


def test_dropout_acts_in_training_only():
    inputs = Inputs(1, dropout=0.5)
    x = torch.ones(1, 4000, 1)
    dropped = inputs(x)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert abs(float((dropped == 0).float().mean()) - 0.5) < 5 * 0.5 / 4000**0.5
    assert torch.equal(inputs.eval()(x), x)


def test_noise_is_added_in_training_only():
    torch.manual_seed(0)
    inputs, x = Inputs(2, noise=0.3), torch.zeros(50, 40, 2)
    assert torch.equal(inputs.eval()(x), x)
    noise = inputs.train()(x)
    assert abs(float(noise.std()) / 0.3 - 1) < 5 / math.sqrt(2 * x.numel())
    with pytest.raises(checks.InputError, match="noise must be a finite number at least 0"):
        Inputs(2, noise=-1.0)


def test_a_pixel_in_bytes_is_the_pixel_in_floats():
    torch.manual_seed(0)
    model = Classifier("gru", 1, 3, hidden_size=4, mean=(0.0,), scale=(255.0,))
    bare = Classifier("gru", 1, 3, hidden_size=4)
    bare.load_state_dict({name: value for name, value in model.state_dict().items() if "inputs" not in name})
    pixels = torch.randint(0, 256, (2, 9, 1), dtype=torch.uint8)
    torch.testing.assert_close(model(pixels), bare(pixels.float() / 255))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabularies": [3, 3, 3], "embedding_size": [2]}, "input_size must be at least 3, one column per vocab"),
        ({"vocabularies": [3]}, "embedding_size must have a size for the vocabularies"),
        ({"vocabularies": [3], "embedding_size": [2, 2]}, "must have one entry per column"),
        ({"vocabularies": [3], "embedding_size": [0]}, "embedding_size must be an integer of at least 1"),
        ({"vocabularies": [0], "embedding_size": [2]}, "vocabularies must be an integer of at least 1"),
        ({"mean": [1.0]}, "must have one entry per column"),
        ({"scale": [1.0, 1.0, 1.0]}, "must have one entry per column"),
    ],
)
def test_sizes_that_do_not_fit_are_named(settings, message):
    with pytest.raises(checks.InputError, match=message):
        Inputs(2, **settings)
