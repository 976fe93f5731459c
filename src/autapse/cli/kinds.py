"""The kinds of tasks, by task. The first entry that fits counts."""

from __future__ import annotations

from autapse.cli.forecast import ForecastKind
from autapse.cli.generate import GenerateKind, OwnSequencesKind
from autapse.cli.kind import RunKind
from autapse.cli.preset import OwnDataKind
from autapse.cli.translate import TranslateKind
from autapse.cli.trees import TreeKind
from autapse.tasks import Forecasting, Generation, OwnSequences, Task, Translating, TreeTask
from autapse.tasks.own import OwnData

KINDS: dict[type, RunKind] = {
    Forecasting: ForecastKind(),
    Translating: TranslateKind(),
    TreeTask: TreeKind(),
    OwnSequences: OwnSequencesKind(),
    Generation: GenerateKind(),
    OwnData: OwnDataKind(),
}


def kind_of(task: Task | type[Task]) -> RunKind:
    """What a task adds to `autapse run`."""
    given = task if isinstance(task, type) else type(task)
    return next((kind for base, kind in KINDS.items() if issubclass(given, base)), RunKind())
