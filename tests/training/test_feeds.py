"""How data is dealt out, against loops over single sequences; scores, against sums by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autapse import checks
from autapse.data.ragged import Ragged
from autapse.models import Classifier, LanguageModel, Regressor, StepRegressor, Tagger
from autapse.tasks import IGNORE, PTB, Data, Walk, WalkVariance
from autapse.training.evaluation import evaluate
from autapse.training.feeds import POOL, Shuffled, Tensors, Text, epoch_order, in_order, make_feed
from autapse.training.objectives import objective

LENGTHS = [3, 1, 6, 2, 4]


def ragged(per_step: bool, kind=np.float32) -> Data:
    random = np.random.default_rng(0)
    inputs = Ragged.of([random.integers(1, 200, (n, 2)).astype(kind) for n in LENGTHS])
    if per_step:
        return Data(inputs, Ragged.of([random.integers(0, 9, n) for n in LENGTHS]))
    return Data(inputs, random.integers(0, 9, len(LENGTHS)))


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("index", [[0], [4, 1], [2, 2, 3], [0, 1, 2, 3, 4]])
def test_ragged_sequences_are_padded_to_the_longest_taken(index, per_step, kind):
    data = ragged(per_step, kind)
    tensors = Tensors.of(data, "cpu")
    batch = tensors.take(index)
    assert len(tensors) == 5
    assert batch.lengths.tolist() == [LENGTHS[n] for n in index]
    assert batch.inputs.shape == (len(index), max(LENGTHS[n] for n in index), 2)
    assert batch.inputs.numpy().dtype == kind
    for row, target, n in zip(batch.inputs.numpy(), batch.targets.numpy(), index, strict=True):
        np.testing.assert_array_equal(row[: LENGTHS[n]], data.inputs[n])
        assert not row[LENGTHS[n] :].any()
        if per_step:
            np.testing.assert_array_equal(target[: LENGTHS[n]], data.targets[n])
            assert (target[LENGTHS[n] :] == IGNORE).all()
        else:
            assert target == data.targets[n]


def test_a_padded_split_gives_what_a_ragged_one_gives():
    data = ragged(per_step=True)
    inputs, targets = np.zeros((5, 9, 2), np.float32), np.full((5, 9), IGNORE)
    for n, length in enumerate(LENGTHS):
        inputs[n, :length], targets[n, :length] = data.inputs[n], data.targets[n]
    padded = Tensors.of(Data(inputs, targets, np.array(LENGTHS)), "cpu")
    for index in ([0, 3], [2], [1, 4, 0]):
        for one, other in zip(padded.take(index), Tensors.of(data, "cpu").take(index), strict=True):
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_an_empty_sequence_is_one_step_of_padding():
    data = Data(Ragged(np.ones((2, 1), np.float32), np.array([2, 0])), np.array([0, 1]))
    batch = Tensors.of(data, "cpu").take([1])
    assert batch.inputs.tolist() == [[[0.0]]]
    assert batch.lengths.tolist() == [0]


# Transforms ------------------------------------------------------------------------------------------------------


def noisy(data: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return (data + random.standard_normal(data.shape)).astype(np.float32)


def test_random_numbers_are_of_the_step_and_the_sequence():
    data = Data(np.zeros((6, 3, 2), np.uint8), np.zeros(6, np.int64), transform=noisy)
    feed = Shuffled(Tensors.of(data, "cpu"), batch_size=4, seed=0, bucket=True)
    first = feed.batch(0, [0, 1, 2, 3]).inputs
    assert torch.equal(first, feed.batch(0, [0, 1, 2, 3]).inputs)
    assert not torch.equal(first, feed.batch(1, [0, 1, 2, 3]).inputs)
    assert len(first.flatten().unique()) == first.numel()
    # Two processes that share the batch show what one shows.
    shares = [feed.batch(0, share).inputs for share in ([0, 2], [1, 3])]
    assert torch.equal(shares[0], first[::2])
    assert torch.equal(shares[1], first[1::2])
    other = Shuffled(feed.data, batch_size=4, seed=1, bucket=True)
    assert not torch.equal(first, other.batch(0, [0, 1, 2, 3]).inputs)


def test_scoring_shows_the_same_noise_whatever_the_batch():
    data = Data(np.zeros((6, 3, 2), np.uint8), np.zeros(6, np.int64), transform=noisy)
    tensors = Tensors.of(data, "cpu")
    whole, halves = (torch.cat([b.inputs for b in in_order(tensors, size)]) for size in (6, 4))
    assert torch.equal(whole, halves)


# Orders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 64, 1001])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_an_epoch_is_a_permutation_that_only_seed_and_epoch_choose(size, batch_size):
    lengths = torch.from_numpy(np.random.default_rng(0).integers(1, 50, size))
    for given in (None, lengths):
        batch = min(batch_size, size)
        order = epoch_order(size, 0, 0, batch, given)
        assert sorted(order) == list(range(size))
        assert order == epoch_order(size, 0, 0, batch, given)
        if size > 7:
            assert order != epoch_order(size, 0, 1, batch, given)
            assert order != epoch_order(size, 1, 0, batch, given)


def test_batches_have_similar_lengths_and_come_in_any_order():
    lengths = np.random.default_rng(0).integers(1, 101, 2000)
    plain, sorted_ = (
        np.array(epoch_order(2000, 0, 0, 10, given)).reshape(-1, 10) for given in (None, torch.from_numpy(lengths))
    )

    def spread(batches):
        return np.ptp(lengths[batches], axis=1).mean()

    # Ten of uniform numbers spread over 9/11 of their range; five hundred in order leave ten a fiftieth of it.
    assert spread(plain) > 70
    assert spread(sorted_) < 5
    means = lengths[sorted_].mean(axis=1)
    assert abs(np.corrcoef(means, np.arange(200))[0, 1]) < 5 / math.sqrt(200)
    assert len({frozenset(batch) for batch in sorted_.tolist()}) == 200
    # A pool is a random part, so the same batches do not come again.
    again = np.array(epoch_order(2000, 0, 1, 10, torch.from_numpy(lengths))).reshape(-1, 10)
    assert not {frozenset(b) for b in again.tolist()} & {frozenset(b) for b in sorted_.tolist()}
    assert POOL * 10 == 500


def test_every_sequence_is_left_out_some_time_and_none_always():
    """The last few of an epoch do not fill a batch; with lengths in order they would always be the longest."""
    lengths = torch.arange(1, 24)
    left = [set(epoch_order(23, 0, epoch, 4, lengths)[20:]) for epoch in range(60)]
    assert all(len(some) == 3 for some in left)
    assert set().union(*left) == set(range(23))


def test_shuffled_deals_each_epoch_once():
    tensors = Tensors.of(Data(np.zeros((23, 2, 1), np.float32), np.arange(23)), "cpu")
    feed = make_feed(tensors, 4, seed=0, bucket=True)
    assert isinstance(feed, Shuffled)
    assert feed.per_epoch == 5
    epochs = [[n for step in range(first, first + 5) for n in feed.sequences(step)] for first in (0, 5)]
    assert all(len(set(epoch)) == 20 for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert feed.sequences(2) == epochs[0][8:12]  # steps may be asked for in any order, as a resumed run does
    assert feed.batch(2, feed.sequences(2)).targets.tolist() == epochs[0][8:12]
    assert make_feed(tensors, 100, seed=0, bucket=True).per_epoch == 1


def test_bucketing_is_a_choice():
    tensors = Tensors.of(ragged(per_step=False), "cpu")
    together = {bucket: Shuffled(tensors, 2, seed=0, bucket=bucket) for bucket in (True, False)}
    assert together[False].sequences(0) == epoch_order(5, 0, 0)[:2]
    orders = [[feed.sequences(step) for step in range(12)] for feed in together.values()]
    assert orders[0] != orders[1]


# Text ------------------------------------------------------------------------------------------------------------


def words(steps: int, span: int = 4) -> Tensors:
    text = np.arange(steps + 1)
    return Tensors.of(Data(text[:-1].reshape(1, -1, 1), text[1:].reshape(1, -1), span=span), "cpu")


@pytest.mark.parametrize(("steps", "rows", "span"), [(30, 3, 4), (31, 3, 5), (32, 3, 10), (5, 9, 2), (12, 1, 12)])
def test_a_text_is_read_in_rows_from_left_to_right(steps, rows, span):
    feed = make_feed(words(steps, span), rows, seed=0, bucket=True)
    assert isinstance(feed, Text)
    rows = min(rows, steps)
    length = steps // rows
    assert feed.per_epoch == math.ceil(length / span)
    for epoch in range(2):
        batches = [feed.batch(epoch * feed.per_epoch + n, feed.sequences(n)) for n in range(feed.per_epoch)]
        assert [batch.fresh for batch in batches] == [True] + [False] * (feed.per_epoch - 1)
        assert all(batch.inputs.shape[1] <= span for batch in batches)
        read = torch.cat([batch.inputs[..., 0] for batch in batches], dim=1)
        assert read.tolist() == [list(range(row * length, (row + 1) * length)) for row in range(rows)]
        assert torch.equal(torch.cat([batch.targets for batch in batches], dim=1), read + 1)


def test_processes_share_the_rows_of_a_text():
    feed = Text(words(30), 3)
    whole = feed.batch(1, [0, 1, 2])
    assert torch.equal(feed.batch(1, [0, 2]).inputs, whole.inputs[[0, 2]])
    assert torch.equal(feed.batch(1, [1]).targets, whole.targets[[1]])


def test_only_one_sequence_with_a_span_is_a_text():
    data = Data(np.zeros((2, 3, 1), np.int64), np.zeros((2, 3), np.int64), span=2)
    with pytest.raises(checks.InputError, match="data must be one sequence with a span"):
        Text(Tensors.of(data, "cpu"), 1)


# Scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [7, 20, 39, 100, 119])
def test_scoring_reads_every_word_of_a_text_once(steps):
    counted = [
        (int(x), int(y))
        for batch in in_order(words(steps), 256)
        for x, y in zip(batch.inputs.flatten(), batch.targets.flatten(), strict=True)
        if y != IGNORE
    ]
    assert sorted(counted) == [(n, n + 1) for n in range(steps)]


@pytest.mark.parametrize("batch_size", [1, 2, 5, 9])
def test_scoring_reads_every_sequence_once(batch_size):
    tensors = Tensors.of(replace(ragged(per_step=False), targets=np.arange(5)), "cpu")
    batches = list(in_order(tensors, batch_size))
    assert sorted(int(y) for batch in batches for y in batch.targets) == list(range(5))
    assert all(batch.fresh for batch in batches)
    for batch in batches:
        assert batch.inputs.shape[1] == int(batch.lengths.max())


def test_perplexity_is_that_of_a_loop_over_rows():
    """Twenty rows, each word after the other with the state carried on, and every word counted."""
    torch.manual_seed(0)
    model = LanguageModel("gru", 1, 6, hidden_size=5, vocabularies=[6], embedding_size=[4], output_dropout=0.5)
    text = np.random.default_rng(0).integers(0, 6, 108)  # 107 words to guess: rows of 6, the last ones empty
    data = Data(text[:-1].reshape(1, -1, 1), text[1:].reshape(1, -1), span=4)
    score = evaluate(model.train(), Tensors.of(data, "cpu"), objective(PTB()))
    assert model.training
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for first in range(0, 107, 6):
            row = torch.from_numpy(text[first : min(first + 6, 107)])
            following = torch.from_numpy(text[first + 1 : first + 1 + len(row)])
            chances = torch.log_softmax(model(row.view(1, -1, 1))[0][0], dim=1)
            total -= float(chances[range(len(row)), following].sum())
            count += len(row)
    assert count == 107
    assert score == pytest.approx(math.exp(total / count), rel=1e-5)


def test_spans_that_carry_no_state_are_sequences_of_their_own():
    torch.manual_seed(0)
    model = LanguageModel("gru", 1, 6, hidden_size=5, vocabularies=[6], embedding_size=[4]).eval()
    text = np.random.default_rng(0).integers(0, 6, 121)
    data = Data(text[:-1].reshape(1, -1, 1), text[1:].reshape(1, -1), span=3, carry=False)
    feed = make_feed(Tensors.of(data, "cpu"), 4, seed=0, bucket=False)
    assert [feed.batch(step, [0]).fresh for step in range(3)] == [True] * 3
    score = evaluate(model, Tensors.of(data, "cpu"), objective(PTB()))
    spans, following = (torch.from_numpy(part).view(-1, 3) for part in (text[:-1], text[1:]))  # rows of 6, spans of 3
    with torch.no_grad():
        chances = torch.log_softmax(model(spans[..., None])[0], dim=2)
    expected = -float(chances.gather(2, following[..., None]).mean())
    assert score == pytest.approx(math.exp(expected), rel=1e-5)


def test_an_enormous_perplexity_is_infinite():
    assert objective(PTB()).metric(1000.0) == math.inf
    assert objective(PTB()).metric(math.log(50)) == pytest.approx(50)


def test_error_rates_are_those_of_a_loop_over_sequences():
    torch.manual_seed(0)
    data = ragged(per_step=True)
    tagger = Tagger("gru", 2, 9, hidden_size=4, scale=(100.0, 100.0))
    wrong = sum(
        int((tagger.predict(torch.from_numpy(x)[None])[0].numpy() != y).sum())
        for x, y in zip(data.inputs, data.targets, strict=True)
    )
    assert 0 < wrong < sum(LENGTHS) + 1
    score = evaluate(tagger, Tensors.of(data, "cpu"), objective(Walk()), batch_size=2)
    assert score == pytest.approx(wrong / sum(LENGTHS))
    data = ragged(per_step=False)
    model = Classifier("gru", 2, 9, hidden_size=4, scale=(100.0, 100.0))
    wrong = sum(
        int(model.predict(torch.from_numpy(x)[None])[0] != y) for x, y in zip(data.inputs, data.targets, strict=True)
    )
    score = evaluate(model, Tensors.of(data, "cpu"), objective(WalkVariance()), batch_size=2)
    assert score == pytest.approx(wrong / 5)


def test_squared_errors_are_means_over_numbers_and_sequences():
    torch.manual_seed(0)
    data = replace(ragged(per_step=False), targets=np.random.default_rng(1).random((5, 3), np.float32))

    class Numbers:
        kind, metric = "regression", "mean squared error"

    model = Regressor("gru", 2, 3, hidden_size=4, scale=(100.0, 100.0)).eval()
    with torch.no_grad():
        errors = [
            float(F.mse_loss(model(torch.from_numpy(x)[None])[0], torch.from_numpy(y)))
            for x, y in zip(data.inputs, data.targets, strict=True)
        ]
    score = evaluate(model, Tensors.of(data, "cpu"), objective(Numbers()), batch_size=2)
    assert score == pytest.approx(sum(errors) / 5, rel=1e-5)


def test_squared_errors_of_steps_are_means_over_values_and_steps():
    torch.manual_seed(0)
    random = np.random.default_rng(1)
    data = replace(ragged(per_step=False), targets=Ragged.of([random.random((n, 3), np.float32) for n in LENGTHS]))

    class Steps:
        kind, metric = "regression per step", "mean squared error"

    batch = Tensors.of(data, "cpu").take([0, 4])
    for target, n in zip(batch.targets, (0, 4), strict=True):
        assert torch.equal(target[: LENGTHS[n]], torch.from_numpy(data.targets[n]))
        assert target[LENGTHS[n] :].isnan().all()
    model = StepRegressor("gru", 2, 3, hidden_size=4, scale=(100.0, 100.0)).eval()
    with torch.no_grad():
        outputs = [model(torch.from_numpy(x)[None])[0] for x in data.inputs]
    errors = torch.cat([out - torch.from_numpy(y) for out, y in zip(outputs, data.targets, strict=True)])
    score = evaluate(model, Tensors.of(data, "cpu"), objective(Steps()), batch_size=2)
    assert score == pytest.approx(float(errors.square().mean()), rel=1e-5)
