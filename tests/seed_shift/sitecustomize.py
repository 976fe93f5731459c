"""Changes every random seed of a process: the mechanism of pytest's `--seed-shift`.

Python imports a module of this name when it starts. tests/conftest.py puts this folder on PYTHONPATH, so that the
processes that tests start are shifted too.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

VARIABLE = "AUTAPSE_TEST_SEED_SHIFT"


def shifted(seed: Any) -> Any:
    """Another seed for each seed. Exclusive or keeps its sign and its size, and no two seeds become one."""
    shift = int(os.environ.get(VARIABLE, "0")) << 20
    if isinstance(seed, list | tuple):
        return [shifted(seed[0]), *seed[1:]]
    return seed ^ shift if isinstance(seed, int) else seed


def shift_random(random: Any) -> None:
    seed = random.Random.seed  # the constructor calls it too
    random.Random.seed = lambda self, a=None, version=2: seed(self, shifted(a), version)
    random.seed = random._inst.seed


def shift_numpy(numpy_random: Any) -> None:
    default_rng = numpy_random.default_rng
    numpy_random.default_rng = lambda seed=None: default_rng(shifted(seed))


def shift_torch(torch: Any) -> None:
    class Generator(torch.Generator):
        def manual_seed(self, seed: int) -> Any:
            return super().manual_seed(shifted(seed))

    manual_seed = torch.manual_seed
    torch.Generator = Generator
    torch.manual_seed = torch.random.manual_seed = lambda seed: manual_seed(shifted(seed))


class AfterImport:
    """Shifts a module's seeds as soon as it is loaded, and does not load it before it is needed."""

    waiting: dict[str, Callable[[Any], None]]

    def __init__(self) -> None:
        self.waiting = {"random": shift_random, "numpy.random": shift_numpy, "torch": shift_torch}
        for name in [name for name in self.waiting if name in sys.modules]:
            self.waiting.pop(name)(sys.modules[name])

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.waiting:
            return None
        shift = self.waiting.pop(name)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def run_and_shift(module: Any) -> None:
            run(module)
            shift(module)

        spec.loader.exec_module = run_and_shift
        return spec


# A worker of pytest-xdist gets here twice: when Python starts and from conftest.py.
if VARIABLE in os.environ and not any(type(finder).__name__ == AfterImport.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, AfterImport())
