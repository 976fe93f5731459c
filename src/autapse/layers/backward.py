"""What the backward pass of all recurrent layers of a model does at each state, for training."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from autapse import checks
from autapse.layers.recurrent import Recurrent
from autapse.unfold import Scan


def set_backward(model: nn.Module, clip_hidden: float | None = None, information_flow: float = 0.0) -> None:
    """Give these settings of `autapse.unfold.Scan` to every recurrent layer of a model. An error if one has none.

    Args:
        model: a model, or a layer.
        clip_hidden: bound of each entry of the gradient at a state; None leaves the layers as they are.
        information_flow: weight of the regulariser for information flow; 0 leaves the layers as they are.

    >>> model = torch.nn.Sequential(autapse.GRU(3, 4))
    >>> set_backward(model, clip_hidden=1.0)
    >>> model[0]
    GRU(3, 4, clip_hidden=1.0)
    """
    given = {"clip_hidden": clip_hidden, "information_flow": information_flow}
    given = {name: value for name, value in given.items() if value}
    if not given:
        return
    name, value = next(iter(given.items()))
    layers = [module for module in model.modules() if isinstance(module, Recurrent)]
    unserved = [type(layer).__name__ for layer in layers if not isinstance(layer.strategy, Scan)]
    if unserved or not layers:
        what = unserved[0] if unserved else type(model).__name__
        remedy = "Use a layer such as RNN, GRU or LSTM."
        checks.fail(name, f"not be set for {what}, which does not take one step after the other", value, remedy)
    for layer in layers:
        strategy = replace(layer.strategy, **given)  # type: ignore[type-var]
        for cell in layer.cells.values():
            strategy.check(cell)
        if layer.unfold is None:
            layer.solving = strategy
        else:
            layer.unfold = strategy
