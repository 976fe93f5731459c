"""What people pass to a generator, as tensors, and what they get back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from autapse import checks
from autapse.models.decoder import Conditions, Decoder
from autapse.models.heads import MISSING
from autapse.models.inputs import check_input
from autapse.models.padding import Padded
from autapse.models.series import Expected, read_given
from autapse.models.vectors import read_vectors

TOGETHER = 256  # sequences that are computed at a time


class Read(NamedTuple):
    """Sequences that were passed, and whether it is a single one."""

    y: Padded
    single: bool


class Passed:
    """Reads sequences, and what they depend on, for a model.

    Args:
        model: the generator.

    >>> from autapse.models import Elements, Generator
    >>> model = Generator("gru", Elements(symbols=3), hidden_size=4)
    >>> Passed(model).sequences([[0, 2, None], [1]]).y.lengths
    tensor([3, 1])
    """

    def __init__(self, model: Any) -> None:
        self._model: Any = model
        self._decoder: Decoder = model.decoder
        self._like = model.decoder.head.linear.weight
        self._dtype = "float64" if self._like.dtype == torch.float64 else "float32"

    def sequences(self, sequences: Any, argument: str = "sequences") -> Read:
        """Sequences as a padded tensor on the device of the model."""
        if isinstance(sequences, Padded):
            return Read(Padded(sequences.values.to(self._like.device), sequences.lengths), False)
        made = self._decoder.elements
        if made.symbols:
            rows, single = self._model.symbols.read(sequences, argument)
        else:
            expected = Expected(made.values + made.binary, self._model.columns, False, True, self._dtype)
            given = read_given(sequences, None, expected)
            rows, single = given.series, given.form == "single"
        padded = pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=MISSING)
        return Read(Padded(padded.to(self._like.device), torch.tensor([len(row) for row in rows])), single)

    def x(self, x: Any) -> tuple[Tensor | None, Tensor | None]:
        """What sequences depend on as a tensor [B, T, D], and the lengths of these sequences; None for a vector."""
        inputs, depends = self._model.inputs, self._model.depends
        if inputs is None:
            if x is not None:
                checks.fail("x", "be None, since sequences of this model depend on nothing", type(x).__name__)
            return None, None
        if x is None:
            checks.fail("x", f"be given, since sequences of this model depend on a {depends}", None)
        if isinstance(x, Tensor):
            check_input(x, inputs.input_size, (3,))
            return x.to(self._like.device), None if depends == "vector" else torch.full((len(x),), x.shape[1])
        sizes: list[Any] = [table.num_embeddings for table in inputs.tables]
        if depends == "vector":
            vectors = torch.from_numpy(read_vectors(x, inputs.input_size, sizes, self._model.words)[0])
            dtype = self._like.dtype if vectors.is_floating_point() else None
            return vectors[:, None].to(self._like.device, dtype), None
        gaps = inputs.missing != "error"
        given = read_given(x, None, Expected(inputs.input_size, self._model.channels, bool(sizes), gaps, self._dtype))
        series = [torch.from_numpy(np.ascontiguousarray(one)) for one in given.series]
        padded = pad_sequence(series, batch_first=True).to(self._like.device)
        return padded, torch.tensor([len(one) for one in series])

    def batches(self, y: Padded, x: Any) -> list[tuple[Padded, Conditions]]:
        """Some sequences at a time, with what they depend on."""
        inputs, ends = self.x(x)
        count = len(y.values)
        if inputs is not None and len(inputs) != count:
            checks.fail("x", f"have one entry for each of the {count} sequences", len(inputs), kind=checks.ShapeError)
        if ends is not None and not bool((ends == y.lengths).all()):
            checks.fail("x", "have sequences as long as those that depend on them", ends.tolist()[:8])
        parts = []
        for chosen in torch.arange(count).split(TOGETHER):
            here = chosen.to(self._like.device)
            some = None if inputs is None else inputs[here]
            given = self._model.given(some, None if ends is None else ends[chosen])
            parts.append((Padded(y.values[here], y.lengths[chosen]), given))
        return parts

    def lengths(self, lengths: Any, rows: int, ends: Tensor | None) -> Tensor | None:  # [rows]
        """The lengths to generate; None if the model draws them. `ends` has those of what sequences depend on."""
        if ends is not None:
            if lengths is not None:
                checks.fail("lengths", "be None: a sequence is as long as the one that it depends on", lengths)
            return ends
        if lengths is None and self._decoder.ending != "given":
            return None
        longest = self._decoder.elements.longest
        wanted = longest if lengths is None else lengths
        each = [wanted] * rows if isinstance(wanted, int) else list(wanted)
        if len(each) != rows:
            checks.fail("lengths", f"be one length, or one for each of the {rows} sequences", len(each))
        most = None if self._decoder.count is None else longest
        return torch.tensor([checks.integer("lengths", one, minimum=1, maximum=most) for one in each])

    def starts(self, start: Any, rows: int) -> Padded:
        """The known beginnings of all sequences."""
        y = self.sequences(start, "start").y
        if len(y.values) not in (1, rows):
            checks.fail("start", f"be one beginning, or one for each of the {rows} sequences", len(y.values))
        return Padded(y.values.expand(rows, *y.values.shape[1:]), y.lengths.expand(rows))

    def shown(self, y: Padded) -> list[Any]:
        """Sequences as text if symbols have names, otherwise as arrays."""
        rows = [row[: int(end)].cpu().numpy() for row, end in zip(*y, strict=True)]
        return [self._model.symbols.shown(row) for row in rows] if self._decoder.elements.symbols else rows
