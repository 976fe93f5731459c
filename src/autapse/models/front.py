"""The front end: what a sequence passes through between the scaled inputs and the recurrent layer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.layers.registry import parse_options
from autapse.models.batch_norm import BatchNorm
from autapse.models.padding import inside, on_rows, ragged_lengths, rows_inside

NONE = "none"
Pooling = Literal["max", "mean"]


class Front(nn.Module):
    """The base of all front ends: (x [B, T, D], lengths) becomes (y [B, T', output_size], lengths').

    Steps after the end of a sequence never change the others.
    """

    output_size: int
    pool: int
    """Number of steps that become one. The last one of a sequence may have fewer."""

    def forward(self, x: Tensor, lengths: Any = None) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def pooled(self, lengths: Tensor | None) -> Tensor | None:
        """The lengths after pooling."""
        return lengths if lengths is None or self.pool == 1 else (lengths + self.pool - 1) // self.pool


class Frames(Front):
    """Frames of `size` steps: the features of `size` steps side by side are one step of the recurrent layer.

    The last frame of a sequence is filled with zeros.

    Args:
        input_size: features per step.
        size: steps per frame.

    >>> frames = Frames(3, size=4)
    >>> frames(torch.zeros(2, 10, 3))[0].shape
    torch.Size([2, 3, 12])
    """

    def __init__(self, input_size: int, *, size: int = 4) -> None:
        super().__init__()
        self.pool = checks.integer("front: size", size, minimum=1)
        self.output_size = input_size * size

    def forward(self, x: Tensor, lengths: Any = None) -> tuple[Tensor, Tensor | None]:
        known = ragged_lengths(lengths, x)
        x = x if known is None else torch.where(inside(known, x), x, 0)
        x = F.pad(x, (0, 0, 0, -x.shape[1] % self.pool))
        return x.reshape(len(x), -1, self.output_size), self.pooled(known)


class Convolutions(Front):
    """A few convolutions along time, each with batch normalisation and ReLU; then `pool` steps become one.

    Batch normalisation measures the steps of the sequences, not their padding.

    Args:
        input_size: features per step.
        channels: features of every convolution.
        kernels: steps that each convolution reads; odd for a window with a middle.
        steps: about this many steps of a typical sequence remain after pooling.
        pool: steps that become one, instead of `steps`.
        pooling: take the maximum or the mean of these steps.
        length: number of steps of a typical sequence; 0 if it is not known, which means no pooling.
        causal: read only the present and earlier steps.
        device: where the parameters are.
        dtype: their type.

    >>> front = Convolutions(3, channels=8, kernels=(5, 3), pool=4)
    >>> y, lengths = front(torch.zeros(2, 10, 3), [10, 7])
    >>> y.shape, lengths.tolist()
    (torch.Size([2, 3, 8]), [3, 2])
    """

    def __init__(
        self,
        input_size: int,
        *,
        channels: int = 64,
        kernels: int | Sequence[int] = (7, 5, 3),
        steps: int = 150,
        pool: int | None = None,
        pooling: Pooling = "max",
        length: int = 0,
        causal: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.output_size = checks.integer("front: channels", channels, minimum=1)
        sizes = [kernels] if isinstance(kernels, int) else list(kernels)
        self.kernels = [checks.integer("front: kernels", size, minimum=1) for size in sizes]
        checks.integer("front: steps", steps, minimum=1)
        self.pool = max(1, round(length / steps)) if pool is None else checks.integer("front: pool", pool, minimum=1)
        self.pooling = checks.one_of("front: pooling", pooling, ("max", "mean"))
        self.causal = causal
        widths = [input_size, *[channels] * (len(self.kernels) - 1)]
        # Without biases, which the normalisation would remove.
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, channels, kernel, bias=False, device=device, dtype=dtype)
            for width, kernel in zip(widths, self.kernels, strict=True)
        )
        self.norms = nn.ModuleList(BatchNorm(channels, device=device, dtype=dtype) for _ in self.kernels)

    def forward(self, x: Tensor, lengths: Any = None) -> tuple[Tensor, Tensor | None]:
        known = ragged_lengths(lengths, x)
        rows = None  # the steps of the sequences among all B·T steps
        if known is not None:
            mask = inside(known, x)
            x, rows = torch.where(mask, x, 0), rows_inside(mask)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.relu(on_rows(norm, self._convolved(convolution, x), rows))
        return self._pooled(x, known), self.pooled(known)

    def _convolved(self, convolution: nn.Module, x: Tensor) -> Tensor:  # [B, T, D] -> [B, T, C]
        weight: Any = convolution.weight  # [C, D, kernel]
        before = self.before(weight.shape[2])
        after = weight.shape[2] - 1 - before
        if before != after:
            x = F.pad(x, (0, 0, before, after))
        # As an image of height 1 whose channels come last, which needs no transposed copy and is 2× faster than conv1d.
        image = x.transpose(1, 2).unsqueeze(2)
        y = F.conv2d(image, weight.unsqueeze(2), padding=(0, before if before == after else 0))
        return y.squeeze(2).transpose(1, 2)

    def before(self, kernel: int) -> int:
        """How many earlier steps a kernel reads."""
        return kernel - 1 if self.causal else (kernel - 1) // 2

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> Tensor:  # [B, T, C] -> [B, T', C]
        if self.pool == 1:
            return x
        image = x.transpose(1, 2).unsqueeze(2)
        window = (1, self.pool)
        if self.pooling == "max":  # values are at least 0, so zeros after the end do not change a maximum
            return F.max_pool2d(image, window, ceil_mode=True).squeeze(2).transpose(1, 2)
        total = F.avg_pool2d(image, window, ceil_mode=True, divisor_override=1).squeeze(2).transpose(1, 2)
        ends = torch.tensor([x.shape[1]]) if lengths is None else lengths
        firsts = torch.arange(total.shape[1]) * self.pool
        counts = (ends[:, None] - firsts).clamp(1, self.pool)[..., None]  # of the steps in each window
        return total / counts.to(total)


FRONTS: dict[str, type[Front]] = {"frames": Frames, "conv": Convolutions}
BY_MODEL = ("input_size", "length", "causal", "device", "dtype")  # arguments that are not options of the text


def make_front(spec: str, input_size: int, length: int, causal: bool, every_step: bool, **where: Any) -> Front | None:
    """The front end that a text describes.

    Args:
        spec: `none`, `frames:size=4`, or `conv` with options, as in `conv:channels=64:kernels=7,5,3:steps=150`.
        input_size: features per step.
        length: number of steps of a typical sequence; 0 if it is not known.
        causal: read only the present and earlier steps.
        every_step: whether the model has an output at every step, so that the number of steps must stay.
        where: device and dtype.

    Returns:
        The front end; None for `none`.

    >>> make_front("conv:channels=16:kernels=5", 3, length=600, causal=False, every_step=False).pool
    4
    """
    if not isinstance(spec, str):
        checks.fail("front", "be text", spec, kind=checks.KindError)
    name, *words = spec.split(":")
    checks.one_of("front", name, (NONE, *FRONTS))
    if spec == NONE:
        return None
    if name == NONE:
        checks.fail("front", f"be {NONE} without options", spec)
    kind = FRONTS[name]
    parameters = inspect.signature(kind).parameters
    options = parse_options("front", spec, name, words, {n: p for n, p in parameters.items() if n not in BY_MODEL})
    own = {"length": 0 if every_step else length, "causal": causal, **where}
    front = kind(input_size, **options, **{n: value for n, value in own.items() if n in parameters})
    if every_step and front.pool > 1:
        remedy = "Use conv without pool, or none."
        checks.fail("front", "keep the number of steps, since the model has an output at every step", spec, remedy)
    return front
