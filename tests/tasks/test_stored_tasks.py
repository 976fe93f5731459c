"""Tasks on files, against what the files were made of: nothing lost, nothing twice, nobody on both sides."""

import csv
import math
import random
import zipfile
from collections import Counter

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.ragged import Ragged
from autapse.tasks import (
    CIFAR10,
    DSA,
    HAR,
    IMDB,
    MNIST,
    POS,
    PTB,
    SPLITS,
    STORED,
    Archive,
    BAbI,
    Data,
    FashionMNIST,
    MNISTImage,
    NoisyCIFAR10,
    OwnSequences,
    OwnSeries,
    OwnTrees,
    PTBCharacters,
    Speech,
    Stored,
    TreeTask,
    Yelp,
)
from autapse.tasks.pos import encode, word_vocabularies
from autapse.tasks.stored import Examples, held_out, standardisation
from small_data import data_in, write_all
from upstream import (
    DSA_SEGMENTS,
    HAR_SUBJECTS,
    cifar_arrays,
    dsa_segment,
    har_arrays,
    mnist_arrays,
    ts_arrays,
    ts_text,
    write_files,
    write_har,
)
from upstream_text import (
    SPEECH_WORDS,
)


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    """All data sets, the original HAR among them, and a file of one's own."""
    root = tmp_path_factory.mktemp("data")
    write_all(root)
    write_har(root)
    write_files(root / "own", {"own_TRAIN.ts": ts_text(*ts_arrays("TRAIN")).encode()})
    with data_in(root):
        yield root


def make(kind: type[Stored], root, **options) -> Stored:
    needed = {Archive: {"dataset": "JapaneseVowels"}, OwnSeries: {"path": str(root / "own" / "own_TRAIN.ts")}}
    return kind(**needed.get(kind, {}), **options)


# Sequences to generate and trees have their own tests, in test_own_sequences.py and test_tree_tasks.py.
READ = [kind for kind in STORED if not issubclass(kind, OwnSequences | TreeTask)]
EVERY_TASK = pytest.mark.parametrize("kind", READ, ids=[kind.name for kind in READ])
# A share of the training part is held out of these; the others have a validation part of their own.
SHARED = [kind for kind in READ if kind not in (Speech, PTB, PTBCharacters, POS)]
SIZES = {
    MNIST: (40, 40),
    MNISTImage: (40, 40),
    FashionMNIST: (20, 20),
    CIFAR10: (50, 10),
    NoisyCIFAR10: (50, 10),
    HAR: (24, 12),
    DSA: (19 * 4 * DSA_SEGMENTS, 19 * 4 * DSA_SEGMENTS),
    Speech: (30 * 4, 30),
    Yelp: (20, 10),
    IMDB: (12, 12),
    POS: (12 + 4, 4),
    BAbI: (8, 8),
    Archive: (12, 12),
    OwnSeries: (9, 3),
}
"""Sequences of upstream's training (with validation) and test part, as the generators write them."""


def examples(data: Data) -> list[bytes]:
    """Each sequence with its target, as something to compare."""
    return [np.asarray(x).tobytes() + np.asarray(y).tobytes() for x, y in zip(data.inputs, data.targets, strict=True)]


@EVERY_TASK
def test_training_and_validation_are_upstreams_training_part(kind, data):
    task, whole = make(kind, data), make(kind, data, validation=0.0)
    train, validation, everything = task.split("train", 0), task.split("validation", 0), whole.split("train", 0)
    assert len(validation) > 0
    assert len(whole.split("validation", 0)) == 0
    if issubclass(kind, PTB):
        return
    assert (len(everything), len(task.split("test", 0))) == SIZES[kind]
    assert Counter(examples(train)) + Counter(examples(validation)) == Counter(examples(everything))


@pytest.mark.parametrize("kind", SHARED, ids=[kind.name for kind in SHARED])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_share_that_is_held_out(kind, share, data):
    held = make(kind, data, validation=share).split("validation", 0)
    labels = Counter(make(kind, data, validation=0.0).split("train", 0).targets.tolist())
    if kind in (HAR, DSA):  # whole subjects: four train, and one is the least
        assert len(held) == SIZES[kind][0] / 4
    elif any(expected := {label: round(share * count) for label, count in labels.items()}.values()):
        assert sorted(Counter(held.targets.tolist()).values()) == sorted(count for count in expected if count)
    else:
        assert len(held) == max(1, round(share * SIZES[kind][0]))


