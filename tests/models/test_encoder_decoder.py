"""Encoder-decoders: any encoder, independent sizes, texts and arrays in, likelihoods and weights out."""

import dataclasses

import numpy as np
import pytest
import torch

import autapse
from autapse.cells.equilibrium import newton
from autapse.checks import InputError
from autapse.data.symbols import SymbolTable
from autapse.models import (
    Attention,
    Conditions,
    Decoder,
    Elements,
    EncoderDecoder,
    Free,
    Padded,
    Teacher,
    Translation,
)
from autapse.solve import Solver, recommended
from tolerance import close

Y = Padded(torch.tensor([[0, 2, 1, 2], [2, -100, -100, -100], [1, 1, 0, -100]]), torch.tensor([4, 1, 3]))
DOUBLE = {"dtype": torch.float64}
X, LENGTHS = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64), [5, 0, 2]


def make(cell="gru", **settings):
    known = {"hidden_size": 4, "attention": "multiplicative", "dtype": torch.float64, **settings}
    return EncoderDecoder(cell, Elements(symbols=3, longest=6), 2, **known).eval()


def with_texts(**settings):
    """A model that reads letters a … e and writes x, y, z."""
    words = {"vocabularies": [5], "embedding_size": [3]}
    settings = {"hidden_size": 4, "attention": "additive", "dtype": torch.float64, **settings}
    model = EncoderDecoder("gru", Elements(symbols=3, longest=6), 1, inputs=words, **settings)
    model.source, model.target = SymbolTable("abcde", "", -100), SymbolTable("xyz", "", -100)
    return model.eval()


@pytest.mark.parametrize("attention", ["none", "additive", "monotonic"])
@pytest.mark.parametrize(
    "encoder",
    [
        {"encoder": "lstm", "bidirectional": True},
        {"encoder": "implicitgru:tolerance=1e-12"},
        {"encoder": "equilibriumtanh", "encoder_size": (2, 3)},
        {"encoder": "ernn:inner_steps=2", "encoder_size": 3, "encoder_layers": 2},
        {"hidden_size": (4, 3), "encoder_size": 5},
    ],
    ids=["bidirectional lstm", "implicit", "equilibrium", "ernn", "two layers"],
)
def test_any_encoder_gives_each_pair_the_likelihood_that_it_has_alone(encoder, attention):
    model = make("gru", **{"hidden_size": 4, **encoder}, attention=attention)
    together = model(X, LENGTHS, targets=Y)
    for n, length in enumerate(LENGTHS):
        size = int(Y.lengths[n])
        alone = model(
            X[n : n + 1, : max(length, 1)], [length], targets=Padded(Y.values[n : n + 1, :size], Y.lengths[n : n + 1])
        )
        torch.testing.assert_close(alone[0], together[n, : size + 1], rtol=1e-8, atol=1e-8)
    together.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_the_encoder_has_the_sizes_that_were_asked_for():
    assert make(hidden_size=(4, 3)).encoder.hidden_size == [4, 3]
    assert make(hidden_size=(4, 3), encoder_size=(6,)).encoder.num_layers == 2
    assert make(hidden_size=4, encoder_size=6, encoder_layers=3).encoder.num_layers == 3
    assert make(hidden_size=(4, 3), encoder_size=(6, 5, 2)).encoder.hidden_size == [6, 5, 2]
    assert make(condition="none").decoder.layer.input_size == make(condition="state").decoder.layer.input_size
    assert make(condition="input").decoder.layer.input_size == make(condition="state").decoder.layer.input_size + 4


@pytest.mark.parametrize("condition", ["input", "state", "both"])
@pytest.mark.parametrize("context_map", ["linear", "mlp"])
def test_the_context_reaches_the_decoder(condition, context_map):
    model = make(condition=condition, context_map=context_map, attention="none")
    first = model(X, None, targets=Y)
    changed = X.clone()
    changed[0, 0] += 1
    other = model(changed, None, targets=Y)
    assert not torch.allclose(first[0], other[0])
    close(first[1:], other[1:])


