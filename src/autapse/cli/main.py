"""The verbs, and one clear line for every mistake."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import time
import warnings
from collections.abc import Sequence

from autapse import __version__, checks, terminal
from autapse.cli import memory
from autapse.errors import Ending

VERBS = {
    "cells": "what networks there are, with their options",
    "tasks": "what there is to learn, with trivial baselines",
    "data": "what data sets there are, where they come from; fetch and verify them",
    "run": "train a network on a task, evaluate it, save it under runs/",
    "compare": "the same for several networks: one table, one figure",
    "eval": "score a finished or unfinished run on the test set",
    "resume": "go on with a run that was stopped",
    "predict": "apply a trained network to a file of sequences or sentences",
    "sample": "let a language model write text",
    "reproduce": "train the papers' experiments again, and set ours against theirs",
    "bench": "how fast the layers are on this machine, against others",
}

STOPPED = 130
BY_SIGNAL = 128  # and above: a signal ended the command
PATIENCE = 20.0  # seconds
LONGEST = 2000  # characters of a complaint: a file may have a name of a million for a column


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0, 1 if training diverged or results that are to be timed differ, 2 for a mistake, 128 + n for signal n: 130 for
    Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    terminal.prepare()
    usual, warnings.formatwarning = warnings.formatwarning, _one_line
    try:
        return _answer(words)
    finally:
        warnings.formatwarning = usual


def _answer(words: list[str]) -> int:
    """Run the command; an exception that a user can do something about becomes one line and an exit code."""
    try:
        code = _dispatch(words)
        terminal.finish()
        return code
    except checks.InputError as error:
        return _complain(str(error))
    except Ending as error:
        return _complain(str(error), error.exit_code)
    except BrokenPipeError:  # in what tyro prints: `autapse run adding --help | head -1`
        terminal.silence(sys.stdout)
        return 0
    except OSError as error:
        return _complain(_file_trouble(error))
    except KeyboardInterrupt:
        return _complain("Stopped.", STOPPED)
    except Exception as error:
        if not memory.is_too_little(error):
            raise
        return _complain(memory.sentence(error, words))


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning as users of a command read it, without the line of our code that gave it."""
    return f"autapse: {terminal.visible(message)}\n"


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        terminal.write(_help())
        return 0
    if words[0] in ("-V", "--version"):
        terminal.write(f"autapse {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        suggestion = checks.closest(verb, VERBS) or "`autapse --help` lists them."
        raise checks.InputError(f"There is no command {verb!r}. {suggestion}")
    module = importlib.import_module(f"autapse.cli.{verb}")
    try:
        return int(module.main(rest) or 0)
    except SystemExit as stop:  # tyro's way to end after --help
        return int(stop.code or 0)


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "autapse: recurrent networks whose feedback is well behaved\n\n"
        f"usage: autapse COMMAND ...\n\n{verbs}\n\n"
        "`autapse COMMAND --help` explains a command. A first try:\n"
        "  autapse compare adding --cells rin,gru,lstm"
    )


def _complain(text: str, code: int = 2) -> int:
    if os.environ.get("RANK", "0") != "0":
        if code >= BY_SIGNAL:  # all of them were stopped
            return code
        # Under torchrun the first process speaks for all, and its end ends the others, as theirs would end it before it
        # has spoken. Who is still there after a while has a trouble of its own.
        time.sleep(PATIENCE)
    line = " ".join(text.split())
    if len(line) > LONGEST:  # its end has the remedy
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    terminal.write(f"autapse: {terminal.visible(line)}", error=True)
    return code


def _file_trouble(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "What was there before is whole: free some space; `autapse resume` goes on from the last checkpoint."
        return f"{error.strerror}: {error.filename or 'while writing'}. {remedy}"
    return f"{error.strerror or error}: {error.filename}." if error.filename else f"{error.strerror or error}."
