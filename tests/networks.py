"""Every explicit network and its option variants, each with its equation written out for one step of one sequence.

The equations here use the raw parameters, vectors and loops, and nothing of autapse: they are the truth that cells,
layers and streams are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import autapse
import unitary_networks

D, H = 3, 4  # input and hidden size of most tests
Raw = dict[str, Tensor]
State = tuple[Tensor, ...]

ACT: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": lambda a: a.clamp(min=0),
    "sigmoid": lambda a: 1 / (1 + torch.exp(-a)),
    "identity": lambda a: a,
}
sigmoid = ACT["sigmoid"]


@dataclass(frozen=True)
class Network:
    """A layer class with options, and its equation."""

    name: str
    options: dict[str, Any]
    equation: Callable[[Raw, dict[str, Any], Tensor, State, int], State]
    layer_class: Any = field(init=False)
    cell_class: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer_class", getattr(autapse, self.name))
        object.__setattr__(self, "cell_class", getattr(autapse.cells, self.name))

    def layer(self, input_size: int = D, hidden_size: int | list[int] = H, **keywords: Any) -> Any:
        """A float64 layer with parameters away from their initial values."""
        keywords = {"dtype": torch.float64} | keywords
        least = min(hidden_size) if isinstance(hidden_size, list | tuple) else hidden_size
        return perturb(self.layer_class(input_size, hidden_size, **keywords, **self._fitted(least)))

    def cell(self, input_size: int = D, hidden_size: int = H, **keywords: Any) -> Any:
        keywords = {"dtype": torch.float64} | keywords
        return perturb(self.cell_class(input_size, hidden_size, **keywords, **self._fitted(hidden_size)))

    def _fitted(self, hidden_size: int) -> dict[str, Any]:
        """The options, with no more groups than units."""
        if self.name != "Clockwork":
            return self.options
        return self.options | {"periods": sorted(self.options["periods"])[:hidden_size]}

    def step(self, parameters: Raw, x: Tensor, state: State, t: int = 0) -> State:
        """The equation for one sequence: x [D], each state [S]."""
        return self.equation(parameters, self.options, x, state, t)

    def output(self, parameters: Raw, state: State, between: bool = False) -> Tensor:
        """The output that belongs to a state of one sequence; `between` two layers, or of the last one."""
        if between and self.passes_time:
            return torch.cat([state[0], state[2]])
        if self.options.get("form") == "pre-activation":
            return ACT[self.options.get("nonlinearity", "tanh")](state[0])
        return deep_output(parameters, self.options, state) if self.name == "Deep" else state[0]

    @property
    def passes_time(self) -> bool:
        """Whether the last input is the time, which the layers of a stack pass on."""
        return self.options.get("time") == "input"

    def state_sizes(self, hidden_size: int = H) -> tuple[int, ...]:
        if self.name == "Memory":
            return memory_sizes(self.options, hidden_size)
        if self.name == "TimeDelay":
            return hidden_size, (self.options["window"] - 1) * hidden_size
        if self.name == "Delayed":
            return (hidden_size,) * max(self.options.get("delays", (1, 8)))
        if self.options.get("field", "complex" if self.name == "KRU" else "real") == "complex":
            return (2 * hidden_size,)  # real and imaginary parts
        name, options = self.name, self.options
        if name in ("Deep", "Dilated", "SkipRNN"):
            name, options = inner_of(options)
        own: tuple[int, ...] = (hidden_size,)
        if name in ("LSTM", "PhasedLSTM", "Intersection"):
            own = (options.get("proj_size") or hidden_size, hidden_size)
        if self.name == "PhasedLSTM":
            return (*own, 1) if self.passes_time else own
        return (*own, 1, 1) if self.name == "SkipRNN" else own * self.options.get("dilation", 1)

    @property
    def traced(self) -> int:
        """How many states a layer returns for each step; h0 and h_n may have older ones too."""
        if self.name in ("Delayed", "TimeDelay"):
            return 1
        return len(self.state_sizes()) // self.options.get("dilation", 1)

    def output_size(self, hidden_size: int = H) -> int:
        if self.options.get("output_depth"):
            return int(self.options.get("width") or hidden_size)
        if self.options.get("group_output") == "last":
            return hidden_size // int(self.options["groups"])
        return self.state_sizes(hidden_size)[0]

    def initial_state(self, parameters: Raw, hidden_size: int = H) -> State:
        """The state before the first step, for one sequence."""
        zeros = tuple(torch.zeros(size, dtype=torch.float64) for size in self.state_sizes(hidden_size))
        if self.name == "SkipRNN":
            return (*zeros[:-2], zeros[-2] + 1, zeros[-1])
        return memory_start(parameters, self.options, zeros) if self.name == "Memory" else zeros

    def random_state(self, *batch: int, hidden_size: int = H, dtype: torch.dtype = torch.float64) -> State:
        return tuple(torch.randn(*batch, size, dtype=dtype) for size in self.state_sizes(hidden_size))

    def h0(self, batch: int | None, hidden_size: int | list[int] = H, num_layers: int = 1, directions: int = 1) -> Any:
        """Random initial states in the format that torch.nn documents, requiring gradients."""
        middle = () if batch is None else (batch,)

        def one(count: int, size: int) -> Tensor:
            return torch.randn(count, *middle, size, dtype=torch.float64, requires_grad=True)

        if isinstance(hidden_size, list):
            columns = zip(*[self.state_sizes(size) for size in hidden_size], strict=True)
            per_state: list[Any] = [tuple(one(directions, size) for size in column) for column in columns]
        else:
            per_state = [one(num_layers * directions, size) for size in self.state_sizes(hidden_size)]
        if self.name == "SkipRNN":  # the first step is used
            per_state[-2] = mapped(lambda q: (0.5 + q.detach().abs()).requires_grad_(), per_state[-2])
        return per_state[0] if len(per_state) == 1 else tuple(per_state)

    def __str__(self) -> str:
        words = [f"{k}={'tensor' if isinstance(v, Tensor) else v}".replace(" ", "") for k, v in self.options.items()]
        return "-".join([self.name, *words])


def perturb(module: Any, scale: float = 0.4) -> Any:
    """The module with every parameter moved away from where it starts."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return module