class Fails(Solver):
    """The recommended chain, but a sequence of two steps counts as not solved."""

    def solve(self, system, start=None, rtol=None):
        z, report = recommended().solve(system, start, rtol)
        return z, dataclasses.replace(report, converged=report.converged & (system.layout.lengths != 2))


@pytest.mark.filterwarnings("ignore::autapse.solve.NotConvergedWarning")
@pytest.mark.parametrize("attend", ["after", "before"])
def test_a_source_that_was_not_solved_gives_no_gradient(attend):
    model = make(encoder="implicitgru:tolerance=1e-10", attend=attend).train()
    model.encoder.solving.solver = Fails()
    model(X, LENGTHS, targets=Y).sum().backward()
    assert model.converged().tolist() == [True, True, False]
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    model(X[:2], LENGTHS[:2], targets=Padded(Y.values[:2], Y.lengths[:2])).sum().backward()
    wanted = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-7, atol=1e-9)


class FailsWhereLarge(Solver):
    """Newton, but a step with a large drive of its first unit counts as not solved."""

    def solve(self, system, start=None, rtol=None):
        z, report = newton(1e-9).solve(system, start, rtol)
        return z, dataclasses.replace(report, converged=report.converged & (system.u[:, 0] < 5), reason=report.reason)


@pytest.mark.filterwarnings("ignore::autapse.solve.NotConvergedWarning")
@pytest.mark.parametrize("how", ["all at once", "step by step", "free"])
def test_steps_that_were_not_solved_belong_to_their_sequences(how):
    """Sequences end at different steps, and step by step they are in another order."""
    before = how == "step by step"
    layer = autapse.EquilibriumTanh(5 if before else 3, 4, solver=FailsWhereLarge(), batch_first=True, **DOUBLE)
    settings = {"context_size": 1, "condition": "input", "embedding_size": 2, "attended_size": 2 if before else 0}
    decoder = Decoder(layer, Elements(symbols=3, longest=6), **settings, **DOUBLE)
    with torch.no_grad():
        layer.cells["l0"].weight_ih.fill_(0.1)
        layer.cells["l0"].weight_ih[0, 2] = 10.0  # the context
    attend = Attention("multiplicative", 4, 2, "before", **DOUBLE).over(torch.zeros(3, 2, 2, **DOUBLE))
    given = Conditions(torch.tensor([[0.0], [1.0], [0.0]], **DOUBLE), attend=attend if before else None)
    feeding = Free(steps=3) if how == "free" else Teacher()
    feeding.log_likelihood(decoder, Y, given, 0.0)
    assert layer.reports[0].converged.tolist() == [True, False, True]
    assert (layer.reports[0].evaluations > 0).all()
    if before:
        with torch.no_grad():
            feeding.log_likelihood(decoder, Y, given, 0.0)
        assert layer.reports == []  # those of an earlier call do not belong to a stream


def test_solutions_are_kept_by_key():
    model = make(encoder="implicitgru:cache=8", attention="additive").train()
    assert model.solutions is not None
    first = model(X, [5, 1, 2], targets=Y, keys=[10, 11, 12])
    cost = model.evaluations()
    again = model(X, [5, 1, 2], targets=Y, keys=[10, 11, 12])
    assert model.evaluations() < cost
    torch.testing.assert_close(first, again, rtol=1e-2, atol=1e-2)
    assert make().solutions is None


# Texts and arrays ---------------------------------------------------------------------------------------------------


def test_texts_give_what_tensors_give():
    model = with_texts()
    texts = ["abe", "", "dcab"]
    numbers = torch.tensor([[0, 1, 4, 0], [0, 0, 0, 0], [3, 2, 0, 1]])[..., None]
    found = model.search(numbers, [3, 0, 4], beam=3, best=2)
    made = model.translate(texts, beam=3, best=2)
    for n, rows in enumerate(made):
        assert [row.target for row in rows] == [
            "".join("xyz"[s] for s in values[:length])
            for values, length in zip(found.values[n].tolist(), found.lengths[n].tolist(), strict=True)
        ]
        assert [row.score for row in rows] == pytest.approx(found.scores[n].tolist())
        assert isinstance(rows[0], Translation)
    assert model.translate(texts, beam=3) == [rows[0].target for rows in made]
    assert model.translate("dcab", beam=3) == made[2][0].target
    assert model.translate([]) == []
    arrays = model.translate([np.array([0, 1, 4]), np.array([3, 2, 0, 1])], beam=3)
    assert ["".join("xyz"[s] for s in one) for one in arrays] == [made[0][0].target, made[2][0].target]


