"""A generator as people use it: likelihoods and samples of text, numbers and values; what is missing; conditions."""

import itertools
import math

import numpy as np
import pytest
import torch

from autapse.checks import InputError
from autapse.models import Draw, Elements, Generator, Padded
from autapse.models.missing import by_particles

WHERE = {"hidden_size": 6, "dtype": torch.float64}


def letters(ending="end", longest=6, **settings):
    model = Generator("gru", Elements(symbols=3, longest=longest), ending=ending, **WHERE, **settings).eval()
    model.classes, model.separator = ("a", "b", "c"), ""
    return model


def values(columns=1, binary=0, components=2, gaps=False, **settings):
    elements = Elements(values=columns, binary=binary, components=components, longest=8, gaps=gaps)
    return Generator("gru", elements, **WHERE, **settings).eval()


def test_text_names_and_numbers_mean_the_same():
    model = letters()
    alone = model.log_likelihood("abca")
    assert isinstance(alone, float)
    for same in ([0, 1, 2, 0], np.array([0, 1, 2, 0]), torch.tensor([0, 1, 2, 0])):
        assert model.log_likelihood(same) == pytest.approx(alone, abs=1e-12)
    many = model.log_likelihood(["abca", "c"])
    assert many.shape == (2,)
    assert many[0] == pytest.approx(alone, abs=1e-12)
    for same in ([list("abca"), ["c"]], [[0, 1, 2, 0], [2]], [np.array([0, 1, 2, 0]), np.array([2])]):
        np.testing.assert_allclose(model.log_likelihood(same), many, rtol=1e-12)
    padded = Padded(torch.tensor([[0, 1, 2, 0], [2, -100, -100, -100]]), torch.tensor([4, 1]))
    np.testing.assert_allclose(model.log_likelihood(padded).numpy(), many, rtol=1e-12)


def test_the_likelihood_is_that_of_the_steps():
    model = letters()
    y = Padded(torch.tensor([[0, 1]]), torch.tensor([2]))
    assert model.log_likelihood("ab") == pytest.approx(model(targets=y).sum().item(), abs=1e-12)


def test_words_have_a_separator():
    model = letters()
    model.classes, model.separator = ("the", "cat", "sat"), " "
    assert model.log_likelihood("the cat") == pytest.approx(model.log_likelihood([0, 1]), abs=1e-12)
    assert all(set(text.split()) <= set(model.classes) for text in model.sample(count=20))


def test_symbols_without_names_are_numbers():
    model = letters()
    model.classes = ()
    drawn = model.sample(count=5, seed=2)
    assert all(one.dtype == np.int64 for one in drawn)
    with pytest.raises(InputError, match="sequences must have numbers, since the symbols of this model have no names"):
        model.log_likelihood("abc")


@pytest.mark.parametrize("ending", ["end", "stop", "count", "given"])
def test_samples_begin_as_they_should_and_repeat_with_their_seed(ending):
    model = letters(ending)
    drawn = model.sample(count=30, start="ab", seed=3)
    assert all(text.startswith("ab") and len(text) <= 6 for text in drawn)
    assert drawn == model.sample(count=30, start="ab", seed=3) != model.sample(count=30, start="ab", seed=4)
    assert [len(text) for text in model.sample(count=3, lengths=[1, 5, 2])] == [1, 5, 2]


@pytest.mark.parametrize("ending", ["end", "stop", "count"])
def test_what_follows_a_beginning_has_its_conditional_distribution(ending):
    """Against all sequences that begin so, with probabilities from the likelihood."""
    model, count = letters(ending, longest=3), 20_000
    every = ["".join(s) for n in (1, 2, 3) for s in itertools.product("abc", repeat=n) if s[0] == "b"]
    chances = np.exp(model.log_likelihood(every))
    chances /= chances.sum() if ending == "count" else first_symbol(model, 1)
    drawn = model.sample(count=count, start="b", seed=1)
    for text, chance in zip(every, chances, strict=True):
        if ending == "count" or len(text) < 3:  # longer sequences are cut at the longest
            share = drawn.count(text) / count
            assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / count) + 1e-9


