"""RNN, GRU and LSTM: torch.nn's parameter names, seeds and ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from autapse import cells, checks
from autapse.cells import Cell
from autapse.cells.base import borrow, cell_options
from autapse.layers.recurrent import FIRST, Hidden, Layer, Run, check_parameters, check_state, shapes_of
from autapse.native.dispatch import in_forward_mode, kernels_serve
from autapse.sequences.batch import SequenceBatch, check_input
from autapse.unfold import Scan

SCAN = Scan()  # the only strategy that torch's ops can replace


class TorchLayer(Layer):
    """A layer whose parameters have torch.nn's names (weight_ih_l0, …).

    It calls torch's own op where the native library cannot serve and torch has the network.

    The parameters belong to the layer; its cells borrow them at each call, so that whatever replaces a parameter
    (`load_state_dict(assign=True)`, `torch.func.functional_call`, a parametrization) reaches the cells as well.
    """

    def _store_cells(self, made: dict[str, Cell]) -> None:
        self._templates = made
        self._flat_names: list[str] = []  # in the order of torch's ops
        for key, cell in made.items():
            for name, parameter in cell.named_parameters():
                self.register_parameter(f"{name}_{key}", parameter)
                self._flat_names.append(f"{name}_{key}")
            cell._parameters = dict.fromkeys(cell._parameters)
        self._own_shapes = shapes_of(self)
        self._owned = {key: [(name, f"{name}_{key}") for name in cell._parameters] for key, cell in made.items()}
        for option in cell_options(self.cell_type):
            setattr(self, option, getattr(made["l0"], option))  # layer.proj_size, as torch.nn has
        self.flatten_parameters()

    def _check_parameters(self) -> None:
        check_parameters(self, self._own_shapes)

    @property
    def cells(self) -> Mapping[str, Cell]:  # type: ignore[override]
        return {key: borrow(template, self._lent(key)) for key, template in self._templates.items()}

    def _cells(self) -> Mapping[str, Cell]:
        # Parameters as plain attributes too: a module's search for a parameter takes longer than a small op. Only the
        # call itself has these cells, since nothing can replace such a parameter.
        cells = {}
        for key, template in self._templates.items():
            parameters = self._lent(key)
            cells[key] = borrow(template, parameters, **parameters)
        return cells

    def _lent(self, key: str) -> dict[str, Any]:
        """The parameters of a cell."""
        own = self._parameters  # a parametrization is not there: it is an attribute
        return {n: own[name] if name in own else getattr(self, name, None) for n, name in self._owned[key]}

    def forward(
        self,
        x: Tensor | PackedSequence | None = None,
        h0: Hidden = None,
        lengths: Sequence[int] | Tensor | None = None,
        start: int = FIRST,
        return_states: bool = False,
        *,
        input: Tensor | PackedSequence | None = None,  # noqa: A002 (torch.nn's name for x)
        hx: Hidden = None,  # torch.nn's name for h0
        **others: Any,
    ) -> tuple[Any, ...]:
        """As `Recurrent.forward`. `input` and `hx` are torch.nn's names for `x` and `h0`."""
        if input is not None or hx is not None:
            x, h0 = _one_of("input", input, "x", x), _one_of("hx", hx, "h0", h0)
        return super().forward(x, h0, lengths, start, return_states, **others)  # type: ignore[arg-type]

    def _torch_op(self) -> Any:
        """Torch's op for this network, or None if torch has none."""
        raise NotImplementedError

    def _whole(self, x: Tensor, h0: Any) -> tuple[Tensor, Any] | None:
        # The common call, as in torch.nn: the op takes the tensors as they are.
        if self.unfold is not None or kernels_serve(x) or 0 in x.shape:
            return None
        op = self._torch_op()
        if op is None or not self._as_torch:
            return None
        check_input(x, 3, self.input_size, self._dtype)
        sizes = self._state_sizes["l0"]
        leading = (len(self._templates), x.shape[0] if self.batch_first else x.shape[1])
        if h0 is None:
            states = tuple(x.new_zeros(*leading, size) for size in sizes)
        else:
            states = self._states_of(h0, len(sizes))
            for state, size in zip(states, sizes, strict=True):
                check_state(state, (*leading, size), x, "num_layers·directions")
        hidden = states[0] if len(states) == 1 else states
        output, *final = op(x, hidden, *self._op_settings(), self.batch_first)
        return output, final[0] if len(final) == 1 else tuple(final)

    @property
    def _as_torch(self) -> bool:
        """Whether torch's op can do what this layer does."""
        if isinstance(self.hidden_size, list) or self.strategy != SCAN:
            return False
        transformed = torch._C._are_functorch_transforms_active()  # torch's ops have no rule for vmap
        return not (transformed or (in_forward_mode() and not torch.is_grad_enabled()))  # nor for jvp without a graph

    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_names]

    def _op_settings(self) -> tuple[Any, ...]:
        return self._flat_weights(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional

    def _by_torch(self, batch: SequenceBatch, states: Mapping[str, Any]) -> Run | None:
        op = self._torch_op()
        if op is None or not batch.sizes or not self._as_torch:
            return None
        running = batch.sizes[0]  # sequences of length 0 keep their state
        stacked = [torch.stack(column)[:, :running] for column in zip(*states.values(), strict=True)]
        hidden = stacked[0] if len(stacked) == 1 else stacked
        shared = self._op_settings()
        if batch.sizes[-1] == running:
            output, *final = op(batch.rows.view(len(batch.sizes), running, self.input_size), hidden, *shared, False)
            output = output.reshape(-1, output.shape[-1])
        else:
            output, *final = op(batch.rows, torch.tensor(batch.sizes), hidden, *shared)
        rejoined = [
            torch.cat([new, old[running:]]) if running < batch.count else new
            for n, column in enumerate(zip(*states.values(), strict=True))
            for new, old in zip(final[n].unbind(0), column, strict=True)
        ]
        count = len(states)
        return Run(output, {key: tuple(rejoined[n::count]) for n, key in enumerate(states)}, [], [], [])

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        result = super()._apply(fn, recurse)
        self.flatten_parameters()
        return result

    def flatten_parameters(self) -> None:
        """On a GPU, put the weights into one piece of memory for cuDNN. Elsewhere do nothing."""
        weights = self._flat_weights()
        if (
            self._torch_op() is None
            or isinstance(self.hidden_size, list)
            or not weights[0].is_cuda
            or not all(torch.backends.cudnn.is_acceptable(w) for w in weights)
        ):
            return
        from torch.backends.cudnn import rnn

        mode = self._torch_op().__name__.upper()
        with torch.cuda.device_of(weights[0]), torch.no_grad():
            torch._cudnn_rnn_flatten_weight(
                weights,
                len(weights) // len(self._templates),
                self.input_size,
                rnn.get_cudnn_mode(mode),
                self.hidden_size,
                getattr(self, "proj_size", 0),
                self.num_layers,
                False,
                self.bidirectional,
            )


def _one_of(name: str, value: Any, other: str, other_value: Any) -> Any:
    """The value of an argument with two names. It is an error to use both."""
    if value is not None and other_value is not None:
        checks.fail(name, f"be None if {other} is given: both name the same argument", "both")
    return other_value if value is None else value


class RNN(TorchLayer):
    cell_type = cells.RNN
    nonlinearity: str

    def __init__(self, input_size: int, hidden_size: Any, *args: Any, **keywords: Any) -> None:
        # torch.nn.RNN takes nonlinearity as its fourth positional argument, before bias.
        if len(args) > 1 and isinstance(args[1], str):
            keywords["nonlinearity"] = args[1]
            args = (args[0], *args[2:])
        super().__init__(input_size, hidden_size, *args, **keywords)

    def _torch_op(self) -> Any:
        return {"tanh": torch.rnn_tanh, "relu": torch.rnn_relu}.get(self.nonlinearity)


class GRU(TorchLayer):
    cell_type = cells.GRU
    reset: str
    gates: str

    def _torch_op(self) -> Any:
        return torch.gru if self.reset == "after" and self.gates == "local" else None


class LSTM(TorchLayer):
    cell_type = cells.LSTM
    peepholes: bool | str

    def __init__(self, input_size: int, hidden_size: Any, *args: Any, **keywords: Any) -> None:
        # torch.nn.LSTM takes proj_size as its eighth positional argument, before device.
        if len(args) > 5 and isinstance(args[5], int):
            keywords["proj_size"] = args[5]
            args = (*args[:5], *args[6:])
        super().__init__(input_size, hidden_size, *args, **keywords)

    def _torch_op(self) -> Any:
        return None if self.peepholes else torch.lstm


def from_torch(module: nn.Module) -> TorchLayer:
    """Convert a torch.nn.RNN, GRU or LSTM.

    Args:
        module: the torch.nn module.

    Returns:
        The layer of autapse with the same settings, weights and mode.

    >>> autapse.from_torch(torch.nn.GRU(3, 5, num_layers=2))
    GRU(3, 5, num_layers=2)
    """
    if not isinstance(module, nn.RNN | nn.GRU | nn.LSTM):
        checks.fail("module", "be a torch.nn.RNN, GRU or LSTM", type(module).__name__, kind=checks.KindError)
    names = ["num_layers", "bias", "batch_first", "bidirectional"]
    names += ["nonlinearity"] if isinstance(module, nn.RNN) else ["proj_size"] if isinstance(module, nn.LSTM) else []
    ours = RNN if isinstance(module, nn.RNN) else GRU if isinstance(module, nn.GRU) else LSTM
    weight = next(module.parameters())
    with torch.random.fork_rng(devices=[]):  # building a layer draws weights that are replaced at once
        layer = ours(
            module.input_size,
            module.hidden_size,
            **{name: getattr(module, name) for name in names},
            device=weight.device,
            dtype=weight.dtype,
        )
    layer.dropout = module.dropout
    layer.load_state_dict(module.state_dict())
    for name, parameter in module.named_parameters():
        getattr(layer, name).requires_grad_(parameter.requires_grad)
    return layer.train(module.training)
