"""The equations of chaos-free, unitary, gated orthogonal and Kronecker networks, for one step of one sequence.

Complex networks are written with torch's complex numbers, which autapse does not use for their steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Raw = dict[str, Tensor]
State = tuple[Tensor, ...]
ACT: Any = {
    "tanh": torch.tanh,
    "relu": lambda a: a.clamp(min=0),
    "sigmoid": lambda a: 1 / (1 + torch.exp(-a)),
    "identity": lambda a: a,
}
sigmoid = ACT["sigmoid"]


def bias(p: Raw, name: str, size: int) -> Tensor:
    return p[name] if name in p else torch.zeros(size, dtype=p["weight_ih"].dtype)


def cfn(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    n = len(h)
    V_theta, V_eta, W = p["weight_ih"].split(n)
    U_theta, U_eta = p["weight_hh"].split(n)
    b_theta, b_eta = bias(p, "bias_h", 2 * n).split(n)
    theta = sigmoid(U_theta @ h + V_theta @ x + b_theta)
    eta = sigmoid(U_eta @ h + V_eta @ x + b_eta)
    return (theta * torch.tanh(h) + eta * torch.tanh(W @ x),)


def modrelu(a: Tensor, b: Tensor) -> Tensor:
    """For real or complex numbers."""
    return torch.sgn(a) * (a.abs() + b).clamp(min=0)


def goru(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int, R: Tensor) -> State:
    (h,) = state
    n = len(h)
    W_r, W_z, W_n = p["weight_ih"].split(n)
    U_r, U_z = p["weight_gates"].split(n)
    b_r, b_z = bias(p, "bias_h", 2 * n).split(n)
    r, z = sigmoid(W_r @ x + U_r @ h + b_r), sigmoid(W_z @ x + U_z @ h + b_z)
    return (z * h + (1 - z) * modrelu(W_n @ x + r * (R @ h), bias(p, "bias_n", n)),)


def as_complex(halves: Tensor) -> Tensor:
    """The complex numbers of the first half (real parts) and the second half (imaginary parts)."""
    real, imaginary = halves.chunk(2)
    return torch.complex(real, imaginary)


def complex_step(p: Raw, o: dict[str, Any], x: Tensor, state: State, R: Tensor) -> State:
    """h' = modReLU(W·x + R·h; b), or act of both parts, with complex W, R and h."""
    h, W = as_complex(state[0]), as_complex(p["weight_ih"])
    a = W @ x.to(W.dtype) + R @ h
    kind = o.get("nonlinearity", "modrelu")
    if kind == "modrelu":
        new = modrelu(a, bias(p, "bias_h", len(h)))
        return (torch.cat([new.real, new.imag]),)
    return (ACT[kind](torch.cat([a.real, a.imag]) + bias(p, "bias_h", 2 * len(h))),)


def power_series_exp(A: Tensor) -> Tensor:
    total = term = torch.eye(len(A), dtype=A.dtype)
    for k in range(1, 60):
        term = term @ A / k
        total = total + term
    return total


def unitary_matrix(values: Tensor, o: dict[str, Any], n: int) -> Tensor:
    """The complex matrix of `OrthogonalRNN(field="complex")`, entry by entry."""
    if o.get("parametrization") == "rotations":
        return tunable(values, o.get("capacity") or n, n)
    waiting = iter(values)
    entries = {(i, j): next(waiting) for i in range(n) for j in range(i + 1, n)}
    symmetric = {(i, j): next(waiting) for i in range(n) for j in range(i, n)}
    assert next(waiting, None) is None
    zero = values.new_zeros(())
    K = torch.stack(
        [torch.stack([entries.get((i, j), zero) - entries.get((j, i), zero) for j in range(n)]) for i in range(n)]
    )
    S = torch.stack([torch.stack([symmetric[min(i, j), max(i, j)] for j in range(n)]) for i in range(n)])
    A = torch.complex(K, S)  # A = −Aᴴ
    identity = torch.eye(n, dtype=A.dtype)
    if o.get("parametrization", "exp") == "exp":
        return power_series_exp(A)
    return torch.linalg.inv(identity - A) @ (identity + A)


