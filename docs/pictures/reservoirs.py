"""Draws the pictures of docs/reservoirs.md: a Lorenz attractor in closed loop, and memory curves.

.venv/bin/python docs/pictures/reservoirs.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autapse import EchoStateNetwork
from autapse.diagnostics.plots import Panel, draw_svg
from autapse.tasks.lorenz import lorenz

HERE = Path(__file__).resolve().parent
TRAIN, NEW, DELAYS = 4000, 1500, 60


def attractor() -> None:
    flow = lorenz(np.array([[1.0, 1.0, 20.0]]), 0.02, TRAIN + NEW)[0]
    made = EchoStateNetwork(hidden_size=500, input_scaling=0.1).fit(flow[:TRAIN]).generate(NEW, flow[:TRAIN])
    paths = {"equation": flow[TRAIN:], "closed loop": made}
    time = 0.02 * np.arange(NEW)
    curves = {name: list(zip(time[:500], path[:500, 0], strict=True)) for name, path in paths.items()}
    planes = [
        Panel(name, "x", "z", False, {name: list(zip(path[:, 0], path[:, 2], strict=True))})
        for name, path in paths.items()
    ]
    (HERE / "lorenz.svg").write_bytes(draw_svg([Panel("x over time", "time", "x", False, curves), *planes]))
    print("valid for a time of", time[np.argmax(np.abs(made - flow[TRAIN:]).max(1) > 0.3 * flow.std())])


def memory() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 6000 + DELAYS)
    past = np.stack([x[DELAYS - k : DELAYS - k + 6000] for k in range(1, DELAYS + 1)], axis=1)
    curves = {}
    networks = {
        "spectral radius 0.5": {"spectral_radius": 0.5},
        "spectral radius 0.9": {"spectral_radius": 0.9},
        "ring, 0.99": {"topology": "ring", "spectral_radius": 0.99},
    }
    for name, options in networks.items():
        model = EchoStateNetwork(hidden_size=100, **options).fit(x[DELAYS:][:4000], past[:4000])
        got = model.predict(x[DELAYS:])[4000:]
        known = [float(np.corrcoef(a, b)[0, 1] ** 2) for a, b in zip(got.T, past[4000:].T, strict=True)]
        print(name, sum(known))
        curves[f"{name} (sum {sum(known):.0f})"] = list(enumerate(known, start=1))
    (HERE / "memory-curve.svg").write_bytes(draw_svg([Panel("100 units", "delay", "share known (r²)", False, curves)]))


if __name__ == "__main__":
    attractor()
    memory()
