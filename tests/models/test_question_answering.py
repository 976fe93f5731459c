"""A batch of stories and questions against one at a time, cut by hand and read by the three layers in turn."""

from dataclasses import replace

import pytest
import torch

from autapse.layers.registry import LAYERS
from autapse.models import QuestionAnswering
from autapse.solve import Solver, recommended

# (words of the story, words of the question)
PARTS = [(4, 2), (1, 3), (5, 1), (0, 2)]


def model_of(cell, hidden_size=4, **settings) -> QuestionAnswering:
    torch.manual_seed(0)
    words = {"vocabularies": [9], "embedding_size": [3], "dtype": torch.float64}
    model = QuestionAnswering(cell, 1, 5, hidden_size=hidden_size, **words, **settings)
    if cell in ("irnn", "rin", "ernn"):  # theirs begin tiny, and at the kinks of ReLU
        with torch.no_grad():
            for value in model.parameters():
                value.add_(0.3 * torch.randn_like(value))
    return model


def batch(parts=tuple(PARTS), padding=0) -> tuple[torch.Tensor, torch.Tensor]:
    """Words and parts, [B, T, 2], with zeros (or worse) behind; and the lengths."""
    lengths = torch.tensor([sum(both) for both in parts])
    draw = torch.Generator().manual_seed(1)
    x = torch.zeros(len(parts), int(lengths.max()) + padding, 2, dtype=torch.int64)
    for row, (told, asked) in zip(x, parts, strict=True):
        row[: told + asked, 0] = torch.randint(0, 9, (told + asked,), generator=draw)
        row[told : told + asked, 1] = 1
    return x, lengths


def alone(model, x, told, asked):
    """One story and its question, nothing padded."""
    words = model.inputs.tables[0](x[None, : told + asked, 0])
    read = [model.story(words[:, :told])[0]] if told else []
    read.append(model.question(words[:, told:])[0])
    _, h_n = model.layer(torch.cat(read, dim=1))
    return model.head(model.layer.final_output(h_n))[0]


def tolerance(cell):
    solved = cell.startswith(("equilibrium", "implicit"))
    return {"rtol": 1e-4, "atol": 1e-5} if solved else {"rtol": 1e-10, "atol": 1e-12}


@pytest.mark.parametrize("cell", LAYERS)
def test_a_batch_is_each_story_alone(cell):
    model, (x, lengths) = model_of(cell), batch()
    expected = torch.stack([alone(model, row, *parts) for row, parts in zip(x, PARTS, strict=True)])
    torch.testing.assert_close(model(x, lengths), expected, **tolerance(cell))
    # So few units of a liquid do not fire here, and a network without memory reads the last word only.
    if cell not in ("liquid", "feedforward"):
        assert not torch.allclose(expected[0], expected[1], **tolerance(cell))  # or it would not tell them apart


@pytest.mark.parametrize("settings", [{"hidden_size": [4, 3]}, {"bidirectional": True}, {"num_layers": 2}])
def test_stacks_and_both_ways(settings):
    model, (x, lengths) = model_of("lstm", **settings), batch()
    expected = torch.stack([alone(model, row, *parts) for row, parts in zip(x, PARTS, strict=True)])
    torch.testing.assert_close(model(x, lengths), expected, rtol=1e-10, atol=1e-12)


def test_three_layers_of_torch_say_the_same():
    model, (x, _) = model_of("gru"), batch()
    twins = []
    for layer, size in ((model.story, 3), (model.question, 3), (model.layer, 4)):
        twins.append(torch.nn.GRU(size, 4, batch_first=True, dtype=torch.float64))
        twins[-1].load_state_dict(layer.state_dict())
    words = model.inputs.tables[0](x[:1, :6, 0])
    read = torch.cat([twins[0](words[:, :4])[0], twins[1](words[:, 4:])[0]], dim=1)
    torch.testing.assert_close(model(x[:1, :6]), model.head(twins[2](read)[1][-1]), rtol=1e-10, atol=1e-12)


def test_padding_changes_nothing():
    model, (x, lengths), (longer, _) = model_of("rin"), batch(), batch(padding=4)
    torch.testing.assert_close(model(longer, lengths), model(x, lengths), rtol=1e-12, atol=1e-14)
    past = torch.arange(longer.shape[1]) >= lengths[:, None]
    longer[past] = torch.tensor([7, 1])
    torch.testing.assert_close(model(longer, lengths), model(x, lengths), rtol=1e-12, atol=1e-14)


def test_without_lengths_all_words_count():
    model, (x, lengths) = model_of("rin"), batch(((3, 2), (1, 4)))
    torch.testing.assert_close(model(x), model(x, lengths.tolist()), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cell", ["rin", "lstm"])
def test_gradients_are_finite_differences(cell):
    model, (x, lengths) = model_of(cell), batch()
    names = [name for name, _ in model.named_parameters()]
    values = [value.detach().requires_grad_() for value in model.parameters()]

    def answers(*given):
        return torch.func.functional_call(model, dict(zip(names, given, strict=True)), (x, lengths))

    assert torch.autograd.gradcheck(answers, values, fast_mode=True)


def test_every_part_learns():
    model, (x, lengths) = model_of("gru"), batch()
    model(x, lengths).square().sum().backward()
    assert all(value.grad is not None and value.grad.any() for value in model.parameters())


def test_the_prediction_is_the_largest_answer_without_dropout():
    model, (x, lengths) = model_of("gru", input_dropout=0.9, output_dropout=0.9).train(), batch()
    said = model.predict(x, lengths)
    assert torch.equal(said, model.predict(x, lengths))
    assert model.training
    assert torch.equal(said, model.eval()(x, lengths).argmax(-1))
    assert model.solutions is None


class Fails(Solver):
    """The recommended chain, but a sequence of five steps counts as not solved."""

    def solve(self, system, start=None, rtol=None):
        z, report = recommended().solve(system, start, rtol)
        return z, replace(report, converged=report.converged & (system.layout.lengths != 5))


@pytest.mark.filterwarnings("ignore::autapse.solve.NotConvergedWarning")
@pytest.mark.parametrize("place", ["story", "layer"])
def test_what_one_of_the_layers_could_not_solve_gives_no_gradient(place):
    parts = {"story": ((5, 2), (4, 2), (1, 3)), "layer": ((3, 2), (4, 2), (1, 3))}[place]  # the first has five steps
    model, (x, lengths) = model_of("implicitgru:tolerance=1e-10"), batch(parts)
    getattr(model, place).solving.solver = Fails()
    model(x, lengths).square().sum().backward()
    assert model.converged().tolist() == [False, True, True]
    found = [value.grad.clone() for value in model.parameters()]
    model.zero_grad()
    model(x[1:], lengths[1:]).square().sum().backward()
    for value, expected in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(value, expected.grad, rtol=1e-6, atol=1e-8)
    assert any(value.any() for value in found)
