"""A run that was stopped halfway, to be resumed."""

import shutil
from pathlib import Path

import pytest

from small import small_config, stopped_at


@pytest.fixture(scope="module")
def _stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "run"
    stopped_at(12, folder, small_config(dropout=0.1))
    return folder


@pytest.fixture
def stopped_run(_stopped, tmp_path):
    """A copy that a test may change: stopped at step 12 of 30."""
    return Path(shutil.copytree(_stopped, tmp_path / "run"))
