"""The commands, and one line for every error of the user."""

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
from autapse.exit_codes import Ending

VERBS = {
    "cells": "list the networks with their options",
    "tasks": "list the tasks with their trivial baselines",
    "data": "list, download and verify data sets",
    "run": "train a network on a task, evaluate it, save it under runs/",
    "compare": "train several networks; print one table, draw one figure",
    "eval": "score a finished or unfinished run on the test set",
    "diagnose": "look inside the network of a run: gradients, memory, stability, units",
    "report": "write one HTML page about runs: scores, curves, predictions, probes, settings",
    "resume": "continue a run that was stopped",
    "online": "learn from a stream that changes, one value after the other",
    "predict": "apply a trained network to a file of sequences or sentences",
    "sample": "write text with a language model, or draw sequences from a generator",
    "reproduce": "train the papers' experiments again, and compare the results with the papers'",
    "bench": "measure the speed of the layers on this machine, compared with others",
}

STOPPED = 130
BY_SIGNAL = 128  # exit codes from here on: a signal ended the command
PATIENCE = 20.0  # seconds
LONGEST = 2000  # characters of an error message: a column name in a file may have a million


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: the words after `autapse`; by default those of this process.

    Returns:
        0 for success; 1 if training diverged, or if `bench` found results that differ; 2 for an error of the user;
        128 + n if signal n stopped it (130 for Ctrl-C).
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    terminal.prepare()
    usual, warnings.formatwarning = warnings.formatwarning, _one_line
    try:
        return _answer(words)
    finally:
        warnings.formatwarning = usual


def _answer(words: list[str]) -> int:
    """Run the command. An exception that the user can fix becomes one line and an exit code."""
    try:
        code = _dispatch(words)
        terminal.finish()
        return code
    except checks.InputError as error:
        return _complain(str(error))
    except Ending as error:
        return _complain(str(error), error.exit_code)
    except BrokenPipeError:  # from the help that tyro prints: `autapse run adding --help | head -1`
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
    """A warning in one line, without the line of code that raised it."""
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
    except SystemExit as stop:  # tyro raises this after --help
        return int(stop.code or 0)


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "autapse: recurrent networks with well-behaved feedback\n\n"
        f"usage: autapse COMMAND ...\n\n{verbs}\n\n"
        "`autapse COMMAND --help` explains a command. A first try:\n"
        "  autapse compare adding --cells rin,gru,lstm"
    )


def _complain(text: str, code: int = 2) -> int:
    if os.environ.get("RANK", "0") != "0":
        if code >= BY_SIGNAL:  # all processes were stopped
            return code
        # Under torchrun, rank 0 prints the error. When one rank exits, torchrun stops the others, so the other ranks
        # wait until rank 0 has printed. A rank that is still alive after the wait failed independently.
        time.sleep(PATIENCE)
    line = " ".join(text.split())
    if len(line) > LONGEST:  # keep the end: it has the remedy
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    terminal.write(f"autapse: {terminal.visible(line)}", error=True)
    return code


def _file_trouble(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "Earlier files are complete. Free some space; `autapse resume` continues from the last checkpoint."
        return f"{error.strerror}: {error.filename or 'while writing'}. {remedy}"
    return f"{error.strerror or error}: {error.filename}." if error.filename else f"{error.strerror or error}."
