"""Ends of a command that are not mistakes of the code."""

from __future__ import annotations


class Ending(Exception):  # noqa: N818 (a base for outcomes, such as training that diverged)
    """Why a command ended early. The command line prints its message, without a traceback."""

    exit_code: int = 1
