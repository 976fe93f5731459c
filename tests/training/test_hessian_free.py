"""Hessian-free: its products against dense matrices, its steps against closed forms, its resume to the bit."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import autapse
from autapse.checks import InputError
from autapse.tasks import XOR, ArrayTask, Shapes
from autapse.training import ModelConfig, RunConfig, Trainer, TrainingConfig, fit
from autapse.training.curvature import LocalProblem
from autapse.training.hessian_free import HessianFree, _next_damping
from autapse.training.loop import Loop
from small import final_tensors, small_config, stopped_at

B, T, D, H, K = 5, 6, 2, 3, 3


class Small(nn.Module):
    """A classifier in float64."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(H, K)
        self.double()

    def forward(self, x):
        return self.head(self.layer(x)[0][-1])


def problem_of(model, x, targets, loss, **options):
    def evaluate(call, sequences):
        rows = torch.tensor(list(sequences))
        return call(x[:, rows]), lambda output: loss(output, targets[rows]) / len(rows)

    return LocalProblem(model, evaluate, range(B), **options)


def cross_entropy(output, target):
    return nn.functional.cross_entropy(output, target, reduction="sum")


def squared(output, target):
    return (output - target).square().mean(-1).sum()


def dense_jacobian(model, outputs):
    """d outputs / d parameters, [entries, parameters]"""
    rows = []
    for entry in outputs.flatten():
        grads = torch.autograd.grad(entry, list(model.parameters()), retain_graph=True, allow_unused=True)
        pairs = zip(grads, model.parameters(), strict=True)
        rows.append(torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs]))
    return torch.stack(rows)


@pytest.mark.parametrize("layer", [autapse.RNN, autapse.GRU, autapse.LSTM, autapse.ERNN])
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_products_are_those_of_the_dense_matrix(layer, kind):
    model, x = Small(layer(D, H)), torch.randn(T, B, D, dtype=torch.float64)
    targets = torch.randint(K, (B,)) if kind == "classes" else torch.randn(B, K, dtype=torch.float64)
    loss = cross_entropy if kind == "classes" else squared
    matrix = problem_of(model, x, targets, loss, states=[model.layer], weight_decay=0.1).linearise()
    states, _ = model.layer(x)
    output = model(x)
    J, S = dense_jacobian(model, output), dense_jacobian(model, states)
    if kind == "classes":
        p = output.detach().softmax(-1)
        second = torch.block_diag(*(torch.diag(row) - torch.outer(row, row) for row in p)) / B
    else:
        second = 2 / K / B * torch.eye(B * K).double()
    G = J.T @ second @ J + 0.1 * torch.eye(J.shape[1]).double()
    for structural in (0.0, 0.7):
        v = torch.randn(J.shape[1], dtype=torch.float64)
        expected = G @ v + structural / B * S.T @ (S @ v)
        torch.testing.assert_close(matrix.product(v, structural), expected, rtol=1e-9, atol=1e-11)


