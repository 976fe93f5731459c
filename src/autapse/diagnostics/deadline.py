"""A deadline for probes: they look at the clock between the parts of their work, and return what they have."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from autapse import checks

GROUPS = 4  # parts of a batch that are computed one after the other before a deadline


class OutOfTime(checks.InputError):
    """The time of a probe was over before it had a result."""


@dataclass(eq=False)
class Deadline:
    """When probes have to stop, and what they left out."""

    end: float  # by time.monotonic
    cut: list[str] = field(default_factory=list)  # such as "40 of 784 steps"

    @property
    def left(self) -> float:
        """Seconds until the end, at least 0."""
        return max(0.0, self.end - time.monotonic())


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[Deadline]:
    """A block in which probes stop when the time is over. They finish the part that they are at."""
    deadline = Deadline(time.monotonic() + seconds)
    token = _current.set(deadline)
    try:
        yield deadline
    finally:
        _current.reset(token)


def time_left() -> float:
    """Seconds until the deadline; infinite without one."""
    deadline = _current.get()
    return math.inf if deadline is None else deadline.left


def is_over(done: int = 0, total: int = 0, what: str = "") -> bool:
    """Whether the time is over, and work is left. Notes how much was done; raises `OutOfTime` if that is nothing.

    Args:
        done: parts of the work that are done.
        total: all parts.
        what: what they are, such as "steps".
    """
    deadline = _current.get()
    if deadline is None or deadline.left or (what and done >= total):
        return False
    if not done:
        raise OutOfTime("The time was over before there was a result.")
    if (note := f"{done} of {total} {what}") not in deadline.cut:
        deadline.cut.append(note)
    return True


def groups(count: int) -> Iterator[slice]:
    """All sequences of a batch; before a deadline in groups, and as many as there is time for."""
    size = count if math.isinf(time_left()) else -(-count // GROUPS)
    done = 0
    while done < count and not is_over(done, count, "sequences"):
        began = time.monotonic()
        yield slice(done, done + size)
        done += size
        if (time.monotonic() - began) * (count - done) / size < time_left() / 2:
            size = max(1, count - done)  # there is time for the rest
