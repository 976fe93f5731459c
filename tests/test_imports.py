"""Imports go down only, as the design has it; and the command line starts without torch."""

from __future__ import annotations

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import autapse

SOURCE = Path(autapse.__file__).parent

# Messages, atomic writes, names on first use, printing, how a command ends, plugins, records, help texts: no networks.
BOTTOM = {"checks", "files", "lazy", "terminal", "console", "exit_codes", "plugins", "records", "docstrings"}
RULES = {"cells", "forms", "solve", "gradient", "native"}
LAYERS = BOTTOM | RULES | {"sequences", "unfold"}
MODELS = LAYERS | {"layers", "readouts"}
TRAINING = MODELS | {"models"}
MAY_IMPORT = {
    "checks": {"terminal"},
    "files": {"checks"},
    "lazy": set(),
    "terminal": set(),
    "console": {"terminal"},
    "exit_codes": set(),
    "plugins": {"checks"},
    "records": {"checks"},
    "docstrings": set(),
    "forms": BOTTOM | RULES - {"cells"} | {"sequences"},
    "cells": BOTTOM | RULES | {"sequences"},
    "gradient": BOTTOM | RULES - {"cells"},
    "solve": {"checks", "docstrings"},
    "native": {"checks"},
    "sequences": {"checks", "native"},  # where the rows of a batch are
    "unfold": BOTTOM | RULES | {"sequences"},
    "layers": LAYERS,
    "readouts": {"checks"},  # linear maps from states to targets, which know no networks
    "models": MODELS | {"data"},  # what people pass to a model: trees
    "data": BOTTOM,
    "tasks": BOTTOM | {"data"},  # tasks know no networks
    "results": BOTTOM | {"native"},  # where numbers come from, and pages made of them
    "training": TRAINING | {"tasks", "data", "results"},
    "auto": TRAINING | {"tasks", "data", "training"},  # settings chosen by the data
    "diagnostics": TRAINING | {"tasks"},
    "benchmark": TRAINING | {"results"},  # beside training
    "report": TRAINING | {"tasks", "training", "diagnostics"},  # runs as HTML
    "reproduce": TRAINING | {"tasks", "training", "results", "diagnostics"},
    "cli": TRAINING | {"reproduce", "report", "data", "tasks", "training", "auto", "diagnostics", "benchmark"},
    "sklearn": TRAINING | {"tasks", "data", "training", "auto"},  # estimators, beside the command line
    "__main__": {"cli"},
    "__init__": {*TRAINING, "data", "tasks", "training", "auto", "diagnostics"},  # public names
}
FROM_THE_TOP = {"__version__"}  # the one name that is no module and may be imported from autapse itself


