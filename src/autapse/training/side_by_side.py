"""Networks that learn side by side, one thread each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from autapse.layers.noise import own_noise

Result = TypeVar("Result")


class SideBySide:
    """Calls a function for each of several networks, as many at a time as torch has threads.

    Each call draws random numbers of its own, so that they do not depend on the number of threads.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._sizes = (0, 0)  # of the pool: workers, and threads of each

    def map(self, function: Callable[[Any], Result], networks: Sequence[Any]) -> list[Result]:
        """Call a function for each network.

        Args:
            function: computes something with one network. Networks must not share what it changes.
            networks: the networks, on the CPU.

        Returns:
            The results, in the order of the networks.
        """
        seeds = torch.randint(2**62, (len(networks),)).tolist()

        def call(network: Any, seed: int) -> Result:
            with own_noise(seed):
                return function(network)

        threads = torch.get_num_threads()
        workers = min(threads, len(networks))
        if workers == 1:
            return [call(network, seed) for network, seed in zip(networks, seeds, strict=True)]
        sizes = workers, threads // workers
        if self._pool is None or self._sizes != sizes:
            self._pool = ThreadPoolExecutor(workers, initializer=_use_threads, initargs=sizes[1:])
            self._sizes = sizes
        results = list(self._pool.map(call, networks, seeds))
        torch.set_num_threads(threads)  # a worker's number is also that of threads that start later
        return results


def _use_threads(count: int) -> None:
    """Let torch use this number of threads for what this thread computes."""
    torch.get_num_threads()  # otherwise torch takes the number of all threads at the first operation
    torch.set_num_threads(count)
