"""What the tests of the kernels share: a cell with everything that a scan takes, and all that comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from autapse.cells.base import FormCell
from autapse.native import library
from autapse.native.operands import Kind, Operands
from autapse.unfold import scan_reference
from networks import COMPOSED_VARIANTS, VARIANTS, Network

needs_kernels = pytest.mark.skipif(
    not library.available(), reason=f"the native library is not there: {library.load().reason}"
)

# (values, gradients), relative to the largest element of a tensor or to 1. The two sides sum in different orders, and
# float32 loses a few hundred roundings that way.
BOUNDS = {torch.float64: (1e-12, 1e-10), torch.float32: (2e-5, 2e-4)}


def named(text: str) -> Network:
    """The variant whose test id is `text`."""
    return next(network for network in [*VARIANTS, *COMPOSED_VARIANTS] if str(network) == text)


def one_per_kernel() -> list[Network]:
    """Variants that together reach every branch of every kernel."""
    return [
        named(text)
        for text in (
            "RNN",
            "OrthogonalRNN",
            "LeakyRNN-tau=tensor",
            "Reservoir-learn=True-topology=ring-nonlinearity=sigmoid",
            "LeakyRNN-form=pre-activation-tau=tensor-nonlinearity=sigmoid",
            "Delayed-delays=(1,2,4)",
            "Delayed-cell=ernn:eta=per_step:max_length=3:inner_steps=2:alignment=none-delays=(1,3)",
            "ERNN-eta=per_step-max_length=3-inner_steps=2-alignment=exact",
            "RIN-transitions=3",
            "Deep-skip=True-transition_depth=2",
            "FastGRNN",
            "UGRNN",
            "GRU",
            "GRU-reset=before",
            "GORU",
            "CFN",
            "KRU",
            "OrthogonalRNN-field=complex",
            "LSTM",
            "LSTM-peepholes=True-proj_size=2-forget_bias=-0.5",
            "LSTM-peepholes=old",
        )
    ]


def fitted(network: Network, input_size: int, hidden_size: int) -> Network:
    """The variant with options that these sizes allow."""
    options = dict(network.options)
    if isinstance(options.get("tau"), Tensor):
        options["tau"] = torch.linspace(1.0, 20.0, hidden_size, dtype=torch.float64)
    if isinstance(options.get("leak"), Tensor):
        options["leak"] = torch.linspace(0.05, 1.0, hidden_size, dtype=torch.float64)
    if "proj_size" in options:
        options["proj_size"] = min(options["proj_size"], hidden_size - 1)  # 0, which is none, for a single unit
    if hidden_size < options.get("groups", 1):
        del options["groups"]
    for name in ("input_rank", "hidden_rank", "reflections"):
        if name in options:
            options[name] = min(options[name], hidden_size, input_size)
    return Network(network.name, options, network.equation)


@dataclass
class Case:
    """The arguments of a scan."""

    cell: Any
    x: Tensor
    state: tuple[Tensor, ...]
    sizes: list[int]
    start: int = 0

    @property
    def leaves(self) -> list[Tensor]:
        return [self.x, *self.state, *self.cell.parameters()]

    def run(self, scan: Callable[..., Any], keep: bool = True) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return scan(self.cell, self.x, self.state, self.sizes, self.start, keep)


def as_operands(case: Case) -> tuple[Operands, Tensor, Kind]:
    """What the op gets for a case, as tensors of their own that require gradients."""
    with torch.no_grad():
        own = type(case.cell).drive is not FormCell.drive
        affine = None if own else case.cell.affine()
        x = case.cell.drive(case.x) if own else case.x
        form = case.cell.prepare()
        operands, kind = form.scan_operands(x, affine, case.state, len(case.sizes), case.start)
    leaves = [None if t is None else t.detach().clone().requires_grad_(t.is_floating_point()) for t in operands]
    return Operands(*leaves), torch.tensor(case.sizes, dtype=torch.int64), kind


def there(operands: Operands) -> list[Tensor]:
    """The operands that have values, not indices."""
    return [t for t in operands if t is not None and t.is_floating_point()]


def running(lengths: Sequence[int]) -> list[int]:
    """How many sequences run at each step."""
    return [sum(n > t for n in lengths) for t in range(max(lengths, default=0))]


def make_case(
    network: Network,
    input_size: int,
    hidden_size: int,
    lengths: Sequence[int],
    dtype: torch.dtype = torch.float64,
    start: int = 0,
) -> Case:
    """Random arguments; parameters are moved by as much as keeps the states of a long sequence moderate."""
    network = fitted(network, input_size, hidden_size)
    cell = network.cell_class(input_size, hidden_size, dtype=dtype, **network.options)
    with torch.no_grad():
        for parameter in cell.parameters():
            spread = parameter.shape[-1] if parameter.dim() > 1 else 4
            parameter.add_(0.2 / spread**0.5 * torch.randn_like(parameter))
    sizes = running(lengths)
    x = torch.randn(sum(sizes), input_size, dtype=dtype, requires_grad=True)
    state = network.random_state(len(lengths), hidden_size=hidden_size, dtype=dtype)
    return Case(cell, x, tuple(s.requires_grad_() for s in state), sizes, start)


def run_reversed(case: Case) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The reference from the last step to the first: on turned rows, its states turned back."""

    def turn(rows: Tensor) -> Tensor:
        return rows.view(len(case.sizes), case.sizes[0], -1).flip(0).flatten(0, 1)

    states, final = scan_reference(case.cell, turn(case.x), case.state, case.sizes, case.start)
    return tuple(turn(s) for s in states), final


def loss_of(results: Sequence[Tensor]) -> Tensor:
    """A loss that no two elements enter alike."""
    parts = [(r * torch.linspace(-1, 2, r.numel(), dtype=r.dtype).view(r.shape)).sum() for r in results]
    return torch.stack(parts).sum()


def gradients(results: Sequence[Tensor], leaves: Sequence[Tensor], **keywords: Any) -> list[Tensor]:
    keywords = {"allow_unused": True, "materialize_grads": True} | keywords
    return list(torch.autograd.grad(loss_of(results), leaves, **keywords))


def near(actual: Sequence[Tensor], expected: Sequence[Tensor], gradient: bool = False) -> None:
    """Equal to rounding, by BOUNDS."""
    for n, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert a.shape == e.shape
        assert a.dtype == e.dtype
        if not e.numel():
            continue
        assert e.isfinite().all(), "the reference itself must stay finite"
        largest = max(1.0, float(e.detach().abs().max()))
        error = float((a - e).detach().abs().max()) / largest
        assert error <= BOUNDS[e.dtype][gradient], f"tensor {n} is off by {error:.1e} of its largest element"


def same_bits(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for n, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert torch.equal(a, e), f"tensor {n} differs by up to {float((a - e).detach().abs().max()):.1e}"
