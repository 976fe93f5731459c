"""Strange command lines: each ends with exit code 0, 1 or 2 and, unless it is 0, with one line on stderr.

    .venv/bin/python tests/fuzz/arguments.py --cases 20000 --first 100000

Commands are drawn from the verbs, tasks, options and cells that there are, with values that break parsers or ask for
too much. They run in this process, in an empty folder, without the network, and with limited memory. A case that fails
is printed with its number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import cases
import torch

from autapse.cli.main import VERBS
from autapse.cli.main import main as autapse
from autapse.layers.registry import LAYERS
from autapse.tasks import TASKS, OwnSeries
from autapse.training.config import TrainingConfig
from autapse.training.model_config import ReaderStack

MEMORY = 4 << 30  # bytes of address space beyond what the imports take

SMALL = "--train-size 20 --validation-size 10 --test-size 10".split()
SHORT = "--hidden-size 3 --steps 2 --eval-every 1 --seconds 1".split()
GENERATED = ("adding", "copy", "pointers", "slow-and-fast", "walk", "walk-variance")
FILES = "own.csv missing.csv loop.csv pipe.csv folder.csv broken.csv".split()
# Sizes are either small, or so large that no machine has them: what lies between would only be slow.
INTEGERS = [-1, 0, 1, 2, 3, 10**14, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30]
NUMBERS = [*map(str, INTEGERS), *"0.5 1e-3 -0.0 1e-400 1e400 nan -inf".split()]
WORDS = """
none true x [/b] [bold] a[/]b ../.. / . .. ~ ~nobody/x - -- --- = , : :: ,, é 日本 %s {} {0} $HOME * ? \\ ' " 1,2 (1,2)
1:2 1e 0x10 1_000 gru gru: gru:x gru:x=1 ernn:inner_steps=0 ernn:inner_steps=2 lstm:: os:system a.b:C test sgd cosine
missing.csv loop.csv pipe.csv folder.csv broken.csv own.csv loop folder run rin/table1 10m 1h -5m
""".split()
WORDS += ["", " ", "\t", "\x1b[31m", "\n", "\udcff", "9" * 5000, "x" * 5000, "[" * 1000, "a=" + "[" * 3000, "("]


def prepare(folder: Path) -> None:
    """What the words above may lead to."""
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    os.mkfifo(folder / "pipe.csv")
    (folder / "folder.csv").mkdir()
    (folder / "folder").mkdir()
    (folder / "broken.csv").write_bytes(b"sequence,\x1b[31m,target\n1,\xff,2\n")
    rows = [f"{n},{n + t},{n % 2}" for n in range(6) for t in range(3)]
    (folder / "own.csv").write_text("\n".join(["sequence,x[/b],target", *rows]) + "\n")


def value(draw: random.Random) -> str:
    """A word for any place."""
    return draw.choice([draw.choice(NUMBERS), draw.choice(WORDS), draw.choice(list(LAYERS))])


def fitting(hint: Any, draw: random.Random) -> list[str]:
    """Words that an option of this type may have, most of the time."""
    choices = [option for option in (hint, *get_args(hint)) if option is not type(None)]
    if draw.random() < 0.1:
        return [value(draw) for _ in range(draw.randint(0, 2))]
    if get_origin(hint) is Literal:
        return [str(draw.choice(get_args(hint)))]
    if tuple in map(get_origin, choices):
        return [str(draw.choice(INTEGERS)) for _ in range(draw.randint(1, 2))]
    if bool in choices:
        return []
    if int in choices:
        return [str(draw.choice(INTEGERS))]
    return [draw.choice(NUMBERS) if float in choices else value(draw)]


def options(kind: Any, draw: random.Random) -> list[str]:
    """One option of a dataclass."""
    hints = get_type_hints(kind)
    name = draw.choice([field.name for field in dataclasses.fields(kind)])
    return [f"--{name.replace('_', '-')}", *fitting(hints[name], draw)]


def training(verb: str, draw: random.Random) -> list[str]:
    """`run` or `compare`, of something small."""
    task = draw.choice([*GENERATED, *GENERATED, *FILES, "own.csv", "own.csv", "file", draw.choice(list(TASKS))])
    words = [verb, task, *SHORT, *(SMALL if task in GENERATED else [])]
    cell = draw.choice([*LAYERS, value(draw)])
    words += ["--cells", f"rin,{cell}"] if verb == "compare" else ["--cell", cell]
    settings = [TrainingConfig, TrainingConfig, ReaderStack, ReaderStack, TASKS.get(task, OwnSeries)]
    for _ in range(draw.randint(0, 3)):
        words += options(draw.choice(settings), draw)
    return [*words, *(["--out", draw.choice(WORDS)] if draw.random() < 0.2 else [])]


def command(draw: random.Random) -> list[str]:
    """A command line."""
    verb = draw.choice([*VERBS, *["run"] * 12, *["compare"] * 4, value(draw)])
    if verb in ("run", "compare") and draw.random() < 0.95:
        return training(verb, draw)
    words = [verb, *(value(draw) for _ in range(draw.randint(0, 3)))]
    if verb in ("bench", "reproduce"):  # what they do takes minutes; their options are parsed all the same
        words.insert(draw.randint(1, len(words)), "--nothing")
    elif verb == "online":  # without a mistake it learns from a long stream
        words += ["--steps", "5"]
    elif verb == "data":
        words.insert(1, draw.choice(("list", "fetch", "verify", "path")))
    return words


def fault(words: list[str]) -> str:
    """What a command does beyond ending well or with one line; nothing if it behaves."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = autapse(words)
    said = err.getvalue()
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code == 2 and (said.count("\n") != 1 or not said.startswith("autapse: ")):
        return f"not one line on stderr: {said!r}"
    if any(character in out.getvalue() + said for character in "\x1b\udcff"):
        return f"a control character is printed: {said!r}"
    return ""


def in_a_folder(case: int) -> str:
    """What is wrong with a case, which runs in a folder of its own."""
    words, before = command(random.Random(case)), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        os.chdir(folder)
        try:
            found = cases.guarded(lambda: fault(words))
        finally:
            os.chdir(before)
    return found and f"{' '.join(map(repr, words))}:\n{found}"


def main() -> int:
    args = cases.options(__doc__ or "", 1000).parse_args()
    torch.set_num_threads(1)
    cases.limit_memory(MEMORY)
    warnings.simplefilter("ignore")
    os.environ |= {"AUTAPSE_OFFLINE": "1", "COLUMNS": "200"}
    os.environ.pop("AUTAPSE_DATA", None)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"XDG_CACHE_HOME": home, "AUTAPSE_CACHE": home}
        return cases.run(args, in_a_folder)


if __name__ == "__main__":
    sys.exit(main())