def tunable(values: Tensor, layers: int, n: int) -> Tensor:
    """EURNN's matrix: the phases of all units, then each rotation as a full complex matrix."""
    pairs = [(layer, i, i + 1) for layer in range(layers) for i in range(layer % 2, n - 1, 2)]
    angles, phases, first = values[: len(pairs)], values[len(pairs) : 2 * len(pairs)], values[2 * len(pairs) :]
    assert len(first) == n
    product = torch.diag(torch.exp(1j * first))
    for (_, a, b), angle, phase in zip(pairs, angles, phases, strict=True):
        turn = [list(row) for row in torch.eye(n, dtype=torch.complex128)]
        e = torch.exp(1j * phase)
        turn[a][a], turn[a][b] = e * torch.cos(angle), -e * torch.sin(angle)
        turn[b][a], turn[b][b] = torch.sin(angle) + 0j, torch.cos(angle) + 0j
        product = torch.stack([torch.stack(row) for row in turn]) @ product
    return product


def primes(n: int) -> list[int]:
    if n == 1:
        return [1]
    found = [d for d in range(2, n + 1) if n % d == 0 and all(d % e for e in range(2, d))]
    factors = []
    for d in found:
        while n % d == 0:
            factors.append(d)
            n //= d
    return factors


def kru(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int) -> State:
    (h,) = state
    is_complex = o.get("field", "complex") == "complex"
    n = len(h) // 2 if is_complex else len(h)
    values = torch.complex(*p["weight_hh"]) if is_complex else p["weight_hh"][0]
    factors, start = [], 0
    for size in o.get("factors") or primes(n):
        factors.append(values[start : start + size * size].reshape(size, size))
        start += size * size
    rows = []
    for i in range(n):  # digits of the row and of the column in the mixed base of the factors' sizes
        row = []
        for j in range(n):
            entry, a, b = torch.ones((), dtype=values.dtype), i, j
            for factor in reversed(factors):
                size = len(factor)
                entry, a, b = entry * factor[a % size, b % size], a // size, b // size
            row.append(entry)
        rows.append(torch.stack(row))
    K = torch.stack(rows)
    if is_complex:
        return complex_step(p, o, x, state, K)
    a, kind = p["weight_ih"] @ x + K @ h, o.get("nonlinearity", "modrelu")
    return (modrelu(a, bias(p, "bias_h", n)) if kind == "modrelu" else ACT[kind](a + bias(p, "bias_h", n)),)


def integrated(p: Raw, o: dict[str, Any], x: Tensor, state: State, t: int, M: Tensor) -> State:
    """A step of the AntisymmetricRNN's differential equation by Heun's method, RK4 or the splitting."""
    (h,) = state
    n = len(h)
    v = p["weight_ih"] @ x + bias(p, "bias_h", len(p["weight_ih"]))
    act, step = ACT[o.get("nonlinearity", "tanh")], o.get("step", 0.1)

    def f(y: Tensor) -> Tensor:
        return sigmoid(M @ y + v[:n]) * act(M @ y + v[n:]) if o.get("gated") else act(M @ y + v)

    if o["integrator"] == "heun":
        guess = h + step * f(h)
        return (h + step / 2 * (f(h) + f(guess)),)
    if o["integrator"] == "rk4":
        k1 = f(h)
        k2 = f(h + step / 2 * k1)
        k3 = f(h + step / 2 * k2)
        k4 = f(h + step * k3)
        return (h + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4),)
    half = (n + 1) // 2
    p_half = h[:half] + step / 2 * f(h)[:half]
    q_new = h[half:] + step * f(torch.cat([p_half, h[half:]]))[half:]
    p_new = p_half + step / 2 * f(torch.cat([p_half, q_new]))[:half]
    return (torch.cat([p_new, q_new]),)
