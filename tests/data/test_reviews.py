import csv
import gzip
import io
import json
import tarfile
import zipfile
from collections import Counter
from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest

from autapse.data.formats.reviews import iterate_imdb, iterate_yelp, tokenise
from damage import AGAIN, message
from upstream_text import put, write_imdb, write_yelp

TEXTS = ['Good "food"!', "Don't\ngo", "naïve – 5€", "", "three\\nlines,\\nhere"]
WORDS = [["good", '"', "food", '"', "!"], ["don't", "go"], ["naïve", "–", "5", "€"], [], "three lines , here".split()]


class Reviews(NamedTuple):
    words: list[list[str]]
    labels: np.ndarray
    splits: list[str]


def collected(reviews):
    found = list(reviews)
    labels = np.array([review.label for review in found], dtype=np.int64)
    return Reviews([review.words for review in found], labels, [review.split for review in found])


def read_yelp(path, limit=None):
    return collected(iterate_yelp(path, limit))


def read_imdb(path):
    return collected(iterate_imdb(path))


def json_lines(stars=(5.0, 1, 3, 2, 4)) -> str:
    return "".join(
        json.dumps({"review_id": "x", "stars": s, "text": t}) + "\n" for s, t in zip(stars, TEXTS, strict=True)
    )


def csv_text(rows) -> str:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It's GREAT,really...", ["it's", "great", ",", "really", ".", ".", "."]),
        ("end.<br /><br />Start<br>x", ["end", ".", "start", "x"]),
        ("'quoted' rock'n'roll 9/10", ["'", "quoted", "'", "rock'n'roll", "9", "/", "10"]),
        ("  \t\n", []),
    ],
)
def test_tokens_are_words_and_punctuation_marks(text, tokens):
    assert tokenise(text) == tokens


# Yelp


def check_all(reviews, split="all"):
    assert reviews.words == WORDS
    assert reviews.labels.dtype == np.int64
    np.testing.assert_array_equal(reviews.labels, [4, 0, 2, 1, 3])
    assert reviews.splits == [split] * 5


def test_yelp_json_lines_wherever_they_are(tmp_path):
    name, content = "yelp_academic_dataset_review.json", json_lines().encode()
    put(tmp_path / "folder" / name, content)
    put(tmp_path / "other.json.gz", gzip.compress(content))
    put(tmp_path / "gz" / f"{name}.gz", gzip.compress(content))
    with tarfile.open(tmp_path / "yelp_dataset.tgz", "w:gz") as archive:
        archive.add(tmp_path / "other.json.gz", "unrelated.json")
        archive.add(tmp_path / "folder" / name, f"./{name}")
    with zipfile.ZipFile(tmp_path / "yelp.zip", "w") as packed:
        packed.writestr(f"x/{name}", content)
    for path in ("folder", f"folder/{name}", "other.json.gz", "gz", "yelp_dataset.tgz", "yelp.zip"):
        check_all(read_yelp(tmp_path / path))


def test_yelp_csv_with_and_without_a_header(tmp_path):
    stars = (5, 1, 3, 2, 4)
    put(tmp_path / "a" / "train.csv", csv_text(zip(stars, TEXTS, strict=True)))
    put(tmp_path / "b" / "train.csv", csv_text([("id", "Text", "stars"), *zip("vwxyz", TEXTS, stars, strict=True)]))
    labels = [s - 1 for s in stars]
    put(tmp_path / "c" / "train.csv", csv_text([("label", "text"), *zip(labels, TEXTS, strict=True)]))
    for folder in "abc":
        check_all(read_yelp(tmp_path / folder), "train")


def test_yelp_splits_and_limit(tmp_path):
    folder = write_yelp(tmp_path)
    reviews = read_yelp(tmp_path / "yelp")
    assert Counter(reviews.splits) == {"train": 20, "test": 10}
    assert Counter(reviews.labels.tolist()) == dict.fromkeys(range(5), 6)
    ratings = ("awful", "poor", "fair", "good", "superb")
    for words, label in zip(reviews.words, reviews.labels, strict=True):
        assert words[-6:] == ['"', ratings[label], '"', ":", ratings[label], "!"]
    assert Counter(read_yelp(folder, limit=3).splits) == {"train": 3, "test": 3}
    assert message(read_yelp, folder, 0) == "limit must be an integer of at least 1; got 0."


def test_yelp_is_read_only_as_far_as_asked(tmp_path):
    path = tmp_path / "reviews.json"
    put(path, json_lines() + "damaged\n")
    assert len(list(islice(iterate_yelp(path), 5))) == 5
    assert len(read_yelp(path, limit=5).words) == 5
    assert "line 6" in message(read_yelp, path)


