"""Generated images: the shapes are what their names say, and the last column is the width."""

from __future__ import annotations

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.tasks import SPLITS, MNISTImage, Shapes
from autapse.tasks.shapes import CLASSES, _shape


def images(data):
    for n in range(len(data)):
        rows, classes = data.inputs[n], data.targets[n]
        width = int(rows[0, 1])
        assert (rows[:, 1] == width).all()
        yield rows[:, 0].reshape(-1, width), classes.reshape(-1, width)


@pytest.mark.parametrize("split", SPLITS)
def test_images_have_the_promised_sizes_and_values(split):
    task = Shapes(smallest=9, largest=12, noise=0.0, train_size=30, validation_size=30, test_size=30)
    sizes = set()
    for image, classes in images(task.split(split, seed=1)):
        assert all(9 <= side <= 12 for side in image.shape)
        sizes.add(image.shape)
        assert ((image == 0) == (classes == 0)).all()  # without noise only the background is black
        assert (image[classes > 0] >= 0.5).all()
        assert (image <= 1).all()
        assert 0 < (classes > 0).mean() < 1
    assert len(sizes) > 5


@pytest.mark.fixed_seed("areas of random shapes are compared with their expectation")
def test_shapes_cover_what_geometry_says():
    """A rectangle fills its box, an ellipse π/4 of it, a cross 5/9, up to the rounding of pixels."""
    share = {}
    for name in CLASSES[1:]:
        covered = [_shape(name, (60, 60), np.random.default_rng(n)) for n in range(300)]
        boxes = (
            [np.ptp(np.flatnonzero(c.any(1))) + 1 for c in covered],
            [np.ptp(np.flatnonzero(c.any(0))) + 1 for c in covered],
        )
        share[name] = sum(c.sum() for c in covered) / float(np.dot(*boxes))
    assert share["rectangle"] == 1
    assert share["ellipse"] == pytest.approx(np.pi / 4, rel=0.02)
    assert share["cross"] == pytest.approx(5 / 9, rel=0.03)


def test_the_baseline_is_the_share_of_shapes():
    data = Shapes(test_size=20).split("test", seed=0)
    assert Shapes().baseline(data) == pytest.approx(np.mean(data.targets.values > 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smallest": 3}, "smallest must be an integer of at least 8; got 3."),
        ({"largest": 15}, "largest must be an integer of at least 16"),
        ({"shapes": 0}, "shapes must be an integer of at least 1"),
        ({"noise": -1}, "noise must be a finite number at least 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        Shapes(**options)


def test_digits_as_images_are_the_same_pixels(monkeypatch):
    from autapse.tasks.images import MNIST
    from autapse.tasks.stored import Examples, Parts

    pixels, digits = np.arange(2 * 784, dtype=np.uint8).reshape(2, 784, 1), np.array([3, 1])
    part = Examples(pixels, digits)
    monkeypatch.setattr(MNIST, "images", lambda self: Parts(part, part))
    test = MNISTImage().split("test", seed=0)
    assert test.inputs.shape == (2, 784, 2)
    assert (test.inputs[..., :1] == pixels).all()
    assert (test.inputs[..., 1] == 28).all()
