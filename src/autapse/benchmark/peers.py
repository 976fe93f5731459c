"""Other implementations of a network, with the weights of our layer."""

from __future__ import annotations

import contextlib
import copy
import importlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from autapse.benchmark.candidate import Candidate, Gradients, NotMeasured, own_gradients
from autapse.benchmark.cases import COMPILED, LOOP, PACKAGE, REFERENCE, TORCH, Network, Shape
from autapse.benchmark.settings import Settings
from autapse.cells import Antisymmetric
from autapse.layers import from_torch
from autapse.layers.recurrent import Recurrent
from autapse.layers.registry import make_layer
from autapse.unfold import scan_reference

TORCH_LAYERS: dict[str, Any] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
TORCH_CELLS: dict[str, Any] = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}


def make_ours(network: Network, shape: Shape) -> Candidate:
    """Our layer, its weights drawn with a fixed seed."""
    torch.manual_seed(0)
    layer: Recurrent
    if network.name in TORCH_LAYERS:
        layer = from_torch(TORCH_LAYERS[network.name](shape.inputs, shape.hidden))
    else:
        layer = make_layer(network.name, shape.inputs, shape.hidden)
    return Candidate("autapse", layer, lambda x: layer(x)[0], own_gradients(layer))


def make_peer(kind: str, network: Network, shape: Shape, ours: Candidate, settings: Settings) -> Candidate:
    """A peer with our weights, or `NotMeasured`."""
    layer: Any = ours.module
    if kind == COMPILED and shape.steps > settings.compile_steps:
        raise NotMeasured(f"not compiled: T = {shape.steps} is above {settings.compile_steps}")
    makers: dict[str, Callable[[], Candidate]] = {
        TORCH: lambda: torch_layer(network.name, layer),
        LOOP: lambda: careful_loop(layer),
        COMPILED: lambda: compiled_loop(layer, settings.compile_seconds),
        PACKAGE: lambda: packaged(network.name, layer),
        REFERENCE: lambda: reference(layer),
    }
    return makers[kind]()


def torch_layer(name: str, layer: Recurrent) -> Candidate:
    theirs = TORCH_LAYERS[name](layer.input_size, layer.hidden_size)
    theirs.load_state_dict(layer.state_dict())
    return Candidate(f"torch.nn.{type(theirs).__name__}", theirs, lambda x: theirs(x)[0], own_gradients(theirs))


def reference(layer: Recurrent) -> Candidate:
    theirs = copy.deepcopy(layer)

    def forward(x: Tensor) -> Tensor:
        cell, (steps, batch, _) = theirs.cells["l0"], x.shape
        states, _ = scan_reference(cell, x.flatten(0, 1), cell.initial_state(batch, x), [batch] * steps)
        return cell.output(states).view(steps, batch, -1)

    return Candidate("scan_reference", theirs, forward, own_gradients(theirs))


# The loop that a careful user writes ----------------------------------------------------------------------------------


def careful_loop(layer: Recurrent) -> Candidate:
    theirs = copy.deepcopy(layer)
    cell = theirs.cells["l0"]
    assert isinstance(cell, Antisymmetric), "the loop exists for one network only"
    return Candidate("PyTorch loop", theirs, lambda x: leaky_loop(cell, x), own_gradients(theirs))


def leaky_loop(cell: Antisymmetric, x: Tensor) -> Tensor:
    """The recurrence h' = h + ε·tanh(u + M·h): one addmm for the drive of all steps, one per step for the rest."""
    steps, batch, _ = x.shape
    assert cell.bias_h is not None, "the loop is written for a network with bias"
    drive = torch.addmm(cell.bias_h, x.flatten(0, 1), cell.weight_ih.t()).view(steps, batch, -1)
    M, h, states = cell.matrix().t(), x.new_zeros(batch, cell.hidden_size), []
    for u in drive.unbind(0):
        h = torch.add(h, torch.tanh(torch.addmm(u, h, M)), alpha=cell.step_size)
        states.append(h)
    return torch.stack(states)


def compiled_loop(layer: Recurrent, seconds: float) -> Candidate:
    """The loop under torch.compile. The first call with gradients compiles, and so does the first one without."""
    theirs = copy.deepcopy(layer)
    cell = theirs.cells["l0"]
    assert isinstance(cell, Antisymmetric), "the loop exists for one network only"
    torch._dynamo.reset()
    compiled = torch.compile(leaky_loop, dynamic=False, fullgraph=True)
    warm: set[bool] = set()

    def forward(x: Tensor) -> Tensor:
        if torch.is_grad_enabled() in warm:
            return compiled(cell, x)
        with time_limit(seconds, "not compiled: torch.compile took longer than"):
            output = compiled(cell, x)
            if torch.is_grad_enabled():  # the backward is compiled when it is first called
                torch.autograd.backward(output, torch.ones_like(output))
                theirs.zero_grad(set_to_none=True)
                output = compiled(cell, x)
        warm.add(torch.is_grad_enabled())
        return output

    return Candidate("compiled loop", theirs, forward, own_gradients(theirs))


