"""Penn Treebank language-model text in Mikolov's preparation: ptb.train.txt, ptb.valid.txt, ptb.test.txt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from autapse import checks
from autapse.data.archives import Tree, open_tree
from autapse.data.reading import damaged, text_lines
from autapse.data.vocabulary import UNKNOWN, Vocabulary

FILES = {"train": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}
EOS = "<eos>"


@dataclass(frozen=True, eq=False)
class LanguageText:
    """One long text per split, as ids."""

    vocabulary: Vocabulary
    splits: dict[str, np.ndarray]  # "train", "validation", "test": [tokens] int64


def read_ptb(path: Path, characters: bool = False) -> LanguageText:
    """Read the text from a folder or from simple-examples.tgz. <eos> is added after each line.

    The vocabulary has the words of the training text, the most frequent first. Other words are read as <unk>. Or it has
    the characters, with one space between two words; the word <unk> is then spelled out.
    """
    with open_tree(path) as tree:
        texts = {split: _read(tree, file) for split, file in FILES.items()}
    if characters:
        texts = {split: [[*" ".join(line[:-1]), EOS] for line in text] for split, text in texts.items()}
    counts = Counter(word for line in texts["train"] for word in line)
    unknown = UNKNOWN if UNKNOWN in counts else None
    vocabulary = Vocabulary.of_counts(counts, unknown=unknown)
    if unknown is None:
        for split, file in FILES.items():
            _refuse_unknown(texts[split], vocabulary, f"{path}/{file}")
    ids = {split: vocabulary.ids(word for line in text for word in line) for split, text in texts.items()}
    return LanguageText(vocabulary, ids)


def _read(tree: Tree, file: str) -> list[list[str]]:
    """The words of each line, followed by <eos>."""
    name = _find(tree, file)
    lines = [line.split() for line in text_lines(tree.read(name), tree.where(name))]
    for number, line in enumerate(lines, 1):
        if EOS in line:
            damaged(tree.where(name), f"line {number}", f"{EOS} means the end of a line and cannot be a word")
        line.append(EOS)
    return lines


def _find(tree: Tree, file: str) -> str:
    """The path of a file: at the root, or where simple-examples.tgz has it. Its other folders have other versions."""
    for folder in ("", "data/", "simple-examples/data/"):
        if any(name in (folder + file, folder + file + ".gz") for name in tree.names()):
            return str(PurePosixPath(folder) / file)
    raise checks.InputError(f"{tree.where(file)} is missing.")


def _refuse_unknown(text: list[list[str]], vocabulary: Vocabulary, name: str) -> None:
    for number, line in enumerate(text, 1):
        for word in line:
            if word not in vocabulary:
                damaged(
                    name, f"line {number}", f"{word!r} is not in {FILES['train']}, which does not have {UNKNOWN} either"
                )
