"""How heads choose slots of a memory, and how they read and write them: functions of tensors, without parameters.

B sequences, n heads, N slots of W numbers each. Addresses are weights over the slots, at least 0 with sum 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

SHORT = 1e-3  # vectors much shorter than this have no direction: their cosine with any other goes to 0


def cosine(keys: Tensor, memory: Tensor) -> Tensor:  # [B, n, W], [B, N, W] -> [B, n, N]
    """The cosine between each key and each slot, k·m / √((|k|² + ε²)(|m|² + ε²)) with ε = 10⁻³.

    ε makes it 0 at zero vectors, and bounds its derivative there.

    Args:
        keys: what the heads look for, [B, n, W].
        memory: the slots, [B, N, W].

    Returns:
        From −1 to 1, [B, n, N].

    >>> cosine(torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[6.0, 8.0], [4.0, -3.0], [0.0, 0.0]]]))
    tensor([[[1., 0., 0.]]])
    """
    return (keys * _inverse_norm(keys)) @ (memory * _inverse_norm(memory)).transpose(-1, -2)


def dot(keys: Tensor, memory: Tensor) -> Tensor:  # [B, n, W], [B, N, W] -> [B, n, N]
    """The dot product of each key and each slot.

    Args:
        keys: what the heads look for, [B, n, W].
        memory: the slots, [B, N, W].

    Returns:
        Any numbers, [B, n, N].

    >>> dot(torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[6.0, 8.0], [4.0, -3.0], [0.0, 0.0]]]))
    tensor([[[50.,  0.,  0.]]])
    """
    return keys @ memory.transpose(-1, -2)


SIMILARITIES = {"cosine": cosine, "dot": dot}


def _inverse_norm(vectors: Tensor) -> Tensor:  # [..., W] -> [..., 1]
    return (vectors.square().sum(-1, keepdim=True) + SHORT**2).rsqrt()


def by_content(similarities: Tensor, sharpness: Tensor) -> Tensor:  # [B, n, N], [B, n, 1] -> [B, n, N]
    """softmax(β·similarity) over the slots.

    Args:
        similarities: of each key and each slot, [B, n, N].
        sharpness: β of each head, at least 0, [B, n, 1].

    Returns:
        Addresses, [B, n, N].

    >>> by_content(torch.tensor([[[0.0, 1.0, 0.0]]]), torch.tensor([[[1000.0]]]))
    tensor([[[0., 1., 0.]]])
    """
    return torch.softmax(sharpness * similarities, dim=-1)


def interpolate(content: Tensor, before: Tensor, gate: Tensor) -> Tensor:
    """g·content + (1 − g)·before: the slot that content points at, or the address of the step before.

    Args:
        content: addresses by content, [B, n, N].
        before: addresses of the step before, [B, n, N].
        gate: g of each head, from 0 to 1, [B, n, 1].

    Returns:
        Addresses, [B, n, N].

    >>> interpolate(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[0.25]]]))
    tensor([[[0.2500, 0.7500]]])
    """
    return before + gate * (content - before)


def shift(addresses: Tensor, amounts: Tensor) -> Tensor:  # [B, n, N], [B, n, 2s + 1] -> [B, n, N]
    """Move addresses along the slots, which form a circle: a convolution.

    Args:
        addresses: what is moved, [B, n, N]; N is at least 2s + 1.
        amounts: the share of each move, of those by s, …, 1, 0, −1, …, −s slots in this order, [B, n, 2s + 1].

    Returns:
        Addresses, [B, n, N].

    >>> shift(torch.tensor([[[1.0, 0.0, 0.0, 0.0]]]), torch.tensor([[[0.9, 0.1, 0.0]]]))
    tensor([[[0.1000, 0.9000, 0.0000, 0.0000]]])
    """
    reach = amounts.shape[-1] // 2
    around = torch.cat([addresses[..., -reach:], addresses, addresses[..., :reach]], dim=-1)
    return (around.unfold(-1, 2 * reach + 1, 1) @ amounts.unsqueeze(-1)).squeeze(-1)


def sharpen(addresses: Tensor, exponent: Tensor) -> Tensor:  # [B, n, N], [B, n, 1] -> [B, n, N]
    """wᵞ / Σ wᵞ. It is computed from logarithms, so that no power underflows.

    Args:
        addresses: w, [B, n, N].
        exponent: γ of each head, at least 1, [B, n, 1].

    Returns:
        Addresses, [B, n, N].

    >>> sharpen(torch.tensor([[[0.5, 0.25, 0.25]]]), torch.tensor([[[2.0]]]))
    tensor([[[0.6667, 0.1667, 0.1667]]])
    """
    smallest = torch.finfo(addresses.dtype).eps ** 2
    return torch.softmax(exponent * addresses.clamp(min=smallest).log(), dim=-1)


def read(addresses: Tensor, memory: Tensor) -> Tensor:  # [B, n, N], [B, N, W] -> [B, n, W]
    """The mean of the slots, weighted by the addresses.

    Args:
        addresses: [B, n, N].
        memory: [B, N, W].

    Returns:
        One vector per head, [B, n, W].

    >>> read(torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[3., 4.]]])
    """
    return addresses @ memory


def write(memory: Tensor, addresses: Tensor, erase: Tensor, add: Tensor) -> Tensor:  # -> [B, N, W]
    """M ∘ Πₕ(1 − wₕ⊗eₕ) + Σₕ wₕ⊗aₕ: first all heads erase, then all heads add.

    Args:
        memory: M, [B, N, W].
        addresses: w of each head, [B, n, N].
        erase: e of each head, from 0 to 1, [B, n, W].
        add: a of each head, [B, n, W].

    Returns:
        The new memory, [B, N, W].

    >>> memory, slot = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[[0.0, 1.0]]])
    >>> write(memory, slot, erase=torch.tensor([[[1.0, 0.0]]]), add=torch.tensor([[[5.0, 0.5]]]))
    tensor([[[1.0000, 2.0000],
             [5.0000, 4.5000]]])
    """
    kept = 1 - addresses.unsqueeze(-1) * erase.unsqueeze(-2)  # [B, n, N, W]
    kept = kept.squeeze(1) if kept.shape[1] == 1 else kept.prod(1)
    return memory * kept + addresses.transpose(-1, -2) @ add


def draw(addresses: Tensor) -> Tensor:  # [B, n, N] -> [B, n, N]
    """Draw one slot per head, with the addresses as probabilities, from torch's generator.

    Args:
        addresses: [B, n, N].

    Returns:
        1 at the slot that was drawn and 0 elsewhere, [B, n, N].

    >>> draw(torch.tensor([[[0.0, 1.0, 0.0]]]))
    tensor([[[0., 1., 0.]]])
    """
    slots = torch.multinomial(addresses.flatten(0, 1), 1)
    return torch.zeros_like(addresses).scatter_(-1, slots.view(*addresses.shape[:2], 1), 1.0)


def most_probable(addresses: Tensor) -> Tensor:  # [B, n, N] -> [B, n, N]
    """The slot with the largest weight of each head; the first of several.

    Args:
        addresses: [B, n, N].

    Returns:
        1 at that slot and 0 elsewhere, [B, n, N].

    >>> most_probable(torch.tensor([[[0.2, 0.5, 0.3]]]))
    tensor([[[0., 1., 0.]]])
    """
    return torch.zeros_like(addresses).scatter_(-1, addresses.argmax(-1, keepdim=True), 1.0)
