"""Signals that ask a run to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, a batch system or container, a terminal that was closed


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that fills with the signals that arrive, so that the loop can save and stop between two steps.

    A second Ctrl-C stops at once. A second SIGTERM or SIGHUP does not: these are often sent twice, as by a batch system
    and by torchrun. What ignores SIGTERM or SIGHUP (as with nohup) goes on ignoring it.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield seen
        return
    known = [signal.Signals[name] for name in NAMES if name in signal.Signals.__members__]
    previous: dict[int, Any] = {number: signal.getsignal(number) for number in known}
    # None is a handler that is not Python's; it could not be put back.
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
