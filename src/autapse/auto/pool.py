"""Trials side by side: this process trains with one thread, and so does a helper process per further core.

The models of a search are small. Two processes of one thread finish more of them than one process of two threads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import IO, Any, cast

import torch
from safetensors.numpy import load, save

from autapse import records
from autapse.auto import trial
from autapse.auto.folds import Folded
from autapse.auto.trial import Job, Outcome

MOST_HELPERS = 3


class Pool:
    """Runs jobs in this process and in helpers. A context manager: the helpers end with it.

    Args:
        data: the training data and their folds.
        processes: how many processes train at a time, this one included.
    """

    def __init__(self, data: Folded, processes: int) -> None:
        self.data, self._helpers = data, list[Helper]()
        self._count = min(processes - 1, MOST_HELPERS)
        self._splits: dict[int, Any] = {}

    def __enter__(self) -> Pool:
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        if self._count > 0:
            content = save(self.data.arrays())
            self._helpers = [Helper(content) for _ in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._threads)
        for helper in self._helpers:
            helper.kill()

    def map(self, jobs: list[Job]) -> list[Outcome | None]:
        """Run jobs. The result of a job does not depend on the process that runs it.

        Args:
            jobs: the jobs.

        Returns:
            Their outcomes, in the order of the jobs.
        """
        outcomes: list[Outcome | None] = [None] * len(jobs)
        todo = deque(enumerate(jobs))
        feeders = [threading.Thread(target=_feed, args=(helper, todo, outcomes)) for helper in self._helpers]
        for feeder in feeders:
            feeder.start()
        self._work(todo, outcomes)
        for feeder in feeders:
            feeder.join()
        self._work(todo, outcomes)  # what a helper that died gave back
        return outcomes

    def _work(self, todo: deque[tuple[int, Job]], outcomes: list[Outcome | None]) -> None:
        while todo:
            try:
                place, job = todo.popleft()
            except IndexError:  # a helper was faster
                return
            outcomes[place] = trial.run(job, self.split(job.fold))

    def split(self, number: int) -> Any:
        """The training and validation data of a fold."""
        if number not in self._splits:
            self._splits[number] = self.data.split(number)
        return self._splits[number]


class Helper:
    """A process that runs jobs. It gets the data through its standard input, so that nothing is written to disk.

    Args:
        content: the data, as safetensors.
    """

    def __init__(self, content: bytes) -> None:
        pipe, command = subprocess.PIPE, [sys.executable, "-m", "autapse.auto.pool"]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        # A thread, because the process reads only after it has loaded torch.
        self._sender = threading.Thread(target=self._send, args=(content,))
        self._sender.start()

    def _send(self, content: bytes) -> None:
        with suppress(OSError):  # it died; the next job shows it
            stdin = cast("IO[bytes]", self._process.stdin)
            stdin.write(b"%d\n" % len(content) + content)
            stdin.flush()

    def run(self, job: Job) -> Outcome | None:
        """The outcome of a job; an OSError or ValueError if the process died."""
        self._sender.join()
        stdin, stdout = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        stdin.write(json.dumps(job.to_json()).encode() + b"\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        return None if answer is None else records.read(Outcome, answer)

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._sender.join()
        with suppress(OSError):  # what could not be sent
            self._process.communicate()


def _feed(helper: Helper, todo: deque[tuple[int, Job]], outcomes: list[Outcome | None]) -> None:
    """Give jobs to a helper, one after the other."""
    while todo:
        try:
            place, job = todo.popleft()
        except IndexError:
            return
        try:
            outcomes[place] = helper.run(job)
        except (OSError, ValueError):  # it died
            todo.append((place, job))
            return


def main() -> None:
    """A helper: the data on stdin, then one job per line; one outcome per line on stdout."""
    torch.set_num_threads(1)
    size = int(sys.stdin.buffer.readline())
    data = Folded.of_arrays(load(sys.stdin.buffer.read(size)))
    for line in sys.stdin.buffer:
        job = Job.from_json(json.loads(line))
        outcome = trial.run(job, data.split(job.fold))
        print(json.dumps(outcome and outcome.to_json()), flush=True)


if __name__ == "__main__":
    main()