def raw(module: Any, key: str | None = None) -> Raw:
    """Parameters and buffers of a cell, or of the cell called `key` ("l0", "l1_reverse") of a layer, by plain name."""
    named = dict(module.named_parameters()) | dict(module.named_buffers())
    if key is None:
        return named
    inside, after = f"cells.{key}.", f"_{key}"
    found = {name.removeprefix(inside): value for name, value in named.items() if name.startswith(inside)}
    return found | {name.removesuffix(after): value for name, value in named.items() if name.endswith(after)}


def keys(num_layers: int, bidirectional: bool) -> list[str]:
    return [f"l{n}{end}" for n in range(num_layers) for end in (("", "_reverse") if bidirectional else ("",))]


def mapped(change: Callable[[Tensor], Tensor], h: Any) -> Any:
    """An h0 or a part of one, with each tensor changed."""
    return change(h) if isinstance(h, Tensor) else tuple(mapped(change, part) for part in h)


def flat(h: Any) -> list[Tensor]:
    """All tensors of an h0 or h_n."""
    return [h] if isinstance(h, Tensor) else [tensor for part in h for tensor in flat(part)]


def rows_of(network: Network, h: Any, sequence: int | None, per_layer: bool = False) -> list[State]:
    """The states of one sequence in an h0 or h_n, one tuple per (layer, direction), in torch.nn's order."""
    per_state = [h] if len(network.state_sizes()) == 1 else list(h)
    joined = [[row for part in parts for row in part] if per_layer else list(parts) for parts in per_state]
    return [tuple(s if sequence is None else s[sequence] for s in column) for column in zip(*joined, strict=True)]


def unroll(
    network: Network, layer: Any, sequence: Tensor, initial: Sequence[State], start: int = 0
) -> tuple[list[Tensor], list[State], list[list[State]]]:
    """Outputs [T], final states and all states [T] of each (layer, direction), for one sequence [T, D]."""
    rows, final, traces = list(sequence), [], []
    waiting = list(initial)
    for number in range(layer.num_layers):
        outputs = []
        for key in keys(number + 1, layer.bidirectional)[number * (2 if layer.bidirectional else 1) :]:
            parameters, state = raw(layer, key), waiting.pop(0)
            backwards = key.endswith("_reverse")
            trace: list[Any] = [None] * len(rows)
            for t, position in enumerate(reversed(range(len(rows))) if backwards else range(len(rows)), start):
                state = network.step(parameters, rows[position], state, t)
                trace[position] = state
            between = number < layer.num_layers - 1
            outputs.append([network.output(parameters, s, between) for s in trace])
            final.append(state)
            traces.append(trace)
        if between and layer.bidirectional and network.passes_time:  # the next layer gets it once
            outputs[0] = [row[:-1] for row in outputs[0]]
        rows = [torch.cat(parts) for parts in zip(*outputs, strict=True)]
    return rows, final, traces


# The equations ------------------------------------------------------------------------------------------------------


def plus(p: Raw, name: str) -> Tensor | float:
    """A bias, or nothing where the network has none."""
    return p.get(name, 0.0)


