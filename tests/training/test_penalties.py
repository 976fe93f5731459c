"""Terms of the loss beside the task's: what cells note for each sequence, and soft orthogonality."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import autapse
from autapse import checks
from autapse.layers.noted import PENALTIES
from autapse.models import Classifier
from autapse.tasks import Walk
from autapse.training import Loop, ModelConfig, RunConfig, TrainingConfig
from autapse.training.penalties import orthogonality
from small import final_tensors, small_config


class Counting(autapse.Cell):
    """h' = tanh(V·x), and each sequence pays the sum of its |h|."""

    depends_on_position = False

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias)
        self.map = nn.Linear(input_size, hidden_size)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size, 1)

    def drive(self, x: Tensor) -> Tensor:
        return self.map(x)

    def step(self, u: Tensor, state: tuple[Tensor, ...], weights: None, t: int) -> tuple[Tensor, ...]:
        h = torch.tanh(u)
        return h, state[1] + h.abs().sum(1, keepdim=True)

    def penalty(self, state: tuple[Tensor, ...]) -> Tensor:
        return state[1].squeeze(1)


def test_a_layer_notes_the_penalty_of_each_sequence_in_the_callers_order() -> None:
    layer = autapse.Recurrent(Counting, 3, 4, num_layers=2, bidirectional=True)
    x, lengths = torch.randn(9, 3, 3), [2, 9, 5]
    with PENALTIES.noted() as penalties:
        _, _, states = layer(x, lengths=lengths, return_states=True)
    paid = sum(trace[0].abs().sum(dim=(0, 2, 3)) for trace in states)  # states after the end are 0
    (noted,) = penalties
    torch.testing.assert_close(noted, paid)
    layer(x)  # outside of the block nothing is noted
    assert len(penalties) == 1


@pytest.mark.parametrize(
    ("cell", "used"),
    [
        ("deep:cell=(skiprnn:cell=irnn:budget=0.3):output_depth=1", -1),
        ("memory:controller=(skiprnn:cell=irnn:budget=0.3)", 2),
    ],
)
def test_a_cell_around_another_passes_on_its_penalties(cell: str, used: int) -> None:
    model = Classifier(cell, 3, 2, hidden_size=4)
    with PENALTIES.noted() as penalties:
        _, h_n = model.layers()[0](torch.randn(2, 9, 3))
    torch.testing.assert_close(penalties[0], 0.3 * h_n[used][0, :, 0])  # the number of used steps
    assert orthogonality(model) == 0  # an IRNN starts with R = I


def test_the_loss_adds_the_mean_penalty() -> None:
    task = Walk(max_length=7, train_size=40, validation_size=8, test_size=8)
    loop = Loop(RunConfig(task=task, model=ModelConfig(cell=Counting, hidden_size=(4,))))
    indices = loop.feed.sequences(0)
    batch = loop.feed.batch(0, indices)
    with PENALTIES.noted() as penalties:
        output = loop.model(batch.inputs, batch.lengths)
    loss = loop.objective.loss(output, batch.targets) / loop.objective.count(batch)
    wanted = torch.autograd.grad(loss + penalties[0].sum() / len(indices), loop.parameters)
    reported = loop._backward(indices)
    for parameter, gradient in zip(loop.parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    assert reported == pytest.approx(float(loss.detach()))  # the log has the task's loss


@pytest.mark.parametrize(("cell", "gates", "shift"), [("rnn", 1, 0), ("gru", 3, 0), ("lstm", 4, 0), ("rin", 1, 1)])
def test_orthogonality_is_the_distance_of_every_gates_gram_matrix(cell: str, gates: int, shift: int) -> None:
    model = Classifier(cell, 3, 2, hidden_size=5, num_layers=2).double()  # in float32, RᵀR − I of a small RIN cancels
    expected = 0.0
    for name, weight in model.named_parameters():
        if "weight_hh" in name:
            for R in weight.detach().numpy().reshape(gates, 5, 5):
                values = np.linalg.svd(R + shift * np.eye(5), compute_uv=False)
                expected += ((values**2 - 1) ** 2).sum()  # ‖RᵀR − I‖² in singular values
    assert float(orthogonality(model).detach()) == pytest.approx(expected, rel=1e-9)


def test_a_projected_lstm_has_orthonormal_columns_as_its_aim() -> None:
    model = Classifier(autapse.LSTM(3, 5, proj_size=2, batch_first=True), 3, 2)
    with torch.no_grad():
        for gate in model.layer.weight_hh_l0.split(5):
            nn.init.orthogonal_(gate)
    assert float(orthogonality(model).detach()) < 1e-10


def test_training_with_the_penalty_makes_matrices_orthogonal() -> None:
    def distance(weight: float) -> float:
        config = small_config(cell="rnn", steps=300, learning_rate=0.02, orthogonality=weight)
        loop = Loop(config)
        loop.run()
        return float(orthogonality(loop.model).detach())

    # Not near 0 for every start: the gradient of (σ² − 1)² vanishes at σ = 0, so a small singular value grows slowly.
    assert distance(1.0) < 0.1 * distance(0.0)


def test_two_processes_add_the_penalty_once(tmp_path: Path) -> None:
    words = "run adding --length 5 --train-size 60 --validation-size 9 --test-size 9 --cell rnn --hidden-size 4"
    words += " --steps 5 --batch-size 15 --eval-every 5 --optimizer sgd --orthogonality 0.5 --clip-norm 100"
    for processes in (1, 2):
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        command += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "-m", "autapse", *words.split()]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        out = ["--out", str(processes)]
        done = subprocess.run(
            [*command, *out], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
    one, two = final_tensors(tmp_path / "1"), final_tensors(tmp_path / "2")
    for name in (n for n in one if n.startswith("model.")):
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("cell", ["orthogonalrnn", "spectralrnn", "feedforward", "antisymmetric"])
def test_a_network_without_free_matrices_is_refused(cell: str) -> None:
    rule = re.escape(f"orthogonality must be 0 for a cell without free recurrent matrices; got '{cell}'")
    with pytest.raises(checks.InputError, match=rule):
        Loop(small_config(cell=cell, orthogonality=0.1))


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(checks.InputError, match="orthogonality must"):
        TrainingConfig(orthogonality=-1.0)


@pytest.mark.parametrize("cell", ["skiprnn:cell=rnn:budget=0.3", "dilated:cell=(skiprnn:cell=rnn:budget=0.3)"])
def test_a_budget_teaches_a_network_to_skip_steps(cell: str) -> None:
    task = Walk(max_length=12, train_size=40, validation_size=8, test_size=8)
    loop = Loop(RunConfig(task=task, model=ModelConfig(cell=cell, hidden_size=(4,))))
    batch = loop.feed.batch(0, loop.feed.sequences(0))

    def paid() -> float:
        with PENALTIES.noted() as penalties, torch.no_grad():
            loop.model(batch.inputs, batch.lengths)
        return float(penalties[0].mean())

    before = paid()
    for _ in range(150):
        loop.optimizer.zero_grad()
        loop._backward(loop.feed.sequences(0))
        for parameter in loop.parameters:
            parameter.data.sub_(parameter.grad, alpha=0.05)
    assert paid() < 0.7 * before