def imports(source: str, package: str) -> Iterator[str]:
    """Dotted names of ours that a file imports, also under TYPE_CHECKING and inside functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "autapse")
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module.split(".")[0] == "autapse":
                yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("lazy", "import_module"):
            # imports by name: lazy(package, {module: names}), import_module(module); of an f-string, where it begins
            names = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
            yield from (name for name in names if name.startswith("autapse."))


def room_in(name: str) -> str:
    """The room of a dotted name: cells, for autapse.cells.base."""
    return [*name.split("."), ""][1]


def violations(room: str, source: str, package: str = "autapse") -> list[str]:
    """What a file in `room` imports against the rule."""
    found = []
    for name in imports(source, package):
        target = room_in(name)
        if target in FROM_THE_TOP or target == room:
            continue
        if target not in MAY_IMPORT:
            found.append(f"{name}: import a name from the room it lives in, not from the package's top")
        elif target not in MAY_IMPORT[room]:
            found.append(f"{name}: {room} may import {', '.join(sorted(MAY_IMPORT[room])) or 'nothing of ours'}")
    return found


def files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = ["autapse", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    return ".".join(["autapse", *path.relative_to(SOURCE).parts[:-1]])


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: say in MAY_IMPORT, and in the design, what it may import"
    assert violations(room, path.read_text(encoding="utf-8"), package_of(path)) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("cells", "from autapse.layers import RIN"),
        ("cells", "from autapse import layers"),
        ("cells", "import autapse.unfold.scan"),
        ("forms", "from autapse.cells import Cell"),
        ("forms", "if TYPE_CHECKING:\n    from autapse.cells import Cell"),
        ("solve", "from autapse.forms import State"),
        ("native", "from autapse.forms import State"),
        ("unfold", "def f():\n    from autapse.layers.recurrent import Recurrent"),
        ("layers", "from autapse.models import Classifier"),
        ("models", "from autapse import training"),
        ("training", "from autapse.cli.run import main"),
        ("tasks", "from autapse import cells"),
        ("tasks", "from autapse.training import Trainer"),
        ("diagnostics", "from autapse.training.log import read_metrics"),
        ("benchmark", "from autapse.training import train"),
        ("benchmark", "from autapse.cli.parse import parse"),
        ("training", "from autapse.benchmark.run import measure"),
        ("reproduce", "from autapse.benchmark.settings import Settings"),
        ("results", "from autapse.benchmark.run import measure"),
        ("tasks", "from autapse.training.objectives import objective"),
        ("checks", "from autapse import files"),
        ("layers", "from autapse import RIN"),
        ("layers", "import autapse"),
        ("cells", "from ..layers import RIN"),
        ("cells", "from .. import layers"),
        ("tasks", "__getattr__ = lazy(__name__, {'autapse.layers': 'RIN'})"),
        ("tasks", "import importlib\nlayers = importlib.import_module('autapse.layers')"),
    ],
)
def test_the_rule_has_teeth(room: str, line: str) -> None:
    assert len(violations(room, line, f"autapse.{room}")) == 1


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("cells", "from autapse import checks"),
        ("cells", "from autapse.cells.base import Cell"),
        ("cells", "from .base import Cell"),
        ("unfold", "from autapse.forms import State"),
        ("training", "from autapse import __version__, checks"),
        ("solve", "from autapse import checks"),
        ("layers", "import torch\nfrom os import path"),
        ("cli", "from autapse.diagnostics.plots import plot_curves"),
    ],
)
def test_the_rule_lets_the_rest_pass(room: str, line: str) -> None:
    assert violations(room, line, f"autapse.{room}") == []


def test_rooms_have_no_cycles() -> None:
    rooms = {room: allowed - {room} for room, allowed in MAY_IMPORT.items()}
    used = {room: set[str]() for room in rooms}
    for path in files():
        used[room_of(path)] |= {room_in(name) for name in imports(path.read_text(), package_of(path))}
    graph = {room: targets & rooms[room] for room, targets in used.items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_files_have_no_cycles() -> None:
    """Also under TYPE_CHECKING, but for Stream, which belongs to the layer that makes it."""
    modules = {module_of(path): path for path in files()}
    graph = {}
    for module, path in modules.items():
        if module in ("autapse", "autapse.layers.stream"):
            continue
        names = imports(path.read_text(encoding="utf-8"), package_of(path))
        targets = {name if name in modules else name.rpartition(".")[0] for name in names if not name.endswith(".")}
        graph[module] = targets - {"autapse", module}
    assert set(graphlib.TopologicalSorter(graph).static_order()) >= set(graph)


# Kernels' C structures and what they describe; a solver and its memory; public names of two rooms.
TWO_ROOMS = {"Batch", "Implicit"}


def test_a_name_stands_for_one_class() -> None:
    """A layer has the name of its cell. Every other public class has a name of its own."""
    rooms: dict[str, list[str]] = {}
    for path in files():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                rooms.setdefault(node.name, []).append(room_of(path))
    shared = {name for name, found in rooms.items() if len(found) > 1 and sorted(found) != ["cells", "layers"]}
    assert shared - TWO_ROOMS == set()


@pytest.mark.parametrize("module", ["autapse", "autapse.cli", "autapse.tasks", "autapse.checks", "autapse.cli.bench"])
def test_torch_is_not_loaded_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'matplotlib', 'sklearn') if m in sys.modules])"
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_torch_comes_with_the_first_layer() -> None:
    """The other way round, so that the test above cannot pass by accident."""
    code = "import sys, autapse; autapse.RIN; print('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "True"


def test_a_layer_does_not_load_the_compiler() -> None:
    """Loading torch._dynamo takes as long as loading the rest of torch."""
    code = (
        "import sys, torch, autapse; autapse.GRU(3, 4)(torch.zeros(2, 1, 3)); autapse.ImplicitGRU(3, 4);"
        " print('torch._dynamo' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "False"


def test_import_in_inference_mode() -> None:
    """The tensors that results share are not tied to the mode in which autapse was imported."""
    code = """
import torch
with torch.inference_mode():
    import autapse
    autapse.LSTM(2, 3)
from autapse.native import ops
assert not any(tensor.is_inference() for tensor in ops._NOTHING.values())
"""
    subprocess.run([sys.executable, "-c", code], check=True)
