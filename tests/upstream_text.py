"""Small files in the layout of the text and speech data sets; the folder given stands for AUTAPSE_DATA."""

from __future__ import annotations

import csv
import math
import random
import struct
from pathlib import Path

import numpy as np

SPEECH_WORDS = tuple(
    "bed bird cat dog down eight five four go happy house left marvin nine no off on one right seven sheila six stop"
    " three tree two up wow yes zero".split()
)
SPEAKERS = ("0a7c2a8d", "1b4c9b89", "3c257192", "5f814c23", "7e783e3b")
RATE = 16_000


def write_ptb(data: Path, lines: int = 60) -> Path:
    """ptb/ptb.{train,valid,test}.txt: `lines` lines of train, a third as many of the others, the same words in all."""
    words = "<unk> N the of to a in and 's that for $ is it said on".split()
    folder = data / "ptb"
    draw = random.Random(1)
    for split, count in (("train", lines), ("valid", lines // 3), ("test", lines // 3)):
        first = [words] if split == "train" else []
        drawn = [draw.choices(words, k=draw.randint(3, 12)) for _ in range(count - len(first))]
        put(folder / f"ptb.{split}.txt", "".join(f" {' '.join(line)} \n" for line in first + drawn))
    return folder


def write_conllu(data: Path, sentences: int = 12) -> Path:
    """ud-english-ewt/en_ewt-ud-{train,dev,test}.conllu, with comments, multiword ranges and empty nodes."""
    folder = data / "ud-english-ewt"
    draw = random.Random(2)
    for split, count in (("train", sentences), ("dev", sentences // 3), ("test", sentences // 3)):
        text = "".join(conllu_sentence(draw, f"{split}-{n}") for n in range(count))
        put(folder / f"en_ewt-ud-{split}.conllu", text)
    return folder


def conllu_sentence(draw: random.Random, name: str) -> str:
    """<determiner> <noun> do n't <verb> ."""
    chosen = [
        (draw.choice(["the", "a"]), "DET", "DT"),
        (draw.choice(["cat", "dog", "tree"]), "NOUN", "NN"),
        ("do", "AUX", "VBP"),
        ("n't", "PART", "RB"),
        (draw.choice(["sing", "walk"]), "VERB", "VB"),
        (".", "PUNCT", "."),
    ]
    rows = [conllu_row(str(n), *word) for n, word in enumerate(chosen, 1)]
    rows.insert(2, conllu_row("3-4", "don't", "_", "_"))
    rows.insert(6, conllu_row("5.1", "sing", "VERB", "VB"))
    return "\n".join([f"# sent_id = {name}", "# text = made up", *rows, "", ""])


def conllu_row(place: str, form: str, upos: str, xpos: str) -> str:
    return "\t".join([place, form, form, upos, xpos, "_", "_", "_", "_", "_"])


BABI_TITLES = """
single-supporting-fact two-supporting-facts three-supporting-facts two-arg-relations three-arg-relations
yes-no-questions counting lists-sets simple-negation indefinite-knowledge basic-coreference conjunction
compound-coreference time-reasoning basic-deduction basic-induction positional-reasoning size-reasoning
path-finding agents-motivations
""".split()


def write_babi(data: Path, stories: int = 4) -> Path:
    """babi/tasks_1-20_v1-2/en/qa*_{train,test}.txt: all 20 tasks, two questions per story, lists in 8 and 19."""
    folder = data / "babi" / "tasks_1-20_v1-2"
    draw = random.Random(3)
    for task, title in enumerate(BABI_TITLES, 1):
        for split in ("train", "test"):
            text = "".join(babi_story(draw, lists=task in (8, 19)) for _ in range(stories))
            put(folder / "en" / f"qa{task}_{title}_{split}.txt", text)
    return folder


def babi_story(draw: random.Random, lists: bool) -> str:
    people, places = ["Mary", "John", "Sandra"], ["office", "garden", "kitchen"]
    first, second, third = (draw.choice(places) for _ in range(3))
    who, other = draw.sample(people, 2)
    lines = [
        f"{who} went to the {first}.",
        f"{other} moved to the {second}.",
        f"Where is {who}? \t{first}\t1",
        f"{who} travelled to the {third}.",
        f"Where was {who}?\t{first},{third}\t1 4" if lists else f"Where is {who}? \t{third}\t4",
    ]
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, 1))


def write_speech_commands(data: Path, speakers: tuple[str, ...] = SPEAKERS) -> Path:
    """speech-commands/speech_commands_v0.01: a clip of each of the 30 words by each speaker, two noises, and the lists.

    The last speaker is for testing, the one before for validation. Clips are tones whose pitch tells the word; the
    first speaker's are short and the second's long.
    """
    folder = data / "speech-commands" / "speech_commands_v0.01"
    noise = np.random.default_rng(4)
    for n, word in enumerate(SPEECH_WORDS):
        for k, speaker in enumerate(speakers):
            seconds = {0: 0.8, 1: 1.2}.get(k, 1.0)
            sound = tone(200 + 120 * n + 5 * k, seconds) + noise.normal(0, 0.01, round(seconds * RATE))
            put(folder / word / f"{speaker}_nohash_0.wav", wav_bytes(sound))
    for name, seconds in (("white_noise", 3.0), ("doing_the_dishes", 2.0)):
        put(folder / "_background_noise_" / f"{name}.wav", wav_bytes(noise.normal(0, 0.1, round(seconds * RATE))))
    for name, speaker in (("validation_list.txt", speakers[-2]), ("testing_list.txt", speakers[-1])):
        put(folder / name, "".join(f"{word}/{speaker}_nohash_0.wav\n" for word in SPEECH_WORDS))
    return folder


def tone(hertz: float, seconds: float) -> np.ndarray:
    return 0.5 * np.sin(2 * math.pi * hertz * np.arange(round(seconds * RATE)) / RATE)


def wav_bytes(sound: np.ndarray, rate: int = RATE, channels: int = 1, bits: int = 16, coding: int = 1) -> bytes:
    """Samples in [−1, 1) as a RIFF file; the samples are always 16-bit, whatever the header says."""
    samples = np.clip(np.round(sound * 32_768), -32_768, 32_767).astype("<i2").tobytes()
    step = channels * bits // 8
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, coding, channels, rate, rate * step, step, bits)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def write_yelp(data: Path, reviews: int = 20) -> Path:
    """yelp/yelp_review_full_csv/{train,test}.csv: all five ratings in turn."""
    folder = data / "yelp" / "yelp_review_full_csv"
    folder.mkdir(parents=True)
    draw = random.Random(5)
    for split, count in (("train", reviews), ("test", reviews // 2)):
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            rows.writerows((n % 5 + 1, rating_text(draw, n % 5)) for n in range(count))
    return folder


def write_imdb(data: Path, reviews: int = 6) -> Path:
    """imdb/aclImdb/{train,test}/{neg,pos}/<n>_<rating>.txt: `reviews` files in each of the four folders."""
    folder = data / "imdb" / "aclImdb"
    put(folder / "imdb.vocab", "the\n")  # by which the unpacked folder is known
    draw = random.Random(6)
    for split in ("train", "test"):
        for kind, rating, quality in (("neg", 2, 0), ("pos", 9, 4)):
            for n in range(reviews):
                text = rating_text(draw, quality).replace("\\n", "<br /><br />")
                put(folder / split / kind / f"{n}_{rating}.txt", text)
    return folder


def write_sst(data: Path, trees: int = 20) -> Path:
    """sst/{train,dev,test}.txt: a tree in brackets per line, with a sentiment from 0 to 4 at each node."""
    draw = random.Random(7)
    for name in ("train", "dev", "test"):
        lines = (sentiment_tree(draw, n % 5, 2 + n % 5) for n in range(trees))
        put(data / "sst" / f"{name}.txt", "\n".join([*lines, ""]))
    return data / "sst"


def sentiment_tree(draw: random.Random, quality: int, words: int) -> str:
    """A tree whose right branch goes down to the words."""
    word = draw.choice([("awful", "poor", "fair", "good", "superb")[quality], "film", "the"])
    leaf = f"({quality} {word})"
    return leaf if words == 1 else f"({quality} {leaf} {sentiment_tree(draw, quality, words - 1)})"


def rating_text(draw: random.Random, quality: int) -> str:
    """Words of the rating among others, a quotation, and a line break as Yelp's files spell it."""
    word = ("awful", "poor", "fair", "good", "superb")[quality]
    filler = draw.choices(["the", "food", "film", "was", "it", "isn't", "very"], k=draw.randint(4, 12))
    return f'{" ".join(filler)}. They said "{word}" :\\n{word}!'


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
