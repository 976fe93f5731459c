"""SIGTERM and SIGHUP save and stop a run, as Ctrl-C does."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from autapse.training import Trainer, train
from autapse.training.signals import stop_signals
from small import final_tensors, small_config, step_of, stopped_at

USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@pytest.fixture(autouse=True)
def _usual_handlers():
    """As in a process that was started neither with nohup nor in the background of a script."""
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGINT], 130),
        ([signal.SIGTERM], 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGTERM, signal.SIGTERM, signal.SIGHUP, signal.SIGHUP], 143),  # sent twice, and by several
        ([signal.SIGHUP, signal.SIGINT], 129),
    ],
    ids=str,
)
def test_a_signal_saves_first_and_resume_ends_with_the_same_bits(tmp_path, signals, code):
    config = small_config(dropout=0.2, checkpoint_seconds=1e6)
    stop = stopped_at(7, tmp_path / "cut", config, *signals)
    assert str(stop).startswith("Stopped at step 7, saved at step 7. To continue: autapse resume ")
    assert stop.exit_code == stop.continued_by("another command").exit_code == code
    assert step_of(tmp_path / "cut") == 7
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)] == [signal.SIG_DFL] * 2
    Trainer.resume(tmp_path / "cut").train()
    train(config, tmp_path / "whole")
    cut, whole = final_tensors(tmp_path / "cut"), final_tensors(tmp_path / "whole")
    assert all(torch.equal(cut[name], whole[name]) for name in whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_ignored_stays_ignored(number):
    """As of a run started with nohup."""
    signal.signal(number, signal.SIG_IGN)
    with stop_signals() as seen:
        os.kill(os.getpid(), number)
        assert signal.getsignal(number) == signal.SIG_IGN
    assert seen == []


def test_a_second_ctrl_c_stops_at_once():
    with pytest.raises(KeyboardInterrupt), stop_signals() as seen:  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        assert seen == [signal.SIGINT]
        os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_taken_in_the_main_thread_only():
    seen = []

    def elsewhere():
        with stop_signals() as signals:
            seen.append((signals, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [([], signal.SIG_DFL)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_command_ends_with_the_code_of_the_signal(tmp_path, number, code):
    options = "--length 8 --train-size 60 --validation-size 20 --test-size 20 --hidden-size 4 --batch-size 10".split()
    words = ["run", "adding", *options, "--steps", "1000000", "--eval-every", "100000", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "autapse", *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size) and process.poll() is None:  # the loop runs
        time.sleep(0.05)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == code, complaint
    assert complaint.startswith("autapse: Stopped at step ")
    assert complaint.endswith("To continue: autapse resume run\n")
    assert step_of(tmp_path / "run") > 0
