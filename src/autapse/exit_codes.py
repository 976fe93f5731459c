"""Exceptions that end a command and are not bugs."""

from __future__ import annotations


class Ending(Exception):  # noqa: N818 (a base for outcomes, such as training that diverged)
    """Why a command ended early. The command line prints its message, without a traceback."""

    exit_code: int = 1
