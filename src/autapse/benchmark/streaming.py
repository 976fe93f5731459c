"""One step at a time with the state kept: `layer.stream()` against what a user of torch writes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autapse.benchmark.candidate import Candidate
from autapse.benchmark.networks import LOOP, TORCH, Network
from autapse.benchmark.peers import TORCH_CELLS

STREAMING_PEERS = (TORCH, LOOP)
Step = Callable[[Tensor], Tensor]  # [1, D] -> [1, H]


def own_step(ours: Candidate) -> Step:
    layer: Any = ours.module
    return layer.stream(batch_size=1)


def peer_step(kind: str, network: Network, ours: Candidate) -> tuple[str, Step]:
    """Name and step of a peer with our weights."""
    layer: Any = ours.module
    if kind == TORCH:
        return _torch_step(network.name, layer)
    return "PyTorch step", _leaky_step(copy.deepcopy(layer.cells["l0"]))


def _torch_step(name: str, layer: Any) -> tuple[str, Step]:
    cell: Any = TORCH_CELLS[name](layer.input_size, layer.hidden_size)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    state: Any = None

    def step(x: Tensor) -> Tensor:
        nonlocal state
        with torch.no_grad():
            state = cell(x, state)
        return state[0] if name == "lstm" else state

    return f"torch.nn.{type(cell).__name__}", step


def _leaky_step(cell: Any) -> Step:
    with torch.no_grad():
        V, M, h = cell.weight_ih.t(), cell.matrix().t(), torch.zeros(1, cell.hidden_size)

    def step(x: Tensor) -> Tensor:
        nonlocal h
        with torch.no_grad():
            u = torch.addmm(cell.bias_h, x, V)
            h = torch.add(h, torch.tanh(torch.addmm(u, h, M)), alpha=cell.step_size)
        return h

    return step
