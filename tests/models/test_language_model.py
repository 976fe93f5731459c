"""A text in pieces is the text in one go; what is sampled has the model's probabilities."""

import pytest
import torch
from scipy import stats

from autapse import checks
from autapse.layers.registry import LAYERS
from autapse.models import LanguageModel
from tolerance import close

FORWARD = [cell for cell, layer in LAYERS.items() if max(layer.cell_type.stencil, default=0) <= 0]
# These know their position, so the training refuses to carry their states from piece to piece.
CARRIED = [cell for cell in FORWARD if cell not in ("clockwork", "phasedlstm")]
WORDS = 7


def model_of(cell="lstm", hidden_size=5, **settings) -> LanguageModel:
    torch.manual_seed(0)
    words = {"vocabularies": [WORDS], "embedding_size": [4]}
    return LanguageModel(cell, 1, WORDS, hidden_size=hidden_size, dtype=torch.float64, **words, **settings)


def text(rows=3, steps=11):
    return torch.randint(0, WORDS, (rows, steps, 1), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("sizes", [5, [5, 3]])
@pytest.mark.parametrize("cell", CARRIED)
def test_carried_pieces_are_one_long_pass(cell, sizes):
    model, x = model_of(cell, sizes), text()
    whole, end = model(x)
    state, pieces = None, []
    for piece in x.split([4, 1, 6], dim=1):
        logits, state = model(piece, state=state)
        pieces.append(logits)
    tolerance = {"rtol": 1e-4, "atol": 1e-6} if cell.startswith(("equilibrium", "implicit")) else {}
    if tolerance:  # solved to a tolerance of their own
        torch.testing.assert_close(torch.cat(pieces, dim=1), whole, **tolerance)
    else:
        close(torch.cat(pieces, dim=1), whole)
        close(state, end)


def test_it_is_torchs_lstm_between_a_table_and_a_head():
    model, x = model_of(num_layers=2), text()
    twin = torch.nn.LSTM(4, 5, num_layers=2, batch_first=True, dtype=torch.float64)
    twin.load_state_dict(model.layer.state_dict())
    output, (h, c) = twin(model.inputs.tables[0](x[..., 0]))
    logits, state = model(x)
    close(logits, model.head(output))
    close(state, (h, c))
    assert torch.equal(model.predict(x), logits.argmax(-1))


def test_no_word_sees_the_words_after_it():
    model, x = model_of("gru"), text()
    changed = x.clone()
    changed[:, 6] = (changed[:, 6] + 1) % WORDS
    before, after = model(x)[0], model(changed)[0]
    assert torch.equal(before[:, :6], after[:, :6])
    assert (before[:, 6:] != after[:, 6:]).any(-1).all()


def test_samples_repeat_with_their_seed_and_only_with_it():
    model, start = model_of(), torch.tensor([1, 2])
    one = model.sample(start, 30, seed=3)
    assert one.shape == (30,)
    assert one.dtype == torch.int64
    assert torch.equal(one, model.sample(start, 30, seed=3))
    assert not torch.equal(one, model.sample(start, 30, seed=4))
    assert model.sample(start, 0).shape == (0,)
    state = torch.random.get_rng_state()
    model.sample(start, 3)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("temperature", [1e-6, 1e-300, 5e-324])
def test_a_cold_sample_is_the_most_probable_word_each_time(temperature):
    model, words = model_of(), [1, 2]
    for _ in range(8):  # the whole text again for every word, no state carried
        words.append(int(model(torch.tensor(words).view(1, -1, 1))[0][0, -1].argmax()))
    assert model.sample(torch.tensor([1, 2]), 8, temperature=temperature).tolist() == words[2:]


def chi_square(counts, chances) -> float:
    expected = counts.sum(-1, keepdim=True) * chances
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_samples_have_the_models_probabilities(temperature):
    model = model_of("rnn")
    with torch.no_grad():  # whatever was read, these are the logits
        model.head.weight.zero_()
        model.head.bias.copy_(torch.linspace(-1, 1, WORDS))
    words = model.sample(torch.tensor([3]), 800, temperature)
    chances = torch.softmax(torch.linspace(-1, 1, WORDS).double() / temperature, dim=0)
    counts = torch.bincount(words, minlength=WORDS).double()
    assert chi_square(counts, chances) < stats.chi2.ppf(0.999, WORDS - 1)


def test_each_word_follows_from_the_one_before():
    """Without recurrent weights the words are a Markov chain, whose transitions are known."""
    model = model_of("rnn")
    with torch.no_grad():
        model.layer.get_parameter("weight_hh_l0").zero_()
        model.inputs.tables[0].weight.mul_(20)  # so that what follows differs from word to word
        model.head.weight.mul_(3)
    chances = torch.softmax(model(torch.arange(WORDS).view(WORDS, 1, 1))[0][:, 0], dim=1).detach()
    words = model.sample(torch.tensor([3]), 1500)
    before = torch.cat([torch.tensor([3]), words[:-1]])
    counts = torch.bincount(before * WORDS + words, minlength=WORDS**2).double().view(WORDS, WORDS)
    bound = stats.chi2.ppf(0.999, WORDS * (WORDS - 1))
    assert chi_square(counts, chances) < bound < chi_square(counts, chances.roll(1, dims=0))


def test_sampling_is_without_dropout_and_keeps_the_mode():
    model = model_of(input_dropout=0.9, output_dropout=0.9).train()
    start = torch.tensor([1])
    torch.manual_seed(1)
    one = model.sample(start, 10)
    torch.manual_seed(2)
    assert torch.equal(one, model.sample(start, 10))
    assert model.training
    with pytest.raises(IndexError):
        model.sample(torch.tensor([WORDS]), 1)
    assert model.training


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.tensor([1]), -1), "count must be an integer of at least 0"),
        ((torch.tensor([1]), 1, 0.0), "temperature must be a finite number above 0"),
        (
            (torch.tensor([], dtype=torch.int64), 1),
            r"start must be a tensor of at least one word number, \[T\]; got \(0,\)",
        ),
        ((torch.tensor([[1]]), 1), r"start must be .*; got \(1, 1\)"),
        (([1, 2], 1), "start must be a tensor .*; got 'list'"),
        ((torch.tensor([1]), 1, 1.0, 2**64), r"seed must be below 2\*\*64; got 18446744073709551616"),
    ],
)
def test_bad_samples_are_named(arguments, message):
    with pytest.raises(checks.InputError, match=message):
        model_of().sample(*arguments)


