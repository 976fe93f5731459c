"""Language-model text, tagged sentences and question answering, as upstream ships them."""

import gzip
import tarfile
from collections import Counter

import numpy as np
import pytest

from autapse.data.archives import open_tree
from autapse.data.formats.babi import read_babi
from autapse.data.formats.conllu import read_conllu, read_tagged_lines
from autapse.data.formats.ptb import read_ptb
from autapse.data.formats.treebank import read_treebank
from damage import AGAIN, message
from upstream import real
from upstream_text import conllu_row, put, write_babi, write_conllu, write_ptb

# Penn Treebank


def test_ptb_is_the_files_words_with_an_end_per_line(tmp_path):
    folder = write_ptb(tmp_path)
    text = read_ptb(folder)
    for split, file in (("train", "train"), ("validation", "valid"), ("test", "test")):
        expected = (folder / f"ptb.{file}.txt").read_text().replace("\n", " <eos> ").split()
        assert text.splits[split].dtype == np.int64
        assert text.vocabulary.words(text.splits[split]) == expected


def test_ptb_numbers_frequent_words_first(tmp_path):
    text = read_ptb(write_ptb(tmp_path))
    counts = np.bincount(text.splits["train"])
    assert len(counts) == len(text.vocabulary)
    assert (np.diff(counts) <= 0).all()


def test_ptb_words_that_training_lacks_are_unknown(tmp_path):
    folder = write_ptb(tmp_path)
    put(folder / "ptb.valid.txt", "the zyzzyva\n")
    text = read_ptb(folder)
    assert text.vocabulary.words(text.splits["validation"]) == ["the", "<unk>", "<eos>"]


def test_ptb_compressed_files_and_the_archive_read_the_same(tmp_path):
    plain = read_ptb(write_ptb(tmp_path))
    for name in ("train", "valid", "test"):
        content = (tmp_path / "ptb" / f"ptb.{name}.txt").read_bytes()
        put(tmp_path / "gz" / f"ptb.{name}.txt.gz", gzip.compress(content))
    with tarfile.open(tmp_path / "simple-examples.tgz", "w:gz") as archive:
        archive.add(tmp_path / "ptb", "./simple-examples/data")
        # The archive holds the characters too, under other names.
        archive.add(tmp_path / "ptb" / "ptb.test.txt", "./simple-examples/data/ptb.char.test.txt")
    for other in (read_ptb(tmp_path / "gz"), read_ptb(tmp_path / "simple-examples.tgz")):
        assert other.vocabulary.to_text() == plain.vocabulary.to_text()
        for split, ids in plain.splits.items():
            np.testing.assert_array_equal(other.splits[split], ids)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("ptb.valid.txt", b"the\nof\xff\n", "line 2: byte 6 of the file is not UTF-8 text"),
        ("ptb.test.txt", b"the\nof th", "line 2: the file ends within a line"),
        ("ptb.test.txt", b"", "line 1: the file is empty"),
        ("ptb.train.txt", b"the\nof <eos>\n", "line 2: <eos> means the end of a line and cannot be a word"),
    ],
)
def test_ptb_damage_says_where(tmp_path, file, content, problem):
    folder = write_ptb(tmp_path)
    put(folder / file, content)
    assert message(read_ptb, folder) == f"{folder}/{file} is damaged at {problem}. {AGAIN}"


def test_ptb_without_unknown_names_the_word(tmp_path):
    folder = write_ptb(tmp_path)
    for split, text in (("train", "a\n"), ("valid", "a\na b\n"), ("test", "a\n")):
        put(folder / f"ptb.{split}.txt", text)
    problem = "line 2: 'b' is not in ptb.train.txt, which does not have <unk> either"
    assert message(read_ptb, folder) == f"{folder}/ptb.valid.txt is damaged at {problem}. {AGAIN}"


def test_ptb_missing_file_is_named(tmp_path):
    folder = write_ptb(tmp_path)
    (folder / "ptb.valid.txt").unlink()
    assert message(read_ptb, folder) == f"{folder}/ptb.valid.txt is missing."
    assert message(read_ptb, tmp_path / "none") == f"{tmp_path}/none is missing."


def test_real_ptb_has_its_published_counts():
    text = read_ptb(real("ptb"))
    assert {split: len(ids) for split, ids in text.splits.items()} == {
        "train": 929_589,
        "validation": 73_760,
        "test": 82_430,
    }
    assert len(text.vocabulary) == 10_000
    assert len(np.unique(text.splits["train"])) == 10_000


# CoNLL-U


def test_conllu_words_are_the_plain_rows(tmp_path):
    sentences = read_conllu(write_conllu(tmp_path) / "en_ewt-ud-train.conllu")
    assert len(sentences) == 12
    for sentence in sentences:
        assert sentence.forms[2:4] + sentence.forms[5:] == ("do", "n't", ".")
        assert sentence.upos == ("DET", "NOUN", "AUX", "PART", "VERB", "PUNCT")
        assert sentence.xpos == ("DT", "NN", "VBP", "RB", "VB", ".")