def test_the_curvature_of_some_sequences():
    model, x = Small(autapse.GRU(D, H)), torch.randn(T, B, D, dtype=torch.float64)
    targets = torch.randn(B, K, dtype=torch.float64)
    v = torch.randn(sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    few = problem_of(model, x, targets, squared, states=[model.layer], curved=range(2))
    alone = problem_of(model, x[:, :2], targets[:2], squared, states=[model.layer])
    alone.sequences = alone.curved = range(2)
    torch.testing.assert_close(few.linearise().product(v, 0.3), alone.linearise().product(v, 0.3))
    assert few.loss() == pytest.approx(float(squared(model(x).detach(), targets)) / B)


def test_the_squares_are_those_of_single_sequences_if_there_are_few():
    model, x = Small(autapse.GRU(D, H)), torch.randn(T, B, D, dtype=torch.float64)
    targets = torch.randint(K, (B,))
    expected = 0
    for n in range(B):  # fewer than there are groups
        loss = cross_entropy(model(x[:, n : n + 1]), targets[n : n + 1])
        grads = torch.autograd.grad(loss, list(model.parameters()))
        expected = expected + torch.cat([g.flatten() for g in grads]).square() / B
    torch.testing.assert_close(problem_of(model, x, targets, cross_entropy).squares(), expected)


def test_one_step_solves_least_squares():
    x, targets = torch.randn(1, B, 4, dtype=torch.float64), torch.randn(B, 2, dtype=torch.float64)
    model = nn.Linear(4, 2, bias=False).double()

    def evaluate(call, sequences):
        rows = torch.tensor(list(sequences))
        return call(x[0, rows]), lambda output: squared(output, targets[rows]) / len(rows)

    optimizer, problem = HessianFree(model.parameters(), damping=1e-9), LocalProblem(model, evaluate, range(B))
    squared(model(x[0]), targets).div(B).backward()
    assert optimizer.step(problem) == 1.0
    torch.testing.assert_close(
        model.weight.detach().T, torch.linalg.lstsq(x[0], targets).solution, rtol=1e-5, atol=1e-6
    )
    assert optimizer.damping == pytest.approx(1e-9 / 1.5)  # the model was right, so the damping falls


def test_the_damping_rises_where_the_curvature_is_negative():
    """The loss cos(w) at w = 0.5: the second derivative is negative, so no step is found until λ is above it."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, 0.5)

    def evaluate(call, sequences):
        return call(torch.ones(1, 1, dtype=torch.float64)), lambda output: output.cos().sum()

    optimizer = HessianFree(model.parameters(), damping=0.1)
    shares, dampings = [], []
    for _ in range(9):
        optimizer.zero_grad()
        model(torch.ones(1, 1, dtype=torch.float64)).cos().sum().backward()
        shares.append(optimizer.step(LocalProblem(model, evaluate, range(1))))
        dampings.append(optimizer.damping)
        if shares[-1]:
            break
    needed = next(n for n in range(9) if 0.1 * 1.5**n > math.cos(0.5))
    assert shares[:needed] == [0.0] * needed
    assert shares[needed] > 0
    assert dampings[:needed] == pytest.approx([0.1 * 1.5 ** (n + 1) for n in range(needed)])
    assert model.weight.item() > 0.5  # towards the minimum at π


def test_the_damping_follows_levenberg_and_marquardt():
    assert [_next_damping(1.0, ratio) for ratio in (-0.3, 0.2, 0.5, 0.9)] == [1.5, 1.5, 1.0, 1 / 1.5]


def config_of(task=None, cell="rnn", **training):
    task = task or XOR(length=8, train_size=200, validation_size=100, test_size=100)
    settings = {"optimizer": "hessian-free", "steps": 6, "batch_size": 200, "eval_every": 2, "cg_steps": 20}
    model = ModelConfig(cell=cell, hidden_size=(6, 5), dropout=0.2)
    return RunConfig(task=task, model=model, training=TrainingConfig(**settings | training))


def test_structural_damping_holds_every_network_that_answers():
    """Without an effect on the outputs of the heads, only structural damping is left: G is 0 for a head of zeros."""
    task = XOR(length=8, train_size=40, validation_size=20, test_size=20)
    settings = TrainingConfig(optimizer="hessian-free", steps=1, batch_size=40, structural_damping=0.1)
    loop = Loop(RunConfig(task=task, model=ModelConfig(cell="rnn", hidden_size=(4,), members=2), training=settings))
    with torch.no_grad():
        for name, parameter in loop.model.named_parameters():
            if "head" in name:
                parameter.zero_()
    problem = loop._problem(loop.feed.sequences(0))
    vector = torch.ones(sum(p.numel() for p in problem.parameters), dtype=torch.float64)
    parts = problem.split(problem.linearise().product(vector, 1.0))
    names = [name for name, _ in loop.model.named_parameters()]
    moved = [name for name, part in zip(names, parts, strict=True) if part.abs().max() > 1e-6]
    assert sorted(moved) == sorted(name for name in names if "layer" in name)


def test_the_curvature_sees_all_lengths_of_a_batch():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(n, 2)) for n in range(1, 41)]
    task = ArrayTask(series, ["a", "b"] * 20, test_share=0.0, validation=0.0)
    settings = TrainingConfig(optimizer="hessian-free", steps=1, batch_size=40, curvature_batch=4)
    loop = Loop(RunConfig(task=task, model=ModelConfig(cell="rnn", hidden_size=(4,)), training=settings))
    problem = loop._problem(loop.feed.sequences(0))
    assert loop.train_data.lengths[problem.curved].tolist() == [1, 11, 21, 31]


def test_no_step_raises_the_loss_of_its_batch(monkeypatch):
    losses, step = [], HessianFree.step

    def noting(self, problem):
        before = problem.loss()
        share = step(self, problem)
        losses.append((before, problem.loss(), share))
        return share

    monkeypatch.setattr(HessianFree, "step", noting)
    fit(config_of(structural_damping=0.1))
    assert all(after < before or (share == 0 and after == before) for before, after, share in losses)
    assert losses[-1][1] < 0.99 * losses[0][0]


def test_a_stopped_run_continues_to_the_same_bits(tmp_path):
    config = config_of(structural_damping=0.1, checkpoint_seconds=1e6)
    (tmp_path / "whole").mkdir()
    Trainer(config).start(tmp_path / "whole").train()
    stopped_at(3, tmp_path / "cut", config)
    state = final_tensors(tmp_path / "cut")
    assert any(name.endswith(".direction") and bool(value.any()) for name, value in state.items())
    assert any(name.endswith(".damping") for name in state)
    Trainer.resume(tmp_path / "cut").train()
    one, other = final_tensors(tmp_path / "whole"), final_tensors(tmp_path / "cut")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"damping": -1.0}, "damping must be a finite number above 0; got -1.0"),
        ({"structural_damping": -0.1}, "structural_damping must be a finite number at least 0; got -0.1"),
        ({"curvature_batch": 0}, "curvature_batch must be an integer of at least 1; got 0"),
        ({"cg_steps": 0}, "cg_steps must be an integer of at least 1; got 0"),
        ({"learning_rate": 0.1}, "learning_rate must be unset with optimizer='hessian-free'"),
        ({"clip_norm": 5.0}, "clip_norm must be unset with optimizer='hessian-free'"),
        (
            {"schedule": "cosine"},
            "schedule must be unset, or 'constant', with optimizer='hessian-free', which chooses its steps itself",
        ),
        ({"warmup": 0.1}, "got 0.1. The defaults for your own data have both: add --schedule constant --warmup 0."),
        ({"optimizer": "adam", "damping": 2.0}, "damping must be unset, or 1.0, with optimizer='adam'"),
    ],
)
def test_wrong_settings_are_one_line(settings, words):
    with pytest.raises(InputError) as problem:
        TrainingConfig(**{"optimizer": "hessian-free"} | settings)
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


def test_settings_that_do_not_apply_have_their_neutral_values():
    config = TrainingConfig(optimizer="hessian-free")
    assert (config.learning_rate, config.clip_norm) == (1.0, None)
    run = small_config(optimizer="hessian-free")
    assert RunConfig.from_json(run.to_json()) == run


def test_models_with_side_effects_are_refused():
    config = config_of()
    model = ModelConfig(cell="rnn", hidden_size=(8,), output_norm=True)
    with pytest.raises(InputError, match="optimizer must be another one than hessian-free for a model with batch"):
        fit(RunConfig(task=config.task, model=model, training=config.training))


@pytest.mark.parametrize("cell", ["skiprnn:budget=0.1", "memory:hard=sample", "dilated:cell=(skiprnn:budget=1.0)"])
def test_networks_whose_loss_has_other_terms_are_refused(cell):
    with pytest.raises(InputError, match="hessian-free for a network with a penalty or with draws"):
        Loop(config_of(cell=cell))


def test_a_penalty_inside_an_image_model_is_refused():
    task = Shapes(train_size=10, validation_size=5, test_size=5)
    model = ModelConfig(cell="skiprnn:budget=0.1", hidden_size=(4,))
    with pytest.raises(InputError, match="hessian-free for a network with a penalty or with draws"):
        Loop(RunConfig(task=task, model=model, training=TrainingConfig(optimizer="hessian-free", batch_size=10)))


@pytest.mark.parametrize("cell", ["skiprnn", "memory", "dilated", "deep"])
def test_networks_around_another_one_are_accepted(cell):
    fit(config_of(cell=cell, steps=1, cg_steps=3))


@pytest.mark.fixed_seed("whether a training succeeds depends on the seed")
def test_it_learns():
    config = config_of(steps=25, damping=0.1, cg_steps=60)
    model = ModelConfig(cell="rnn", hidden_size=(8,))
    _, history, progress = fit(RunConfig(task=config.task, model=model, training=config.training))
    scores = [record["validation"] for record in history if "validation" in record]
    assert min(scores) < 0.1 < scores[0]
    assert progress.step == 25
    assert all(a["step"] < b["step"] for a, b in itertools.pairwise([r for r in history if "validation" in r]))
