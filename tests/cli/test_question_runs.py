"""Runs of networks that answer questions: what they are called."""

import pytest

from autapse.cli.main import main
from small_data import data_in
from upstream_text import write_babi

TINY = "--embedding-size 4 --steps 2 --eval-every 2".split()


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    write_babi(tmp_path)
    monkeypatch.chdir(tmp_path)
    with data_in(tmp_path):
        yield


@pytest.mark.parametrize(
    ("options", "name"),
    [("--hops 2", "memory-network"), ("--hops 2 --statements cell --cell lstm", "lstm"), ("", "gru")],
)
def test_a_run_is_named_after_its_network(options, name, capsys):
    """A memory network without a cell had the name of the default cell."""
    assert main(["run", "babi", *TINY, *options.split()]) == 0
    printed = capsys.readouterr().out
    assert f"{name}  step 2/2" in printed
    assert f"{name}  " in printed.split("step 2/2")[1]  # the line with the test score
    assert f"run: runs/babi-{name}" in printed