@torch.no_grad()
def first_symbol(model, symbol):
    """The probability of all sequences that begin with a symbol."""
    features, _ = model.decoder.run(model.decoder.previous.start[None, None], None, model.given(None))
    return float(model.decoder.head.expected(features)[0, 0, symbol])


def test_a_cold_sample_is_the_most_likely_one():
    model = letters()
    cold, mean, greedy = (model.sample(**how)[0] for how in ({"temperature": 1e-9}, {"mean": True}, {"top_k": 1}))
    assert cold == mean == greedy


def test_values_come_as_arrays():
    model = values(2, binary=1)
    drawn = model.sample(count=4, lengths=5)
    assert [one.shape for one in drawn] == [(5, 3)] * 4
    assert set(np.concatenate(drawn)[:, 2]) <= {0.0, 1.0}
    start = drawn[0][:2]
    assert np.array_equal(model.sample(start=start, lengths=4)[0][:2], start)
    assert model.log_likelihood(drawn).shape == (4,)
    assert isinstance(model.log_likelihood(drawn[0]), float)
    means = model.sample(start=start, lengths=6, mean=True)[0]
    assert np.array_equal(means, model.sample(start=start, lengths=6, mean=True, seed=9)[0])


def test_gaussian_steps_follow_the_means():
    """The mean of the next value, by the head, is what a mean sample has."""
    model = values(1, components=3, ending="given")
    first = torch.zeros(1, 1, 1, dtype=torch.float64)
    with torch.no_grad():
        decoder, given = model.decoder, model.given(None)
        y = Padded(torch.cat([first, first], 1), torch.tensor([2]))
        features, _ = decoder.run(decoder.inputs(decoder.fed(y), y.lengths, given), y.lengths, given)
        expected = float(decoder.head.expected(features)[0, 1, 0])
    assert model.sample(start=[[0.0]], lengths=2, mean=True)[0][1, 0] == pytest.approx(expected, abs=1e-12)


# Missing elements ---------------------------------------------------------------------------------------------------


def fillings(row):
    choices = [range(3) if symbol is None else [symbol] for symbol in row]
    return [list(s) for s in itertools.product(*choices)]


@pytest.mark.parametrize("ending", ["end", "stop", "count", "given"])
def test_missing_symbols_are_summed_over(ending):
    model, row = letters(ending), [0, None, 2, None]
    expected = math.log(sum(math.exp(model.log_likelihood(one)) for one in fillings(row)))
    assert model.log_likelihood(row, missing="sum") == pytest.approx(expected, abs=1e-10)
    assert model.log_likelihood(row) == pytest.approx(expected, abs=1e-10)
    estimate = model.log_likelihood(row, missing="sample", samples=3000, seed=5)
    assert estimate == pytest.approx(expected, abs=0.05)
    assert estimate != expected


@pytest.mark.fixed_seed("with other weights one filling may be almost certain")
def test_an_estimate_is_unbiased_with_few_particles():
    """Resampling included: the mean of the estimated probabilities is the probability."""
    model, row = letters("stop"), [0, None, 2, None, 1, 1]
    with torch.no_grad():
        model.decoder.head.linear.weight.mul_(30)  # far from uniform, so that weights are uneven
    expected = math.exp(model.log_likelihood(row, missing="sum"))
    found = np.exp(model.log_likelihood([row] * 4000, missing="sample", samples=4, seed=2))
    assert abs(found.mean() - expected) < 5 * found.std() / math.sqrt(len(found))
    assert found.std() > 0.05 * expected


def test_gaps_are_filled_by_what_is_before_and_after():
    model, row, count = letters(), [None, 2, None, 0], 800
    with torch.no_grad():
        model.decoder.head.linear.weight.mul_(10)
    every = fillings(row)
    chances = np.exp(model.log_likelihood(every))
    chances /= chances.sum()
    names = [model.symbols.text(one) for one in every]
    y = Padded(torch.tensor([[-100, 2, -100, 0]]).expand(count, 4), torch.full((count,), 4))
    draw = Draw(generator=torch.Generator().manual_seed(1))
    particles = by_particles(model.decoder, y, model.given(None), 100, draw).values
    for drawn in (model.fill([row] * count, seed=1), [model.symbols.text(one) for one in particles.tolist()]):
        for name, chance in zip(names, chances, strict=True):
            share = drawn.count(name) / count
            assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / count) + 0.01


