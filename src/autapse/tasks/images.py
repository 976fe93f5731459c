"""Images shown as sequences: pixel by pixel, or row by row with noise after them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np

from autapse import checks
from autapse.data.cache import cached
from autapse.data.formats.cifar import read_cifar10
from autapse.data.formats.idx import read_idx
from autapse.data.paths import require, source
from autapse.tasks.base import Kind, Metric, Signature, Split, Transform, dense
from autapse.tasks.permuted import Permuted
from autapse.tasks.stored import Examples, Parts, Stored

Noise = Literal["fresh", "fixed"]
IDX = {"train": "train", "test": "t10k"}
CIFAR_SIDE = 32  # pixels
# Mean and deviation of the training images' channels, in levels of 0 to 255.
CIFAR_MEAN, CIFAR_SCALE = (125.31, 122.95, 113.87), (62.99, 62.09, 66.70)


@dataclass(frozen=True, kw_only=True)
class Pixels(Permuted, Stored):
    """x_t is pixel t of an image, row by row or in one fixed random order; y is what it shows."""

    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent class"
    classes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def images(self) -> Parts:
        """The images, [N, pixels, channels] uint8."""

    def parts(self) -> Parts:
        images = self.images()
        if not self.permuted:
            return images
        train, test = dense(images.train.inputs), dense(images.test.inputs)
        order = self.order(train.shape[1])
        return Parts(Examples(train[:, order], images.train.targets), Examples(test[:, order], images.test.targets))


@dataclass(frozen=True, kw_only=True)
class MNIST(Pixels):
    """x_t is pixel t of a digit of 28 × 28, in [0, 1], row by row or in one fixed random order; y is the digit."""

    name: ClassVar[str] = "mnist"
    data_sets: ClassVar[tuple[str, ...]] = ("mnist",)
    summary: ClassVar[str] = "name a handwritten digit that is shown pixel by pixel, in 784 steps"
    classes: ClassVar[tuple[str, ...]] = tuple("0123456789")

    def signature(self) -> Signature:
        return Signature(
            kind=self.kind, input_size=1, output_size=10, classes=self.classes, mean=(0.0,), scale=(255.0,)
        )

    def images(self) -> Parts:
        return _idx_images(require(self.data_sets[0]))


@dataclass(frozen=True, kw_only=True)
class FashionMNIST(MNIST):
    """x_t is pixel t of a piece of clothing of 28 × 28, in [0, 1], row by row or in one fixed random order."""

    name: ClassVar[str] = "fashion-mnist"
    data_sets: ClassVar[tuple[str, ...]] = ("fashion-mnist",)
    summary: ClassVar[str] = "name a piece of clothing that is shown pixel by pixel, in 784 steps"
    classes: ClassVar[tuple[str, ...]] = (
        *("T-shirt", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    )


@dataclass(frozen=True, kw_only=True)
class CIFAR10(Pixels):
    """x_t is the colour of pixel t of an image of 32 × 32, standardised; y is what it shows."""

    rows: int = 32
    """Rows that are shown: the last n of the 32."""

    name: ClassVar[str] = "cifar10"
    data_sets: ClassVar[tuple[str, ...]] = ("cifar-10",)
    summary: ClassVar[str] = "say what a small photograph shows, pixel by pixel, in 1024 steps"
    classes: ClassVar[tuple[str, ...]] = (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    )

    def signature(self) -> Signature:
        return Signature(
            kind=self.kind, input_size=3, output_size=10, classes=self.classes, mean=CIFAR_MEAN, scale=CIFAR_SCALE
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if checks.integer("rows", self.rows, minimum=1) > CIFAR_SIDE:
            checks.fail("rows", f"be at most {CIFAR_SIDE}, the rows of an image", self.rows)

    def images(self) -> Parts:
        images = _cifar_images(source(self.data_sets[0]))
        left_out = (CIFAR_SIDE - self.rows) * CIFAR_SIDE  # pixels, row by row
        both = (images.train, images.test)
        return Parts(*(Examples(dense(part.inputs)[:, left_out:], part.targets) for part in both))


@dataclass(frozen=True, kw_only=True)
class NoisyCIFAR10(Stored):
    """x_1 … x_32 are the rows of an image, 96 numbers each, standardised; all later steps are Gaussian noise."""

    length: int = 1000
    """Steps T; the last T − 32 are noise."""
    noise: Noise = "fresh"
    """Independent noise each time that an image is shown, as in the paper; or one noise for all, as in later ones."""
    noise_seed: int = 92_916
    """Chooses the fixed noise."""

    name: ClassVar[str] = "noisy-cifar10"
    data_sets: ClassVar[tuple[str, ...]] = ("cifar-10",)
    summary: ClassVar[str] = "say what a small photograph showed, after almost a thousand steps of noise"
    kind: ClassVar[Kind] = "classification"
    metric: ClassVar[Metric] = "error rate"
    baseline_text: ClassVar[str] = "always the most frequent class"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("length", self.length, minimum=32)
        checks.one_of("noise", self.noise, get_args(Noise))
        checks.seed("noise_seed", self.noise_seed)
        if self.noise == "fresh" and self.noise_seed != type(self).noise_seed:
            checks.fail("noise_seed", 'go with noise="fixed"', self.noise_seed)

    def signature(self) -> Signature:
        return Signature(kind=self.kind, input_size=96, output_size=10, classes=CIFAR10.classes)

    def parts(self) -> Parts:
        images = _cifar_images(source(self.data_sets[0]))
        both = (images.train, images.test)
        return Parts(*(Examples(dense(part.inputs).reshape(-1, 32, 96), part.targets) for part in both))

    def transform(self, split: Split, seed: int) -> Transform:
        return partial(_with_noise, length=self.length, fixed=self.noise_seed if self.noise == "fixed" else None)


def _with_noise(rows: np.ndarray, rng: np.random.Generator, length: int, fixed: int | None) -> np.ndarray:
    """Rows [B, 32, 96] of levels, standardised, and noise after them: [B, length, 96] float32."""
    mean, scale = (np.tile(np.array(values, dtype=np.float32), 32) for values in (CIFAR_MEAN, CIFAR_SCALE))
    batch, height, width = rows.shape
    shown = np.empty((batch, length, width), dtype=np.float32)
    shown[:, :height] = (rows - mean) / scale
    if fixed is None:
        shown[:, height:] = rng.standard_normal((batch, length - height, width), dtype=np.float32)
    else:
        shown[:, height:] = _fixed_noise(fixed, (length - height, width))
    return shown


@lru_cache(maxsize=1)
def _fixed_noise(seed: int, shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@lru_cache(maxsize=1)
def _idx_images(folder: Path) -> Parts:
    parts = []
    for prefix in IDX.values():
        images, labels = (_idx(folder, f"{prefix}-{kind}") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        if len(images) != len(labels):
            raise checks.InputError(f"{folder} has {len(images)} images but {len(labels)} labels of {prefix}.")
        parts.append(Examples(images.reshape(len(images), -1, 1), labels.astype(np.int64)))
    return Parts(*parts)


def _idx(folder: Path, stem: str) -> np.ndarray:
    found = [path for suffix in (".gz", "", ".xz", ".bz2") if (path := folder / f"{stem}{suffix}").exists()]
    if not found:
        raise checks.InputError(f"{folder / stem}.gz is missing.")
    return cached(f"{folder.name}/{stem}", 1, found[:1], lambda: {"values": read_idx(found[0])})["values"]


@lru_cache(maxsize=1)
def _cifar_images(path: Path) -> Parts:
    names = ("train_images", "train_labels", "test_images", "test_labels")
    arrays = cached("cifar-10/images", 1, [path], lambda: dict(zip(names, read_cifar10(path), strict=True)))
    train, train_labels, test, test_labels = (arrays[name] for name in names)
    return Parts(
        Examples(train.reshape(len(train), -1, 3), train_labels), Examples(test.reshape(len(test), -1, 3), test_labels)
    )
