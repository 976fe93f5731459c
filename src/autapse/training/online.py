"""Real-time recurrent learning (Williams and Zipser 1989): exact gradients that are carried forward along a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from autapse import checks
from autapse.layers import Recurrent
from autapse.training.clipping import clip, finite

MOST_ENTRIES = 1 << 26  # of the influence matrix; its product with a Jacobian is the cost of a step


class Observed(NamedTuple):
    """What a learner returns for one step."""

    prediction: Tensor
    """The output of the head, before anything was learned from this step."""
    loss: float
    """The loss of that prediction."""


class OnlineLearner:
    """P_t = J_t·P_{t−1} + ∂s_t/∂θ, and ∂L_t/∂θ = ∂L_t/∂s_t·P_t, with J_t = ∂s_t/∂s_{t−1}

    s_t is the state of all layers, θ are their weights, and P_t = ds_t/dθ is the influence matrix. It has as many rows
    as there are states and as many columns as there are weights, so this is for small networks: with n units, a step of
    a network of n² weights takes about n⁴ operations. Nothing is kept of earlier steps. If the weights do not change,
    the sum of the gradients is that of back-propagation through time.

    Args:
        layer: an explicit recurrent layer, in one direction and without dropout.
        head: from the output of the layer, [output_size], to a prediction.
        loss: loss(prediction, target), a number; the squared error by default.
        optimizer: updates the weights after each step. None: gradients add up in `.grad`.
        clip_norm: scale the gradient of a step down to this norm if its norm is larger.

    >>> learner = OnlineLearner(autapse.RNN(1, 4), torch.nn.Linear(4, 1))
    >>> observed = learner.observe(torch.zeros(1), torch.ones(1))
    >>> learner.influence.shape, learner.layer.weight_hh_l0.grad.shape
    (torch.Size([4, 28]), torch.Size([4, 4]))
    """

    def __init__(
        self,
        layer: Recurrent,
        head: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor] = F.mse_loss,
        optimizer: Optimizer | None = None,
        clip_norm: float | None = None,
    ) -> None:
        check_online(layer)
        self.layer, self.head, self.loss, self.optimizer, self.clip_norm = layer, head, loss, optimizer, clip_norm
        self.weights = [p for p in layer.parameters() if p.requires_grad]
        self.own = [p for p in head.parameters() if p.requires_grad]
        self._has_forms = all(cell.form() is not None for cell in layer.cells.values())
        self.position = 0
        self.state = self._initial()
        """All that the layers carry, in a row: [S]."""
        self.influence = self.state.new_zeros(len(self.state), sum(p.numel() for p in self.weights))
        """ds/dθ, [S, weights]."""

    def _initial(self) -> Tensor:
        like = next(iter(self.layer.state_dict().values())).new_zeros(1, self.layer.input_size)
        states = [part for cell in self.layer.cells.values() for part in cell.initial_state(1, like)]
        # A learned initial state is a number here: its gradient would never reach the end of a stream.
        return torch.cat(states, dim=1).squeeze(0).detach()

    def observe(self, x: Tensor, target: Tensor) -> Observed:  # [D], as the loss takes it
        """Read one step, predict, and learn from the target.

        Args:
            x: the input of this step.
            target: what should be predicted after it.

        Returns:
            The prediction and its loss.
        """
        with torch.enable_grad():
            prediction, loss, gradients = self._step(x, target)
        for parameter, gradient in zip([*self.weights, *self.own], gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        if self.optimizer is not None:
            if finite(clip([*self.weights, *self.own], self.clip_norm, None)):
                self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return Observed(prediction.detach(), float(loss.detach()))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Read one step and predict, without learning. The influence matrix starts again from zero."""
        self.state, self.position = self._advance(x, self.state), self.position + 1
        self.influence.zero_()
        return self.head(self._output(self.state))

    def _step(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        before = self.state.requires_grad_()
        after = self._advance(x, before)
        jacobian, *immediate = self._rows(after, [before, *self.weights])
        self.influence = torch.cat(immediate, dim=1).addmm(jacobian, self.influence) if immediate else self.influence
        self.state, self.position = after.detach(), self.position + 1
        now = self.state.clone().requires_grad_()
        prediction = self.head(self._output(now))
        loss = self.loss(prediction, target)
        by_state, *direct = torch.autograd.grad(
            loss, [now, *self.weights, *self.own], allow_unused=True, materialize_grads=True
        )
        carried = (by_state @ self.influence).split([p.numel() for p in self.weights])
        through = [part.view_as(p) + d for part, p, d in zip(carried, self.weights, direct, strict=False)]
        return prediction, loss, [*through, *direct[len(through) :]]

    def _rows(self, after: Tensor, sources: list[Tensor]) -> list[Tensor]:  # [S] -> [S, n] each
        """d after / d source for each source."""
        rows, keywords = torch.eye(len(after), dtype=after.dtype, device=after.device), {"allow_unused": True}
        if self._has_forms:
            derivatives = torch.autograd.grad(after, sources, rows, is_grads_batched=True, **keywords)
            return [_flat(part, source, rows) for part, source in zip(derivatives, sources, strict=True)]
        # A step of another kind may have kernels of its own, which take one vector at a time.
        each = [torch.autograd.grad(after, sources, row, retain_graph=True, **keywords) for row in rows]
        return [
            torch.cat([_flat(part, source, rows[:1]) for part in column])
            for column, source in zip(zip(*each, strict=True), sources, strict=True)
        ]

    def _advance(self, x: Tensor, state: Tensor) -> Tensor:  # [D], [S] -> [S]
        """One step of all layers."""
        rows = x.unsqueeze(0)
        news: list[Tensor] = []
        for cell, part in zip(self.layer.cells.values(), self._parts(state), strict=True):
            new = cell.advance(cell.drive(rows), part, cell.prepare(), self.position)
            rows = cell.output(new[: len(cell.state_sizes)])
            news += new
        return torch.cat(news, dim=1).squeeze(0)

    def _output(self, state: Tensor) -> Tensor:  # [S] -> [output_size]
        cell = list(self.layer.cells.values())[-1]
        return cell.output(self._parts(state)[-1][: len(cell.state_sizes)]).squeeze(0)

    def _parts(self, state: Tensor) -> list[tuple[Tensor, ...]]:
        """What each cell carries, [1, S] each."""
        cells = list(self.layer.cells.values())
        wholes = state.unsqueeze(0).split([sum(cell.carried_sizes) for cell in cells], dim=1)
        return [whole.split(cell.carried_sizes, dim=1) for whole, cell in zip(wholes, cells, strict=True)]

    def tensors(self) -> dict[str, Tensor]:
        """What a learner needs to continue beside the weights and the optimizer's state."""
        return {"state": self.state.detach(), "influence": self.influence, "position": torch.tensor(self.position)}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue from what `tensors` gave."""
        for name, mine in self.tensors().items():
            if name not in tensors or tensors[name].shape != mine.shape or tensors[name].dtype != mine.dtype:
                checks.fail(name, f"be a tensor like that of this learner, {tuple(mine.shape)}", list(tensors))
        self.state, self.influence = tensors["state"].clone(), tensors["influence"].clone()
        self.position = int(tensors["position"])


def check_online(layer: Any) -> None:
    """Raise an error unless a layer can be trained by real-time recurrent learning."""
    if not isinstance(layer, Recurrent):
        rule = "be a recurrent layer of autapse"
        checks.fail("layer", rule, type(layer).__name__, kind=checks.KindError)
    cells = list(layer.cells.values())
    name = type(layer).__name__
    if layer.looks_ahead or layer.bidirectional:
        checks.fail("layer", "read a stream in one direction", name)
    if not layer.reads_state:
        checks.fail("layer", "have a state", name)
    if any(cell.is_solved or cell.draws for cell in cells):
        checks.fail("layer", "take steps that are explicit functions of the state before", name)
    if layer.dropout:
        checks.fail("dropout", "be 0 for a stream", layer.dropout)
    states = sum(sum(cell.carried_sizes) for cell in cells)
    weights = sum(p.numel() for p in layer.parameters() if p.requires_grad)
    if states * weights > MOST_ENTRIES:
        rule = f"have an influence matrix of at most {MOST_ENTRIES} entries, states times weights"
        checks.fail("layer", rule, f"{states} × {weights}", "Use fewer units, or `autapse run`.")


def _flat(rows: Tensor | None, source: Tensor, like: Tensor) -> Tensor:
    """Derivatives with one row per row of `like`; None stands for zeros."""
    return like.new_zeros(len(like), source.numel()) if rows is None else rows.reshape(len(like), -1)
