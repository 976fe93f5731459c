"""Google's Speech Commands: one second of one spoken word per file, <word>/<speaker>_nohash_<n>.wav.

Features are computed from samples in 16-bit units, as python_speech_features gets them from a sound file.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from autapse import checks
from autapse.data.archives import is_tar, open_tree, tar_contents, tar_files
from autapse.data.filterbank import frame_count, log_mel
from autapse.data.formats.wav import read_wav
from autapse.data.reading import damaged, text_lines

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
OTHERS = ("bed", "bird", "cat", "dog", "happy", "house", "marvin", "sheila", "tree", "wow")
WORDS = tuple(sorted(COMMANDS + DIGITS + OTHERS))
UNKNOWN, SILENCE = "unknown", "silence"
SPLITS = ("train", "validation", "test")
LISTS = {"validation": "validation_list.txt", "test": "testing_list.txt"}
RATE = LENGTH = 16_000  # a clip is one second
FILTERS = 32
BATCH = 64  # clips whose frames and spectra are in memory at once, about 50 MB
CLIP = re.compile(r"(?:.*/)?(([a-z]+)/([^/.][^/]*)_nohash_\d+\.wav)")
NOISE = re.compile(r"(?:.*/)?_background_noise_/([^/]+)\.wav")


@dataclass(frozen=True, eq=False)
class Clips:
    """N clips; clip n says names[labels[n]]. The speaker of silence is the noise that it was cut from."""

    features: np.ndarray  # [N, 99, 32] float32
    labels: np.ndarray  # [N] int64
    names: tuple[str, ...]
    speakers: tuple[str, ...]  # [N]
    splits: tuple[str, ...]  # [N] of "train", "validation", "test"


class _Recording(NamedTuple):
    name: str  # in the folder or archive
    short: str  # <word>/<file>, as the lists have it
    word: str
    speaker: str


class _Clip(NamedTuple):
    name: str
    label: str
    speaker: str
    split: str
    start: int | None  # silence begins here in its noise; words begin where their file does


def read_speech_commands(path: Path, classes: int, seed: int = 0) -> Clips:
    """From the unpacked folder or its .tar.gz. 30 classes are the words; 12 are ten commands, "unknown" (some of the
    other words) and "silence" (cuts of the background noise), the last two drawn by `seed`, in each split as many as a
    command has on average. Shorter clips are filled up with zeros, longer ones cut.
    """
    if classes not in (12, 30):
        checks.fail("classes", "be 12 or 30", classes)
    files = _names(path)
    recordings = [_Recording(found[0], *found.groups()) for name in files if (found := CLIP.fullmatch(name))]
    recordings = _complete([r for r in recordings if r.word in WORDS], path)
    split_of = _splits(recordings, files, path)
    if classes == len(WORDS):
        names, noises = WORDS, {}
        clips = [_Clip(r.name, r.word, r.speaker, split_of[r.short], None) for r in recordings]
    else:
        names, noises = (*COMMANDS, UNKNOWN, SILENCE), _noises(files, path)
        clips = _twelve(recordings, split_of, noises, np.random.default_rng(seed))
    labels = np.array([names.index(clip.label) for clip in clips], dtype=np.int64)
    features = _features(_signals(clips, noises, path), len(clips))
    return Clips(features, labels, names, tuple(c.speaker for c in clips), tuple(c.split for c in clips))


def hashed_split(speaker: str) -> str:
    """The split that the data set's README assigns to a speaker: stable however many recordings are added."""
    largest = 2**27 - 1
    share = int(hashlib.sha1(speaker.encode()).hexdigest(), 16) % (largest + 1) * 100 / largest
    return "validation" if share < 10 else "test" if share < 20 else "train"


def _complete(recordings: list[_Recording], path: Path) -> list[_Recording]:
    spoken = {r.word for r in recordings}
    for word in WORDS:
        if word not in spoken:
            raise checks.InputError(f"{path}/{word} has no clip <speaker>_nohash_<n>.wav.")
    return recordings


def _splits(recordings: list[_Recording], files: list[str], path: Path) -> dict[str, str]:
    """The split of each recording by the official lists, or by the rule that made them where there are none."""
    found = {split: name for name in files for split, end in LISTS.items() if f"/{name}".endswith(f"/{end}")}
    if not found:
        return {r.short: hashed_split(r.speaker) for r in recordings}
    for split, end in LISTS.items():
        if split not in found:
            raise checks.InputError(f"{path}/{end} is missing.")
    split_of = {r.short: "train" for r in recordings}
    contents = dict(_contents(path, set(found.values())))
    for split, name in found.items():
        _assign(split_of, split, text_lines(contents[name], f"{path}/{name}"), f"{path}/{name}")
    return split_of