@EVERY_TASK
def test_same_seed_same_split_and_other_seed_other_split(kind, data):
    task = make(kind, data)
    for split in SPLITS:
        one, again = task.split(split, 3), make(kind, data).split(split, 3)
        assert examples(one) == examples(again)
    others = [examples(task.split("validation", seed)) for seed in range(8)]
    if kind in SHARED:
        assert any(other != others[0] for other in others)
    else:
        assert all(other == others[0] for other in others)
    assert examples(task.split("test", 0)) == examples(task.split("test", 1))


@EVERY_TASK
def test_data_have_the_promised_form(kind, data):
    task = make(kind, data)
    signature = task.signature()
    assert signature.kind == task.kind
    assert len(signature.classes) in (0, signature.output_size)
    # The time of a word and the width of an image are read by the model, but are no features.
    columns = signature.input_size + (kind in (BAbI, MNISTImage))
    for split in SPLITS:
        found = task.split(split, 0)
        assert found.inputs[0].shape[-1] == (96 if kind is NoisyCIFAR10 else columns)
        steps = found.inputs.values if isinstance(found.inputs, Ragged) else found.inputs
        targets = found.targets.values if isinstance(found.targets, Ragged) else found.targets
        assert targets.dtype == np.int64
        assert 0 <= targets.min() <= targets.max() < signature.output_size
        for column, words in enumerate(signature.vocabularies):
            assert steps.dtype.kind == "i"
            assert 0 <= steps[..., column].min() <= steps[..., column].max() < len(words)
            assert len(set(words)) == len(words)
        if not signature.vocabularies:
            pixels = kind in (MNIST, MNISTImage, FashionMNIST, CIFAR10, NoisyCIFAR10)
            assert steps.dtype == (np.uint8 if pixels else np.float32)
        if task.kind in ("tagging", "language"):
            assert [len(y) for y in found.targets] == [len(x) for x in found.inputs]
        else:
            assert found.targets.shape == (len(found),)


@EVERY_TASK
def test_baselines_are_counts_by_hand(kind, data):
    task = make(kind, data)
    found = task.split("test", 0)
    counts = Counter(int(y) for one in found.targets for y in np.atleast_1d(one))
    total = sum(counts.values())
    expected = 1 - max(counts.values()) / total
    if issubclass(kind, PTB):
        entropy = -sum(n / total * math.log(n / total) for n in counts.values())
        expected = entropy / math.log(2) if kind is PTBCharacters else math.exp(entropy)
    assert task.baseline(found) == pytest.approx(expected)
    assert task.floor(found) is None


@EVERY_TASK
def test_bad_splits_and_seeds_are_named(kind, data):
    task = make(kind, data)
    with pytest.raises(InputError, match=r"^split must be one of train, validation, test; got 'tests'\. Did you mean"):
        task.split("tests", seed=0)
    with pytest.raises(InputError, match=r"^seed must be an integer of at least 0; got -1\.$"):
        task.split("test", seed=-1)


OWN, SET = {"path": "x.ts"}, {"dataset": "JapaneseVowels"}
BAD_OPTIONS = [
    *((kind, {"validation": -0.1}, "validation must be a finite number at least 0 and at most 0.9; got -0.1.")
      for kind in STORED),
    (MNIST, {"validation": 1.0}, "validation must be a finite number at least 0 and at most 0.9; got 1.0."),
    (MNIST, {"permuted": 1}, "permuted must be True or False; got 1."),
    (CIFAR10, {"permutation_seed": -1}, "permutation_seed must be an integer of at least 0; got -1."),
    (FashionMNIST, {"permutation_seed": 5}, "permutation_seed must be used with permuted=True; got 5."),
    (NoisyCIFAR10, {"length": 31}, "length must be an integer of at least 32; got 31."),
    (NoisyCIFAR10, {"noise": "fix"}, "noise must be one of fresh, fixed; got 'fix'. Did you mean 'fixed'?"),
    (NoisyCIFAR10, {"noise_seed": -1}, "noise_seed must be an integer of at least 0; got -1."),
    (NoisyCIFAR10, {"noise_seed": 1}, "noise_seed must be used with noise=\"fixed\"; got 1."),
    (HAR, {"classes": 3}, "classes must be 2 or 6; got 3."),
    (HAR, {"classes": "2"}, "classes must be an integer; got '2'."),
    (HAR, {"recorded": "hapd"}, "recorded must be one of any, har, hapt; got 'hapd'. Did you mean 'hapt'?"),
    (Speech, {"classes": 20}, "classes must be 12 or 30; got 20."),
    (Yelp, {"vocabulary_size": 1}, "vocabulary_size must be an integer of at least 2; got 1."),
    (IMDB, {"length": 0}, "length must be an integer of at least 1; got 0."),
    (Yelp, {"limit": 1}, "limit must be an integer of at least 2; got 1."),
    (PTB, {"span": 0}, "span must be an integer of at least 1; got 0."),
    (POS, {"tags": "pos"}, "tags must be one of upos, xpos; got 'pos'. Did you mean 'xpos'?"),
    (POS, {"min_count": 0}, "min_count must be an integer of at least 1; got 0."),
    (BAbI, {"number": 0}, "number must be an integer of at least 1; got 0."),
    (BAbI, {"number": 21}, "number must be from 1 to 20; got 21."),
    (OwnSeries, {"test_share": -0.1}, "test_share must be a finite number at least 0 and at most 0.9; got -0.1."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "message"), BAD_OPTIONS)
