"""Models of images: pixels row by row are the same images, whatever their sizes and patches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from autapse.checks import InputError
from autapse.models import ImageClassifier, Segmenter
from tolerance import close

SIZES = [(4, 6), (3, 5), (1, 2)]


def images() -> list[Tensor]:
    return [torch.randn(height, width, 1) for height, width in SIZES]


def as_rows(each: list[Tensor]) -> tuple[Tensor, Tensor]:
    """[B, T, 2] with the width as the last column, and the lengths."""
    rows = [
        torch.cat([one.flatten(0, 1), torch.full((one.shape[0] * one.shape[1], 1), one.shape[1])], 1) for one in each
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])


@pytest.mark.parametrize("patch", [1, 2, 3])
def test_a_ragged_batch_is_segmented_as_each_image_alone(patch: int) -> None:
    model, each = Segmenter("gru", 1, 3, hidden_size=[4, 4], patch=patch, mean=[0.5], scale=[2.0]), images()
    rows, lengths = as_rows(each)
    output = model(rows, lengths)
    for one, out, length in zip(each, output, lengths, strict=True):
        close(out[:length], model(one[None])[0].flatten(0, 1))


@pytest.mark.parametrize("readout", ["mean", "max", "mean-max", "attention"])
@pytest.mark.parametrize("patch", [1, 2])
def test_a_ragged_batch_is_classified_as_each_image_alone(patch: int, readout: str) -> None:
    model, each = ImageClassifier("gru", 1, 3, hidden_size=4, patch=patch, readout=readout, mean=[0.5]), images()
    rows, lengths = as_rows(each)
    output = model(rows, lengths)
    assert output.shape == (3, 3)
    for one, out in zip(each, output, strict=True):
        close(out, model(one[None])[0])


def test_a_patch_gives_each_of_its_pixels_its_own_output() -> None:
    """A head that copies the features of a patch must give back the image."""
    model = Segmenter("gru", 1, 1, hidden_size=1, patch=2)
    torch.nn.Module.__setattr__(model, "grid", Same())
    model.head = torch.nn.Identity()
    image = torch.randn(1, 4, 6, 1)
    assert torch.equal(model(image), image)


class Same(torch.nn.Module):
    def forward(self, x: Tensor, sizes: Any) -> Tensor:
        return x


def test_predictions_are_those_of_the_model() -> None:
    model, each = Segmenter("gru", 1, 3, hidden_size=4, output_dropout=0.5), [one.numpy() for one in images()]
    model.classes = ("sky", "sea", "sand")
    answers, chances = model.predict(each), model.predict_proba(each)
    assert [one.shape for one in answers] == SIZES
    model.eval()
    for image, answer, chance in zip(each, answers, chances, strict=True):
        scores = model(torch.from_numpy(image)[None])[0]
        np.testing.assert_allclose(chance, scores.softmax(-1).detach().numpy(), atol=1e-5)
        assert (answer == np.array(model.classes)[scores.argmax(-1)]).all()
    same = np.zeros((2, 4, 6))  # one channel needs no axis
    assert model.predict(same).shape == (2, 4, 6)
    assert ImageClassifier("gru", 1, 3, hidden_size=4).predict(same).shape == (2,)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 6, 3), "with the width as the last column"),
        (torch.zeros(2, 6, 2), "have a width, in its last column, that divides the number of pixels"),
        (torch.full((2, 6, 2), 4), "divides the number of pixels"),
        ([1], "input must be a tensor"),
    ],
)
def test_bad_input_is_named(x: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Segmenter("gru", 1, 3, hidden_size=4)(x)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "images must have at least one image"),
        ([np.zeros((3, 3, 2))], r"images\[0\] must have shape \(H, W, 1\)"),
        ([np.zeros((3, 3)), np.full((2, 2), np.nan)], r"images\[1\] must have finite numbers"),
    ],
)
def test_bad_images_are_named(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Segmenter("gru", 1, 3, hidden_size=4).predict(given)


def test_what_does_not_apply_is_refused() -> None:
    with pytest.raises(InputError, match="a grid has no last point"):
        ImageClassifier("gru", 1, 3, readout="last")
    with pytest.raises(InputError, match="patch must be an integer of at least 1"):
        Segmenter("gru", 1, 3, patch=0)
    with pytest.raises(InputError, match="an image is read as many rows and columns"):
        Segmenter("memory:hard=sample", 1, 3)