def test_the_likelihood_of_pairs_is_that_of_the_search():
    model = with_texts()
    texts = ["abe", "b", "dcab"]
    best = [rows[0] for rows in model.translate(texts, beam=2, best=1)]
    values = model.log_likelihood([(text, one.target) for text, one in zip(texts, best, strict=True)])
    assert values.tolist() == pytest.approx([one.log_likelihood for one in best])
    numbers = [(np.array([0, 1]), np.array([2, 0])), (np.array([4]), np.array([], dtype=np.int64))]
    close(model.log_likelihood(numbers), model.log_likelihood([("ab", "zx"), ("e", "")]))


@pytest.mark.parametrize("attend", ["after", "before"])
@pytest.mark.parametrize("attention", ["additive", "multiplicative", "monotonic"])
def test_weights_sum_to_one_over_the_source(attention, attend):
    model = with_texts(attention=attention, attend=attend)
    weights = model.attention_weights(["abe", "dcab"], ["xyz", "x"])
    assert [one.shape for one in weights] == [(3, 3), (1, 4)]
    for one in weights:
        np.testing.assert_allclose(one.sum(1), 1.0)
    numbers = torch.tensor([[0, 1, 4, 0], [3, 2, 0, 1]])[..., None]
    y = Padded(torch.tensor([[0, 1, 2], [0, 0, 0]]), torch.tensor([3, 1]))
    padded = model.attention_weights(numbers, y, [3, 4])
    assert padded.shape == (2, 3, 4)
    np.testing.assert_allclose(padded[0, :, :3], weights[0])
    assert (padded[0, :, 3] == 0).all()
    assert (padded[1, 1:] == 0).all()
    own = model.attention_weights("abe")
    assert own.shape == (len(model.translate("abe")), 3)


def test_a_model_stays_in_its_mode():
    model = with_texts().train()
    model.translate(["ab"])
    model.log_likelihood([("ab", "x")])
    model.attention_weights(["ab"])
    assert model.training


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.translate(["abq"]), r"x\[0\] must have only symbols that the model knows; got 'q'"),
        (lambda m: m.translate(3), "x must"),
        (lambda m: m.translate(["a"], lengths=[1]), "lengths must be None for texts"),
        (lambda m: m.log_likelihood([("ab", "w")]), "target 0 must have only symbols that the model knows; got 'w'"),
        (lambda m: m.log_likelihood(("ab", "xy")), r"pairs must be a list of pairs \(source, target\); got 'ab'"),
        (lambda m: m.log_likelihood([([0], [7])]), "target 0 must be integers from 0 to 2"),
        (lambda m: with_texts(attention="none").attention_weights("ab"), "attention must not be none, to have weights"),
        (lambda m: m(torch.zeros(1, 2, 1)), r"targets must be Padded\(values, lengths\)"),
    ],
)
def test_bad_calls_are_one_clear_line(call, words):
    with pytest.raises(InputError, match=words):
        call(with_texts())


def test_texts_need_symbols():
    model = with_texts()
    model.source = None
    with pytest.raises(InputError, match="the model does not know which texts they stand for"):
        model.translate("ab")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attention": "none", "condition": "none"}, "condition must be input, state or both without attention"),
        ({"attention": "none", "attend": "before"}, "attend must keep its default without attention"),
        ({"attend": "never"}, "attend must be one of after, before; got 'never'"),
        ({"encoder": "gruu"}, "cell must be one of"),
        ({"bidirectional": True, "encoder": "implicitgru"}, "bidirectional must be False"),
    ],
)
def test_bad_settings_are_one_clear_line(settings, words):
    with pytest.raises(InputError, match=words):
        make(**settings)
