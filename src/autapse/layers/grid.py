"""Grid: recurrent networks over an image, one per direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import NetworkClass, make_layer, parse_network

Axes = Literal["both", "rows", "columns"]
Merge = Literal["concat", "sum", "linear"]


class Grid(nn.Module):
    """y_ij = (h→_ij, h←_ij, h↓_ij, h↑_ij): a cell reads every row in both directions, and every column.

    With four networks, the output at a point depends on its row and its column (the textbook's section 10.3). A stack
    of two such layers sees the whole image from every point. All rows of all images are one batch of sequences, and so
    are all columns, so that the kernels serve as for any sequence.

    Args:
        cell: a network by name with options (`"gru"`, `"ernn:inner_steps=2"`), a cell class or a layer class. It must
            not look ahead.
        input_size: features per pixel.
        hidden_size: units of each direction, or a list with the units of each layer.
        num_layers: number of stacked layers; by default 1, or the number of entries of `hidden_size`.
        axes: read both rows and columns, or only `rows`, or only `columns`.
        merge: what becomes of the directions: side by side (`concat`), their `sum`, or a `linear` map of them to
            `hidden_size` features.
        dropout: probability of dropping a value between layers, in training mode.
        device: where the parameters are.
        dtype: type of the parameters.
        options: options of the cell.

    Called with:
        x: the images, [B, H, W, D], or [H, W, D] for a single one.
        sizes: [B, 2], the height and width of each image, if they differ. Images start in the upper left corner. What
            is outside of an image is not read and costs nothing.

    Returns:
        [B, H, W, output_size], exactly zero outside of each image. With `concat`, the features of a point are those of
        the networks that read to the right, to the left, down, up.

    >>> layer = autapse.Grid("gru", 3, 16)
    >>> layer(torch.zeros(2, 5, 7, 3)).shape
    torch.Size([2, 5, 7, 64])
    """

    def __init__(
        self,
        cell: str | NetworkClass,
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        axes: str = "both",
        merge: str = "concat",
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.axes = checks.one_of("axes", axes, get_args(Axes))
        self.merge = checks.one_of("merge", merge, get_args(Merge))
        self.dropout = checks.number("dropout", dropout, low=0.0, high=1.0)
        self.input_size = checks.integer("input_size", input_size, minimum=1)
        _check_cell(cell)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.along: nn.ModuleList = nn.ModuleList()
        self.merged: nn.ModuleList = nn.ModuleList()  # the linear maps; empty without them
        width = self.input_size
        for size in _sizes(hidden_size, num_layers):
            pair = nn.ModuleDict()
            for axis in ("rows", "columns") if axes == "both" else (axes,):
                pair[axis] = make_layer(cell, width, size, bidirectional=True, **where, **options)
            self.along.append(pair)
            each = [layer.output_size for layer in _recurrent(pair)]
            width = {"concat": sum(each), "sum": each[0] // 2, "linear": size}[merge]
            if merge == "linear":
                self.merged.append(nn.Linear(sum(each), size, **where))
        self.output_size = width

    def layers(self) -> list[Recurrent]:
        """The recurrent layers, from the first to the last."""
        return [layer for pair in self.along for layer in _recurrent(pair)]

    def reset_parameters(self) -> None:
        """Draw all initial parameters again."""
        for part in (*self.layers(), *self.merged):
            part.reset_parameters()

    def extra_repr(self) -> str:
        return f"axes={self.axes!r}, merge={self.merge!r}"

    def forward(
        self,
        x: Tensor,  # [B, H, W, D] or [H, W, D]
        sizes: Sequence[Sequence[int]] | Tensor | None = None,  # [B, 2]
    ) -> Tensor:
        """Run the layers. The docstring of the class explains the arguments and the result."""
        if not isinstance(x, Tensor):
            checks.fail("input", "be a tensor of shape (B, H, W, D)", type(x).__name__, kind=checks.KindError)
        if x.dim() not in (3, 4) or x.shape[-1] != self.input_size or 0 in x.shape[-3:-1]:
            rule = f"have shape (B, H, W, {self.input_size}) or (H, W, {self.input_size}), and at least one pixel"
            checks.fail("input", rule, tuple(x.shape), kind=checks.ShapeError)
        if x.dim() == 3:
            if sizes is not None:
                checks.fail("sizes", "be None for a single image", sizes, "Cut the image instead.")
            return self._run(x[None], None)[0]
        return self._run(x, None if sizes is None else checked_sizes(sizes, x))

    def _run(self, x: Tensor, sizes: Tensor | None) -> Tensor:
        for n, pair in enumerate(self.along):
            if n:
                x = F.dropout(x, self.dropout, self.training)
            parts = [_along(layer, x, sizes, axis) for axis, layer in pair.items()]  # type: ignore[operator]
            if self.merge == "sum":
                x = torch.stack([half for part in parts for half in part.chunk(2, dim=-1)]).sum(0)
                continue
            x = torch.cat(parts, dim=-1)
            if self.merge == "linear":
                x = self.merged[n](x)
                x = x if sizes is None else torch.where(inside_sizes(sizes, x)[..., None], x, 0.0)
        return x


def _along(layer: Recurrent, x: Tensor, sizes: Tensor | None, axis: str) -> Tensor:  # [B, H, W, D] -> [B, H, W, 2·H]
    """A layer over all rows, or over all columns. The others are its batch."""
    time = 2 if axis == "rows" else 1
    steps = x.movedim(time, 0)  # [T, B, others, D]
    length, batch, others = steps.shape[:3]
    lengths = None if sizes is None else _lengths(sizes, others, axis)
    output = layer(steps.reshape(length, batch * others, -1), lengths=lengths)[0]
    return output.view(length, batch, others, -1).movedim(0, time)


def _lengths(sizes: Tensor, others: int, axis: str) -> Tensor:  # [B, 2] -> [B·others]
    """The length of every row, or of every column; 0 for those outside of an image."""
    count, length = sizes.unbind(1) if axis == "rows" else sizes.flip(1).unbind(1)
    exists = torch.arange(others) < count[:, None]
    return torch.where(exists, length[:, None], 0).flatten()


def inside_sizes(sizes: Tensor, x: Tensor) -> Tensor:  # [B, 2], [B, H, W, ...] -> [B, H, W] bool
    """Which pixels are inside of their image."""
    height, width = (torch.arange(n) < size[:, None] for n, size in zip(x.shape[1:3], sizes.unbind(1), strict=True))
    return (height[:, :, None] & width[:, None, :]).to(x.device)


def checked_sizes(sizes: Any, x: Tensor) -> Tensor:  # [B, 2], on the CPU
    """The sizes that a caller gave, if they fit the images."""
    batch, height, width = x.shape[:3]
    rule = f"be integers of shape ({batch}, 2): heights from 0 to {height}, and widths from 0 to {width}"
    try:
        given = torch.as_tensor(sizes).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        checks.fail("sizes", rule, sizes)
    if tuple(given.shape) != (batch, 2) or given.dtype.is_floating_point or given.dtype == torch.bool:
        checks.fail("sizes", rule, given.tolist()[:8], kind=checks.ShapeError)
    given = given.long()
    if bool(((given < 0) | (given > torch.tensor([height, width]))).any()):
        checks.fail("sizes", rule, given.tolist()[:8])
    return given


def _recurrent(pair: Any) -> Iterator[Recurrent]:
    yield from pair.values()


def _check_cell(cell: Any) -> None:
    kind = parse_network(cell)[0] if isinstance(cell, str) else cell
    cell_class = getattr(kind, "cell_type", kind)
    if max(getattr(cell_class, "stencil", ()), default=0) > 0:
        rule = "not look ahead: a grid has a network of its own for each direction"
        checks.fail("cell", rule, getattr(cell, "__name__", cell), "Try gru or lstm.")


def _sizes(hidden_size: int | Sequence[int], num_layers: int | None) -> list[int]:
    """The units of each layer."""
    given = [hidden_size] if isinstance(hidden_size, int) else list(hidden_size)
    if not given or (num_layers is not None and len(given) not in (1, num_layers)):
        checks.fail("hidden_size", f"be one size, or one for each of the {num_layers or 1} layers", hidden_size)
    if num_layers is not None:
        given = given * checks.integer("num_layers", num_layers, minimum=1) if len(given) == 1 else given
    return [checks.integer("hidden_size", size, minimum=1) for size in given]
