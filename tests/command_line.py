"""The command line in a test: what it says, and the one line that it complains with."""

from __future__ import annotations

import pytest

from autapse.cli.main import main


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that succeeds prints."""
    assert main(words) == 0
    return capsys.readouterr().out


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that is refused."""
    assert main(words) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1, complaint
    assert complaint.startswith("autapse: ")
    return complaint