def test_bad_options_are_named(kind, options, message):
    needed = {OwnSeries: OWN, OwnSequences: OWN, OwnTrees: OWN, Archive: SET}.get(kind, {})
    with pytest.raises(InputError) as error:
        kind(**needed, **options)
    assert str(error.value) == message


# What is held out ------------------------------------------------------------------------------------------------


def test_each_class_is_held_out_in_proportion():
    labels = np.repeat([0, 1, 2], [100, 30, 10])
    held = held_out(Examples(np.zeros((140, 1, 1)), labels), 0.2, seed=0)
    assert np.bincount(labels[held]).tolist() == [20, 6, 2]


def test_nobody_is_on_both_sides_and_somebody_on_each():
    people = np.repeat(np.arange(7), [10, 20, 30, 40, 50, 60, 70])
    chosen = []
    for seed in range(20):
        held = held_out(Examples(np.zeros((280, 1, 1)), np.zeros(280, np.int64), people), 0.2, seed)
        assert not set(people[held]) & set(people[~held])
        assert 0 < held.sum() < 280
        assert abs(held.sum() - 56) <= 35  # half of the largest group: one more or less would not be nearer
        chosen.append(frozenset(people[held]))
    assert len(set(chosen)) > 3
    two = np.repeat([1, 2], [9, 1])
    for seed in range(5):
        assert 0 < held_out(Examples(np.zeros((10, 1, 1)), np.zeros(10, np.int64), two), 0.9, seed).sum() < 10


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("targets", [np.arange(4), np.zeros(3, np.int64), np.zeros((2, 1), np.float32)])
def test_something_is_left_to_train_on_and_to_choose_by(targets, share):
    held = held_out(Examples(np.zeros((len(targets), 1, 1)), targets), share, seed=0)
    assert 0 < held.sum() < len(targets)


def test_standardisation_is_numpys_and_leaves_constants():
    values = np.random.default_rng(0).normal([3, -200], [2, 50], (40, 7, 2)).astype(np.float32)
    values = np.concatenate([values, np.full((40, 7, 1), 0.1, np.float32)], axis=2)
    mean, scale = standardisation(values)
    np.testing.assert_allclose(mean, values.astype(np.float64).mean((0, 1)), rtol=1e-12)
    np.testing.assert_allclose(scale[:2], values.astype(np.float64).std((0, 1))[:2], rtol=1e-12)
    assert scale[2] == 1


# Images ----------------------------------------------------------------------------------------------------------


def test_mnist_is_row_by_row():
    images, labels = mnist_arrays("t10k", 40)
    found = MNIST().split("test", 0)
    np.testing.assert_array_equal(found.inputs, images.reshape(40, 784, 1))
    np.testing.assert_array_equal(found.targets, labels)
    signature = MNIST().signature()
    assert (signature.mean, signature.scale, signature.classes) == ((0.0,), (255.0,), tuple("0123456789"))


def test_fashion_mnist_is_read_from_its_own_folder():
    images, _ = mnist_arrays("train", 20)
    np.testing.assert_array_equal(FashionMNIST().split("test", 0).inputs, 255 - images.reshape(20, 784, 1))
    assert FashionMNIST().signature().classes[9] == "ankle boot"