def test_a_missing_value_is_integrated_over():
    model = values(1, ending="given")
    row = np.array([[0.3], [np.nan], [-0.4]])
    grid = np.linspace(-30, 30, 6001)
    every = np.stack([np.full(len(grid), 0.3), grid, np.full(len(grid), -0.4)], axis=1)[..., None]
    expected = math.log(np.trapezoid(np.exp(model.log_likelihood(every)), grid))
    found = model.log_likelihood(row, samples=20_000)
    assert found == pytest.approx(expected, abs=0.02)
    filled = model.fill(row)
    assert np.array_equal(filled[[0, 2]], row[[0, 2]])
    assert np.isfinite(filled).all()


def test_a_column_that_is_missing_is_drawn_given_the_others():
    """Two components far apart: the known column says which one the missing column comes from."""
    model = values(2, components=2, ending="given")
    head = model.decoder.head.linear
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.tensor([0.0, 0, 5, 5, -5, -5, -2, -2, -2, -2]))
    filled = np.array(model.fill([np.array([[5.0, np.nan]]), np.array([[-5.0, np.nan]])] * 20))[:, 0, 1]
    assert (np.abs(filled - np.tile([5.0, -5.0], 20)) < 2).all()


def test_a_mask_is_read_by_models_that_were_trained_with_it():
    row = [[0.3], [np.nan], [-0.4]]
    model = values(1, gaps=True, ending="given")
    y = Padded(torch.tensor([row], dtype=torch.float64), torch.tensor([3]))
    assert model.log_likelihood(row) == pytest.approx(model(targets=y).sum().item(), abs=1e-12)
    with pytest.raises(InputError, match="missing must be sum or sample for a model that was trained without missing"):
        values(1).log_likelihood(row, missing="mask")
    with pytest.raises(InputError, match="missing must be sample if a sequence can be filled in more than 4096 ways"):
        model.log_likelihood(row, missing="sum")
    with pytest.raises(InputError, match="in more than 4096 ways; got 'sum, with 19683 ways'"):
        letters(longest=9).log_likelihood([None] * 9, missing="sum")


# Conditions ---------------------------------------------------------------------------------------------------------


def test_a_class_is_named_or_numbered():
    inputs = {"vocabularies": [2], "embedding_size": [4]}
    model = letters("stop", depends="vector", input_size=1, inputs=inputs)
    model.words = (("up", "down"),)
    one = model.log_likelihood("ab", "down")
    assert one == model.log_likelihood("ab", 1)
    np.testing.assert_allclose(model.log_likelihood(["ab", "ab"], ["up", "down"])[1], one, rtol=1e-12)
    assert len(model.sample(["up", "down"], count=3)) == 6
    drawn = model.sample(torch.tensor([[[0]], [[1]]]))
    assert isinstance(drawn, Padded)
    with pytest.raises(InputError, match="x must be one of up, down; got 'left'"):
        model.sample("left")
    with pytest.raises(InputError, match="x must be given, since sequences of this model depend on a vector"):
        model.sample()


