"""Signals that ask a run to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C; a batch system or container; a closed terminal


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list of the signals that arrived, so that the loop can save and stop between two steps.

    A second Ctrl-C stops immediately. A second SIGTERM or SIGHUP does not: these are often sent twice, for example by a
    batch system and by torchrun. If SIGTERM or SIGHUP is ignored already (as with nohup), it stays ignored.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield seen
        return
    known = [signal.Signals[name] for name in NAMES if name in signal.Signals.__members__]
    previous: dict[int, Any] = {number: signal.getsignal(number) for number in known}
    # None is a handler that was not set by Python. It could not be restored.
    taken = [n for n in known if n == signal.SIGINT or previous[n] not in (signal.SIG_IGN, None)]

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        if number == signal.SIGINT:
            signal.signal(number, previous[number])

    for number in taken:
        signal.signal(number, note)
    try:
        yield seen
    finally:
        for number in taken:
            signal.signal(number, previous[number])