def rnn(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    act = ACT[o.get("nonlinearity", "tanh")]
    return (act(p["weight_ih"] @ x + plus(p, "bias_ih") + p["weight_hh"] @ h + plus(p, "bias_hh")),)


def irnn(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    return (ACT["relu"](p["weight_ih"] @ x + p["weight_hh"] @ h + plus(p, "bias_h")),)


def rin(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    g = ACT["relu"](p["weight_ih"] @ x + p["weight_hh"] @ h + h + plus(p, "bias_h"))
    for i in range(o.get("transitions", 1) - 1):
        bias = p["bias_deep"][i] if "bias_deep" in p else 0.0
        g = ACT["relu"](p["weight_deep"][i] @ g + g + bias)
    return (g,)


def lstm(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    h, c = state
    n = len(c)
    a = p["weight_ih"] @ x + plus(p, "bias_ih") + p["weight_hh"] @ h + plus(p, "bias_hh")
    peep = p["weight_peephole"] if "weight_peephole" in p else torch.zeros(3, n, dtype=c.dtype)
    i = sigmoid(a[:n] + peep[0] * c)
    f = sigmoid(a[n : 2 * n] + peep[1] * c)
    g = torch.tanh(a[2 * n : 3 * n])
    new_c = f * c + i * g
    seen = c if o.get("peepholes") == "old" else new_c
    new_h = sigmoid(a[3 * n :] + peep[2] * seen) * torch.tanh(new_c)
    return (p["weight_hr"] @ new_h if "weight_hr" in p else new_h, new_c)


def gru(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    n = len(h)
    kind = o.get("gates", "local")
    both = {"local": [], "shared-reset": [], "global-local": [1, 1]}[kind]  # rows of the gates for all units
    parts = [*both, 1 if kind == "shared-reset" else n, n, n]
    w, recurrent = p["weight_ih"].split(parts), p["weight_hh"].split(parts)
    zero = torch.zeros(sum(parts), dtype=h.dtype)
    b_i, b_h = p.get("bias_ih", zero).split(parts), p.get("bias_hh", zero).split(parts)
    gates = [sigmoid(w[k] @ x + b_i[k] + recurrent[k] @ h + b_h[k]) for k in range(len(parts) - 1)]
    r, z = gates[-2] * (gates[0] if both else 1.0), gates[-1] * (gates[1] if both else 1.0)
    w_n, r_n, i_n, h_n = w[-1], recurrent[-1], b_i[-1], b_h[-1]
    before = o.get("reset") == "before"
    fed = r_n @ (r * h) + h_n if before else r * (r_n @ h + h_n)
    return ((1 - z) * torch.tanh(w_n @ x + i_n + fed) + z * h,)


def ugrnn(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    n = len(h)
    a = p["weight_ih"] @ x + p["weight_hh"] @ h + plus(p, "bias_h")
    c, g = torch.tanh(a[:n]), sigmoid(a[n:])
    return (g * h + (1 - g) * c,)


def intersection(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    _, h = state
    n = len(h)
    a = p["weight_ih"] @ x + p["weight_hh"] @ h + plus(p, "bias_h")
    h_in, g_h, y_in, g_y = torch.tanh(a[:n]), sigmoid(a[n : 2 * n]), a[2 * n : 3 * n].clamp(min=0), sigmoid(a[3 * n :])
    v = p["weight_pass"] @ x if "weight_pass" in p else x
    return (g_y * v + (1 - g_y) * y_in, g_h * h + (1 - g_h) * h_in)


def phased(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    time: Any = float(t)
    if o.get("time") == "input":
        x, time = x[:-1], x[-1]
    own = {key.removeprefix("inner."): value for key, value in p.items() if key.startswith("inner.")}
    new = lstm(own, {"peepholes": o.get("peepholes", True)}, x, state[:2], t)
    open_now = []
    for tau, s, r in zip(torch.exp(p["log_period"]), p["shift"], sigmoid(p["logit_ratio"]), strict=True):
        turns = (time - s) / tau
        phi = turns - torch.floor(turns.detach())
        if phi < r / 2:
            open_now.append(2 * phi / r)
        elif phi < r:
            open_now.append(2 - 2 * phi / r)
        else:
            open_now.append(o.get("leak", 1e-3) * phi)
    k = torch.stack(open_now)
    mixed = tuple(k * after + (1 - k) * before for after, before in zip(new, state[:2], strict=True))
    return (*mixed, time.reshape(1)) if o.get("time") == "input" else mixed


def skip(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    *before, chance, used = state
    name, options = inner_of(o)
    own = {key.removeprefix("inner."): value for key, value in p.items() if key.startswith("inner.")}
    after = _EQUATIONS[name](own, options, x, tuple(before), t)
    z = (1.0 if chance.item() >= 0.5 else 0.0) + chance - chance.detach()  # straight-through
    states = [z * new + (1 - z) * old for new, old in zip(after, before, strict=True)]
    delta = sigmoid(p["weight_skip"] @ states[-1] + plus(p, "bias_skip")).reshape(1)
    least = delta if delta.item() < 1 - chance.item() else 1 - chance
    return (*states, z * delta + (1 - z) * (chance + least), used + z)


def dilated(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    """The step of the inner cell from the oldest of its states."""
    name, options = inner_of(o)
    own = {key.removeprefix("inner."): value for key, value in p.items() if key.startswith("inner.")}
    count = len(state) // o.get("dilation", 1)
    return (*_EQUATIONS[name](own, options, x, state[-count:], t), *state[:-count])


def fastrnn(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    act = ACT[o.get("nonlinearity", "tanh")]
    candidate = act(p["weight_ih"] @ x + p["weight_hh"] @ h + plus(p, "bias_h"))
    return (sigmoid(p["alpha"]) * candidate + sigmoid(p["beta"]) * h,)


def fastgrnn(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    n = len(h)
    W = p["weight_ih"] @ p["factor_ih"].T if "factor_ih" in p else p["weight_ih"]
    U = p["weight_hh"] @ p["factor_hh"].T if "factor_hh" in p else p["weight_hh"]
    bias = p.get("bias_h", torch.zeros(2 * n, dtype=h.dtype))
    a = W @ x + U @ h
    z, c = sigmoid(a + bias[:n]), torch.tanh(a + bias[n:])
    return ((sigmoid(p["zeta"]) * (1 - z) + sigmoid(p["nu"])) * c + z * h,)


def strictly_upper(values: Tensor, n: int) -> Tensor:
    """W with the values in its strictly upper triangle, row by row."""
    entries = iter(values)
    zero = values.new_zeros(())
    return torch.stack([torch.stack([next(entries) if j > i else zero for j in range(n)]) for i in range(n)])


def antisymmetric(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    n = len(h)
    W = p["weight_hh"]
    if o.get("integrator") == "splitting":
        half, full = len(W), torch.zeros(n, n, dtype=h.dtype)
        full[:half, half:], full[half:, :half] = W, -W.T
        W = full
    elif o.get("structured", True):
        W = strictly_upper(W, n)
        W = W - W.T
    a = W @ h - o.get("diffusion", 0.01) * h
    v = p["weight_ih"] @ x + plus(p, "bias_h")
    step = o.get("step", 0.1)
    if "integrator" in o:
        M = W - o.get("diffusion", 0.01) * torch.eye(n, dtype=h.dtype)
        return unitary_networks.integrated(p, o, x, state, t, M)
    act = ACT[o.get("nonlinearity", "tanh")]
    if not o.get("gated", False):
        return (h + step * act(a + v),)
    return (h + step * sigmoid(a + v[:n]) * torch.tanh(a + v[n:]),)


def ernn(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    identity = torch.eye(len(h), dtype=h.dtype)
    align = {
        "first_order": lambda: identity + p["weight_align"],
        "exact": lambda: torch.linalg.inv(identity - p["weight_align"]),
        "none": lambda: identity,
    }[o.get("alignment", "first_order")]()
    act = ACT[o.get("nonlinearity", "relu")]
    for k in range(o.get("inner_steps", 1)):
        per_step = o.get("eta") == "per_step"
        eta = p["rate"][min(t, o["max_length"] - 1), k] if per_step else p["rate"]
        h = (1 - eta) * h + eta * act(align @ (p["weight_hh"] @ h + p["weight_ih"] @ x + plus(p, "bias_h")))
    return (h,)


def power_series_exp(A: Tensor) -> Tensor:
    total = term = torch.eye(len(A), dtype=A.dtype)
    for k in range(1, 40):
        term = term @ A / k
        total = total + term
    return total


def givens_product(angles: Sequence[Sequence[Tensor]], n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Layer after layer of 2×2 rotations on the pairs (l mod 2 + 2i, l mod 2 + 2i + 1), each as a full matrix."""
    product = torch.eye(n, dtype=dtype)
    for layer, layer_angles in enumerate(angles):
        for i, angle in enumerate(layer_angles):
            a, b = layer % 2 + 2 * i, layer % 2 + 2 * i + 1
            if b >= n:
                continue
            turn = [list(row) for row in torch.eye(n, dtype=dtype)]
            turn[a][a] = turn[b][b] = torch.cos(angle)
            turn[a][b], turn[b][a] = -torch.sin(angle), torch.sin(angle)
            product = torch.stack([torch.stack(row) for row in turn]) @ product
    return product


def per_layer(values: Tensor, layers: int, n: int) -> list[list[Tensor]]:
    """Angles in a row, dealt out to the layers: as many to each as it has pairs of neighbours, and none left over."""
    waiting = list(values)
    dealt = [[waiting.pop(0) for _ in range(layer % 2, n - 1, 2)] for layer in range(layers)]
    assert not waiting, "more angles than pairs"
    return dealt


def reflection_product(vectors: Tensor) -> Tensor:
    """H₁·H₂⋯Hₘ, H = I − 2vvᵀ/(vᵀv) for each column v."""
    identity = torch.eye(len(vectors), dtype=vectors.dtype)
    product = identity
    for v in vectors.T:
        product = product @ (identity - 2 * torch.outer(v, v) / (v @ v))
    return product


def orthogonal_matrix(p: Raw, o: dict[str, Any], n: int) -> Tensor:
    kind = o.get("parametrization", "exp")
    if kind == "rotations":
        return givens_product(per_layer(p["weight_hh"], o.get("capacity") or n, n), n)
    A = strictly_upper(p["weight_hh"], n)
    A = A - A.T
    if kind == "exp":
        return power_series_exp(A)
    identity = torch.eye(n, dtype=A.dtype)
    return torch.linalg.inv(identity - A) @ (identity + A)


def orthogonal(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    if o.get("field") == "complex":
        R = unitary_networks.unitary_matrix(p["weight_hh"], o, len(h) // 2)
        return unitary_networks.complex_step(p, o, x, state, R)
    a = p["weight_ih"] @ x + orthogonal_matrix(p, o, len(h)) @ h
    kind = o.get("nonlinearity", "modrelu")
    if kind != "modrelu":
        return (ACT[kind](a + plus(p, "bias_h")),)
    return (torch.sign(a) * (a.abs() + plus(p, "bias_h")).clamp(min=0),)


def goru(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    R = orthogonal_matrix(p, {"parametrization": "rotations"} | o, len(state[0]))
    return unitary_networks.goru(p, o, x, state, t, R)


def spectral(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    sigma = 1 + 2 * o.get("radius", 0.01) * (sigmoid(p["spectrum"]) - 0.5)
    R = reflection_product(p["left"]) @ torch.diag(sigma) @ reflection_product(p["right"])
    return (ACT[o.get("nonlinearity", "tanh")](p["weight_ih"] @ x + R @ h + plus(p, "bias_h")),)


def feedforward(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    return (ACT[o.get("nonlinearity", "tanh")](p["weight_ih"] @ x + plus(p, "bias_h")),)


def time_delay(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    _, ahead = state
    n = len(state[0])
    parts = [p["weight_ih"][k * n : (k + 1) * n] @ x for k in range(o["window"])]
    sums = [ahead[k * n : (k + 1) * n] for k in range(o["window"] - 1)]
    act = ACT[o.get("nonlinearity", "tanh")]
    h = act(parts[0] + sums[0] + plus(p, "bias_h"))
    for i in range(o.get("depth", 1) - 1):
        h = act(p[f"maps.{i}.weight"] @ h + plus(p, f"maps.{i}.bias"))
    sums = [*sums[1:], torch.zeros_like(h)]
    return (h, torch.cat([s + part for s, part in zip(sums, parts[1:], strict=True)]))


def leaky(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    if o.get("learn_tau"):
        alpha: Any = sigmoid(p["rate"])
    elif isinstance(o.get("tau"), tuple):
        alpha = p["rate"]  # sampled, or of groups; its values are tested with the initialisations
    else:
        alpha = 1 / o.get("tau", 10.0)
    act, v = ACT[o.get("nonlinearity", "tanh")], p["weight_ih"] @ x + plus(p, "bias_h")
    if o.get("form") == "pre-activation":
        return (h + alpha * (v + p["weight_hh"] @ act(h) - h),)
    kept, candidate = h - alpha * h, act(v + p["weight_hh"] @ h)
    return (kept + (candidate if o.get("form") == "sum" else alpha * candidate),)


def reservoir(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    R = p["weight_hh"]
    if "pattern" in p:  # its entries one by one
        sums = [torch.zeros((), dtype=h.dtype) for _ in h]
        for value, row, column in zip(R, *p["pattern"].tolist(), strict=True):
            sums[row] = sums[row] + value * h[column]
        fed = torch.stack(sums)
    else:
        fed = R @ h
    candidate = ACT[o.get("nonlinearity", "tanh")](p["weight_ih"] @ x + fed + plus(p, "bias_h"))
    alpha = o.get("leak", 1.0)
    alpha = p["rate"] if isinstance(alpha, tuple) else alpha  # a sampled one is tested with the initialisations
    return ((1 - alpha) * h + alpha * candidate,)


def equilibrium_tanh(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (previous,) = state
    alpha = p["weight_hh"] @ previous + p["weight_ih"] @ x + plus(p, "bias_h")
    low, high = torch.full_like(alpha, -1.0), torch.ones_like(alpha)
    for _ in range(80):  # atanh h − h is increasing
        middle = (low + high) / 2
        below = torch.atanh(middle) - middle < alpha
        low, high = torch.where(below, middle, low).detach(), torch.where(below, high, middle).detach()
    h = (low + high) / 2
    for _ in range(3):  # each Newton step that autograd sees makes more derivatives right
        h = h - (torch.atanh(h) - h - alpha) * (1 - h * h) / (h * h)
    return (h,)


def equilibrium_linear(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (previous,) = state
    U, identity = p["weight_align"], torch.eye(len(previous), dtype=previous.dtype)
    align = identity + U if o.get("alignment") == "first_order" else torch.linalg.inv(identity - U)
    return (align @ (p["weight_hh"] @ previous + p["weight_ih"] @ x + plus(p, "bias_h")),)


def implicit_midpoint(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (previous,) = state
    W = p["weight_hh"]
    if o.get("structured", True):
        W = strictly_upper(W, len(previous))
        W = W - W.T
    act, h = ACT[o.get("nonlinearity", "tanh")], previous
    for _ in range(60):
        y = (h + previous) / 2
        rate = act(W @ y - o.get("diffusion", 0.01) * y + p["weight_ih"] @ x + plus(p, "bias_h"))
        h = previous + o.get("step", 0.1) * rate
    return (h,)


def inner_of(o: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The class and the options of the cell inside a deep one: "ernn:inner_steps=2" is ERNN and {"inner_steps": 2}."""
    name, *words = o.get("cell", "rnn").split(":")
    pairs = (word.split("=") for word in words)
    (known,) = (known for known in _EQUATIONS if known.lower() == name)
    return known, {key: int(value) if value.isdigit() else value for key, value in pairs}


def deep_act(o: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    """That of the inner cell, if it has only one."""
    name, inner = inner_of(o)
    own = "relu" if name in ("IRNN", "RIN", "ERNN") else inner.get("nonlinearity", "tanh")
    return ACT[o.get("nonlinearity") or own]


def maps_of(p: Raw, o: dict[str, Any], prefix: str, g: Tensor) -> Tensor:
    for i in range(o.get(f"{prefix}_depth", 1 if prefix == "transition" else 0)):
        here = {name.removeprefix(f"{prefix}_maps.{i}."): value for name, value in p.items()}
        V = below_only(here["weight"], o) if prefix == "transition" else here["weight"]
        y = deep_act(o)(V @ g + plus(here, "bias"))
        if o.get("skip"):
            y = y + (here["shortcut"] @ g if "shortcut" in here else g)
        g = y
    return g


def groups_of(o: dict[str, Any], n: int) -> list[int]:
    """The group of each unit, where groups are of equal size."""
    return [unit // (n // o["groups"]) for unit in range(n)]


def below_only(W: Tensor, o: dict[str, Any]) -> Tensor:
    """W without its entries from a group to a group below, for each block of rows."""
    if "groups" not in o:
        return W
    n = W.shape[1]
    group = groups_of(o, n)
    kept = [[W[i, j] if group[j] <= group[i % n] else W.new_zeros(()) for j in range(n)] for i in range(len(W))]
    return torch.stack([torch.stack(row) for row in kept])


def deep(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    name, options = inner_of(o)
    own = {key.removeprefix("inner."): value for key, value in p.items() if key.startswith("inner.")}
    if "groups" in o:
        group = groups_of(o, len(state[0]))
        own["weight_hh"] = below_only(own["weight_hh"], o)
        if o.get("group_input") == "first":
            rows = [row if group[i % len(group)] == 0 else 0 * row for i, row in enumerate(own["weight_ih"])]
            own["weight_ih"] = torch.stack(rows)
    h, *others = _EQUATIONS[name](own, options, maps_of(p, o, "input", x), state, t)
    return (maps_of(p, o, "transition", h), *others)


def delayed(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    """The step of the inner cell, with what the other delays contribute as a part of its bias."""
    name, options = inner_of(o)
    own = {key.removeprefix("inner."): value for key, value in p.items() if key.startswith("inner.")}
    first, *others = sorted(o.get("delays", (1, 8)))
    extra = torch.zeros_like(state[0])
    for R, d in zip(p["weight_delayed"], others, strict=True):
        extra = extra + R @ state[d - 1]
    if first > 1:  # the matrix of the cell acts on an older state
        extra = extra + own["weight_hh"] @ state[first - 1]
        own["weight_hh"] = 0 * own["weight_hh"]
    bias = "bias_ih" if name == "RNN" else "bias_h"
    own[bias] = plus(own, bias) + extra
    if name == "RNN" and "bias_hh" not in own:
        own["bias_hh"] = torch.zeros_like(extra)
    return (*_EQUATIONS[name](own, options, x, (state[0],), t), *state[:-1])


def clockwork(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    periods, n = sorted(o["periods"])[: len(h)], len(h)
    group = [unit * len(periods) // n for unit in range(n)]
    act, new = ACT[o.get("nonlinearity", "tanh")], []
    for unit in range(n):
        g = group[unit]
        if t % periods[g]:
            new.append(h[unit])
            continue
        read = torch.stack([h[other] for other in range(n) if group[other] >= g])
        row = p[f"weight_hh_{g}"][unit - group.index(g)]
        bias = p["bias_h"][unit] if "bias_h" in p else 0.0
        new.append(act(p["weight_ih"][unit] @ x + row @ read + bias))
    return (torch.stack(new),)


def deep_output(p: Raw, o: dict[str, Any], state: State) -> Tensor:
    h = state[0]
    if o.get("group_output") == "last":
        group = groups_of(o, len(h))
        h = torch.stack([unit for unit, of in zip(h, group, strict=True) if of == o["groups"] - 1])
    return maps_of(p, o, "output", h)


# Explicit memory: everything for one head, one slot and one number after the other ----------------------------------

MEMORY: dict[str, Any] = {"slots": 5, "width": 3}  # small
BESIDE = {"lstm": lstm, "gru": gru, "rnn": rnn}  # controllers


def memory_sizes(o: dict[str, Any], hidden_size: int) -> tuple[int, ...]:
    reads, writes, slots, width = o.get("read_heads", 1), o.get("write_heads", 1), o["slots"], o["width"]
    others = (hidden_size,) if o.get("controller", "lstm") == "lstm" else ()
    return (hidden_size + reads * width, *others, slots * width, (reads + writes) * slots)


def memory_start(p: Raw, o: dict[str, Any], zeros: State) -> State:
    *others, memory, addresses = zeros
    memory = p["first_memory"].reshape(-1) if "first_memory" in p else memory + 1e-6
    if "first_address" in p:
        addresses = torch.cat([torch.exp(row) / torch.exp(row).sum() for row in p["first_address"]])
    else:
        uniform = o.get("initial_address") == "uniform"
        places = range(len(addresses))
        values = [1 / o["slots"] if uniform else float(i % o["slots"] == 0) for i in places]
        addresses = torch.tensor(values, dtype=addresses.dtype)
    return (*others, memory, addresses)


def softplus(a: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(a))


def shares(values: Sequence[Tensor]) -> list[Tensor]:
    total = sum(torch.exp(v) for v in values)
    return [torch.exp(v) / total for v in values]


def similar(kind: str, key: Tensor, slot: Tensor) -> Tensor:
    product = sum(k * m for k, m in zip(key, slot, strict=True))
    if kind == "dot":
        return product  # type: ignore[return-value]
    lengths = [sum(v * v for v in vector) + 1e-6 for vector in (key, slot)]
    return product / (lengths[0] * lengths[1]) ** 0.5  # type: ignore[operator]


def memory(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    reads, writes, N, W = o.get("read_heads", 1), o.get("write_heads", 1), o["slots"], o["width"]
    how, kind, reach = o.get("addressing", "content+location"), o.get("similarity", "cosine"), o.get("shifts", 1)
    by_content, by_location = "content" in how, "location" in how
    output, *others, flat_memory, flat_addresses = state
    H = len(output) - reads * W
    M = [flat_memory[i * W : (i + 1) * W] for i in range(N)]
    inside = {name.removeprefix("controller."): value for name, value in p.items() if name.startswith("controller.")}
    both, h = torch.cat([x, output[H:]]), output[:H]
    if o.get("controller") == "feedforward":
        new: State = (torch.tanh(inside["weight_ih"] @ both + plus(inside, "bias_h")),)
    else:
        new = BESIDE[o.get("controller", "lstm")](inside, {}, both, (h, *others), t)
    numbers = iter(p["weight_heads"] @ new[0] + plus(p, "bias_heads"))

    def take(heads: int, count: int) -> list[Tensor]:
        return [torch.stack([next(numbers) for _ in range(count)]) for _ in range(heads)]

    heads = reads + writes
    keys = [torch.tanh(key) for key in take(heads if by_content else 0, W)]
    add = [torch.tanh(a) for a in take(writes, W)]
    beta = [softplus(b) for b in take(heads if by_content else 0, 1)]
    gamma = [1 + softplus(c) for c in take(heads if by_location else 0, 1)]
    gate = [sigmoid(g) for g in take(heads if by_content and by_location else 0, 1)]
    erase = [sigmoid(e) for e in take(writes, W)]
    moves = [shares(list(m)) for m in take(heads if by_location else 0, 2 * reach + 1)]

    addresses = []
    for n in range(heads):
        w = list(flat_addresses[n * N : (n + 1) * N])
        if by_content:
            content = shares([beta[n][0] * similar(kind, keys[n], M[i]) for i in range(N)])
            w = [gate[n][0] * c + (1 - gate[n][0]) * b for c, b in zip(content, w, strict=True)] if gate else content
        if by_location:
            moved = []
            for i in range(N):  # a move by m brings to slot i what was at slot i − m
                by = {m: moves[n][reach - m] for m in range(-reach, reach + 1)}
                moved.append(sum(share * w[(i - m) % N] for m, share in by.items()))
            powers = [torch.clamp(v, min=torch.finfo(v.dtype).eps ** 2) ** gamma[n][0] for v in moved]  # type: ignore[call-overload]
            w = [power / sum(powers) for power in powers]
        addresses.append(w)

    for i in range(N):
        slot = M[i]
        for n in range(writes):
            slot = slot * (1 - addresses[reads + n][i] * erase[n])
        for n in range(writes):
            slot = slot + addresses[reads + n][i] * add[n]
        M[i] = slot
    read = [sum(w * m for w, m in zip(addresses[n], M, strict=True)) for n in range(reads)]
    flat_addresses = torch.stack([v for w in addresses for v in w])
    return (torch.cat([new[0], *read]), *new[1:], torch.cat(M), flat_addresses)


# The list -----------------------------------------------------------------------------------------------------------

TAUS = torch.tensor([1.0, 1.5, 4.0, 20.0], dtype=torch.float64)  # one per unit, H of them
_EQUATIONS = {
    "RNN": rnn,
    "IRNN": irnn,
    "RIN": rin,
    "LSTM": lstm,
    "GRU": gru,
    "UGRNN": ugrnn,
    "Intersection": intersection,
    "FastRNN": fastrnn,
    "FastGRNN": fastgrnn,
    "Antisymmetric": antisymmetric,
    "ERNN": ernn,
    "OrthogonalRNN": orthogonal,
    "SpectralRNN": spectral,
    "LeakyRNN": leaky,
    "CFN": unitary_networks.cfn,
    "GORU": goru,
    "KRU": unitary_networks.kru,
    "Reservoir": reservoir,
}
_VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {"nonlinearity": "relu"}),
    ("RNN", {"nonlinearity": "sigmoid"}),
    ("RNN", {"nonlinearity": "identity"}),
    ("RIN", {"transitions": 2}),
    ("RIN", {"transitions": 3}),
    ("LSTM", {"peepholes": True}),
    ("LSTM", {"forget_bias": 1.0}),
    ("LSTM", {"proj_size": 2}),
    ("LSTM", {"peepholes": True, "proj_size": 2, "forget_bias": -0.5}),
    ("LSTM", {"peepholes": "old"}),
    ("GRU", {"reset": "before"}),
    ("GRU", {"gates": "shared-reset"}),
    ("GRU", {"gates": "shared-reset", "reset": "before"}),
    ("FastRNN", {"nonlinearity": "relu"}),
    ("FastGRNN", {"input_rank": 2, "hidden_rank": 2}),
    ("FastGRNN", {"hidden_rank": 1}),
    ("Antisymmetric", {"gated": True}),
    ("Antisymmetric", {"structured": False}),
    ("Antisymmetric", {"gated": True, "structured": False, "step": 0.5, "diffusion": 0.2, "init_scale": 2.0}),
    ("ERNN", {"inner_steps": 2}),
    ("ERNN", {"eta": "per_step", "max_length": 3}),
    ("ERNN", {"eta": "per_step", "max_length": 3, "inner_steps": 2, "alignment": "exact"}),
    ("ERNN", {"alignment": "exact", "nonlinearity": "tanh"}),
    ("ERNN", {"alignment": "none"}),
    ("OrthogonalRNN", {"parametrization": "cayley"}),
    ("OrthogonalRNN", {"parametrization": "rotations"}),
    ("OrthogonalRNN", {"parametrization": "rotations", "capacity": 3, "nonlinearity": "relu"}),
    ("OrthogonalRNN", {"parametrization": "cayley", "nonlinearity": "tanh"}),
    ("OrthogonalRNN", {"field": "complex"}),
    ("OrthogonalRNN", {"field": "complex", "parametrization": "cayley"}),
    ("OrthogonalRNN", {"field": "complex", "parametrization": "rotations"}),
    ("OrthogonalRNN", {"field": "complex", "parametrization": "rotations", "capacity": 3, "nonlinearity": "tanh"}),
    ("GORU", {"capacity": 2}),
    ("GORU", {"parametrization": "cayley"}),
    ("KRU", {"field": "real"}),
    ("KRU", {"nonlinearity": "tanh"}),
    ("Antisymmetric", {"nonlinearity": "relu"}),
    ("SpectralRNN", {"reflections": 2, "radius": 0.3}),
    ("SpectralRNN", {"nonlinearity": "relu"}),
    ("LeakyRNN", {"tau": 2.5, "nonlinearity": "relu"}),
    ("LeakyRNN", {"tau": (2.0, 50.0)}),
    ("LeakyRNN", {"tau": TAUS}),
    ("LeakyRNN", {"learn_tau": True}),
    ("LeakyRNN", {"tau": (2.0, 50.0), "learn_tau": True}),
    ("Reservoir", {"learn": True, "leak": (0.1, 0.9), "spectral_radius": 1.4}),
    ("Reservoir", {"learn": True, "topology": "ring", "nonlinearity": "sigmoid"}),
    ("Reservoir", {"learn": True, "connections": 1, "leak": 1 / TAUS}),
    ("LeakyRNN", {"tau": (1.0, 64.0), "groups": 2, "form": "sum"}),
    ("LeakyRNN", {"form": "pre-activation", "learn_tau": True}),
    ("LeakyRNN", {"form": "pre-activation", "tau": TAUS, "nonlinearity": "sigmoid"}),
]

# A reservoir has no parameters by default; most tests need some.
BASIC = [Network(n, {"learn": True} if n == "Reservoir" else {}, equation) for n, equation in _EQUATIONS.items()]
VARIANTS = [*BASIC, *[Network(name, options, _EQUATIONS[name]) for name, options in _VARIANTS]]

FIXED = [
    Network("Reservoir", options, reservoir)
    for options in (
        {},
        {"connections": 1, "leak": 0.3},
        {"topology": "ring", "spectral_radius": 0.5},
        {"topology": "distance", "connections": 1, "input_scaling": [0.1, 1.0, 2.0], "bias_scaling": 0.5},
    )
]
"""Networks without parameters."""
every_fixed = pytest.mark.parametrize("network", FIXED, ids=str)

_SOLVED = {
    "EquilibriumTanh": equilibrium_tanh,
    "EquilibriumLinear": equilibrium_linear,
    "ImplicitMidpoint": implicit_midpoint,
}
_SOLVED_VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("EquilibriumTanh", {"floor": 1e-6}),
    ("EquilibriumLinear", {"alignment": "first_order"}),
    ("EquilibriumLinear", {"solver": "newton"}),
    ("ImplicitMidpoint", {"step": 0.3, "diffusion": 0.2, "structured": False, "init_scale": 0.5}),
    ("ImplicitMidpoint", {"nonlinearity": "sigmoid", "solver": "inexact_newton", "rtol": 1e-13}),
]
# Networks whose steps are solved: they have no form and no kernel.
SOLVED = [Network(name, {}, equation) for name, equation in _SOLVED.items()]
SOLVED_VARIANTS = [*SOLVED, *[Network(name, options, _SOLVED[name]) for name, options in _SOLVED_VARIANTS]]

_COMPOSED_VARIANTS: list[dict[str, Any]] = [
    {"cell": "gru", "input_depth": 1, "transition_depth": 2, "output_depth": 1, "skip": True, "width": 5},
    {"cell": "lstm", "output_depth": 2, "nonlinearity": "relu", "width": 3},
    {"cell": "lstm", "input_depth": 2, "transition_depth": 0},
    {"skip": True, "transition_depth": 2},
    {"cell": "rin", "transition_depth": 2},
    {"cell": "ernn:eta=per_step:max_length=3", "skip": True},
    {"cell": "rnn:nonlinearity=relu", "groups": 2},
    {"cell": "gru", "transition_depth": 0, "groups": 2, "group_input": "first", "group_output": "last"},
]
# Networks made of another one: some have a form and a kernel, some do not.
_DELAYED_VARIANTS: list[dict[str, Any]] = [
    {"delays": (1, 2, 4)},
    {"cell": "leakyrnn:nonlinearity=relu", "delays": (3, 2)},
    {"cell": "ernn:eta=per_step:max_length=3:inner_steps=2:alignment=none", "delays": (1, 3)},
    {"cell": "antisymmetric", "delays": (1, 2)},
]
_DILATED_VARIANTS: list[dict[str, Any]] = [
    {"cell": "lstm", "dilation": 2, "growth": 1},
    {"cell": "rin", "growth": 1},
    {"cell": "ernn:eta=per_step:max_length=3", "dilation": 2, "growth": 1},
]
COMPOSED = [
    Network("Deep", {}, deep),
    Network("Delayed", {}, delayed),
    Network("Dilated", {"cell": "gru", "dilation": 3, "growth": 1}, dilated),
]
COMPOSED_VARIANTS = [
    *COMPOSED,
    *[Network("Deep", options, deep) for options in _COMPOSED_VARIANTS],
    *[Network("Delayed", options, delayed) for options in _DELAYED_VARIANTS],
    *[Network("Dilated", options, dilated) for options in _DILATED_VARIANTS],
]

# Networks with a closed-form Jacobian and no kernel.
INTEGRATED = [
    Network("Antisymmetric", {"integrator": name, **options}, antisymmetric)
    for name, options in (
        ("heun", {}),
        ("heun", {"gated": True, "structured": False, "step": 0.5}),
        ("rk4", {"step": 0.5, "diffusion": 0.2}),
        ("rk4", {"gated": True, "nonlinearity": "identity"}),
        ("splitting", {"step": 0.5}),
        ("splitting", {"gated": True, "diffusion": 0.2}),
    )
]

# Networks with several scans in a row: no form of their own.
IN_PARTS = [Network("Clockwork", {"periods": (1, 2, 4)}, clockwork)]
IN_PARTS_VARIANTS = [
    *IN_PARTS,
    Network("Clockwork", {"periods": (3, 2, 2), "nonlinearity": "relu"}, clockwork),
    Network("Clockwork", {"periods": (7,)}, clockwork),
]

# Networks that read no state. They have no form and no kernel either.
POINTWISE = [Network("Feedforward", {}, feedforward), Network("TimeDelay", {"window": 3}, time_delay)]
POINTWISE_VARIANTS = [
    *POINTWISE,
    Network("Feedforward", {"nonlinearity": "relu"}, feedforward),
    Network("TimeDelay", {"window": 7, "depth": 3, "nonlinearity": "sigmoid"}, time_delay),
]

# Networks with an equation that no kernel has.
_PHASED = {"periods": (2.0, 6.0), "open_ratio": 0.4}
STEPPED = [Network("PhasedLSTM", _PHASED, phased), Network("SkipRNN", {"cell": "rnn"}, skip)]
STEPPED_VARIANTS = [
    *STEPPED,
    Network("GRU", {"gates": "global-local"}, gru),
    Network("GRU", {"gates": "global-local", "reset": "before"}, gru),
    Network("PhasedLSTM", {**_PHASED, "time": "input", "leak": 0.1}, phased),
    Network("PhasedLSTM", {**_PHASED, "peepholes": False}, phased),
    Network("SkipRNN", {"cell": "lstm", "budget": 0.1}, skip),
]

_MEMORIES: list[dict[str, Any]] = [
    {"controller": "gru", "read_heads": 2, "write_heads": 2},
    {"controller": "feedforward", "addressing": "content", "similarity": "dot", "read_heads": 2},
    {"controller": "rnn", "addressing": "location", "shifts": 2, "initial_address": "uniform"},
    {"initial_memory": "learned", "initial_address": "learned"},
]
# Networks with a memory beside them: no form, and states that do not start at zero.
BESIDE_MEMORY = [Network("Memory", MEMORY, memory)]
MEMORY_VARIANTS = [*BESIDE_MEMORY, *[Network("Memory", MEMORY | options, memory) for options in _MEMORIES]]

EVERY_LAYER = [*BASIC, *SOLVED, *COMPOSED, *IN_PARTS, *POINTWISE, *STEPPED, *BESIDE_MEMORY]
EVERY_VARIANT = [
    *VARIANTS,
    *SOLVED_VARIANTS,
    *COMPOSED_VARIANTS,
    *IN_PARTS_VARIANTS,
    *POINTWISE_VARIANTS,
    *STEPPED_VARIANTS,
    *MEMORY_VARIANTS,
    *INTEGRATED,
]
every_layer = pytest.mark.parametrize("network", EVERY_LAYER, ids=str)
every_variant = pytest.mark.parametrize("network", EVERY_VARIANT, ids=str)
# Not those whose gradient is an estimate: finite differences of a decision are zero.
every_smooth_layer = pytest.mark.parametrize("network", [n for n in EVERY_LAYER if n.name != "SkipRNN"], ids=str)
every_smooth_variant = pytest.mark.parametrize("network", [n for n in EVERY_VARIANT if n.name != "SkipRNN"], ids=str)
every_form_layer = pytest.mark.parametrize("network", BASIC, ids=str)
every_form_variant = pytest.mark.parametrize("network", VARIANTS, ids=str)
