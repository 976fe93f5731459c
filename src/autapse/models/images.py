"""Models of images: a class for every pixel, or one for the whole image."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.layers.grid import Grid, checked_sizes, inside_sizes
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import NetworkClass
from autapse.models.baseline import check_no_draws
from autapse.models.initialise import initialise
from autapse.models.inputs import Inputs
from autapse.models.model import Model
from autapse.models.readout import Readout
from autapse.sequences.lengths import checked_lengths

TOGETHER = 64  # images that are predicted at a time

ARGUMENTS = """Args:
    cell: the network: a name with options (`"gru"`, `"ernn:inner_steps=2"`), a cell class or a layer class.
    input_size: channels of a pixel.
    output_size: classes.
    hidden_size: units of each direction, one size for all layers or one per layer.
    num_layers: number of layers; by default one per hidden size.
    dropout: probability of dropping a value between layers.
    axes: read rows and columns (`both`), or only `rows`, or only `columns`.
    merge: what becomes of the directions: `concat`, `sum`, or a `linear` map.
    patch: the features of this many × this many pixels are one point of the grid.
    mean: one value per channel, which is subtracted.
    scale: one value per channel, by which it is then divided.
    input_dropout: probability of dropping a feature that the first layer reads.
    output_dropout: probability of dropping a feature that the head reads.
    initialisation: other initial weights of the layers; see `autapse.models.initialise`.
    device: where the parameters are.
    dtype: their type.
    options: other ways to scale the channels, as in `autapse.models.scaling`.