@pytest.mark.parametrize("kind", [MNIST, CIFAR10])
def test_permuted_pixels_are_one_permutation_for_all(kind):
    plain, permuted = (kind(permuted=p, validation=0.0) for p in (False, True))
    pixels = plain.split("train", 0).inputs.shape[1]
    orders = []
    for split in ("train", "test"):
        before, after = plain.split(split, 0).inputs, permuted.split(split, 0).inputs
        assert not np.array_equal(before, after)
        # Every column of the one is a column of the other; what is at place t is the same pixel in both splits.
        columns = {before[:, t].tobytes(): t for t in range(pixels)}
        orders.append([columns[after[:, t].tobytes()] for t in range(pixels)])
        assert sorted(orders[-1]) == list(range(pixels))
    assert orders[0] == orders[1]
    other = kind(permuted=True, permutation_seed=1).split("test", 0).inputs
    assert not np.array_equal(other, after)
    np.testing.assert_array_equal(permuted.split("test", 0).inputs, kind(permuted=True).split("test", 9).inputs)


def test_cifar_is_row_by_row_in_colour():
    images, labels = cifar_arrays(5)
    found = CIFAR10().split("test", 0)
    np.testing.assert_array_equal(found.inputs, images.reshape(10, 1024, 3))
    np.testing.assert_array_equal(found.targets, labels)


def test_cifar_can_show_the_last_rows_only():
    images, _ = cifar_arrays(5)
    found = CIFAR10(rows=8).split("test", 0)
    np.testing.assert_array_equal(found.inputs, images.reshape(10, 32, 32, 3)[:, 24:].reshape(10, 256, 3))
    for rows, message in ((0, "rows must be an integer of at least 1"), (33, "rows must be at most 32")):
        with pytest.raises(InputError, match=message):
            CIFAR10(rows=rows)


def test_noisy_cifar_shows_the_image_and_then_noise():
    images, _ = cifar_arrays(5)
    task = NoisyCIFAR10(length=200)
    found, random = task.split("test", 0), np.random.default_rng(0)
    shown = found.transform(found.inputs, random)
    assert shown.shape == (10, 200, 96)
    assert shown.dtype == np.float32
    mean, scale = np.array(CIFAR10().signature().mean), np.array(CIFAR10().signature().scale)
    np.testing.assert_allclose(shown[:, :32].reshape(10, 32, 32, 3), (images - mean) / scale, rtol=1e-5, atol=1e-5)
    noise = shown[:, 32:]
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / noise.size)
    again = found.transform(found.inputs, random)
    np.testing.assert_array_equal(again[:, :32], shown[:, :32])
    assert np.abs(np.corrcoef(again[:, 32:].ravel(), noise.ravel())[0, 1]) < 5 / math.sqrt(noise.size)
    assert np.abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 5 / math.sqrt(noise[0].size)


def test_fixed_noise_is_one_for_all_images_times_and_splits():
    fixed = {seed: NoisyCIFAR10(length=50, noise="fixed", noise_seed=seed) for seed in (0, 1)}
    random = np.random.default_rng(0)
    noises = []
    for split in SPLITS:
        found = fixed[0].split(split, 0)
        for _ in range(2):
            noises += list(found.transform(found.inputs[:4], random)[:, 32:])
    assert all(np.array_equal(noise, noises[0]) for noise in noises)
    other = fixed[1].split("test", 0)
    assert not np.array_equal(other.transform(other.inputs[:1], random)[0, 32:], noises[0])
    bare = NoisyCIFAR10(length=32).split("test", 0)
    assert bare.transform(bare.inputs, random).shape == (10, 32, 96)


# Activities ------------------------------------------------------------------------------------------------------


def test_har_is_upstreams_and_keeps_subjects_apart():
    windows, activities, subjects = har_arrays("train")
    owner = {window.astype(np.float32).tobytes(): s for window, s in zip(windows, subjects, strict=True)}
    for seed in range(4):
        task = HAR(recorded="har")
        sides = [{owner[x.tobytes()] for x in task.split(s, seed).inputs} for s in ("train", "validation")]
        assert sides[0].isdisjoint(sides[1])
        assert sides[0] | sides[1] == set(HAR_SUBJECTS["train"])
    windows, activities, _ = har_arrays("test")
    found = HAR().split("test", 0)
    np.testing.assert_allclose(found.inputs, windows, rtol=1e-6)
    np.testing.assert_array_equal(found.targets, activities - 1)


def test_har_2_groups_as_the_papers_do():
    names = HAR().signature().classes
    assert names == ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
    six, two = HAR().split("test", 0).targets, HAR(classes=2).split("test", 0).targets
    groups = [{names[n] for n in six[two == group]} for group in (0, 1)]
    assert groups == [{"sitting", "laying", "walking upstairs"}, {"standing", "walking", "walking downstairs"}]
    assert HAR(classes=2).signature().output_size == 2
    assert [name.replace(" or", ",").split(", ") for name in HAR(classes=2).signature().classes] == [
        ["sitting", "laying", "walking upstairs"],
        ["standing", "walking", "walking downstairs"],
    ]


