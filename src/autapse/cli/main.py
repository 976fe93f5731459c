"""The verbs, and one clear line for every mistake."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import time
import warnings
from collections.abc import Sequence

from autapse import __version__, checks

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
PATIENCE = 20.0  # seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0, 1 if training diverged or results that are to be timed differ, 2 for a mistake, 130 for Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    usual, warnings.formatwarning = warnings.formatwarning, _one_line
    try:
        return _dispatch(words)
    except checks.InputError as error:
        return _complain(str(error))
    except BrokenPipeError:  # `autapse cells | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(_file_trouble(error))
    except KeyboardInterrupt:
        return _complain("Stopped.", STOPPED)
    except Exception as error:
        # Only to be named here, after torch was loaded by the verb.
        code = {"Diverged": 1, "Unequal": 1, "Interrupted": STOPPED}.get(type(error).__name__)
        if code is None:
            raise
        return _complain(str(error), code)
    finally:
        warnings.formatwarning = usual


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning as users of a command read it, without the line of our code that gave it."""
    return f"autapse: {message}\n"


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"autapse {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        suggestion = checks.closest(verb, VERBS) or "`autapse --help` lists them."
        raise checks.InputError(f"There is no command {verb!r}. {suggestion}")
    module = importlib.import_module(f"autapse.cli.{verb}")
    return int(module.main(rest) or 0)


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
        if code == STOPPED:  # all of them were
            return code
        # Under torchrun the first process speaks for all, and its end ends the others, as theirs would end it before it
        # has spoken. Who is still there after a while has a trouble of its own.
        time.sleep(PATIENCE)
    print(f"autapse: {' '.join(text.split())}", file=sys.stderr)
    return code


def _file_trouble(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "What was there before is whole: free some space; `autapse resume` goes on from the last checkpoint."
        return f"{error.strerror}: {error.filename or 'while writing'}. {remedy}"
    return f"{error.strerror or error}: {error.filename}." if error.filename else f"{error.strerror or error}."
