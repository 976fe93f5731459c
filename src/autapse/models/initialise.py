"""Initial weights other than a layer's own."""

from __future__ import annotations

import torch
from torch import nn

from autapse import checks

KINDS = ("default", "glorot-orthogonal")


@torch.no_grad()
def initialise(layer: nn.Module, kind: str) -> None:
    """`default` leaves a layer's own weights.

    `glorot-orthogonal`: input weights uniform after Glorot & Bengio (2010), recurrent weights orthogonal after Saxe et
    al. (2013), each for all gates at once, and biases zero, as the paper on recurrent identity networks does its LSTM.
    """
    if checks.one_of("initialisation", kind, KINDS) == "default":
        return
    for name, parameter in layer.named_parameters():
        if "weight_ih" in name:
            nn.init.xavier_uniform_(parameter)
        elif "weight_hh" in name:
            nn.init.orthogonal_(parameter)
        elif "bias" in name:
            nn.init.zeros_(parameter)
        else:
            rule = f"be default for a layer with the parameter {name}; the other is for rnn, lstm and gru"
            checks.fail("initialisation", rule, kind)
