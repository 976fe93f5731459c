"""The cost of decoders and of attention, behind the table in docs/translating.md.

python benchmarks/decoder.py --out benchmarks/results/decoder.json    measure; about three minutes
python benchmarks/decoder.py --quick --out FILE                       the same with small sizes, to check that it runs
python benchmarks/decoder.py --render                                 write the table of docs/translating.md

A training step is forward and backward. The two sides of a ratio take turns, and the best time of each counts. Before
that, their results are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autapse.benchmark.script import Script, measured_on, training_step
from autapse.benchmark.timing import interleaved
from autapse.models import Attention, Conditions, Decoder, Elements, Padded, Tagger
from autapse.models.walk import DecoderWalk
from autapse.results.page import fill_table, milliseconds

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "translating.md"
RESULTS = ROOT / "benchmarks" / "results" / "decoder.json"
SYMBOLS, STEPS, BATCH = 50, 100, 64
CELLS, SIZES = ("gru", "lstm", "rin"), (64, 128, 256)
KINDS = ("multiplicative", "additive", "monotonic")
BARS = {"decoder": 1.2, "attention": 2.0}
Call = Callable[[], Tensor]


class Sizes:
    """What is measured."""

    def __init__(self, quick: bool) -> None:
        self.steps, self.batch = (6, 3) if quick else (STEPS, BATCH)
        self.cells: tuple[str, ...] = ("gru",) if quick else CELLS
        self.sizes: tuple[int, ...] = (8,) if quick else SIZES
        self.repeats, self.seconds = (2, 0.1) if quick else (40, 6.0)


def make_decoder(cell: str, size: int) -> Any:
    """A decoder that reads vectors as large as its state."""
    return Decoder(cell, Elements(symbols=SYMBOLS, longest=STEPS + 1), size, embedding_size=size)


def as_encoder(decoder: Any, cell: str, size: int) -> Any:
    """The same layer in a model that reads the symbols and names the next ones: the same weights, no decoder."""
    words: Any = {"vocabularies": [SYMBOLS + 1], "embedding_size": [size]}
    model: Any = Tagger(cell, 1, SYMBOLS + 1, hidden_size=size, **words)
    table = decoder.previous.table.weight.detach().clone()
    table[SYMBOLS] = decoder.previous.start.detach()  # the start is one more symbol here
    model.inputs.tables[0].weight = nn.Parameter(table)
    model.layer.load_state_dict(decoder.layer.state_dict())
    model.head.load_state_dict(decoder.head.linear.state_dict())
    return model


def ratio(first: Call, second: Call, sizes: Sizes) -> dict[str, float]:
    """How many times longer the first call takes."""
    one, two = interleaved(first, second, sizes.repeats, sizes.seconds)
    return {"seconds": one.seconds, "against": two.seconds, "ratio": round(one.seconds / two.seconds, 3)}


def measure_decoder(cell: str, size: int, sizes: Sizes) -> dict[str, Any]:
    """A teacher-forced decoder against the same layer as an encoder. Both have the same loss."""
    decoder = make_decoder(cell, size)
    y = Padded(torch.randint(SYMBOLS, (sizes.batch, sizes.steps - 1)), torch.full((sizes.batch,), sizes.steps - 1))
    wanted = decoder.wanted(y).values
    model = as_encoder(decoder, cell, size)
    read = torch.cat([torch.full((sizes.batch, 1), SYMBOLS), y.values], dim=1)[..., None]
    written = training_step(decoder, lambda: -decoder.teacher_forced(y, Conditions()).sum())
    tagged = training_step(model, lambda: F.cross_entropy(model(read).flatten(0, 1), wanted.flatten(), reduction="sum"))
    torch.testing.assert_close(written(), tagged(), rtol=1e-4, atol=1e-3)
    weights = [one.layer.parameters() for one in (decoder, model)]
    for mine, other in zip(*weights, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-3)
    return {"what": "decoder", "cell": cell, "size": size, "bar": BARS["decoder"], **ratio(written, tagged, sizes)}


def measure_attention(kind: str, cell: str, size: int, sizes: Sizes) -> dict[str, Any]:
    """A decoder with attention after the recurrence against the same decoder without it."""
    decoder = make_decoder(cell, size)
    y = Padded(torch.randint(SYMBOLS, (sizes.batch, sizes.steps - 1)), torch.full((sizes.batch,), sizes.steps - 1))
    attention = Attention(kind, size, size)
    memory = torch.randn(sizes.batch, sizes.steps, size).tanh().requires_grad_()
    both = nn.ModuleList([decoder, attention])

    def attending() -> Tensor:
        memory.grad = None
        return -decoder.teacher_forced(y, Conditions(attend=attention.over(memory))).sum()

    with_it = training_step(both, attending)
    without = training_step(decoder, lambda: -decoder.teacher_forced(y, Conditions()).sum())
    with torch.no_grad():
        given, wanted = Conditions(attend=attention.over(memory)), decoder.wanted(y)
        fed, walk = decoder.fed(wanted), DecoderWalk(decoder, given, sizes.batch)
        features = torch.stack([walk(fed[:, t]) for t in range(sizes.steps)], dim=1)
        each = decoder.log_likelihood(features, wanted, given)
        torch.testing.assert_close(each, decoder.teacher_forced(y, given), rtol=1e-3, atol=1e-3)
    found = ratio(with_it, without, sizes)
    return {"what": f"{kind} attention", "cell": cell, "size": size, "bar": BARS["attention"], **found}


def measure(quick: bool) -> dict[str, Any]:
    """All ratios."""
    torch.manual_seed(0)
    sizes = Sizes(quick)
    rows = [measure_decoder(cell, size, sizes) for cell in sizes.cells for size in sizes.sizes]
    rows += [measure_attention(kind, sizes.cells[0], size, sizes) for kind in KINDS for size in sizes.sizes]
    return {"settings": {"symbols": SYMBOLS, "steps": sizes.steps, "batch": sizes.batch}, "rows": rows}


def render(page: str, results: dict[str, Any]) -> str:
    """A page with new text between its markers."""
    settings = results["settings"]
    rows = []
    for row in results["rows"]:
        times = milliseconds(row["against"], row["seconds"])
        rows.append([row["what"], row["cell"], row["size"], *times, f"{row['ratio']:.2f}×", f"{row['bar']:g}×"])
    heads = ["what", "cell", "units", "time without", "time with", "ratio", "bar"]
    text = f"{settings['batch']} sequences of {settings['steps']} steps; {measured_on(results)}"
    return fill_table(page, text, heads, rows)


def said(results: dict[str, Any]) -> list[str]:
    """One line per ratio."""
    return [
        f"{row['what']:25} {row['cell']:5} {row['size']:4}  {row['ratio']:.2f}× (bar {row['bar']:g}×)"
        for row in results["rows"]
    ]


SCRIPT = Script("python benchmarks/decoder.py", __doc__, PAGE, RESULTS, measure, render, said)

if __name__ == "__main__":
    sys.exit(SCRIPT.main(sys.argv[1:]))
