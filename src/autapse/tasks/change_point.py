"""Bayes' rule for the biased walk: the probability that the drift has begun, given the whole walk.

Compared with a walk without drift, a drift from t0 in direction v changes the likelihood of the observed steps Δ_t by

    exp(b·v·S − ½b²|v|²Q),    S = Σ w_t·Δ_t,    Q = Σ w_t²,    w_t = clip(t − t0, 0, 1).

Gauss–Legendre rules average this over t0 and over v. The rule for v covers only the region where the integrand is not
negligible, and the rule for t0 has more nodes for a larger bias. So both are accurate for any bias and length.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from autapse.tasks.base import Data, dense

Direction = Literal["uniform", "unit"]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def _gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


_COMPONENTS = _gauss_legendre(24)
_ANGLES = _gauss_legendre(64)
_BLOCK = 200  # unit intervals of t0 at a time, so that the arrays fit into the cache
_FALL = 32  # the integrand is negligible where it is exp(−32) times its maximum
_TINY = 1e-30


def drift_posterior(data: Data, bias: float, direction: Direction) -> Floats:
    """P(t0 < t | x_0 … x_N) for every position t, [walks, T], with t0 uniform in [0, N) and v as `direction` says."""
    inputs = dense(data.inputs)
    count, steps = inputs.shape[:2]
    ends = (np.full(count, steps) if data.lengths is None else data.lengths) - 1  # N of each walk
    average = {"uniform": _log_average_uniform, "unit": _log_average_unit}[direction]
    walks, starts = np.nonzero(np.arange(steps) < ends[:, None])
    part, weights = _gauss_legendre(4 + math.ceil(bias * math.sqrt(inputs.shape[2])))
    evidence = np.full((count, steps), -np.inf)
    for rows in np.array_split(np.arange(len(walks)), 1 + len(walks) // _BLOCK):
        walk, start = walks[rows], starts[rows]
        S, Q = _statistics(inputs, walk, start, ends[walk], part)
        evidence[walk, start] = _log_sum_exp(average(bias * S, bias**2 * Q), weights)
    mass: Floats = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    return mass.cumsum(axis=1) - mass


def _statistics(
    inputs: np.ndarray,  # [N, T, d]
    walk: Indices,  # [P]
    start: Indices,  # [P]
    end: Indices,  # [P]
    part: Floats,  # [K]
) -> tuple[Floats, Floats]:  # [P, K, d], [P, K]
    """S and Q for t0 = start + 1 − part: one step with weight `part`, then full steps to the end of the walk."""
    x, y, z = (inputs[walk, at].astype(float)[:, None] for at in (start, start + 1, end))
    S = part[:, None] * (y - x) + (z - y)
    Q = part**2 + (end - start - 1)[:, None]
    return S, Q


def _log_average_uniform(S: Floats, Q: Floats) -> Floats:
    """The log of ∫ exp(v·S − ½|v|²Q) dv over [0, 1]^d: a product of one integral per dimension."""
    Q = np.maximum(Q, _TINY)[..., None]
    peak = np.clip(S / Q, 0, 1)
    slope = np.abs(S - Q * peak)
    reach = 2 * _FALL / (slope + np.sqrt(slope**2 + 2 * _FALL * Q))
    low, high = np.maximum(peak - reach, 0), np.minimum(peak + reach, 1)
    nodes, weights = _COMPONENTS
    v = low[..., None] + (high - low)[..., None] * nodes
    integrals = np.log(high - low) + _log_sum_exp(v * (S[..., None] - Q[..., None] / 2 * v), weights)
    product: Floats = integrals.sum(axis=-1)
    return product


def _log_average_unit(S: Floats, Q: Floats) -> Floats:
    """The log of the mean of exp(v·S − ½Q) over |v| = 1: with v·S = |S|·cos θ, an integral in sin^{d−2} θ dθ."""
    d = S.shape[-1]
    pull: Floats = np.linalg.norm(S, axis=-1)
    if d == 1:
        return np.logaddexp(pull, -pull) - math.log(2) - Q / 2
    high = np.minimum((math.pi * math.sqrt(_FALL / 2) + math.sqrt(d)) / np.sqrt(np.maximum(pull, _TINY)), math.pi)
    nodes, weights = _ANGLES
    angle = high[..., None] * nodes
    exponent = pull[..., None] * np.cos(angle) + (d - 2) * np.log(np.sin(angle))
    surface = math.lgamma((d - 1) / 2) + math.lgamma(1 / 2) - math.lgamma(d / 2)
    return _log_sum_exp(exponent, weights) + np.log(high) - surface - Q / 2


def _log_sum_exp(exponent: Floats, weights: Floats) -> Floats:
    """The log of Σ_j weights_j·exp(exponent_j) over the last axis."""
    top: Floats = exponent.max(axis=-1)
    return top + np.log(np.exp(exponent - top[..., None]) @ weights)
