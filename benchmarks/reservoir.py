"""Reservoirs against reservoirpy: the same weights, first the same numbers, then the time.

.venv/bin/python benchmarks/reservoir.py [--environment ~/.cache/autapse/reservoirpy] [--rounds 5]

reservoirpy runs in an environment of its own, as a second process. Both have one thread, since one sequence has no work
for more, and take turns of a tenth of a second. Of each, the best wall time of all calls counts. reservoirpy computes
states in float64 only. autapse is measured in float32 too, and the accuracy of both is compared. The results go to
benchmarks/results/reservoir.json; docs/reservoirs.md has them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import autapse
from autapse import files
from autapse.readouts import Ridge
from autapse.results.machine import Origin, software
from autapse.tasks.lorenz import lorenz
from autapse.tasks.mackey_glass import mackey_glass
from autapse.tasks.narma import narma

PEER = "reservoirpy==0.4.2"
RESULT = Path(__file__).parent / "results" / "reservoir.json"
WASHOUT, TRAIN, TEST = 100, 3000, 1000
PENALTY = 1e-6
DELAYS = 40
TURN = 0.1  # seconds: the first calls after a pause find cold caches, which counts for little in a long call only

# Runs in the other environment: reads commands, answers each with one line of JSON.
SCRIPT = """
import json, sys, time
import numpy as np, scipy.sparse
from reservoirpy.nodes import Reservoir, Ridge

def made(d):
    W = d["W"] if d["dense"] else scipy.sparse.csr_array(d["W"])
    return Reservoir(W=W, Win=d["Win"], bias=d["b"], lr=float(d["leak"]))

def states(d):
    return made(d).run(d["x"])

def fit(d):
    w = int(d["washout"])
    H = made(d).run(d["x"])
    readout = Ridge(ridge=float(d["penalty"]))
    readout.fit(H[w:len(d["y"])], d["y"][w:])
    return H, readout

def whole(d):
    node = Reservoir(len(d["W"]), sr=0.9, rc_connectivity=0.1, lr=float(d["leak"]), seed=0)
    model = node >> Ridge(ridge=float(d["penalty"]))
    model.fit(d["x"], d["y"], warmup=int(d["washout"]))
    return None

for line in sys.stdin:
    what, path, dense, turn = json.loads(line)
    d = dict(np.load(path))
    d["dense"] = dense
    times = []
    while sum(times) <= turn:
        begin = time.perf_counter()
        result = {"states": states, "fit": fit, "predict": fit, "whole": whole}[what](d)
        times.append(time.perf_counter() - begin)
    if what == "predict":
        H, readout = result
        np.save(path + ".y.npy", readout.run(H))
    print(json.dumps(min(times)), flush=True)
"""


class Peer:
    """reservoirpy in a process that waits for commands."""

    def __init__(self, environment: Path) -> None:
        python = environment / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", PEER], check=True)
        limits = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        self._process = subprocess.Popen(
            [str(python), "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | limits,
        )

    def __call__(self, what: str, path: Path, dense: bool = False, turn: float = 0.0) -> float:
        """The best time of the calls in one turn, at least one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, str(path), dense, turn]) + "\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def series() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Input and target of each task, [T, D] and [T, K]."""
    rng, steps = np.random.default_rng(0), TRAIN + TEST
    z = mackey_glass(1, 17.0, 1.0, steps + 10, rng)[0][:, None]
    flow = lorenz(np.array([[1.0, 1.0, 20.0]]), 0.02, steps + 25)[0]
    flow = (flow - flow.mean(0)) / flow.std(0)
    u, noise = rng.uniform(0, 0.5, (1, steps)), rng.uniform(-1, 1, steps + DELAYS)
    past = np.stack([noise[DELAYS - k : DELAYS - k + steps] for k in range(1, DELAYS + 1)], axis=1)
    return {
        "mackey-glass, 10 steps ahead": ((z[:-10] - z.mean()) / z.std(), z[10:]),
        "lorenz, 25 steps ahead": (flow[:-25], flow[25:]),
        "narma-10": ((u.T - 0.25) / 0.144, narma(u).T),
        f"memory capacity, {DELAYS} delays": (noise[DELAYS:, None], past),
    }


