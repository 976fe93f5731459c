"""Memory networks against the equations, written for one story, one statement and one word after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autapse.checks import InputError
from autapse.models import MemoryNetwork, QuestionAnswering
from autapse.tasks import Adding, BAbI
from autapse.training import AnswererConfig, make_model

D, WORDS = 3, 9
# (words of each statement, words of the question)
STORIES = [((2, 3, 1), 2), ((4,), 3), ((), 2), ((1, 1, 2, 3), 1)]


def model_of(**settings: Any) -> MemoryNetwork:
    torch.manual_seed(0)
    words = {"vocabularies": [WORDS], "embedding_size": [D], "dtype": torch.float64, "hidden_size": 4}
    return MemoryNetwork(settings.pop("cell", "gru"), 1, 5, **{"hops": 2, "noise": 0.0, **words, **settings})


def batch(padding: int = 0) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([sum(told) + asked for told, asked in STORIES])
    x = torch.zeros(len(STORIES), int(lengths.max()) + padding, 2, dtype=torch.int64)
    draw = torch.Generator().manual_seed(1)
    for row, (told, asked) in zip(x, STORIES, strict=True):
        times = [n - len(told) + 1 for n, count in enumerate(told) for _ in range(count)] + [1] * asked
        row[: len(times), 0] = torch.randint(0, WORDS, (len(times),), generator=draw)
        row[: len(times), 1] = torch.tensor(times)
    return x, lengths


def answer(model: MemoryNetwork, words: Tensor, told: tuple[int, ...], asked: int) -> Tensor:
    """One story, by the equations. Vector k of a sentence is that of table k."""
    vectors = model.inputs.tables[0].weight
    sentences = list(words.split([*told, asked]))

    def encode(sentence: Tensor, k: int) -> Tensor:
        if model.statements == "cell":
            assert model.reader is not None
            assert model.views is not None
            end = model.reader.final_output(model.reader(vectors[sentence][None])[1])[0]
            return model.views(end)[k * D : (k + 1) * D]
        J, total = len(sentence), torch.zeros(D, dtype=torch.float64)
        for j, word in enumerate(sentence, 1):
            weight = [(1 - j / J) - (d / D) * (1 - 2 * j / J) for d in range(1, D + 1)]
            weight = [1.0] * D if model.statements == "bag" else weight
            total = total + torch.tensor(weight, dtype=torch.float64) * vectors[word, k * D : (k + 1) * D]
        return total

    u = encode(sentences[-1], 0)
    for hop in range(model.hops):
        find, tell = (hop, hop + 1) if model.tying == "adjacent" else (1, 2)
        memories = [
            [encode(s, k) + model.ages[k, len(told) - 1 - n] for k in (find, tell)]
            for n, s in enumerate(sentences[:-1])
        ]
        scores = [m @ u for m, _ in memories]
        if not model.linear and scores:
            total = sum(torch.exp(s) for s in scores)
            scores = [torch.exp(s) / total for s in scores]
        o = sum((p * c for p, (_, c) in zip(scores, memories, strict=True)), torch.zeros(D, dtype=torch.float64))
        u = o + (model.carried(u) if model.carried is not None else u)
    return model.head(u)


VARIANTS = [
    {},
    {"statements": "bag", "hops": 1},
    {"tying": "layer-wise", "hops": 3},
    {"statements": "cell"},
    {"statements": "cell", "cell": "lstm", "tying": "layer-wise", "bidirectional": True, "hidden_size": [3, 2]},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@pytest.mark.parametrize("linear", [False, True])
def test_a_batch_is_each_story_by_the_equations(settings: dict[str, Any], linear: bool) -> None:
    model, (x, lengths) = model_of(**settings), batch(padding=2)
    model.linear.fill_(linear)
    pairs = zip(x, lengths, STORIES, strict=True)
    expected = torch.stack([answer(model, row[:n, 0], *story) for row, n, story in pairs])
    torch.testing.assert_close(model(x, lengths), expected, rtol=1e-10, atol=1e-12)
    past = torch.arange(x.shape[1]) >= lengths[:, None]
    x[past] = torch.tensor([7, -3])
    torch.testing.assert_close(model(x, lengths), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_every_part_learns(settings: dict[str, Any]) -> None:
    model, (x, lengths) = model_of(**settings), batch()
    model(x, lengths).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())


def test_gradients_are_finite_differences() -> None:
    model, (x, lengths) = model_of(), batch()
    names = [name for name, _ in model.named_parameters()]
    values = [value.detach().requires_grad_() for value in model.parameters()]

    def answers(*given: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(names, given, strict=True)), (x, lengths))  # type: ignore[no-any-return]

    assert torch.autograd.gradcheck(answers, values, fast_mode=True)


def test_the_oldest_statements_are_forgotten() -> None:
    model = model_of()
    words = torch.randint(0, WORDS, (60,))
    times = torch.tensor([*range(-58, 1), 1])
    long = torch.stack([words, times], dim=1)[None]
    torch.testing.assert_close(model(long), model(long[:, 9:]), rtol=1e-12, atol=1e-14)
    assert not torch.allclose(model(long), model(long[:, 10:]))


def test_training_adds_empty_memories_between_statements() -> None:
    model, (x, lengths) = model_of(noise=0.5), batch()
    torch.manual_seed(0)
    places = [model._places(x, lengths) for _ in range(200)]
    assert torch.equal(model.eval()._places(x, lengths).segment, model_of()._places(x, lengths).segment)
    for found in places:
        first = found.segment[0][: sum(STORIES[0][0])]
        assert first.tolist() == sorted(first.tolist(), reverse=True)  # the order stays
        assert bool((found.segment[x[..., 1] == 1] == 0).all())  # and the question
    ages = torch.stack(
        [found.segment[0, 5] for found in places]
    )  # of the last statement: 1, plus the empty ones after it
    assert 0.3 < float((ages == 2).double().mean()) < 0.7
    assert set(ages.tolist()) == {1, 2}


def test_the_softmax_comes_after_the_linear_start() -> None:
    model = model_of(linear_start=0.25)
    states = []
    for done in (0.0, 0.24, 0.25, 0.9):
        model.set_progress(done)
        states.append(bool(model.linear))
    assert states == [True, True, False, False]
    assert "linear" in model.state_dict()  # weights of the linear part are evaluated without the softmax


def test_the_task_and_the_other_model_read_the_same_columns() -> None:
    """The recurrent network of the RIN paper needs to know only where the question begins."""
    torch.manual_seed(0)
    model = QuestionAnswering("gru", 1, 5, hidden_size=4, vocabularies=[WORDS], embedding_size=[3])
    x, lengths = batch()
    old = x.clone()
    old[..., 1] = (x[..., 1] == 1).long()  # as older versions wrote it
    assert torch.equal(model(x, lengths), model(old, lengths))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hops": 0}, "hops must be an integer of at least 1; got 0."),
        ({"statements": "words"}, "statements must be one of position, bag, cell; got 'words'."),
        ({"tying": "none"}, "tying must be one of adjacent, layer-wise; got 'none'."),
        ({"linear_start": 2.0}, "linear_start must be a finite number at least 0 and at most 1; got 2.0."),
        ({"readout": "mean"}, "readout must keep its default with hops; got 'mean'."),
        ({"output_norm": True}, "output_norm must keep its default with hops; got True."),
        ({"embedding_size": []}, "input must have one column of words, with one vocabulary and one embedding_size"),
        ({"statements": "cell", "cell": "memory:slots=3:hard=sample"}, "cell must draw nothing that is trained by"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        model_of(**settings)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tying": "layer-wise"}, "tying must keep its default without hops; got 'layer-wise'."),
        ({"hops": 2, "cell": "lstm"}, "cell must keep its default with hops, unless statements=\"cell\"; got 'lstm'."),
        ({"hops": 2, "hidden_size": (32,)}, "hidden_size must keep its default with hops, unless statements="),
        ({"hops": -1}, "hops must be an integer of at least 0; got -1."),
    ],
)
def test_settings_of_a_run_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        AnswererConfig(**settings)
    assert message in str(error.value)


def test_only_questions_have_hops() -> None:
    with pytest.raises(InputError, match="hops must keep its default for adding, which has no such setting; got 3"):
        make_model(Adding(), AnswererConfig(hops=3))


def test_a_run_chooses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from autapse.tasks import Signature

    known = Signature(kind="question answering", input_size=1, output_size=3, vocabularies=(("a", "b"),))
    model = make_model(BAbI(), AnswererConfig(hops=3, embedding_size=(7,)), signature=known)
    assert isinstance(model, MemoryNetwork)
    assert (model.hops, model.size) == (3, 7)
    assert isinstance(make_model(BAbI(), AnswererConfig(), signature=known), QuestionAnswering)
