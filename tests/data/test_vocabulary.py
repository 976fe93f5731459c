import numpy as np
import pytest

from autapse.checks import InputError
from autapse.data.vocabulary import Vocabulary


def test_most_frequent_first_and_equals_alphabetically_behind_the_special_entries():
    counts = {"pear": 2, "fig": 5, "apple": 2, "<unk>": 1, "date": 1}
    some = Vocabulary.of_counts(counts, special=("<pad>", "<unk>"), unknown="<unk>")
    assert some.words(range(len(some))) == ["<pad>", "<unk>", "fig", "apple", "pear", "date"]


def test_the_order_of_counting_does_not_matter():
    counts = {word: n % 3 for n, word in enumerate("the cat sat on a mat and ate".split())}
    backwards = dict(reversed(counts.items()))
    assert Vocabulary.of_counts(counts).to_text() == Vocabulary.of_counts(backwards).to_text()


def test_size_counts_the_special_entries():
    some = Vocabulary.of_counts({"a": 3, "b": 2, "c": 1}, size=3, special=("<pad>",))
    assert some.to_text() == "<pad>\na\nb\n"


def test_ids_and_words_invert_each_other():
    some = Vocabulary(["x", "y", "z"])
    ids = some.ids(["z", "x", "z"])
    assert ids.dtype == np.int64
    np.testing.assert_array_equal(ids, [2, 0, 2])
    assert some.words(ids) == ["z", "x", "z"]
    assert some.ids([]).shape == (0,)


def test_unknown_words_have_the_unknown_id():
    np.testing.assert_array_equal(Vocabulary(["a", "?"], unknown="?").ids(["b", "a"]), [1, 0])


def test_text_brings_the_same_vocabulary_back():
    some = Vocabulary(["<unk>", "naïve", "two words", "\u2028", "\r"], unknown="<unk>")
    back = Vocabulary.from_text(some.to_text(), unknown="<unk>")
    assert back.words(range(len(back))) == some.words(range(len(some)))
    assert len(back) == 5
    assert "naïve" in back
    assert "naive" not in back


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Vocabulary(["a", "b", "a"]), "words must differ from each other; got 'a'. It is entry 0 and entry 2."),
        (lambda: Vocabulary.from_text("a\n\nb\n"), "words must be non-empty and have no line break; got ''."),
        (lambda: Vocabulary(["a\nb"]), "words must be non-empty and have no line break; got 'a\\nb'."),
        (lambda: Vocabulary(["a"], unknown="?"), "unknown must be a word of the vocabulary; got '?'."),
        (
            lambda: Vocabulary(["a"]).ids(["a", "b"]),
            "words must be in the vocabulary, which has no entry for unknown words; got 'b'.",
        ),
        (lambda: Vocabulary(["a"]).words([0, 1]), "ids must be below the vocabulary's size 1; got 1."),
        (lambda: Vocabulary(["a"]).words([-1]), "ids must be an integer of at least 0; got -1."),
        (
            lambda: Vocabulary.of_counts({"a": 1}, size=2, special=("<pad>", "<unk>")),
            "size must be an integer of at least 3; got 2. It counts the 2 special entries too.",
        ),
    ],
)
def test_what_breaks_a_rule_is_named(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message
