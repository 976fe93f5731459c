"""The scan of a layer: by the native kernels where they can, else by the reference; whole, or with recomputation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from autapse.cells import Cell
from autapse.forms import State
from autapse.unfold.fused import can_fuse, has_kernel, scan_fused
from autapse.unfold.reference import Scanned, scan_reference
from autapse.unfold.unchanged import Unchanged


def scan(
    cell: Cell,
    x: Tensor,  # [N, D]
    state: State,  # each [B, S]
    sizes: Sequence[int],
    start: int = 0,
    keep: bool = True,  # all states of each step, or at least what the cell's output needs
    turn: Callable[[Tensor], Tensor] | None = None,  # puts rows into the reverse order and back; None: not reversed
    checkpoint_every: int | None = None,
) -> Scanned:
    """`scan_fused` where the native library can run this cell on this input, `scan_reference` elsewhere.

    With `checkpoint_every=k` the states at every k-th step only are kept, and the backward pass computes k steps at a
    time again, so that it holds T/k + k states instead of T.
    """
    form: Any = cell.prepare()  # once, also where the sequence goes in pieces
    fused = can_fuse(cell, x, state) and has_kernel(form)
    whole = is_whole(checkpoint_every, sizes)
    # Where all lengths are the same the kernels read and write from the end; elsewhere the rows are turned.
    inside = turn is not None and fused and whole and len(sizes) > 0 and sizes[0] == sizes[-1]
    around = None if inside else turn
    x = around(x) if around else x
    run: Any = scan_fused if fused else scan_reference
    if not whole:
        states, final, _ = in_pieces(run, cell, x, state, sizes, start, keep, form, checkpoint_every or 1)
    elif inside:
        states, final = scan_fused(cell, x, state, sizes, start, keep, form, reverse=True)  # type: ignore[arg-type]
    else:
        states, final = run(cell, x, state, sizes, start, keep, form)
    return tuple(around(rows) for rows in states) if around else states, final


def is_whole(checkpoint_every: int | None, sizes: Sequence[int]) -> bool:
    """Whether nothing needs to be computed again in a backward pass."""
    if checkpoint_every is None or checkpoint_every >= len(sizes):
        return True
    # Recomputation needs saved tensor hooks, which torch.func and dual tensors cannot have: they keep everything.
    transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    return transformed or not torch.is_grad_enabled()


def in_pieces(
    run: Any, cell: Cell, x: Tensor, state: State, sizes: Sequence[int], start: int, keep: bool, form: Any, every: int
) -> tuple[State, State, list[list[Any]]]:
    """`run` on `every` steps at a time, which the backward pass runs again; and what else it returned of each piece."""
    inputs = (x, *state)
    unchanged = Unchanged([*cell.parameters(), *cell.buffers(), *inputs])

    def run_unchanged(*arguments: Any) -> Any:
        unchanged.check([*cell.parameters(), *cell.buffers(), *inputs])
        return run(*arguments)

    pieces = [sizes[n : n + every] for n in range(0, len(sizes), every)]
    traces: list[State] = []
    ended: list[State] = []
    others: list[list[Any]] = []
    for n, (piece, rows) in enumerate(zip(pieces, x.split([sum(piece) for piece in pieces]), strict=True)):
        # Sequences that ended in an earlier piece leave, so that a piece is a batch of its own.
        ended.append(tuple(s[piece[0] :] for s in state))
        state = tuple(s[: piece[0]] for s in state)
        arguments = (cell, rows, state, piece, start + n * every, keep, form)
        trace, state, *other = checkpoint(run_unchanged, *arguments, use_reentrant=False)
        traces.append(trace)
        others.append(other)
    states = tuple(torch.cat(column) for column in zip(*traces, strict=True))
    final = tuple(torch.cat(column) for column in zip(state, *reversed(ended), strict=True))
    return states, final, others