def test_har_statistics_are_of_the_training_part_alone():
    windows, _, _ = har_arrays("train")
    signature = HAR(recorded="har").signature()
    np.testing.assert_allclose(signature.mean, windows.mean((0, 1)), atol=1e-6)
    np.testing.assert_allclose(signature.scale, windows.std((0, 1)), rtol=1e-5)


def test_hapt_stands_in_where_har_is_not(data, monkeypatch):
    stand_in = HAR(recorded="hapt")
    assert stand_in.split("test", 0).inputs.shape == (26, 128, 9)  # subjects 2 and 4, 13 windows each
    with monkeypatch.context() as patch:
        (data / "har").rename(data / "away")
        patch.setenv("AUTAPSE_DATA", str(data))
        try:
            assert len(HAR().split("test", 0)) == 26
            with pytest.raises(InputError, match="The data set har is not here"):
                HAR(recorded="har").split("test", 0)
        finally:
            (data / "away").rename(data / "har")
    assert len(HAR().split("test", 0)) == 12


def test_dsa_trains_on_the_first_four_subjects():
    found = DSA(validation=0.0).split("train", 0)
    expected = {
        np.round(dsa_segment(a, s, n), 4).astype(np.float32).tobytes(): a - 1
        for a in range(1, 20)
        for s in range(1, 5)
        for n in range(1, DSA_SEGMENTS + 1)
    }
    assert {x.tobytes(): y for x, y in zip(found.inputs, found.targets, strict=True)} == expected
    assert DSA().signature().classes[18] == "a19"
    owner = {dsa_segment(a, s, n).astype(np.float32).tobytes(): s for a in (1, 2) for s in range(1, 5) for n in (1, 2)}
    held = {owner.get(x.tobytes()) for x in DSA().split("validation", 0).inputs} - {None}
    trained = {owner.get(x.tobytes()) for x in DSA().split("train", 0).inputs} - {None}
    assert len(held) == 1
    assert held | trained == {1, 2, 3, 4}
    assert not held & trained


# Speech ----------------------------------------------------------------------------------------------------------


def test_speech_has_upstreams_parts():
    task = Speech()
    assert [len(task.split(split, 0)) for split in SPLITS] == [90, 30, 30]
    assert sorted(task.signature().classes) == sorted(SPEECH_WORDS)
    assert task.split("train", 0).inputs.shape[1:] == (99, 32)
    for split in SPLITS:  # every speaker says every word once
        counts = np.bincount(task.split(split, 0).targets, minlength=30)
        assert counts.tolist() == [3 if split == "train" else 1] * 30
    train = task.split("train", 0).inputs.astype(np.float64)
    np.testing.assert_allclose(task.signature().mean, train.mean((0, 1)), rtol=1e-9)
    np.testing.assert_allclose(task.signature().scale, train.std((0, 1)), rtol=1e-9)


def test_twelve_commands():
    signature = Speech(classes=12).signature()
    assert signature.classes == (*"yes no up down left right on off stop go".split(), "unknown", "silence")
    assert set(Speech(classes=12).split("train", 0).targets) == set(range(12))


# Reviews ---------------------------------------------------------------------------------------------------------


def write_reviews(root, rows, test=(("1", "bad"), ("5", "good"))):
    folder = root / "yelp" / "yelp_review_full_csv"
    folder.mkdir(parents=True)
    for name, content in (("train", rows), ("test", test)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(content)


def test_reviews_keep_the_frequent_words_and_the_last_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path))
    rows = [("5", "a b c d e"), ("1", ""), ("3", "a b c"), ("2", "a b"), ("4", "a z")]
    write_reviews(tmp_path, rows, test=(("1", "z a new"), ("5", "   ")))
    task = Yelp(vocabulary_size=4, length=3, validation=0.0)
    (words,) = task.signature().vocabularies
    assert words == ("<unk>", "a", "b", "c")
    train, test = task.split("train", 0), task.split("test", 0)
    assert [x[:, 0].tolist() for x in train.inputs] == [[3, 0, 0], [0], [1, 2, 3], [1, 2], [1, 0]]
    assert train.targets.tolist() == [4, 0, 2, 1, 3]
    assert [x[:, 0].tolist() for x in test.inputs] == [[0, 1, 0], [0]]  # test words are not counted
    short = Yelp(vocabulary_size=4, length=3, validation=0.0, limit=2)
    assert [len(short.split(split, 0)) for split in ("train", "test")] == [2, 2]
    assert short.signature().vocabularies == (("<unk>", "a", "b", "c"),)