def test_layers_that_see_the_next_word_are_refused():
    with pytest.raises(checks.InputError, match="bidirectional must be False: a language model must not see the next"):
        model_of(bidirectional=True)
    for cell in set(LAYERS) - set(FORWARD):
        with pytest.raises(checks.InputError, match="cell must read forwards only"):
            model_of(cell)
    assert len(FORWARD) < len(LAYERS)


def test_rows_that_were_not_solved_give_no_gradient(monkeypatch):
    model, x = model_of("gru"), text()
    model(x[1:])[0].square().sum().backward()
    expected = [value.grad.clone() for value in model.parameters()]
    model.zero_grad()
    monkeypatch.setattr(model, "converged", lambda: torch.tensor([False, True, True]))  # as a solver would report
    model(x)[0].square().sum().backward()
    for value, other in zip(model.parameters(), expected, strict=True):
        close(value.grad, other)


def test_a_sample_knows_its_positions():
    """With coefficients of their own for every step, a word goes by its place in the text, not in the call."""
    torch.manual_seed(0)
    cell = "ernn:eta=per_step:max_length=12"
    settings = {"hidden_size": 6, "vocabularies": [WORDS], "embedding_size": [4], "initialisation": "rate=uniform(1)"}
    model = LanguageModel(cell, 1, WORDS, **settings).eval()
    assert model.depends_on_position
    words = [1, 2]
    for _ in range(8):
        words.append(int(model(torch.tensor(words).view(1, -1, 1))[0][0, -1].argmax()))
    assert model.sample(torch.tensor([1, 2]), 8, temperature=1e-6).tolist() == words[2:]
