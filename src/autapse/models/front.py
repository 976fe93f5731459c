"""The front end: what a sequence passes through between the scaled inputs and the recurrent layer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.cells.spec import parse_options
from autapse.models.batch_norm import BatchNorm
from autapse.models.padding import inside, on_rows, ragged_lengths, rows_inside

NONE = "none"
Pooling = Literal["max", "mean"]


class FrontStream(Protocol):
    """A front end that reads one step at a time."""

    def __call__(self, x: Tensor) -> tuple[Tensor, bool]:  # [B, D] -> [B, output_size]
        """The output for the present window of steps, and whether the window is complete."""


class Front(nn.Module):
    """The base of all front ends: (x [B, T, D], lengths) becomes (y [B, T', output_size], lengths').

    Steps after the end of a sequence never change the others.
    """

    output_size: int
    pool: int
    """Number of steps that become one. The last one of a sequence may have fewer."""
    looks_ahead = False
    """Whether an output depends on later steps than those that become one with it."""

    def forward(self, x: Tensor, lengths: Any = None) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def stream(self, batch_size: int) -> FrontStream:
        """The same, one step at a time."""
        raise NotImplementedError


def pooled(lengths: Tensor | None, pool: int) -> Tensor | None:
    """The lengths of sequences after `pool` steps became one. The last one of a sequence may have fewer."""
    return None if lengths is None else (lengths + pool - 1) // pool


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
        return x.reshape(len(x), -1, self.output_size), pooled(known, self.pool)

    def stream(self, batch_size: int) -> FrontStream:
        return _FrameStream(self.pool)


class _FrameStream:
    def __init__(self, size: int) -> None:
        self.size, self.frame = size, list[Tensor]()

    def __call__(self, x: Tensor) -> tuple[Tensor, bool]:
        self.frame = [*self.frame, x] if len(self.frame) < self.size else [x]
        zeros = [torch.zeros_like(x)] * (self.size - len(self.frame))
        return torch.cat([*self.frame, *zeros], dim=-1), not zeros


class Convolutions(Front):
    """A few convolutions along time, each with batch normalisation and ReLU; `pool` steps become one.

    Batch normalisation measures the steps of the sequences, not their padding. Without `pool`, a part of the pooling is
    done after the first convolution: this is 2× faster than all of it after the last one, and as accurate.

    Args:
        input_size: features per step.
        channels: features of every convolution.
        kernels: steps that each convolution reads; odd for a window with a middle.
        steps: about this many steps of a typical sequence remain after pooling.
        pool: steps that become one after the last convolution, instead of `steps`; or one value per convolution.
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
        pool: int | Sequence[int] | None = None,
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
        self.pools = _divided(length / steps, len(self.kernels)) if pool is None else _each(pool, len(self.kernels))
        self.pool = math.prod(self.pools)
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
        x = x if known is None else torch.where(inside(known, x), x, 0)
        for convolution, norm, pool in zip(self.convolutions, self.norms, self.pools, strict=True):
            rows = None if known is None else rows_inside(inside(known, x))
            x = F.relu(on_rows(norm, self._convolved(convolution, x), rows))
            x, known = self._pooled(x, known, pool), pooled(known, pool)
        return x, known

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

    @property
    def looks_ahead(self) -> bool:  # type: ignore[override]
        return any(self.before(kernel) < kernel - 1 for kernel in self.kernels)

    def before(self, kernel: int) -> int:
        """How many earlier steps a kernel reads."""
        return kernel - 1 if self.causal else (kernel - 1) // 2

    def _pooled(self, x: Tensor, lengths: Tensor | None, pool: int) -> Tensor:  # [B, T, C] -> [B, T', C]
        if pool == 1:
            return x
        image, window = x.transpose(1, 2).unsqueeze(2), (1, pool)
        if self.pooling == "max":  # values are at least 0, so zeros after the end do not change a maximum
            return F.max_pool2d(image, window, ceil_mode=True).squeeze(2).transpose(1, 2)
        total = F.avg_pool2d(image, window, ceil_mode=True, divisor_override=1).squeeze(2).transpose(1, 2)
        ends = torch.tensor([x.shape[1]]) if lengths is None else lengths
        firsts = torch.arange(total.shape[1]) * pool
        counts = (ends[:, None] - firsts).clamp(1, pool)[..., None]  # of the steps in each window
        return total / counts.to(total)

    def stream(self, batch_size: int) -> FrontStream:
        return _ConvolutionStream(self, batch_size)


class _ConvolutionStream:
    """Causal convolutions one after the other."""

    def __init__(self, front: Convolutions, batch_size: int) -> None:
        parts = zip(front.convolutions, front.norms, front.pools, strict=True)
        self.stages = [
            _Stage(convolution.weight, norm, pool, front.pooling, batch_size)  # type: ignore[arg-type]
            for convolution, norm, pool in parts
        ]

    def __call__(self, x: Tensor) -> tuple[Tensor, bool]:
        complete = True
        for stage in self.stages:
            x, complete = stage(x, complete)
        return x, complete


class _Stage:
    """One causal convolution with its pooling: it keeps the steps that its kernel reads."""

    def __init__(self, weight: Tensor, norm: nn.Module, pool: int, pooling: str, batch_size: int) -> None:
        self.norm, self.pool, self.pooling = norm, pool, pooling
        self.matrix = weight.permute(2, 1, 0).flatten(0, 1)  # [kernel·D, C], for a window that is flattened
        self.window = weight.new_zeros(batch_size, weight.shape[2], weight.shape[1])
        self.sofar, self.count = weight.new_zeros(batch_size, weight.shape[0]), 0

    def __call__(self, x: Tensor, complete: bool) -> tuple[Tensor, bool]:
        """The output with x as the next step. The step is kept only if x is complete."""
        window = torch.cat([self.window[:, 1:], x[:, None]], dim=1)
        y = F.relu(self.norm(window.flatten(1) @ self.matrix))
        sofar = torch.maximum(self.sofar, y) if self.pooling == "max" else self.sofar + y
        count = self.count + 1
        full = complete and count == self.pool
        if complete:
            self.window = window
            self.sofar, self.count = (torch.zeros_like(sofar), 0) if full else (sofar, count)
        return sofar if self.pooling == "max" else sofar / count, full


def _divided(wanted: float, count: int) -> list[int]:
    """Pooling of about this factor, after the first and the last of `count` convolutions."""
    first = max(1, round(math.sqrt(wanted))) if count > 1 else 1
    return [*[first, *[1] * (count - 2)][: count - 1], max(1, round(wanted / first))]


def _each(pool: int | Sequence[int], count: int) -> list[int]:
    """The pooling after each convolution, from one value for the last or one value for each."""
    pools = [*[1] * (count - 1), pool] if isinstance(pool, int) else list(pool)
    if len(pools) != count:
        checks.fail("front: pool", f"be one integer, or one for each of the {count} kernels", pool)
    return [checks.integer("front: pool", one, minimum=1) for one in pools]


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