def test_yelps_json_is_halved(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path))
    lines = "".join(f'{{"stars": {n % 5 + 1}.0, "text": "word{n}"}}\n' for n in range(7))
    write_files(tmp_path / "yelp", {"yelp_academic_dataset_review.json": lines.encode()})
    task = Yelp(validation=0.0)
    assert task.split("train", 0).targets.tolist() == [0, 1, 2]
    assert task.split("test", 0).targets.tolist() == [3, 4, 0, 1]
    assert Yelp(validation=0.0, limit=2).split("test", 0).targets.tolist() == [2, 3]


def test_imdb_tells_good_from_bad():
    task = IMDB()
    (words,) = task.signature().vocabularies
    found = task.split("test", 0)
    for x, y in zip(found.inputs, found.targets, strict=True):
        said = {words[n] for n in x[:, 0]}
        assert ("superb" in said, "awful" in said) == (y == 1, y == 0)
    assert task.signature().classes == ("bad", "good")


# Text ------------------------------------------------------------------------------------------------------------


def test_ptb_targets_are_the_next_words(data):
    task = PTB(span=7)
    words = task.signature().classes
    for split, file in (("train", "train"), ("validation", "valid"), ("test", "test")):
        lines = (data / "ptb" / f"ptb.{file}.txt").read_text().splitlines()
        text = [word for line in lines for word in [*line.split(), "<eos>"]]
        found = task.split(split, 0)
        assert found.span == 7
        assert found.inputs.shape == (1, len(text) - 1, 1)
        assert [words[n] for n in found.inputs[0, :, 0]] == text[:-1]
        assert [words[n] for n in found.targets[0]] == text[1:]
    whole = PTB(validation=0.0)
    both = [
        (data / "ptb" / f"ptb.{file}.txt").read_text().replace("\n", " <eos> ").split() for file in ("train", "valid")
    ]
    assert [words[n] for n in whole.split("train", 0).targets[0]] == (both[0] + both[1])[1:]
    assert whole.split("validation", 0).inputs.shape == (0, 0, 1)


def test_ptb_characters_are_those_of_the_lines(data):
    task = PTBCharacters()
    known = task.signature().classes
    for split, file in (("train", "train"), ("test", "test")):
        lines = (data / "ptb" / f"ptb.{file}.txt").read_text().splitlines()
        text = [character for line in lines for character in [*" ".join(line.split()), "<eos>"]]
        found = task.split(split, 0)
        assert [known[n] for n in found.inputs[0, :, 0]] == text[:-1]
        assert [known[n] for n in found.targets[0]] == text[1:]
    assert PTB().signature().output_size > 0  # both are kept
    assert set(PTB().signature().classes) != set(known)


def test_babi_tells_times_and_numbers_answers(tmp_path, monkeypatch, data):
    task = BAbI(number=1)
    (words,), answers = task.signature().vocabularies, task.signature().classes
    assert answers == tuple(sorted(answers))
    found = task.split("test", 0)
    file = next((data / "babi").rglob("qa1_*_test.txt"))
    stories, told = [], []
    for line in file.read_text().splitlines():  # read again, with nothing but split
        number, text = line.split(" ", 1)
        told = [] if number == "1" else told
        said = text.split("\t")[0].lower().replace(".", " ").replace("?", " ").split()
        if "\t" in text:
            before = [(w, -age) for age, statement in enumerate(reversed(told)) for w in reversed(statement)]
            stories.append(([*reversed(before), *((w, 1) for w in said)], text.split("\t")[1]))
        else:
            told = [*told, said]
    assert len(stories) == len(found) == 8
    for x, y, (expected, answer) in zip(found.inputs, found.targets, stories, strict=True):
        assert [(words[n], time) for n, time in x.tolist()] == expected
        assert answers[y] == answer
    assert any("," in answer for answer in BAbI(number=8).signature().classes)