The model is called with images, [B, H, W, input_size], and `sizes` [B, 2] if they differ; or, as in training, with
their pixels row by row, [B, H·W, input_size + 1], where the last column is the width, and `lengths` [B]."""


class Placed(NamedTuple):
    """Where the pixels of a batch are in its images."""

    images: Tensor  # [B, H, W, D], zero outside of each image
    sizes: Tensor | None = None  # [B, 2], on the CPU; None if they are all the same
    rows: Tensor | None = None  # [B·T], the point of each pixel among the B·H·W of the images; None if it is the same


class ImageModel(Model):
    """The base of models of images; not for direct use."""

    every_pixel: ClassVar[bool] = False
    """Whether there is an output for every pixel."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """The arguments are the same for all models, so they are explained once."""
        super().__init_subclass__(**keywords)
        if cls.__doc__ and "Args:" not in cls.__doc__:
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\n{ARGUMENTS}"

    def __init__(
        self,
        cell: str | NetworkClass,
        input_size: int,
        output_size: int,
        hidden_size: int | Sequence[int] = 32,
        num_layers: int | None = None,
        dropout: float = 0.0,
        axes: str = "both",
        merge: str = "concat",
        patch: int = 1,
        mean: Sequence[float] = (),
        scale: Sequence[float] = (),
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        initialisation: str = "default",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.patch = checks.integer("patch", patch, minimum=1)
        self.inputs = Inputs(input_size, (), (), mean, scale, input_dropout, **self._where, **options)
        features = self.inputs.output_size * self.patch**2
        self.grid = Grid(cell, features, hidden_size, num_layers, axes, merge, dropout, **self._where)
        self.output_dropout = nn.Dropout(output_dropout)
        self.output_size = checks.integer("output_size", output_size, minimum=1)
        for layer in self.layers():
            check_no_draws(layer, "an image is read as many rows and columns, and its loss belongs to all of them")
            initialise(layer, initialisation)

    def layers(self) -> list[Recurrent]:
        return self.grid.layers()

    def _features(self, placed: Placed) -> tuple[Tensor, Tensor | None]:
        """The output of the grid at every patch, [B, rows, columns, features], and the sizes in patches."""
        p = self.patch
        if p == 1:
            return self.grid(placed.images, placed.sizes), placed.sizes
        batch, height, width, channels = placed.images.shape
        whole = F.pad(placed.images, (0, 0, 0, -width % p, 0, -height % p))
        cut = whole.view(batch, whole.shape[1] // p, p, whole.shape[2] // p, p, channels)
        sizes = None if placed.sizes is None else -(-placed.sizes // p)
        return self.grid(cut.transpose(2, 3).flatten(3), sizes), sizes

    def _placed(self, x: Any, lengths: Any, sizes: Any) -> Placed:
        """The images of a call, after scaling."""
        channels = self.inputs.input_size
        if not isinstance(x, Tensor):
            rule = f"be a tensor of shape (B, H, W, {channels})"
            checks.fail("input", rule, type(x).__name__, "torch.as_tensor converts lists.", checks.KindError)
        if x.dim() == 4 and x.shape[-1] == channels:
            known = None if sizes is None else checked_sizes(sizes, x)
            images = self.inputs(x.flatten(1, 2)).unflatten(1, x.shape[1:3])
            if known is not None:
                images = torch.where(inside_sizes(known, images)[..., None], images, 0.0)
            return Placed(images, known)
        if x.dim() != 3 or x.shape[-1] != channels + 1:
            rule = f"have shape (B, H, W, {channels}), or (B, H·W, {channels + 1}) with the width as the last column"
            checks.fail("input", rule, tuple(x.shape), kind=checks.ShapeError)
        return placed_pixels(self.inputs(x[..., :channels]), x[:, 0, channels].long().cpu(), lengths)

    # Use of a trained model -------------------------------------------------------------------------------------------

    def predict(self, images: Any) -> Any:
        """The most probable class of each image, or of each pixel, in evaluation mode.

        Args:
            images: raw values: an array [N, H, W, D] or [N, H, W]; or a list of images [H, W, D] of several sizes.

        Returns:
            The names from `classes`, or numbers if they have no names: [N], or for every pixel [N, H, W]; for a list
            of images with an output for every pixel, a list of arrays.
        """
        answers = [scores.argmax(-1) for scores in self.scores(images)]
        named = [np.array(self.classes)[one] if self.classes else one for one in answers]
        return named if self.every_pixel and isinstance(images, list | tuple) else np.stack(named)

    def predict_proba(self, images: Any) -> Any:
        """The probability of each class, with the images of `predict` and in the form of its result."""
        chances = [torch.from_numpy(one).double().softmax(-1).numpy() for one in self.scores(images)]
        return chances if self.every_pixel and isinstance(images, list | tuple) else np.stack(chances)

    @torch.no_grad()
    def scores(self, images: Any) -> list[np.ndarray]:
        """The logits of each image: [classes], or [H, W, classes] for every pixel."""
        each = [self._image(one, n) for n, one in enumerate(images)]
        if not each:
            checks.fail("images", "have at least one image", 0)
        made: list[np.ndarray] = []
        with self.evaluating():
            for first in range(0, len(each), TOGETHER):
                some = each[first : first + TOGETHER]
                sizes = torch.tensor([one.shape[:2] for one in some])
                height, width = (int(n) for n in sizes.max(0).values)
                batch = [F.pad(one, (0, 0, 0, width - one.shape[1], 0, height - one.shape[0])) for one in some]
                output = self(torch.stack(batch).to(self.device), sizes=sizes).cpu().numpy()
                ends = sizes.tolist() if self.every_pixel else [(None, None)] * len(some)
                made += [one[:h, :w] if h else one for one, (h, w) in zip(output, ends, strict=True)]
        return made

    def _image(self, image: Any, n: int) -> Tensor:  # [H, W, D]
        values = np.asarray(image)
        values = values[..., None] if values.ndim == 2 and self.inputs.input_size == 1 else values
        if values.ndim != 3 or values.shape[-1] != self.inputs.input_size or not values.size:
            rule = f"have shape (H, W, {self.inputs.input_size})"
            checks.fail(f"images[{n}]", rule, values.shape, kind=checks.ShapeError)
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            checks.fail(f"images[{n}]", "have finite numbers", str(values.dtype))
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(next(self.parameters()).dtype)


class Segmenter(ImageModel):
    """Logits of the class of every pixel, in the order of the input: [B, H, W, classes] or [B, H·W, classes].

    >>> model = Segmenter("gru", input_size=1, output_size=3, hidden_size=8)
    >>> model(torch.zeros(4, 6, 5, 1)).shape
    torch.Size([4, 6, 5, 3])
    """

    every_pixel: ClassVar[bool] = True

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.head = nn.Linear(self.grid.output_size, self.output_size * self.patch**2, **self._where)

    def forward(self, x: Tensor, lengths: Any = None, sizes: Any = None) -> Tensor:
        placed = self._placed(x, lengths, sizes)
        scores, p = self.head(self.output_dropout(self._features(placed)[0])), self.patch
        batch, height, width = placed.images.shape[:3]
        if p > 1:
            apart = scores.unflatten(-1, (p, p, -1)).transpose(2, 3)  # [B, rows, p, columns, p, classes]
            scores = apart.flatten(3, 4).flatten(1, 2)[:, :height, :width]
        if x.dim() == 4:
            return scores
        flat = scores.reshape(batch * height * width, -1)
        return (flat if placed.rows is None else flat.index_select(0, placed.rows)).view(batch, x.shape[1], -1)


class ImageClassifier(ImageModel):
    """Logits of the class of each image, [B, classes], from the features of all points.

    `readout` is how points are summed up: `mean`, `max`, `mean-max` or `attention`.

    >>> model = ImageClassifier("gru", input_size=1, output_size=10, hidden_size=8, patch=2)
    >>> model(torch.zeros(4, 6, 5, 1)).shape
    torch.Size([4, 10])
    """

    def __init__(self, *args: Any, readout: str = "mean-max", **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        if readout == "last":
            checks.fail("readout", "be mean, max, mean-max or attention: a grid has no last point", readout)
        self.readout = Readout(readout, self.grid.output_size, **self._where)
        self.head = nn.Linear(self.readout.output_size, self.output_size, **self._where)

    def forward(self, x: Tensor, lengths: Any = None, sizes: Any = None) -> Tensor:
        features, sizes = self._features(self._placed(x, lengths, sizes))
        points, counts = features.flatten(1, 2), None
        if sizes is not None:  # the points of an image come first, so that the readout sees no others
            outside = ~inside_sizes(sizes, features).flatten(1)
            order = torch.argsort(outside.int(), dim=1, stable=True)
            points, counts = points.gather(1, order[..., None].expand_as(points)), sizes.prod(1)
        return self.head(self.output_dropout(self.readout(points, counts)))


def placed_pixels(pixels: Tensor, widths: Tensor, lengths: Any) -> Placed:
    """Images from their pixels row by row, [B, T, D], with their widths, [B]."""
    batch, steps, channels = pixels.shape
    ends = torch.full((batch,), steps) if lengths is None else checked_lengths(lengths, steps, batch)
    if bool((widths < 1).any()) or bool((ends % widths.clamp(min=1) != 0).any()):
        rule = "have a width, in its last column, that divides the number of pixels"
        checks.fail("input", rule, widths.tolist()[:8])
    sizes = torch.stack([ends // widths, widths], dim=1)
    height, width = (int(n) for n in sizes.max(0).values)
    if bool((sizes == sizes[0]).all()) and int(ends[0]) == steps:
        return Placed(pixels.view(batch, height, width, channels))
    step = torch.arange(steps)
    known = step < ends[:, None]
    place = torch.arange(batch)[:, None] * (height * width) + step // widths[:, None] * width + step % widths[:, None]
    rows, known = torch.where(known, place, 0).to(pixels.device), known.to(pixels.device)
    images = pixels.new_zeros(batch * height * width, channels).index_copy(0, rows[known], pixels[known])
    return Placed(images.view(batch, height, width, channels), sizes, rows.flatten())