@contextlib.contextmanager
def time_limit(seconds: float, reason: str) -> Iterator[None]:
    """Raise `NotMeasured` after so many seconds, and for any error of the compiler."""

    def stop(*_: object) -> None:
        raise NotMeasured(f"{reason} {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except NotMeasured:
        raise
    except Exception as error:  # a compiler can fail in many ways, and none is our mistake
        text = str(error).strip().splitlines()
        raise NotMeasured(f"not compiled: {type(error).__name__}: {text[0] if text else ''}"[:200]) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# torchrecurrent -------------------------------------------------------------------------------------------------------


def packaged(name: str, layer: Recurrent) -> Candidate:
    try:
        package: Any = importlib.import_module("torchrecurrent")
    except ImportError:
        raise NotMeasured("not installed: pip install 'autapse[bench]'") from None
    ours: Any = layer.cells["l0"]
    sizes = (layer.input_size, layer.hidden_size)
    # Our layers have one bias, so theirs get one too. The peephole LSTM has two in both.
    one_bias = {"recurrent_bias": False}
    match name:
        case "antisymmetric":
            options = {"epsilon": ours.step_size, "gamma": ours.diffusion}
            theirs = package.AntisymmetricRNN(*sizes, **one_bias, **options)
            names = {"weight_ih": "weight_ih", "bias_h": "bias_ih"}
        case "fastrnn":
            theirs = package.FastRNN(*sizes, **one_bias)
            names = {"weight_ih": "weight_ih", "weight_hh": "weight_hh", "bias_h": "bias_ih"}
            names |= {"alpha": "alpha", "beta": "beta"}
        case "fastgrnn":
            theirs = package.FastGRNN(*sizes, **one_bias, nonlinearity="sigmoid")  # its gate's default is tanh
            names = {"weight_ih": "weight_ih", "weight_hh": "weight_hh", "bias_h": "bias_ih"}
            names |= {"zeta": "zeta", "nu": "nu"}
        case "ugrnn":
            theirs = package.UGRNN(*sizes, **one_bias)
            names = {"weight_ih": "weight_ih", "weight_hh": "weight_hh", "bias_h": "bias_ih"}
        case _:
            theirs = package.PeepholeLSTM(*sizes)
            names = {n: n for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")} | {"weight_peephole": "weight_ph"}
    cell = theirs.cells[0]
    triangle = _copy_weights(ours, cell, names, name == "antisymmetric")

    def gradients() -> Gradients:
        # In a layer with torch.nn's parameter names, a name ends with the layer's number.
        own = {n.removeprefix("cells.l0.") for n, _ in layer.named_parameters()}
        by_name = {n: getattr(cell, m).grad.view_as(getattr(ours, n)) for n, m in names.items()}
        by_name |= {} if triangle is None else {"weight_hh": cell.weight_hh.grad[triangle]}
        return {_own_name(n, own): g for n, g in by_name.items()}

    return Candidate(f"torchrecurrent.{type(theirs).__name__}", theirs, lambda x: theirs(x)[0], gradients)


@torch.no_grad()
def _copy_weights(ours: Any, theirs: Any, names: dict[str, str], skew: bool) -> tuple[Tensor, ...] | None:
    for mine, name in names.items():
        getattr(theirs, name).copy_(getattr(ours, mine).view_as(getattr(theirs, name)))
    if not skew:
        return None
    # Theirs has a full W, ours its upper triangle; both use only W − Wᵀ.
    triangle = tuple(torch.triu_indices(ours.hidden_size, ours.hidden_size, offset=1))
    theirs.weight_hh.zero_()
    theirs.weight_hh[triangle] = ours.weight_hh
    return triangle


def _own_name(name: str, own: set[str]) -> str:
    return f"cells.l0.{name}" if name in own else f"{name}_l0"


# One step at a time ---------------------------------------------------------------------------------------------------

STREAMING_PEERS = (TORCH, LOOP)
Step = Callable[[Tensor], Tensor]  # [1, D] -> [1, H]


def own_step(ours: Candidate) -> Step:
    layer: Any = ours.module
    return layer.stream(batch_size=1)


def peer_step(kind: str, network: Network, ours: Candidate) -> tuple[str, Step]:
    """Name and step of a peer with our weights."""
    layer: Any = ours.module
    if kind == TORCH:
        return _torch_step(network.name, layer)
    return "PyTorch step", _leaky_step(copy.deepcopy(layer.cells["l0"]))


def _torch_step(name: str, layer: Any) -> tuple[str, Step]:
    cell: Any = TORCH_CELLS[name](layer.input_size, layer.hidden_size)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    state: Any = None

    def step(x: Tensor) -> Tensor:
        nonlocal state
        with torch.no_grad():
            state = cell(x, state)
        return state[0] if name == "lstm" else state

    return f"torch.nn.{type(cell).__name__}", step


def _leaky_step(cell: Any) -> Step:
    with torch.no_grad():
        V, M, h = cell.weight_ih.t(), cell.matrix().t(), torch.zeros(1, cell.hidden_size)

    def step(x: Tensor) -> Tensor:
        nonlocal h
        with torch.no_grad():
            u = torch.addmm(cell.bias_h, x, V)
            h = torch.add(h, torch.tanh(torch.addmm(u, h, M)), alpha=cell.step_size)
        return h

    return step