def test_pos_reads_words_affixes_and_shapes():
    counted = ["Walking"] * 3 + ["walked"] * 2 + ["is"] * 2 + ["rare"]
    vocabularies = word_vocabularies(counted, min_count=2)
    known = [v.words(range(len(v))) for v in vocabularies]
    assert known[0] == ["<unk>", "walking", "is", "walked"]
    # In the order of their counts: walk is a prefix of five of the words; of "is" there are no three letters.
    assert known[1] == ["<unk>", "wa", "is", "ra"]
    assert known[2] == ["<unk>", "wal", "rar"]
    assert known[3] == ["<unk>", "walk", "rare"]
    assert known[4] == ["<unk>", "ng", "ed", "is", "re"]
    assert known[5] == ["<unk>", "ing", "ked", "are"]
    assert known[6] == ["<unk>", "king", "lked", "rare"]
    rows = encode(["WALKED", "is", "rare", "x-Ray", "1,000.5", "...", "iPhone5"], vocabularies)
    assert rows.dtype == np.int32
    assert rows[:, :7].tolist() == [
        [3, 1, 1, 1, 2, 2, 2],
        [2, 2, 0, 0, 3, 0, 0],
        [0, 3, 2, 2, 4, 3, 3],  # too rare to be known, but not its ends
        [0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    # digit in it, all digits, mark in it, all marks, hyphen, first upper, all upper, upper later on
    assert rows[:, 7:].tolist() == [
        [0, 0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1, 0, 0, 1],
        [1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 1],
    ]


def test_pos_is_the_treebank():
    found, signature = POS().split("test", 0), POS().signature()
    assert signature.input_size == 1 + 6 + 8
    assert len(signature.vocabularies) == 7
    assert found.inputs.lengths.tolist() == [6] * 4
    assert [signature.classes[n] for n in found.targets[0]] == ["DET", "NOUN", "AUX", "PART", "VERB", "PUNCT"]
    own = POS(tags="xpos")
    assert [own.signature().classes[n] for n in own.split("test", 0).targets[0]] == ["DT", "NN", "VBP", "RB", "VB", "."]
    words = signature.vocabularies[0]
    assert {words[x[0, 0]] for x in found.inputs} <= {"the", "a"}


def test_pos_of_ones_own_lines(tmp_path):
    sentences = {
        "train": "Dogs N\nrun V\n\nDogs N\nsleep V\n\n",
        "dev": "Cats N\nrun V\n\n",
        "test": "run V\nnow ADV\n\n",
    }
    write_files(tmp_path, {f"{name}.txt": text.encode() for name, text in sentences.items()})
    task = POS(folder=str(tmp_path), min_count=1)
    signature = task.signature()
    assert signature.classes == ("ADV", "N", "V")  # of all parts, or a test tag would have no number
    words = signature.vocabularies[0]
    assert set(words) == {"<unk>", "dogs", "run", "sleep"}
    test = task.split("test", 0)
    assert [words[n] for n in test.inputs[0][:, 0]] == ["run", "<unk>"]
    assert test.targets[0].tolist() == [2, 0]
    assert len(task.split("validation", 0)) == 1
    (tmp_path / "train.txt").unlink()
    with pytest.raises(InputError, match=r"has no train\.conllu, train\.mrg or train\.txt"):
        POS(folder=str(tmp_path), min_count=2).signature()


# Series ----------------------------------------------------------------------------------------------------------


def test_archive_series_are_upstreams():
    task = Archive(dataset="JapaneseVowels")
    series, labels = ts_arrays("TEST")
    found, signature = task.split("test", 0), task.signature()
    assert [signature.classes[n] for n in found.targets] == labels
    for got, expected in zip(found.inputs, series, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    steps = np.concatenate(ts_arrays("TRAIN")[0])
    np.testing.assert_allclose(signature.mean, steps.mean(0), atol=1e-7)
    np.testing.assert_allclose(signature.scale, steps.std(0), rtol=1e-6)
    assert (task.kind, task.metric) == ("classification", "error rate")


def test_archive_series_in_a_zip_are_the_same(tmp_path, monkeypatch, data):
    folder = data / "uea-ucr" / "JapaneseVowels"
    expected = Archive(dataset="JapaneseVowels").split("train", 0)
    place = tmp_path / "uea-ucr" / "JapaneseVowels"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "JapaneseVowels.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path))
    assert examples(Archive(dataset="JapaneseVowels").split("train", 0)) == examples(expected)


def test_a_test_file_beside_the_training_file_is_used(tmp_path):
    for part in ("TRAIN", "TEST"):
        (tmp_path / f"x_{part}.ts").write_text(ts_text(*ts_arrays(part)))
    beside = OwnSeries(path=str(tmp_path / "x_TRAIN.ts"))
    assert beside.baseline_text == "always the most frequent class"
    np.testing.assert_allclose(beside.split("test", 0).inputs[3], ts_arrays("TEST")[0][3], rtol=1e-6)
    assert len(beside.split("train", 0)) + len(beside.split("validation", 0)) == 12
    (tmp_path / "other.ts").write_text(ts_text(*ts_arrays("TRAIN")))
    named = OwnSeries(path=str(tmp_path / "x_TRAIN.ts"), test=str(tmp_path / "other.ts"))
    np.testing.assert_allclose(named.split("test", 0).inputs[3], ts_arrays("TRAIN")[0][3], rtol=1e-6)


def regression(path, rows: dict[str, tuple[float, list[float]]]):
    lines = ["sequence,time,target,value"]
    lines += [f"{name},{t},{y},{x}" for name, (y, values) in rows.items() for t, x in enumerate(values)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_numbers_of_ones_own(tmp_path):
    draw = random.Random(0)
    rows = {f"s{n}": (n + 0.5, [draw.random() for _ in range(2 + n % 3)]) for n in range(10)}
    task = OwnSeries(path=regression(tmp_path / "own.csv", rows), validation=0.25)
    assert (task.kind, task.metric) == ("regression", "mean squared error")
    assert task.baseline_text == "always the mean of the training targets"
    splits = {split: task.split(split, 0) for split in SPLITS}
    assert [len(splits[split]) for split in SPLITS] == [6, 2, 2]
    seen = [float(y) for found in splits.values() for y in found.targets[:, 0]]
    assert sorted(seen) == [n + 0.5 for n in range(10)]
    for found in splits.values():
        assert found.targets.dtype == np.float32
        assert found.targets.shape == (len(found), 1)
        for x, y in zip(found.inputs, found.targets, strict=True):
            np.testing.assert_allclose(x[:, 0], rows[f"s{int(y[0])}"][1], rtol=1e-6)
    # The test series do not depend on the seed, and the trivial predictor knows the mean of all others.
    assert examples(task.split("test", 7)) == examples(splits["test"])
    others = [y for found in (splits["train"], splits["validation"]) for y in found.targets[:, 0]]
    expected = np.square(splits["test"].targets[:, 0] - np.mean(others)).mean()
    assert task.baseline(splits["test"]) == pytest.approx(expected)
    signature = task.signature()
    assert (signature.output_size, signature.classes, signature.input_size) == (1, (), 1)
    values = np.concatenate([x for s in ("train", "validation") for x in splits[s].inputs])
    assert signature.mean == pytest.approx([values.mean(dtype=np.float64)])


def test_few_series_are_enough_only_from_three_on(tmp_path):
    rows = {f"s{n}": (n + 0.5, [1.0, 2.0 + n]) for n in range(3)}
    for share in (0.2, 0.9):
        task = OwnSeries(path=regression(tmp_path / "three.csv", rows), test_share=share, validation=0.0)
        assert len(task.split("train", 0)) >= 1
        assert len(task.split("test", 0)) >= 1
    two = regression(tmp_path / "two.csv", {name: rows[name] for name in ("s0", "s1")})
    with pytest.raises(InputError, match="must have at least three series, for training, validation and test; got 2"):
        OwnSeries(path=two).signature()


def test_a_file_of_one_class_has_nothing_to_learn(tmp_path):
    rows = "".join(f"{n},{n},walk\n" for n in range(6))
    (tmp_path / "own.csv").write_text(f"sequence,x,target\n{rows}")
    with pytest.raises(InputError, match=r"own\.csv must have series of at least two classes; got .only 'walk'"):
        OwnSeries(path=str(tmp_path / "own.csv")).signature()


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    inputs, random = np.ones((6, 4, 2)), np.random.default_rng(0)
    for name, width, channels in (("a", 1, 2), ("b", 3, 2), ("c", 1, 1)):
        np.savez(tmp_path / f"{name}.npz", inputs=inputs[..., :channels], targets=random.random((6, width)))
    path = {name: str(tmp_path / f"{name}.npz") for name in "abc"}
    assert OwnSeries(path=path["b"]).signature().output_size == 3
    with pytest.raises(InputError, match=r"must have targets of shape \(1,\), as .*a\.npz has; got \(3,\)"):
        OwnSeries(path=path["a"], test=path["b"]).signature()
    with pytest.raises(InputError, match="differ in their number of channels: 2 and 1"):
        OwnSeries(path=path["a"], test=path["c"]).signature()


def test_a_missing_file_and_a_missing_set_are_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"none\.ts is missing"):
        OwnSeries(path=str(tmp_path / "none.ts")).signature()
    monkeypatch.setenv("AUTAPSE_DATA", str(tmp_path))
    for kind in (MNIST, PTB, BAbI, Speech):
        with pytest.raises(InputError, match="is not here"):
            kind().split("train", 0)
