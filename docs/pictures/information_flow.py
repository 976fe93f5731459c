"""Draws the picture of docs/optimizers.md: how far gradients reach with and without information flow.

.venv/bin/python docs/pictures/information_flow.py    trains two networks; about two minutes
"""

from __future__ import annotations

import dataclasses

import matplotlib.pyplot as plt
import torch
from picture import save

from autapse.tasks import task_class
from autapse.training import ModelConfig, RunConfig, TrainingConfig, fit

LENGTH, STEPS = 50, 1000


def trained(weight: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean norm of the gradient at each lag before the end of a sequence, before and after training."""
    task = task_class("temporal-order")(length=LENGTH, train_size=4000, validation_size=200, test_size=200)  # type: ignore[call-arg]
    settings = TrainingConfig(
        steps=STEPS, batch_size=20, optimizer="sgd", learning_rate=0.05, information_flow=weight, threads=1
    )
    config = RunConfig(task=task, model=ModelConfig(cell="rnn", hidden_size=(50,)), training=settings)
    untrained = dataclasses.replace(config, training=dataclasses.replace(settings, steps=1, learning_rate=1e-12))
    x = torch.from_numpy(task.split("test", 0).inputs[:100])
    first, last = (reach(fit(each).model.layer, x) for each in (untrained, config))
    return first, last


def reach(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """‖∂(sum of the last state) / ∂h_{T−lag}‖, by steps: each state is the input of one more call."""
    states = [torch.zeros(1, len(x), 50)]
    for t in range(x.shape[1]):
        states[-1].requires_grad_().retain_grad()
        states.append(layer(x[:, t : t + 1], states[-1])[1])
    states[-1].sum().backward()
    return torch.stack([state.grad[0].norm(dim=1).mean() for state in reversed(states[:-1])])  # type: ignore[index]


def main() -> None:
    figure, axes = plt.subplots(figsize=(6, 3.4))
    for weight, colour in ((0.0, "tab:gray"), (1.0, "tab:blue")):
        before, after = trained(weight)
        if weight == 0:
            axes.semilogy(range(1, LENGTH + 1), before, ":", color="black", label="before training")
        name = "information_flow=1" if weight else "without it"
        axes.semilogy(range(1, LENGTH + 1), after, color=colour, label=f"after {STEPS} steps, {name}")
    axes.set_xlabel("lag: steps before the end")
    axes.set_ylabel("norm of the gradient")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, "information-flow.svg")


if __name__ == "__main__":
    main()