ONE, TWO = conllu_row("1", "a", "DET", "DT"), conllu_row("2", "cat", "NOUN", "NN")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([ONE, TWO[:-2], "", ""], "line 2: it has 9 columns separated by tabs instead of 10"),
        ([ONE.replace("\t", " "), "", ""], "line 1: it has 1 columns separated by tabs instead of 10"),
        (["# c", TWO, "", ""], "line 2: word 2 follows word 0"),
        ([ONE, TWO, ONE, "", ""], "line 3: word 1 follows word 2; a blank line must end the sentence first"),
        ([ONE, "# c", ""], "line 2: a comment follows a word; a blank line must end the sentence first"),
        ([ONE, conllu_row("1-2", "x", "_", "_"), "", ""], "line 2: 1-2 is out of order after word 1"),
        ([conllu_row("1.1", "x", "_", "_"), ONE, "", ""], "line 1: 1.1 is out of order after word 0"),
        ([conllu_row("one", "x", "X", "X"), "", ""], "line 1: 'one' is not a word number"),
        ([conllu_row("1", "x", "WORD", "X"), "", ""], "line 1: 'WORD' is not a universal part of speech"),
        ([conllu_row("1", "", "X", "X"), "", ""], "line 1: the word is empty"),
        ([conllu_row("1", "x", "X", ""), "", ""], "line 1: the tag is empty"),
        ([ONE, "", "", ""], "line 3: a blank line ends a sentence without words"),
        ([ONE, ""], "line 1: the last sentence has no blank line after it, so the file is incomplete"),
        (["# c", ""], "line 1: the last sentence has no blank line after it, so the file is incomplete"),
        ([ONE, "", TWO[:9]], "line 3: the file ends within a line"),
    ],
)
def test_conllu_damage_says_where(tmp_path, lines, problem):
    path = tmp_path / "x.conllu"
    put(path, "\n".join(lines))
    assert message(read_conllu, path) == f"{path} is damaged at {problem}. {AGAIN}"


def test_conllu_empty_node_before_the_first_word_and_compression(tmp_path):
    text = "\n".join([conllu_row("0.1", "x", "X", "X"), ONE, TWO, "", ""])
    put(tmp_path / "x.conllu.gz", gzip.compress(text.encode()))
    assert read_conllu(tmp_path / "x.conllu.gz") == [(("a", "cat"), ("DET", "NOUN"), ("DT", "NN"))]


@pytest.mark.parametrize(
    ("split", "sentences", "words"), [("train", 12_544, 204_577), ("dev", 2_001, 25_147), ("test", 2_077, 25_094)]
)
def test_real_treebank_has_its_published_counts(split, sentences, words):
    found = read_conllu(real("ud-english-ewt") / f"en_ewt-ud-{split}.conllu")
    assert (len(found), sum(len(s.forms) for s in found)) == (sentences, words)
    assert len({tag for s in found for tag in s.upos}) == 17
    if split == "train":
        assert len({tag for s in found for tag in s.xpos}) == 49


# A word and its tag per line


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_tagged_lines_have_tabs_or_spaces_between(tmp_path, end):
    put(tmp_path / "x.txt", f"New York\tNNP\nis  VBZ\n\n\nBig JJ{end}")
    assert read_tagged_lines(tmp_path / "x.txt") == [(("New York", "is"), ("NNP", "VBZ")), (("Big",), ("JJ",))]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a DT\ncat\n", "line 2: 'cat' is not one word and one tag, separated by a tab or spaces"),
        ("a DT\n\n\tNN\n", "line 3: '\\tNN' is not one word and one tag, separated by a tab or spaces"),
        ("\n\n", "line 1: it has no sentence"),
        ("", "line 1: it has no sentence"),
    ],
)
def test_tagged_lines_damage_says_where(tmp_path, text, problem):
    check_damage(read_tagged_lines, tmp_path / "x.txt", text, problem)


def check_damage(reader, path, text, problem):
    put(path, text)
    assert message(reader, path) == f"{path} is damaged at {problem}. {AGAIN}"


PARSED = """( (S
    (NP-SBJ-1 (DT The) (NN bank) )
    (VP (VBD was) (VP (VBN sold) (NP (-NONE- *-1) )))
    (. .) ))
( (NP (NN Profit) (-LRB- -LRB-) (CD 3) (-RRB- -RRB-)) )"""


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_parsed_sentences_give_their_words_without_traces(tmp_path, end):
    put(tmp_path / "x.mrg", PARSED + end)
    assert read_treebank(tmp_path / "x.mrg") == [
        (("The", "bank", "was", "sold", "."), ("DT", "NN", "VBD", "VBN", ".")),
        (("Profit", "-LRB-", "3", "-RRB-"), ("NN", "-LRB-", "CD", "-RRB-")),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: it has no sentence"),
        ("( (NP (-NONE- *)) )\n", "line 1: it has no sentence"),
        ("( (NN dog) )\n( (NN cat)\n", "line 2: a bracket is not closed"),
        ("( (NN dog) ) )\n", "line 1: ')' is outside of all brackets"),
        ("( (NN dog) )\ncat NN\n", "line 2: 'cat' is outside of all brackets"),
        ("( (NN big dog) )\n", "line 1: (NN big dog) is not one tag and one word in brackets"),
    ],
)
def test_parsed_sentences_damage_says_where(tmp_path, text, problem):
    check_damage(read_treebank, tmp_path / "x.mrg", text, problem)


