"""A decoder is a distribution over sequences: its probabilities sum to one, and its samples follow them."""

import itertools
import math

import pytest
import torch

from autapse.checks import InputError
from autapse.models import Conditions, Decoder, Draw, Elements, Free, Padded, Scheduled, Teacher
from autapse.models.generate import generate
from autapse.models.walk import DecoderWalk
from tolerance import close

CELLS = ("gru", "lstm", "rin", "ernn:inner_steps=2", "orthogonalrnn", "equilibriumtanh")
ENDINGS = ("end", "stop", "count", "given")
Y = Padded(torch.tensor([[0, 2, 1, 2], [2, -100, -100, -100], [1, 1, 0, -100]]), torch.tensor([4, 1, 3]))


def make(cell="gru", ending="end", longest=6, hidden_size=5, **settings):
    elements = Elements(symbols=3, longest=longest)
    return Decoder(cell, elements, hidden_size, ending=ending, dtype=torch.float64, **settings).eval()


def every_sequence(longest):
    """All sequences of three symbols with 1 … longest elements."""
    made = [s for n in range(1, longest + 1) for s in itertools.product(range(3), repeat=n)]
    rows = torch.tensor([[*s, *[-100] * (longest - len(s))] for s in made])
    return Padded(rows, torch.tensor([len(s) for s in made]))


@pytest.mark.parametrize("cell", CELLS)
def test_the_probabilities_of_all_sequences_of_known_length_sum_to_one(cell):
    decoder, y = make(cell, "given"), every_sequence(3)
    total = decoder.teacher_forced(y, Conditions()).sum(1).exp()
    for length in (1, 2, 3):
        close(total[y.lengths == length].sum(), torch.ones((), dtype=torch.float64))


def test_with_a_count_all_sequences_together_sum_to_one():
    decoder, y = make(ending="count", longest=3), every_sequence(3)
    total = decoder.teacher_forced(y, Conditions()).sum(1).exp().sum()
    close(total, torch.ones_like(total))


@pytest.mark.parametrize("ending", ["end", "stop"])
@torch.no_grad()
def test_the_other_endings_leave_what_longer_sequences_have(ending):
    # The rest is the probability that a sequence has more than 3 elements; with `end`, also that it has none.
    decoder, y = make(ending=ending), every_sequence(3)
    each = decoder.teacher_forced(y, Conditions())
    total = each.sum(1).exp().sum()
    longer = 0.0
    for row, length in zip(*y, strict=True):
        if length == 3:
            alone = decoder.teacher_forced(Padded(row[None], length[None]), Conditions())[0]
            if ending == "end":
                longer += float(alone[:3].sum().exp() - alone.sum().exp())
            else:
                features = features_of(decoder, row)
                symbols = decoder.head.log_likelihood(features, row).sum()
                stops = torch.sigmoid(decoder.stop(features)[:, 0])
                longer += float(symbols.exp() * (1 - stops).prod())
    empty = 0.0
    if ending == "end":
        first = decoder.teacher_forced(Padded(torch.zeros(1, 0, dtype=torch.int64), torch.tensor([0])), Conditions())
        empty = float(first.exp())
    assert float(total) + longer + empty == pytest.approx(1.0, abs=1e-12)


def features_of(decoder, row):
    walk = DecoderWalk(decoder, Conditions(), 1)
    fed, features = decoder.previous.start[None], []
    for symbol in row:
        features.append(walk(fed)[0])
        fed = decoder.previous(symbol[None])
    return torch.stack(features)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("cell", CELLS)