def score(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """The root of the mean squared error in units of the deviation; the memory capacity is the sum of r²."""
    y, predicted = y[TRAIN:], predicted[TRAIN:]
    if task.startswith("memory"):
        return float(sum(np.corrcoef(a, b)[0, 1] ** 2 for a, b in zip(y.T, predicted.T, strict=True)))
    return float(np.sqrt(np.square(y - predicted).mean() / y.var(axis=0).mean()))


def network(units: int, width: int, seed: int, dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(seed)
    return autapse.Reservoir(width, units, connections=0.1, input_scaling=0.2, dtype=dtype)


def weights(layer: Any, x: np.ndarray, y: np.ndarray, path: Path) -> None:
    """A file with all that the peer needs."""
    cell = layer.cells["l0"]
    W = np.zeros((cell.hidden_size, cell.hidden_size))
    if cell.pattern is None:
        W = cell.weight_hh.numpy()
    else:
        W[tuple(cell.pattern.numpy())] = cell.weight_hh.numpy()
    rest = {"leak": np.array(1.0), "washout": np.array(WASHOUT), "penalty": np.array(PENALTY)}
    arrays = {"W": W, "Win": cell.weight_ih.numpy(), "b": cell.bias_h.numpy(), "x": x, "y": y} | rest
    np.savez(path, **arrays)


def fitted(layer: Any, x: Any, y: Any) -> tuple[Any, Ridge]:
    with torch.no_grad():
        states = layer(x)[0][:, 0]
    return states, Ridge(PENALTY).fit(states[WASHOUT : len(y)], y[WASHOUT:])


def accuracy(peer: Peer, folder: Path, units: int, seeds: int) -> list[dict[str, Any]]:
    rows = []
    for task, (x, y) in series().items():
        ours, ours_single, theirs, apart = [], [], [], 0.0
        for seed in range(seeds):
            layer, path = network(units, x.shape[1], seed), folder / "accuracy.npz"
            weights(layer, x, y[:TRAIN], path)
            states, readout = fitted(layer, torch.from_numpy(x)[:, None], torch.from_numpy(y[:TRAIN]))
            peer("predict", path)
            other = np.load(f"{path}.y.npy")
            ours.append(score(task, y, readout(states).numpy()))
            single = network(units, x.shape[1], seed, torch.float32)
            states_single, readout_single = fitted(
                single, torch.from_numpy(x)[:, None].float(), torch.from_numpy(y[:TRAIN])
            )
            ours_single.append(score(task, y, readout_single(states_single.double()).numpy()))
            theirs.append(score(task, y, other))
            apart = max(apart, float(np.abs(readout(states).numpy() - other).max() / y.std()))
        scores = {"autapse": ours, "autapse, float32": ours_single, "reservoirpy": theirs}
        row = {"task": task, **{name: statistics.mean(each) for name, each in scores.items()}, "apart": apart}
        print(row, flush=True)
        rows.append(row | {"units": units, "seeds": seeds})
    return rows


def timing(peer: Peer, folder: Path, units: int, single: bool, rounds: int) -> list[dict[str, Any]]:
    dtype = torch.float32 if single else torch.float64
    x, y = series()["mackey-glass, 10 steps ahead"]
    x, y = x[:TRAIN], y[:TRAIN]
    layer, path = network(units, 1, 0, dtype), folder / f"{units}.npz"
    weights(network(units, 1, 0), x, y, path)
    rows_x, rows_y = torch.from_numpy(x)[:, None].to(dtype), torch.from_numpy(y)
    # reservoirpy takes a matrix in either form: its faster one counts.
    dense = min((False, True), key=lambda form: peer("states", path, form, TURN))

    def states() -> None:
        with torch.no_grad():
            layer(rows_x)

    def whole() -> None:
        options: dict[str, Any] = {
            "hidden_size": units,
            "connections": 0.1,
            "penalty": PENALTY,
            "washout": WASHOUT,
            "dtype": dtype,
        }
        autapse.EchoStateNetwork(**options).fit(x, y)

    ours: dict[str, Callable[[], Any]] = {
        "states": states,
        "fit": lambda: fitted(layer, rows_x, rows_y),
        "whole": whole,
    }
    rows = []
    for what, run in ours.items():
        mine, theirs = [], []
        for _ in range(rounds):
            turn: list[float] = []
            while sum(turn) <= TURN:
                turn.append(timeit.timeit(run, number=1))
            mine.append(min(turn))
            theirs.append(peer(what, path, dense, TURN))
        row: dict[str, Any] = {"units": units, "dtype": str(dtype), "steps": TRAIN, "what": what}
        row |= {"autapse": min(mine), "reservoirpy": min(theirs), "ratio": min(theirs) / min(mine)}
        print(row, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "autapse" / "reservoirpy"
    parser.add_argument("--environment", type=Path, default=cache, help="where the environment is, or is made")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each timing")
    parser.add_argument("--seeds", type=int, default=3, help="networks of each accuracy")
    given = parser.parse_args()
    origin = Origin.here()
    times: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        torch.set_num_threads(1)
        peer = Peer(given.environment)
        for units, single in itertools.product((100, 1000), (False, True)):
            times += timing(peer, Path(folder), units, single, given.rounds)
        scores = accuracy(peer, Path(folder), 300, given.seeds)
        peer.close()
    facts: dict[str, Any] = {"peer": PEER, "commit": origin.commit, "command": shlex.join(["python", *sys.argv])}
    facts |= {"hardware": origin.hardware, "software": software()}
    files.write_json(RESULT, {**facts, "times": times, "accuracy": scores})


if __name__ == "__main__":
    main()
