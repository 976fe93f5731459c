"""EchoStateNetwork: a reservoir with a readout that is solved in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from autapse import checks
from autapse.layers.registry import make_layer, parse_network
from autapse.models import echo_files
from autapse.models.echo_series import SeriesList, are_classes, read_labels, read_series
from autapse.models.solved_head import CLASS_PENALTIES, PENALTIES
from autapse.readouts import LinearReadout, Logistic, RecursiveLeastSquares, Ridge
from autapse.readouts.logistic import FOLDS
from autapse.readouts.ridge import BLOCK

AT_ONCE = 1 << 22  # numbers of states in memory
MOST_WASHOUT = 100


class EchoStateNetwork(nn.Module):
    """y_t = W·[h_t, u_t] + c, h_t a reservoir's state after the inputs u_1 … u_t; W and c are solved, not trained

    `fit(x, y)` learns to compute y from x. `fit(series)` learns to continue a series: at each step the network reads
    the value before, and predicts the present one. Inputs are standardised. The results are numpy arrays.

    Args:
        cell: the network, by name or as a class; its weights should be fixed, as in "reservoir" and "liquid".
        hidden_size: units.
        washout: steps at the start of each series that the readout does not learn from, since the state still depends
            on its zero start. By default a fifth of the shortest series, at most 100; 0 for a class per series.
        penalty: of the readout: a number, or several to choose from; None: a range that suits the targets. For values
            they are relative to the states' variation.
        choose: how a penalty is chosen: "gcv", or a number of folds; see `autapse.readouts.Ridge`. For classes "gcv"
            stands for five folds.
        relative: False: the penalties are not relative.
        feedback: the network also reads its own output at the step before. In `fit`, the target takes its place.
        read_input: the readout reads u_t too, not only h_t.
        standardise: subtract the mean from each input, and divide by the standard deviation.
        seed: of the random weights.
        dtype: of the states.
        options: options of the layer, such as `spectral_radius`, `leak` or `num_layers`.

    >>> t = torch.arange(600.0)
    >>> wave = torch.sin(t / 5) * torch.sin(t / 7)
    >>> model = autapse.EchoStateNetwork(hidden_size=100).fit(wave[:500])
    >>> float(abs(model.generate(50, wave[:500]) - wave[500:550].numpy()).max()) < 0.05
    True
    """

    mean: Tensor  # of what the network reads
    scale: Tensor

    def __init__(
        self,
        cell: Any = "reservoir",
        hidden_size: int = 300,
        washout: int | None = None,
        penalty: float | Sequence[float] | None = None,
        choose: str | int = "gcv",
        relative: bool = True,
        feedback: bool = False,
        read_input: bool = True,
        standardise: bool = True,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        **options: Any,
    ) -> None:
        super().__init__()
        self.cell, self.options = cell, options
        self.hidden_size = checks.integer("hidden_size", hidden_size, minimum=1)
        self.washout = None if washout is None else checks.integer("washout", washout, minimum=0)
        self.penalty = penalty if penalty is None or isinstance(penalty, int | float) else tuple(penalty)
        self.choose, self.relative = choose, relative
        self._ridge()  # checks them
        self.feedback = checks.boolean("feedback", feedback)
        self.read_input = checks.boolean("read_input", read_input)
        self.standardise = checks.boolean("standardise", standardise)
        self.seed, self.dtype = checks.seed("seed", seed), dtype
        if isinstance(cell, str):
            parse_network(cell)  # an error is known at once
        self.layer: Any = None
        self.readout: LinearReadout | None = None
        self.classes: list[Any] = []
        """The classes, if targets are classes."""
        self.inputs, self.outputs = 0, 0
        """Numbers per step of x and of y. A network that continues a series has no x."""
        self.flat = self.per_series = False
        self.error: np.ndarray | None = None
        """The root of the mean squared error on the training data, one per output."""
        self._carried: Any = None

    # Learning ---------------------------------------------------------------------------------------------------------

    def fit(self, x: Any, y: Any = None) -> EchoStateNetwork:
        """Solve the readout, in one pass over the data.

        Args:
            x: one series, [T] or [T, D]; or many, [N, T, D] or a list.
            y: the targets: values at each step, [T] or [T, K] for each series; or classes (text or integers), one for
                each step or one for each series. None: the network learns to continue x.

        Returns:
            The network itself.
        """
        if y is not None and are_classes(y):
            return self._fit_classes(x, y)
        given, targets = self._pair(x, y)
        self.classes, self._carried = [], None
        self._start(given, targets)
        washout = self._washout([len(part) for part in targets.parts])
        readout = self._ridge()
        for n, first, features in self._features(self._network_inputs(given, targets)):
            begin = max(0, washout - first)
            readout.add(features[begin:], targets.parts[n][first + begin : first + len(features)])
        self.readout = readout.solve()
        assert readout.error is not None
        self.error = readout.error.numpy()
        return self

    def _fit_classes(self, x: Any, y: Any) -> EchoStateNetwork:
        if self.feedback:
            checks.fail("feedback", "be False if the targets are classes", True)
        given = read_series("x", x, self.dtype)
        labels = read_labels(y, [len(part) for part in given.parts], given.single)
        self.classes, self._carried, self.error = labels.names, None, None
        self._start(given, None, outputs=len(labels.names))
        lengths = [len(part) for part in given.parts]
        washout = (self.washout or 0) if labels.per_series else self._washout(lengths)
        if labels.per_series:
            rows, wanted = self._moments(given, washout), labels.parts[0]
        else:
            pieces = list(self._features(self._network_inputs(given, None)))
            rows = torch.cat([features[max(0, washout - first) :] for _, first, features in pieces])
            wanted = torch.cat([part[washout:] for part in labels.parts])
        readout = self._logistic(1 if labels.per_series else BLOCK)
        self.readout = readout.fit(rows, wanted, len(labels.names))
        self.per_series = labels.per_series
        return self

    def _moments(self, given: SeriesList, washout: int) -> Tensor:  # [N, 2·F]
        """What the readout reads for each series: mean and deviation over its steps after the washout.

        The mean alone says little: that of an oscillation is near zero, whatever its period.
        """
        made: list[_Moments | None] = [None] * len(given.parts)
        for n, first, features in self._features(self._network_inputs(given, None)):
            if first + len(features) > washout:
                part = _Moments.of(features[max(0, washout - first) :].double())
                before = made[n]
                made[n] = part if before is None else before + part
        nothing = torch.zeros(2 * self._feature_count, dtype=torch.float64)  # of a series that is not longer
        return torch.stack([nothing if one is None else one.features for one in made])

    @torch.no_grad()
    def partial_fit(
        self, x: Any, y: Any = None, force: bool = False, penalty: float = 1e-2, forgetting: float = 1.0
    ) -> EchoStateNetwork:
        """Learn from one step after the other, by recursive least squares. The next call continues the series.

        Args:
            x: the next piece of one series, [T] or [T, D].
            y: the targets at each step; None: the network learns to continue x.
            force: the network reads its own outputs while it learns, not the targets (FORCE, Sussillo and Abbott 2009).
                It must have feedback, or continue a series.
            penalty: of the first call, see `autapse.readouts.RecursiveLeastSquares`.
            forgetting: of the first call, see there.

        Returns:
            The network itself.
        """
        given, targets = self._pair(x, y)
        if not given.single:
            checks.fail("x", "be one series", f"{len(given.parts)} of them", "Call fit for many.")
        if checks.boolean("force", force) and not (self.feedback or y is None):
            checks.fail("force", "be False for a network that does not read its outputs", force, "Set feedback=True.")
        if self.readout is None:
            self._start(given, targets)
            self.readout = RecursiveLeastSquares(penalty, forgetting)
            self.readout.start(self._feature_count, self.outputs)
        if not isinstance(self.readout, RecursiveLeastSquares):
            raise checks.InputError("This network was fitted with fit. Make a new one for partial_fit.")
        if (given.width, targets.width) != (self.inputs, self.outputs):
            rule = f"have {self.inputs} and {self.outputs} columns, as before"
            checks.fail("x and y", rule, (given.width, targets.width), kind=checks.ShapeError)
        stream, before, seen = self.layer.stream(), torch.zeros(self._fed, dtype=self.dtype), 0
        if self._carried is not None:
            state, before, seen = self._carried
            stream.reset(state)
        scaled = self._scaled(given.parts[0], slice(0, self.inputs))
        for x_t, y_t in zip(scaled, targets.parts[0], strict=True):
            u = torch.cat([x_t, before])
            features = self._joined(stream(u)[None], u[None])[0]
            output = self.readout(features)
            seen += 1
            if seen > (self.washout or 0):
                self.readout.update(features, y_t)
            before = self._fed_back(output if force else y_t)
        self._carried = stream.state, before, seen
        return self

    # Use --------------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, x: Any, y: Any = None) -> Any:
        """The outputs for each step, or the class of each series.

        Args:
            x: as in `fit`. If the network continues series, each value is predicted from those before it.
            y: for a network with feedback that has inputs: the outputs that it reads; None: its own ones.

        Returns:
            Values [T] or [T, K] as the targets of `fit`, a list of them for many series; or classes.
        """
        readout = self._fitted()
        if self.classes:
            return self._classes_of(x, readout)
        targets: SeriesList | None = None
        if not self.inputs:
            targets = read_series("x", x, self.dtype, self.outputs)
            given = _empty(targets)
        else:
            given = read_series("x", x, self.dtype, self.inputs)
            if y is not None and not self.feedback:
                checks.fail("y", "be None for a network without feedback", type(y).__name__)
            targets = None if y is None else self._pair(x, y)[1]
        if self._fed and targets is None:
            outputs = [self._closed(part) for part in given.parts]
        else:
            parts: list[list[Tensor]] = [[] for _ in given.parts]
            for n, _, features in self._features(self._network_inputs(given, targets)):
                parts[n].append(readout(features))
            outputs = [torch.cat(each) for each in parts]
        return given.given_back(outputs, self.flat)

    def _classes_of(self, x: Any, readout: LinearReadout) -> Any:
        given = read_series("x", x, self.dtype, self.inputs)
        names = np.asarray(self.classes)
        if self.per_series:
            numbers = readout(self._moments(given, self.washout or 0)).argmax(-1).numpy()
            return names[numbers][0] if given.single else names[numbers]
        parts: list[list[Tensor]] = [[] for _ in given.parts]
        for n, _, features in self._features(self._network_inputs(given, None)):
            parts[n].append(readout(features).argmax(-1))
        each = [names[torch.cat(part).numpy()] for part in parts]
        return each[0] if given.single else each

    def _closed(self, x: Tensor) -> Tensor:  # [T, D] -> [T, K]
        """The outputs for one series, each of which is read at the next step."""
        stream, before, outputs = self.layer.stream(), torch.zeros(self._fed, dtype=self.dtype), []
        for x_t in self._scaled(x, slice(0, self.inputs)):
            u = torch.cat([x_t, before])
            outputs.append(self._fitted()(self._joined(stream(u)[None], u[None])[0]))
            before = self._fed_back(outputs[-1])
        return torch.stack(outputs)

    @torch.no_grad()
    def generate(
        self, steps: int, history: Any, intervals: float | None = None, paths: int = 200, seed: int = 0
    ) -> Any:
        """Continue a series: each output is the input of the next step.

        Args:
            steps: number of new values.
            history: the series so far, [T] or [T, K]; at least as long as the washout.
            intervals: also return an interval with this share of the paths at each step.
            paths: number of paths, to each of whose steps an error of the size of the training errors is added.
            seed: of these errors.

        Returns:
            The values, [steps] or [steps, K]. With intervals a tuple of them and of the lower and upper limits.
        """
        readout = self._fitted()
        if self.inputs or self.classes:
            raise checks.InputError("This network does not continue series. Fit it without y; or use predict.")
        steps = checks.integer("steps", steps, minimum=1)
        series = read_series("history", history, self.dtype, self.outputs)
        if not series.single:
            checks.fail("history", "be one series", f"{len(series.parts)} of them")
        *_, state = self._states(self._network_inputs(_empty(series), series)[0][:, None])
        before = self._fed_back(series.parts[0][-1])
        values = self._continued(state, before[None], steps, readout, None)[:, 0]
        if intervals is None:
            return series.given_back([values], self.flat)
        if self.error is None:
            checks.fail("intervals", "be None after partial_fit, which does not know the size of errors", intervals)
        level = checks.number("intervals", intervals, above=0.0, high=1.0)
        count = checks.integer("paths", paths, minimum=2)
        noise = torch.Generator().manual_seed(checks.seed("seed", seed))
        errors = torch.randn(steps, count, self.outputs, generator=noise, dtype=self.dtype)
        many = [part.repeat_interleave(count, dim=1) for part in ([state] if isinstance(state, Tensor) else state)]
        start = many[0] if isinstance(state, Tensor) else tuple(many)
        drawn = self._continued(start, before.expand(count, -1), steps, readout, errors * torch.as_tensor(self.error))
        limits = drawn.quantile(torch.tensor([0.5 - level / 2, 0.5 + level / 2], dtype=self.dtype), dim=1)
        return tuple(series.given_back([one], self.flat) for one in (values, *limits))

    def _continued(
        self, state: Any, before: Tensor, steps: int, readout: LinearReadout, errors: Tensor | None
    ) -> Tensor:  # [steps, B, K]
        stream, outputs = self.layer.stream(len(before)), []
        stream.reset(state)
        for t in range(steps):
            output = readout(self._joined(stream(before), before))
            outputs.append(output if errors is None else output + errors[t])
            before = self._fed_back(outputs[-1])
        return torch.stack(outputs)

    def save(self, path: str | Path) -> None:
        """Write the fitted network to a file (safetensors).

        Args:
            path: the file.
        """
        self._fitted()
        echo_files.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, trust: bool = False) -> EchoStateNetwork:
        """Read a network that `save` has written.

        Args:
            path: the file.
            trust: import the module of a cell of your own, if the file names one.

        Returns:
            The network.
        """
        return echo_files.load(cls, Path(path), trust)

    def _ridge(self) -> Ridge:
        return Ridge(PENALTIES if self.penalty is None else self.penalty, self.choose, self.relative)

    def _logistic(self, block: int) -> Logistic:
        folds = self.choose if isinstance(self.choose, int) else FOLDS
        return Logistic(CLASS_PENALTIES if self.penalty is None else self.penalty, folds, block)

    # Inside -----------------------------------------------------------------------------------------------------------

    @property
    def _fed(self) -> int:
        """Outputs that the network reads."""
        return self.outputs if self.feedback or (not self.inputs and not self.classes) else 0

    @property
    def _feature_count(self) -> int:
        """What the readout reads of one step."""
        return int(self.layer.output_size) + (self.inputs + self._fed if self.read_input else 0)

    @property
    def readout_shape(self) -> tuple[int, int]:
        """The shape of the readout's weights: outputs, and what it reads of a step or of a series."""
        return self.outputs, self._feature_count * (2 if self.per_series else 1)

    def _pair(self, x: Any, y: Any) -> tuple[SeriesList, SeriesList]:
        """x and y as series of the same lengths; x has no columns if the network continues a series."""
        if y is None:
            series = read_series("x", x, self.dtype)
            return _empty(series), series
        given, targets = read_series("x", x, self.dtype), read_series("y", y, self.dtype)
        lengths = [[len(part) for part in each.parts] for each in (given, targets)]
        if lengths[0] != lengths[1]:
            checks.fail("y", f"have the lengths of x, {lengths[0][:3]}", lengths[1][:3], kind=checks.ShapeError)
        return given, targets

    def _washout(self, lengths: list[int]) -> int:
        washout = min(MOST_WASHOUT, min(lengths) // 5) if self.washout is None else self.washout
        if min(lengths) <= washout:
            checks.fail("washout", f"be less than the {min(lengths)} steps of the shortest series", washout)
        return washout

    def _start(self, given: SeriesList, targets: SeriesList | None, outputs: int = 0) -> None:
        """Draw the network, and measure mean and deviation of what it reads."""
        self.inputs, self.outputs = given.width, outputs if targets is None else targets.width
        self.flat = targets is not None and targets.flat
        self.per_series = False
        if not all(map(len, given.parts)):
            checks.fail("x", "have at least one step in each series", 0, kind=checks.ShapeError)
        columns = torch.cat(given.parts)
        if self._fed and targets is not None:
            columns = torch.cat([columns, torch.cat(targets.parts)], dim=1)
        mean, scale = columns.mean(0), columns.std(0, correction=0)
        if not self.standardise:
            mean, scale = torch.zeros_like(mean), torch.ones_like(scale)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", torch.where(scale > 0, scale, 1.0))
        self.layer = self._make(self.inputs + self._fed)

    def _make(self, width: int, device: str = "cpu") -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            layer = make_layer(self.cell, width, self.hidden_size, dtype=self.dtype, device=device, **self.options)
        if layer.bidirectional or layer.looks_ahead:
            checks.fail("cell", "read a series in one direction", repr(layer))
        if layer.batch_first:
            checks.fail("batch_first", "be False", True)
        return layer.requires_grad_(False).eval()

    def _scaled(self, values: Tensor, columns: slice) -> Tensor:
        return (values - self.mean[columns]) / self.scale[columns]

    def _fed_back(self, output: Tensor) -> Tensor:  # [..., K], or nothing
        return self._scaled(output.to(self.dtype), slice(self.inputs, None)) if self._fed else output[..., :0]

    def _network_inputs(self, given: SeriesList, targets: SeriesList | None) -> list[Tensor]:  # [T, D + K] each
        """What the network reads: x, and the output at the step before, which is at first the mean."""
        made = []
        for n, part in enumerate(given.parts):
            u = self._scaled(part, slice(0, self.inputs))
            if self._fed and targets is not None:
                before = self._fed_back(targets.parts[n])
                u = torch.cat([u, torch.cat([torch.zeros_like(before[:1]), before[:-1]])], dim=1)
            made.append(u)
        return made

    def _joined(self, states: Tensor, u: Tensor) -> Tensor:
        return torch.cat([states, u], dim=-1) if self.read_input else states

    @torch.no_grad()
    def _features(self, inputs: list[Tensor]) -> Iterator[tuple[int, int, Tensor]]:
        """What the readout reads, in pieces: the number of a series, the first step, [t, F]."""
        steps = max(1, AT_ONCE // self.layer.output_size)
        if max(map(len, inputs)) * len(inputs) <= steps:
            lengths = [len(u) for u in inputs]
            states, _ = self.layer(pad_sequence(inputs), lengths=lengths)
            for n, (u, length) in enumerate(zip(inputs, lengths, strict=True)):
                yield n, 0, self._joined(states[:length, n], u)
            return
        for n, u in enumerate(inputs):
            first, state = 0, None
            for piece in u.split(steps):
                output, state = self.layer(piece[:, None], state)
                yield n, first, self._joined(output[:, 0], piece)
                first += len(piece)

    def _states(self, u: Tensor) -> Iterator[Any]:
        """The state after each piece of a series."""
        state = None
        for piece in u.split(max(1, AT_ONCE // self.layer.output_size)):
            _, state = self.layer(piece, state)
            yield state

    def _fitted(self) -> LinearReadout:
        if self.readout is None:
            raise checks.InputError("This EchoStateNetwork has no readout yet. Call fit first.")
        return self.readout


class _Moments(NamedTuple):
    """Mean and variation of some states; those of two pieces of a series can be joined."""

    steps: int
    mean: Tensor  # [F]
    variation: Tensor  # Σ (h − mean)², [F]

    @classmethod
    def of(cls, states: Tensor) -> _Moments:  # [n, F]
        mean = states.mean(0)
        return cls(len(states), mean, (states - mean).square().sum(0))

    def __add__(self, other: Any) -> _Moments:
        steps, between = self.steps + other.steps, other.mean - self.mean
        variation = self.variation + other.variation + between.square() * self.steps * other.steps / steps
        return _Moments(steps, self.mean + between * other.steps / steps, variation)

    @property
    def features(self) -> Tensor:  # [2·F]
        return torch.cat([self.mean, (self.variation / self.steps).sqrt()])


def _empty(series: SeriesList) -> SeriesList:
    """As many steps, without columns."""
    return series._replace(parts=[part[:, :0] for part in series.parts])