def test_parsed_sentences_may_be_nested_deeply(tmp_path):
    put(tmp_path / "x.mrg", "(" * 100_000 + "NN dog" + ")" * 100_000)
    assert read_treebank(tmp_path / "x.mrg") == [(("dog",), ("NN",))]


# bAbI

STORY = """1 Mary moved to the bathroom.
2 What is Mary carrying? \tnothing\t1
3 Mary got the milk there.
4 Mary took the football.
5 What is Mary carrying?\tmilk,football\t3 4
1 John went home.
2 Where is John?\tHome\t1
"""


def test_babi_question_has_all_statements_of_its_story_before_it(tmp_path):
    put(tmp_path / "en" / "qa8_lists-sets_train.txt", STORY)
    first, second, third = read_babi(tmp_path, 8, "train")
    assert first.statements == (("mary", "moved", "to", "the", "bathroom"),)
    got, took = ("mary", "got", "the", "milk", "there"), ("mary", "took", "the", "football")
    assert second.statements == (*first.statements, got, took)
    assert second.numbers == (1, 3, 4)
    assert second.question == ("what", "is", "mary", "carrying")
    assert (first.answer, second.answer, third.answer) == ("nothing", "milk,football", "home")
    assert (first.supports, second.supports, third.supports) == ((1,), (3, 4), (1,))
    assert third.statements == (("john", "went", "home"),)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("task", range(1, 21))
def test_babi_all_tasks_are_found(tmp_path, task, split):
    questions = read_babi(write_babi(tmp_path), task, split)
    assert len(questions) == 8
    assert any("," in q.answer for q in questions) == (task in (8, 19))


def test_babi_archive_reads_as_the_folder_and_en_is_not_en_10k(tmp_path):
    folder = write_babi(tmp_path)
    put(folder / "en-10k" / "qa1_single-supporting-fact_train.txt", "1 No.\n")
    with tarfile.open(tmp_path / "tasks_1-20_v1-2.tar.gz", "w:gz") as archive:
        archive.add(folder, "tasks_1-20_v1-2")
    expected = read_babi(folder / "en", 1, "train")
    assert len(expected) == 8
    assert read_babi(tmp_path / "tasks_1-20_v1-2.tar.gz", 1, "train") == expected
    with open_tree(tmp_path / "babi") as tree:
        assert read_babi(tree, 1, "train") == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 A b.\n3 C d.\n", "line 2: line 3 of the story follows line 1"),
        ("2 A b.\n", "line 1: line 2 of the story follows line 0"),
        ("1 A b.\nA b.\n", "line 2: 'A b.' is not a number, a space and a sentence"),
        ("1 A b.\n2 C?\td\n", "line 2: a question has 3 parts separated by tabs, but this line has 2"),
        ("1 A b.\n2 C?\t\t1\n", "line 2: the question has no answer"),
        ("1 A b.\n2 C?\td\t2\n", "line 2: the answer refers to line 2, which is not a statement before the question"),
        ("1 A b.\n2 C?\td\tx\n", "line 2: 'x' are not line numbers"),
        ("1 A b.\n2 C?\td\t1\n3 E", "line 3: the file ends within a line"),
    ],
)
def test_babi_damage_says_where(tmp_path, text, problem):
    path = tmp_path / "en" / "qa1_single-supporting-fact_test.txt"
    put(path, text)
    assert message(read_babi, tmp_path, 1, "test") == f"{path} is damaged at {problem}. {AGAIN}"


def test_babi_what_there_is_not_is_named(tmp_path):
    folder = write_babi(tmp_path)
    (folder / "en" / "qa2_two-supporting-facts_test.txt").unlink()
    assert message(read_babi, folder, 2, "test") == f"{folder}/en/qa2_*_test.txt is missing."
    assert message(read_babi, folder, 21, "test") == "task must be between 1 and 20; got 21."
    assert message(read_babi, folder, 1, "valid") == "split must be one of train, test; got 'valid'."


@pytest.mark.parametrize("split", ["train", "test"])
def test_real_babi_has_a_thousand_questions_per_task(split):
    folder = real("babi")
    counts = Counter({task: len(read_babi(folder, task, split)) for task in range(1, 21)})
    assert counts == dict.fromkeys(range(1, 21), 1_000)