def _assign(split_of: dict[str, str], split: str, lines: list[str], name: str) -> None:
    for number, line in enumerate(lines, 1):
        shape = CLIP.fullmatch(line)
        if shape is None or shape[1] != line:
            damaged(name, f"line {number}", f"{line!r} is not <word>/<speaker>_nohash_<n>.wav")
        if shape[2] not in WORDS:  # later versions have more words
            continue
        if line not in split_of:
            damaged(name, f"line {number}", f"there is no clip {line}")
        if split_of[line] != "train":
            damaged(name, f"line {number}", f"{line} is listed before, for {split_of[line]}")
        split_of[line] = split


def _noises(files: list[str], path: Path) -> dict[str, np.ndarray]:
    """The samples of each background noise; six files of a minute or so."""
    noises = {}
    for name, content in _contents(path, {name for name in files if NOISE.fullmatch(name)}):
        noises[name] = samples = _samples(content, f"{path}/{name}")
        if len(samples) < LENGTH:
            raise checks.InputError(f"{path}/{name} must last one second ({LENGTH} samples); got {len(samples)}.")
    if not noises:
        raise checks.InputError(f"{path}/_background_noise_ has no .wav file.")
    return dict(sorted(noises.items()))


def _twelve(
    recordings: list[_Recording], split_of: dict[str, str], noises: dict[str, np.ndarray], draw: np.random.Generator
) -> list[_Clip]:
    """The commands, as many other words as a command has clips, and as many cuts of noise."""
    clips = []
    for split in SPLITS:
        here = [r for r in recordings if split_of[r.short] == split]
        commands = [r for r in here if r.word in COMMANDS]
        others = [r for r in here if r.word not in COMMANDS]
        count = round(len(commands) / len(COMMANDS))
        chosen = np.sort(draw.choice(len(others), min(count, len(others)), replace=False))
        clips += [_Clip(r.name, r.word, r.speaker, split, None) for r in commands]
        clips += [_Clip(others[n].name, UNKNOWN, others[n].speaker, split, None) for n in chosen]
        clips += [_cut(noises, split, draw) for _ in range(count)]
    return clips


def _cut(noises: dict[str, np.ndarray], split: str, draw: np.random.Generator) -> _Clip:
    """One second at random; longer noises have more of them."""
    places = Counter({name: len(samples) - LENGTH + 1 for name, samples in noises.items()})
    start = int(draw.integers(places.total()))
    for name, count in places.items():
        if start < count:
            return _Clip(name, SILENCE, name.rpartition("/")[2].removesuffix(".wav"), split, start)
        start -= count
    raise AssertionError("start is below the sum of the counts")


def _signals(clips: list[_Clip], noises: dict[str, np.ndarray], path: Path) -> Iterator[tuple[int, np.ndarray]]:
    """Each clip's row and its samples, one second, in the order in which the files come."""
    rows = {clip.name: row for row, clip in enumerate(clips) if clip.start is None}
    for name, content in _contents(path, rows.keys()):
        samples = _samples(content, f"{path}/{name}")[:LENGTH]
        yield rows[name], np.pad(samples, (0, LENGTH - len(samples)))
    for row, clip in enumerate(clips):
        if clip.start is not None:
            yield row, noises[clip.name][clip.start : clip.start + LENGTH]


def _features(signals: Iterable[tuple[int, np.ndarray]], count: int) -> np.ndarray:
    features = np.empty((count, frame_count(LENGTH, RATE), FILTERS), dtype=np.float32)
    rows: list[int] = []
    batch = np.empty((BATCH, LENGTH))
    for row, signal in signals:
        batch[len(rows)] = signal
        rows.append(row)
        if len(rows) == BATCH:
            features[rows] = log_mel(batch, RATE, FILTERS)
            rows.clear()
    if rows:
        features[rows] = log_mel(batch[: len(rows)], RATE, FILTERS)
    return features


def _samples(content: bytes, name: str) -> np.ndarray:
    """In 16-bit units, at 16 kHz."""
    samples, rate = read_wav(content, name)
    if rate != RATE:
        raise checks.InputError(f"{name} must have a rate of {RATE} Hz; got {rate} Hz.")
    if len(samples) == 0:
        raise checks.InputError(f"{name} must have at least one sample; got none.")
    return samples * np.float32(32_768)


def _names(path: Path) -> list[str]:
    """The names of all files, sorted."""
    if is_tar(path):
        return sorted(name for name, _ in tar_files(path))
    with open_tree(path) as tree:
        return tree.names()


def _contents(path: Path, wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files, one at a time: all 65,000 of them would need 2 GB."""
    if is_tar(path):
        yield from tar_contents(path, set(wanted))
        return
    with open_tree(path) as tree:
        yield from ((name, tree.raw(name)) for name in sorted(wanted))
