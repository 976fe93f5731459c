"""Layers keep nothing of a call: threads share them, and copies of used layers are plain copies."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import autapse
from autapse.layers.recurrent import Recurrent
from autapse.unfold import Parallel
from networks import BASIC, COMPOSED_VARIANTS, SOLVED_VARIANTS
from tolerance import close

# torch's own, in its first use of dual numbers
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

D, H, T = 3, 4, 3
THREADS, CALLS = 8, 2
FLOAT64 = {"dtype": torch.float64}


def settling(h: torch.Tensor, previous: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(0.5 * h + 0.3 * previous + x)


SOLVING: dict[str, Callable[[], Any]] = {
    **{str(network): network.layer for network in SOLVED_VARIANTS},
    "Equilibrium": lambda: autapse.Equilibrium(settling, D, D, **FLOAT64),
    "ImplicitGRU": lambda: autapse.ImplicitGRU(D, H, num_layers=2, **FLOAT64),
    "Implicit": lambda: autapse.Implicit(lambda x, a, b: torch.tanh(x + 0.3 * a - 0.4 * b), hidden_size=D),
    "Parallel": lambda: autapse.GRU(D, H, unfold=Parallel(), **FLOAT64),
}
every_solving = pytest.mark.parametrize("name", SOLVING)
EVERY = SOLVING | {str(network): network.layer for network in [*BASIC, *COMPOSED_VARIANTS]}


def together(work: Callable[[int], None]) -> None:
    """`work` in several threads at once; the first error is raised."""
    errors: list[BaseException] = []

    def run(n: int) -> None:
        try:
            for _ in range(CALLS):
                work(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@every_solving
def test_threads_share_a_layer(name: str) -> None:
    """Each thread has batches of its own size: outputs, gradients and reports are those of a call alone."""
    layer = SOLVING[name]()
    inputs = [torch.randn(T, n + 1, D, dtype=torch.float64, requires_grad=True) for n in range(THREADS)]
    alone = []
    for x in inputs:
        output, _ = layer(x)
        alone.append((output, torch.autograd.grad(output.square().sum(), x)[0], layer.reports[-1].iterations))

    def work(n: int) -> None:
        output, _ = layer(inputs[n])
        expected, gradient, iterations = alone[n]
        close(output, expected)
        close(torch.autograd.grad(output.square().sum(), inputs[n])[0], gradient)
        assert torch.equal(layer.reports[-1].iterations, iterations)

    together(work)
    assert torch.equal(layer.reports[-1].iterations, alone[-1][2]), "of this thread's last call"


@every_solving
def test_a_thread_has_no_reports_before_it_calls(name: str) -> None:
    layer = SOLVING[name]()
    layer(torch.randn(T, 2, D, dtype=torch.float64))
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(layer.reports))
    thread.start()
    thread.join()
    assert seen == [[]]
    assert layer.reports


def inside(module: torch.nn.Module) -> dict[tuple[str, str], Any]:
    """What a module and its parts are made of: each attribute's identity, and the names in each of torch's tables."""
    return {
        (name, key): sorted(value) if isinstance(value, dict) else id(value)
        for name, part in module.named_modules()
        for key, value in vars(part).items()
    }


@pytest.mark.parametrize("name", EVERY)
def test_a_call_leaves_nothing_in_the_layer(name: str) -> None:
    layer = EVERY[name]()
    x = torch.randn(T, 2, D, dtype=torch.float64, requires_grad=True)
    layer(x)  # a rule of the user's own is looked at once
    before = inside(layer)
    layer(2 * x, lengths=[1, 3])[0].sum().backward()
    assert inside(layer) == before


@every_solving
def test_used_layers_are_copied(name: str) -> None:
    """torch.func leaves tensors behind that are useless after it and cannot be copied."""
    layer = SOLVING[name]()
    x = torch.randn(T, 2, D, dtype=torch.float64)
    expected = layer(x)[0]
    torch.func.grad(lambda x: layer(x)[0].sum())(x)
    if name in ("ImplicitGRU", "Implicit", "Parallel"):
        with pytest.raises(NotImplementedError):
            torch.func.jvp(lambda x: layer(x)[0], (x,), (x,))
    else:
        torch.func.jvp(lambda x: layer(x)[0], (x,), (x,))
        torch.func.vmap(lambda x: layer(x)[0])(torch.stack([x, 2 * x]))
    copies = [copy.deepcopy(layer)]
    if name not in ("Equilibrium", "Implicit"):  # a lambda cannot be pickled
        copies.append(pickle.loads(pickle.dumps(layer)))
    for twin in copies:
        assert twin.reports == []
        assert torch.equal(twin(x)[0], expected)
    for report in layer.reports:  # usable after the transforms
        assert copy.deepcopy(report).words() == report.words()
        assert len(report.converged) == 2


def test_reports_go_with_their_layer() -> None:
    layer = autapse.EquilibriumLinear(D, H)
    layer(torch.randn(T, 2, D))
    report = weakref.ref(layer.reports[0])
    kept = vars(Recurrent)["reports"]._lists
    assert layer in kept
    before = len(kept)
    del layer
    gc.collect()
    assert report() is None
    assert len(kept) < before
