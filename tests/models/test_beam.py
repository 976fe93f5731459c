"""Beam search against an enumeration of all sequences, and against greedy decoding."""

import itertools

import pytest
import torch

from autapse.checks import InputError
from autapse.models import Conditions, Decoder, Draw, Elements, EncoderDecoder, Padded
from autapse.models.beam import beam_search
from autapse.models.generate import generate
from tolerance import close

LONGEST = 3


def make(cell="gru", attention="none", attend="after", longest=LONGEST):
    """A tiny model whose distributions are far from uniform."""
    model = EncoderDecoder(
        cell,
        Elements(symbols=2, longest=longest),
        2,
        hidden_size=4,
        attention=attention,
        attend=attend,
        dtype=torch.float64,
    ).eval()
    with torch.no_grad():
        model.decoder.head.linear.weight.mul_(8)
        model.decoder.previous.table.weight.mul_(20)
    return model


def every_sequence():
    """All sequences of two symbols with 0 … 3 elements."""
    made = [s for n in range(LONGEST + 1) for s in itertools.product(range(2), repeat=n)]
    rows = torch.tensor([[*s, *[-100] * (LONGEST - len(s))] for s in made])
    return made, Padded(rows, torch.tensor([len(s) for s in made]))


X, LENGTHS = torch.randn(4, 5, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64), [5, 1, 3, 0]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(
    ("cell", "attention", "attend"),
    [
        ("gru", "none", "after"),
        ("lstm", "multiplicative", "after"),
        ("gru", "additive", "before"),
        ("rin", "monotonic", "after"),
        ("ernn:inner_steps=2", "monotonic", "before"),
    ],
)
def test_a_beam_of_all_sequences_finds_the_best_ones(cell, attention, attend, penalty):
    model, (sequences, y) = make(cell, attention, attend), every_sequence()
    count = len(sequences)
    found = model.search(X, LENGTHS, beam=count, best=count, length_penalty=penalty)
    for n in range(4):
        with torch.no_grad():
            source = X[n : n + 1].expand(count, -1, -1)
            likelihood = model(source, [LENGTHS[n]] * count, targets=y).sum(1)
        scores = likelihood / (y.lengths + 1.0).double() ** penalty
        order = scores.argsort(descending=True)
        close(found.scores[n], scores[order])
        close(found.log_likelihood[n], likelihood[order])
        values = [row[:length].tolist() for row, length in zip(found.values[n], found.lengths[n], strict=True)]
        assert values == [list(sequences[place]) for place in order.tolist()]


@pytest.mark.parametrize("attend", ["after", "before"])
def test_a_beam_of_one_is_greedy_for_any_penalty(attend):
    model = make("gru", "multiplicative", attend, longest=9)
    with torch.no_grad():
        given = model.given(X, LENGTHS)
        greedy = generate(model.decoder, given, 4, Draw(top_k=1))
    for penalty in (0.0, 1.0):
        found = model.translate(X, LENGTHS, length_penalty=penalty)
        assert found.lengths.tolist() == greedy.lengths.tolist()
        for one, other, length in zip(found.values, greedy.values, greedy.lengths, strict=True):
            assert one[:length].tolist() == other[:length].tolist()


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("attend", ["after", "before"])
def test_the_batch_gives_what_each_source_gives_alone(attend, beam):
    model = make("lstm", "additive", attend, longest=8)
    together = model.search(X, LENGTHS, beam=beam, best=min(beam, 2))
    for n, length in enumerate(LENGTHS):
        alone = model.search(X[n : n + 1, : max(length, 1)], [length], beam=beam, best=min(beam, 2))
        close(alone.scores[0], together.scores[n])
        assert alone.lengths[0].tolist() == together.lengths[n].tolist()
        for one, other, size in zip(alone.values[0], together.values[n], alone.lengths[0], strict=True):
            assert one[:size].tolist() == other[:size].tolist()


def test_scores_are_likelihoods_and_a_wider_beam_is_not_worse_here():
    model = make("gru", "multiplicative", longest=12)
    best = []
    for beam in (1, 4, 16):
        found = model.search(X, LENGTHS, beam=beam, length_penalty=0.0)
        with torch.no_grad():
            close(found.log_likelihood[:, 0], model(X, LENGTHS, targets=found.best).sum(1))
        close(found.scores, found.log_likelihood)
        best.append(found.scores[:, 0])
    assert (best[2] >= best[0] - 1e-12).all()


def test_nothing_is_longer_than_the_limit():
    model = make(longest=30)
    with torch.no_grad():
        model.decoder.head.linear.bias[-1] = -50.0  # the end is very unlikely
    found = model.search(X, LENGTHS, beam=2, best=2, longest=7)
    assert found.lengths.tolist() == [[7] * 2] * 4
    assert (found.log_likelihood < -40).all()


def test_fewer_sequences_than_asked_for_are_marked():
    decoder = Decoder("gru", Elements(symbols=1, longest=1), 3).eval()
    found = beam_search(decoder, Conditions(), 1, beam=5, best=5)
    assert found.log_likelihood.isfinite().sum() == 2  # the empty sequence, and one symbol


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"beam": 0}, "beam must be an integer of at least 1; got 0"),
        ({"beam": 2, "best": 3}, "best must be at most the beam, 2; got 3. Pass a larger beam."),
        ({"length_penalty": -1.0}, "length_penalty must be a finite number at least 0"),
        ({"longest": -3}, "longest must be an integer of at least 1; got -3"),
    ],
)
def test_bad_settings_are_one_clear_line(settings, words):
    with pytest.raises(InputError, match=words):
        make().translate(X, LENGTHS, **settings)


def test_a_beam_needs_an_end_symbol():
    decoder = Decoder("gru", Elements(symbols=3), ending="stop")
    with pytest.raises(InputError, match="ending must be end for a beam search; got 'stop'"):
        beam_search(decoder, Conditions(), 1, beam=2)
