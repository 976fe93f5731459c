"""ModelStream: a trained model that reads raw values one step at a time, for devices and live signals."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autapse import checks
from autapse.models.readout import State
from autapse.models.series import read_step

STREAMING = "Train the model with streaming=True (--streaming), which makes it causal."
OTHER_CELL = "Choose a cell that looks back only, such as gru."


class ModelStream:
    """scores = stream(x_t): what the model says after each step, from raw values, without gradients.

    The scores are those of `model.predict_proba` on all steps so far, or of `model.predict` if the model predicts
    values; up to rounding. `stream.prediction` has the name of the class, or the values; `stream.position` is the
    number of steps so far. `stream.reset()` starts a new sequence, with the present weights of the model.

    Args:
        model: a model that looks back only: no bidirectional or implicit layer, no scaling by series, and convolutions
            that are causal, as `--streaming` makes them.
        batch_size: number of sequences that are read side by side.

    A call takes the values of one step: [D] as an array, list or tensor; a number if there is one channel; or a mapping
    from names of channels to values. With `batch_size` above 1, [batch_size, D]. It returns the scores, [K], or
    [batch_size, K]: a tensor if x_t is a tensor, otherwise a numpy array.

    >>> model = autapse.models.Classifier("gru", 3, 2, hidden_size=8, front="conv:channels=4", streaming=True)
    >>> stream = model.stream()
    >>> stream([0.5, 1.0, -2.0]).shape, stream([0.4, 1.1, -2.5]).shape, stream.position
    ((2,), (2,), 2)
    """

    def __init__(self, model: Any, batch_size: int = 1) -> None:
        self.batch_size = checks.integer("batch_size", batch_size, minimum=1)
        _check_causal(model)
        self._model = model
        self.reset()

    def reset(self) -> None:
        """Start a new sequence, with the present weights of the model."""
        self._members = [_MemberStream(member, self.batch_size) for member in self._model.members]
        self._output: Tensor | None = None
        self.position = 0

    @torch.no_grad()
    def __call__(self, x_t: Any) -> Any:
        model, like = self._model, self._model.head.weight
        values = x_t.detach().cpu().numpy() if isinstance(x_t, Tensor) else x_t
        raw = torch.from_numpy(read_step(values, model.expected, self.batch_size)).to(like.device)
        was_training = model.training
        model.eval()
        try:
            self._output = model.in_unit(model.together([member(raw) for member in self._members]))
        finally:
            model.train(was_training)
        self.position += 1
        scores = torch.softmax(self._output, dim=-1) if model.has_classes else self._output
        scores = scores[0] if self.batch_size == 1 else scores
        return scores if isinstance(x_t, Tensor) else scores.cpu().numpy()

    @property
    def prediction(self) -> Any:
        """What the model predicts after the steps so far: the class, by name if it has one, or values."""
        if self._output is None:
            raise checks.InputError("A stream has no prediction before its first step.")
        answer = self._model.meaning(self._output.cpu())
        return answer[0] if self.batch_size == 1 else answer


class _MemberStream:
    """What the head of one of the models that answer together gives after each step."""

    def __init__(self, model: Any, batch_size: int) -> None:
        self._model = model
        self._layer = model.layer.stream(batch_size)
        self._front = None if model.front is None else model.front.stream(batch_size)
        self._before: Tensor | None = None  # raw values of the step before
        self._states: dict[str, State] = {}  # of the readouts

    def __call__(self, raw: Tensor) -> Tensor:  # [B, D] -> [B, K]
        model = self._model
        x, complete = self._inputs(raw), True
        if self._front is not None:
            x, complete = self._front(x)
        # A window of steps that is not complete counts for now, but the layer must read it only once.
        output = self._layer(x) if complete else self._layer.peek(x)
        features = self._read("layer", model.readout, output, complete)
        if model.front_readout is not None:
            features = torch.cat([features, self._read("front", model.front_readout, x, complete)], dim=-1)
        scores: Tensor = model.head_of(features)
        return scores

    def _inputs(self, raw: Tensor) -> Tensor:  # [B, D] -> [B, features]
        """The scaled inputs of a step. Gaps and changes also depend on the step before."""
        inputs, before = self._model.inputs, self._before
        window = raw[:, None] if before is None else torch.stack([before, raw], dim=1)
        if inputs.missing == "forward" and before is not None:
            raw = torch.where(torch.isnan(raw), before, raw)
        self._before = raw
        values: Tensor = inputs(window)[:, -1]
        return values

    def _read(self, name: str, readout: Any, value: Tensor, complete: bool) -> Tensor:
        if readout is None:
            return value
        state = readout.step(self._states.get(name, ()), value)
        if complete:
            self._states[name] = state
        features: Tensor = readout.value(state)
        return features


def _check_causal(model: Any) -> None:
    """Raise an error if an output depends on later steps."""
    by_series = "scaling by the mean and the deviation of the whole series"
    reasons = [
        (len(model.layers()) > len(model.members), f"a {type(model).__name__}, which reads whole sequences", ""),
        (model.layer.looks_ahead, "a cell that looks ahead", OTHER_CELL),
        (model.layer.bidirectional, "a layer that is bidirectional", STREAMING),
        (model.inputs.by_series, by_series, STREAMING),
        (model.front is not None and model.front.looks_ahead, "convolutions that look ahead", STREAMING),
    ]
    for holds, reason, remedy in reasons:
        if holds:
            checks.fail("model", "look back only, to read one step at a time", reason, remedy)