LINE = '{"stars": 1, "text": "a"}\n'


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "r.json",
            LINE + '{"stars": 1, "te',
            "line 2: it is not JSON (Unterminated string starting at at character 13)",
        ),
        ("r.json", LINE + '{"stars": 1}\n', 'line 2: it must have "stars" and "text"'),
        ("r.json", LINE + "[1]\n", 'line 2: it must have "stars" and "text"'),
        ("r.json", '{"stars": 6, "text": "a"}\n', "line 1: 6 is not a rating from 1 to 5"),
        ("r.json", '{"stars": 2.5, "text": "a"}\n', "line 1: 2.5 is not a rating from 1 to 5"),
        ("r.json", '{"stars": null, "text": "a"}\n', "line 1: None is not a rating from 1 to 5"),
        ("r.json", LINE.encode() + b"\xff\n", "line 2: byte 0 of it is not UTF-8 text"),
        ("r.csv", '"1","a"\n"0","b"\n', "line 2: '0' is not a rating from 1 to 5"),
        ("r.csv", '"1","a"\n"good","b"\n', "line 2: 'good' is not a rating from 1 to 5"),
        ("r.csv", '"1","a\nb"\n"1"\n', "line 3: it has 1 columns instead of 2"),
        ("r.csv", '"1","a"\n"2","b', "line 2: it is not CSV (unexpected end of data)"),
        ("r.csv", '"1","a"\n"2","b"c\n', "line 2: it is not CSV (',' expected after '\"')"),
        ("r.csv", "label,text\n5,b\n", "line 2: '5' is not a rating from 0 to 4"),
        (
            "r.csv",
            "a,b,c\n",
            "line 1: it has 3 columns; without a header with stars or label, and text, it must have 2",
        ),
        (
            "r.csv",
            "",
            "line 1: it has 0 columns; without a header with stars or label, and text, it must have 2",
        ),
    ],
)
def test_yelp_damage_says_where(tmp_path, name, content, problem):
    put(tmp_path / name, content)
    assert message(read_yelp, tmp_path / name) == f"{tmp_path / name} is damaged at {problem}. {AGAIN}"


def test_yelp_cut_compressed_file_says_where(tmp_path):
    path = tmp_path / "r.json.gz"
    put(path, gzip.compress(json_lines().encode())[:-12])
    found = message(read_yelp, path)
    assert found.startswith(f"{path} is damaged at line ")
    assert "it cannot be decompressed" in found


def test_yelp_cut_archive_says_so(tmp_path):
    put(tmp_path / "train.csv", csv_text((1, f"{n * 7919 % 10_007}") for n in range(5_000)))
    whole, path = tmp_path / "whole.tgz", tmp_path / "cut.tgz"
    with tarfile.open(whole, "w:gz") as archive:
        archive.add(tmp_path / "train.csv", "train.csv")
    put(path, whole.read_bytes()[: whole.stat().st_size // 2])
    found = message(read_yelp, path)
    assert found.startswith(f"{path}/train.csv is damaged at line ")
    assert "it cannot be decompressed" in found
    put(path, b"no archive")
    assert message(read_yelp, path).startswith(
        f"{path} is damaged at its beginning: it is not a complete zip or tar archive"
    )


def test_yelp_missing_files_are_named(tmp_path):
    expected = f"{tmp_path} has neither train.csv and test.csv nor yelp_academic_dataset_review.json."
    assert message(read_yelp, tmp_path) == expected
    assert message(read_yelp, tmp_path / "none") == f"{tmp_path}/none is missing."


# IMDB


def test_imdb_folder_and_archive_read_the_same(tmp_path):
    folder = write_imdb(tmp_path)
    put(folder / "train" / "unsup" / "0_0.txt", "not rated")
    put(folder / "imdb.vocab", "the\n")
    with tarfile.open(tmp_path / "aclImdb_v1.tar.gz", "w:gz") as archive:
        archive.add(folder, "aclImdb")
    reviews, packed = read_imdb(tmp_path / "imdb"), read_imdb(tmp_path / "aclImdb_v1.tar.gz")
    assert Counter(zip(reviews.splits, reviews.labels.tolist(), strict=True)) == {
        ("train", 0): 6,
        ("train", 1): 6,
        ("test", 0): 6,
        ("test", 1): 6,
    }
    for words, label in zip(reviews.words, reviews.labels, strict=True):
        assert words[-2:] == [("awful", "superb")[label], "!"]
        assert "br" not in words
    assert (packed.words, packed.splits) == (reviews.words, reviews.splits)
    np.testing.assert_array_equal(packed.labels, reviews.labels)


def test_imdb_damage_names_the_file(tmp_path):
    folder = write_imdb(tmp_path)
    path = folder / "test" / "pos" / "3_9.txt"
    put(path, b"caf\xe9")
    expected = f"{path} is damaged at line 1: byte 3 of it is not UTF-8 text. {AGAIN}"
    assert message(read_imdb, folder) == expected
    for file in (folder / "test" / "pos").iterdir():
        file.unlink()
    assert message(read_imdb, folder) == f"{folder}/test/pos has no review <n>_<rating>.txt."