def test_step_by_step_gives_what_all_steps_at_once_give(cell, ending):
    torch.manual_seed(1)
    size = {"hidden_size": [5, 4], "context_size": 2, "aligned_size": 3, "time_input": True}
    decoder = make(cell, ending, **size)
    steps = 5 if ending == "end" else 4
    given = Conditions(torch.randn(3, 2).double(), torch.randn(3, steps, 3).double())
    teacher = Teacher().log_likelihood(decoder, Y, given, 0.0)
    close(Scheduled(end=0.0).log_likelihood(decoder, Y, given, 1.0), teacher)
    close(Free(steps=1).log_likelihood(decoder, Y, given, 0.0), teacher)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_likelihood_of_a_sequence_does_not_depend_on_its_batch(ending):
    decoder = make("lstm", ending, context_size=2)
    context = torch.randn(3, 2).double()
    together = decoder.teacher_forced(Y, Conditions(context)).sum(1)
    for n in range(3):
        length = int(Y.lengths[n])
        alone = decoder.teacher_forced(
            Padded(Y.values[n : n + 1, :length], Y.lengths[n : n + 1]), Conditions(context[n, None])
        )
        close(alone.sum(1)[0], together[n])


def test_free_running_reads_its_own_predictions():
    """Two steps ahead, by a loop over places: the second element is predicted after the expected first one."""
    decoder = make(ending="given")
    ahead = Free(steps=2).log_likelihood(decoder, Y, Conditions(), 0.0)
    teacher = decoder.teacher_forced(Y, Conditions())
    for n, length in enumerate(Y.lengths.tolist()):
        for t in range(1, length):
            walk = DecoderWalk(decoder, Conditions(), 1)
            fed = decoder.previous.start[None]
            for s in range(t):
                features = walk(fed)
                fed = decoder.previous(Y.values[n, s : s + 1])
            features = walk(decoder.previous.soft(decoder.head.expected(features)))
            other = decoder.head.log_likelihood(features, Y.values[n, t : t + 1])[0]
            close(ahead[n, t], (teacher[n, t] + other) / 2)
        close(ahead[n, 0], teacher[n, 0])


@pytest.mark.parametrize(
    "feeding", [Teacher(), Scheduled(end=0.0), Free(steps=3)], ids=["teacher", "scheduled", "free"]
)
def test_gradients_agree_with_finite_differences(feeding):
    decoder = make("gru", "stop", hidden_size=3, context_size=2, embedding_size=2)
    context = torch.randn(3, 2).double().requires_grad_()

    def total(context, *_):
        return feeding.log_likelihood(decoder, Y, Conditions(context), 1.0).sum()

    assert torch.autograd.gradcheck(total, (context, *decoder.parameters()), atol=1e-5)


@pytest.mark.parametrize("ending", ["end", "stop", "count"])
def test_samples_follow_the_likelihood(ending):
    decoder, random = make(ending=ending, longest=3), torch.Generator().manual_seed(4)
    count = 20_000
    made = generate(decoder, Conditions(), count, Draw(generator=random))
    y = every_sequence(2)
    with torch.no_grad():
        chances = decoder.teacher_forced(y, Conditions()).sum(1).exp()
    for row, length, chance in zip(*y, chances.tolist(), strict=True):
        hits = (made.lengths == length) & (made.values[:, :length] == row[:length]).all(1)
        share = float(hits.double().mean())
        assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / count) + 1e-9


def test_known_elements_are_kept_and_gaps_are_filled():
    decoder, random = make(ending="end", longest=8), torch.Generator().manual_seed(0)
    known = Padded(torch.tensor([[1, -100, 2], [0, 0, -100]]), torch.tensor([3, 2]))
    made = generate(decoder, Conditions(), 2, Draw(generator=random), known=known)
    assert made.lengths.tolist() >= [3, 2]
    assert made.values[0, [0, 2]].tolist() == [1, 2]
    assert made.values[1, :2].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ending": "never"}, "ending must be one of end, stop, count, given; got 'never'"),
        ({"cell": "implicitgru"}, "cell must look back only, to generate one step at a time"),
        ({"condition": "state2"}, "condition must be one of input, state, both"),
    ],
)
def test_bad_settings_are_one_clear_line(settings, words):
    with pytest.raises(InputError, match=words):
        make(**settings)


def test_values_have_no_end_symbol():
    with pytest.raises(InputError, match="ending must be stop, count or given for values"):
        Decoder("gru", Elements(values=2), ending="end")
