"""`autapse run FILE --task translate`: what it prints before and after the training, and its picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tyro.conf import OmitArgPrefixes

from autapse import checks
from autapse.cli.kind import RunArguments, RunKind, T
from autapse.tasks.translate import TextSide, Translating
from autapse.training.config import RunConfig, TrainingConfig
from autapse.training.model_config import TranslatorConfig
from autapse.training.translate_settings import TRANSLATE

if TYPE_CHECKING:
    from autapse.models import EncoderDecoder
    from autapse.training import Summary

SHOWN = 5  # test pairs that are printed
DRAWN = 2  # test pairs in the picture


@dataclass(kw_only=True)
class TranslateArguments(RunArguments[T, TranslatorConfig]):
    """Train a network that translates your own pairs of texts, within --seconds (100).

    The weights with the best validation loss are kept, and scored on the test part: the symbols to change, to add or to
    remove, per symbol of the targets.
    """

    training: OmitArgPrefixes[TrainingConfig] = field(default_factory=TRANSLATE.training_config)
    model: OmitArgPrefixes[TranslatorConfig] = field(default_factory=TRANSLATE.model_config)


class TranslateKind(RunKind):
    """Pairs of texts."""

    arguments, defaults = TranslateArguments, TRANSLATE

    def print_look(self, console: Any, config: RunConfig) -> None:
        assert isinstance(config.task, Translating)
        print_look(console, config.task, config.training.seed)

    def finish(self, console: Any, folder: Path, config: RunConfig, summary: Summary) -> None:
        assert isinstance(config.task, Translating)
        finish(console, folder, config.task)


def print_look(console: Any, task: Translating, seed: int) -> None:
    """Print what is translated into what, and how the pairs are split."""
    sizes = ", ".join(f"{len(task.split(split, seed))} {split}" for split in ("train", "validation", "test"))
    train, test = task.pairs()
    sources = len({pair.source for pair in (*train, *test)})
    console.print(f"{len(train) + len(test)} pairs with {sources} different sources: {sizes}")
    for name, side in zip(("source", "target"), task.sides, strict=True):
        console.print(_described(name, side))


def _described(name: str, side: TextSide) -> str:
    shortest, middle, longest = np.percentile(side.lengths, (0, 50, 100)).astype(int)
    unknown = f"; unknown in the test set: {side.unknown:.2%}" if side.unknown else ""
    known = f"{len(side.symbols.names)} different {side.units} ({side.reason})"
    return f"{name}: {known}, {shortest} to {longest} per text, median {middle}{unknown}"


def finish(console: Any, folder: Path, task: Translating) -> None:
    """Translate some test pairs of a run, print them, and draw the weights of the attention."""
    from autapse.training import load

    _, test = task.pairs()
    if not test:
        console.print("There is no test part, so nothing is scored.")
        return
    model: Any = load(folder, trust=True)  # its cell was imported for the training
    chosen = test[:: max(1, len(test) // SHOWN)][:SHOWN]  # all parts of a sorted file
    for pair, made in zip(chosen, model.translate([pair.source for pair in chosen]), strict=True):
        right = model.target.split(made) == model.target.split(pair.target)
        wanted = "" if right else f"   (wanted: {pair.target})"
        console.print(f"  {pair.source} → {made}{wanted}")
    if model.attention is not None:
        console.print(draw(folder, model, [pair.source for pair in chosen[-DRAWN:]]))


def draw(folder: Path, model: EncoderDecoder, texts: list[str]) -> str:
    """Draw the weights of the attention. Returns a line with the path, or with the way to install matplotlib."""
    from autapse.diagnostics.plots import AttentionPanel, plot_attention

    made, weights = model.translate(texts), model.attention_weights(texts)
    assert model.source is not None, "the texts were read"
    assert model.target is not None, "the texts were written"
    panels = [
        AttentionPanel(one.tolist(), model.source.split(source), model.target.split(target))
        for one, source, target in zip(weights, texts, made, strict=True)
    ]
    path = folder / "attention.png"
    try:
        plot_attention(path, panels)
    except checks.InputError as error:  # matplotlib is optional; everything else is already written
        return str(error)
    return f"figure: {path}"