def test_numbers_and_sequences_as_conditions():
    model = letters(depends="vector", input_size=2)
    many = model.log_likelihood(["a", "b"], [[0.5, 1.0], [2.0, 3.0]])
    assert model.log_likelihood("a", [0.5, 1.0]) == pytest.approx(many[0], abs=1e-12)
    with pytest.raises(InputError, match=r"x\[1\] must have 2 entries; got 1"):
        model.sample([[0.5, 1.0], [2.0]])
    aligned = letters(None, depends="sequence", input_size=2)
    drawn = aligned.sample([np.zeros((4, 2)), np.ones((2, 2))])
    assert [len(text) for text in drawn] == [4, 2]
    assert aligned.log_likelihood(drawn, [np.zeros((4, 2)), np.ones((2, 2))]).shape == (2,)
    alone = aligned.log_likelihood(drawn[1], np.ones((2, 2)))
    assert alone == pytest.approx(aligned.log_likelihood(drawn, [np.zeros((4, 2)), np.ones((2, 2))])[1], abs=1e-12)
    with pytest.raises(InputError, match="x must have sequences as long as those that depend on them"):
        aligned.log_likelihood("abc", np.ones((2, 2)))
    with pytest.raises(InputError, match="ending must be given for sequences that depend on one of the same length"):
        letters("stop", depends="sequence", input_size=2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.log_likelihood("abd"), "sequences must have only the 3 symbols of the training data; got 'd'"),
        (lambda m: m.log_likelihood([0, 3]), "sequences must have numbers from 0 to 2; got 3"),
        (lambda m: m.log_likelihood("ab", 3), "x must be None, since sequences of this model depend on nothing"),
        (lambda m: m.sample(count=0), "count must be an integer of at least 1"),
        (lambda m: m.sample(lengths=[1, 2]), "lengths must be one length, or one for each of the 1 sequences; got 2"),
        (lambda m: m.sample(start="abcabca"), "known must have at most 6 elements; got 7"),
        (lambda m: m.sample(count=3, start=["a", "b"]), "start must be one beginning, or one for each of the 3"),
        (lambda m: m.fill("ab", samples=0), "samples must be an integer of at least 1"),
    ],
)
def test_errors_are_one_clear_line(call, words):
    with pytest.raises(InputError, match=words):
        call(letters())


@pytest.mark.parametrize("ending", ["stop", "count"])
def test_a_sequence_without_elements_needs_an_end_symbol(ending):
    """A stop unit comes with an element, and lengths are counted from 1."""
    for call in (lambda m: m.log_likelihood(""), lambda m: m.log_likelihood(["", "ab"]), lambda m: m.fill([[]])):
        with pytest.raises(InputError, match=f"sequences must have at least one element with ending={ending}; got 0"):
            call(letters(ending))
    assert letters("end").log_likelihood("") < 0


@pytest.mark.parametrize("ending", ["end", "stop", "count"])
def test_a_limit_holds_for_every_way_to_end(ending):
    model = letters(ending)
    drawn = model.sample(count=50, longest=3)
    assert max(len(text) for text in drawn) == 3
    with pytest.raises(InputError, match="known must have at most 3 elements; got 4"):
        model.sample(start="abca", longest=3)
    with pytest.raises(InputError, match="known must have at most 6 elements; got 7"):
        model.sample(start="abcabca")


# Output recurrence --------------------------------------------------------------------------------------------------


@pytest.mark.fixed_seed("whether a training succeeds depends on the seed")
@pytest.mark.parametrize("cell", ["gru", "feedforward"])
def test_a_network_without_hidden_state_cannot_learn_parity(cell):
    """Three random bits and their parity: nats are 3 ln 2 with a memory, and 4 ln 2 with the last output alone."""
    torch.manual_seed(0)
    rows = torch.tensor([[a, b, c, a ^ b ^ c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    y = Padded(rows, torch.full((8,), 4))
    model = Generator(cell, Elements(symbols=2, longest=4), ending="given", hidden_size=16, embedding_size=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(250):
        optimizer.zero_grad()
        loss = -model(targets=y).sum() / 8
        loss.backward()
        optimizer.step()
    bits = float(-model.log_likelihood(y).mean()) / math.log(2)
    if cell == "gru":
        assert bits < 3.1
    else:
        assert bits > 4 - 1e-6  # a Markov chain: no draw of the weights can do better


def test_the_steps_of_an_output_recurrence_are_independent_under_teacher_forcing():
    model = Generator("feedforward", Elements(symbols=3, longest=9), ending="given", **WHERE)
    y = torch.randint(0, 3, (2, 5))
    changed = y.clone()
    changed[:, 1] = (changed[:, 1] + 1) % 3
    before, after = (model(targets=Padded(one, torch.tensor([5, 5]))) for one in (y, changed))
    same = torch.isclose(before, after, rtol=0, atol=1e-12).all(0)
    assert same.tolist() == [True, False, False, True, True]  # the element itself, and the next one
