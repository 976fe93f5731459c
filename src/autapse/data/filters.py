"""Median and Butterworth low-pass filters for sensor signals, along the first axis.

The low-pass is zero-phase: it runs forwards and then backwards. So nothing is shifted in time, and the attenuation is
that of the filter squared (a quarter of the power at the cutoff).
"""

from __future__ import annotations

import math

import numpy as np

from autapse import checks


def median3(signal: np.ndarray) -> np.ndarray:  # [T, ...] -> [T, ...]
    """The median of every sample and its two neighbours. At the ends, the end sample replaces the missing one."""
    before = np.concatenate([signal[:1], signal[:-1]])
    after = np.concatenate([signal[1:], signal[-1:]])
    low, high = np.minimum(before, after), np.maximum(before, after)
    return np.maximum(low, np.minimum(high, signal))


def butterworth(order: int, cutoff: float, rate: float) -> np.ndarray:  # [sections, 6]
    """Second-order sections b₀ b₁ b₂ 1 a₁ a₂ of the low-pass with −3 dB at `cutoff`, both in the unit of `rate`.

    The analog poles are evenly spaced on the left half of a circle. s = (1 − z⁻¹)/(1 + z⁻¹) maps them to the unit disc.
    """
    checks.integer("order", order, minimum=1)
    if not 0 < cutoff < rate / 2:
        checks.fail("cutoff", f"be between 0 and half the rate, {rate / 2:g}", cutoff)
    radius = math.tan(math.pi * cutoff / rate)  # corrects the frequency warping of the bilinear map at the cutoff
    angles = np.pi * (0.5 + (np.arange((order + 1) // 2) + 0.5) / order)  # one pole of each conjugate pair
    analog = radius * np.exp(1j * angles)
    return np.array([_section(pole) for pole in (1 + analog) / (1 - analog)])


def _section(pole: complex) -> list[float]:
    """One pair of poles, or one real pole, with all zeros at half the rate and unit gain for constants."""
    if abs(pole.imag) < 1e-12:
        gain = (1 - pole.real) / 2
        return [gain, gain, 0, 1, -pole.real, 0]
    a1, a2 = -2 * pole.real, abs(pole) ** 2
    gain = (1 + a1 + a2) / 4
    return [gain, 2 * gain, gain, 1, a1, a2]


def lowpass(
    signal: np.ndarray,  # [T, ...]
    cutoff: float,
    rate: float,
    order: int = 3,
    padding: int | None = None,
) -> np.ndarray:  # [T, ...] float64
    """The zero-phase Butterworth low-pass of `signal`.

    Before filtering, each end is extended by `padding` samples: the signal, reflected through its end point. By default
    these are three periods of the cutoff.
    """
    signal = np.asarray(signal, dtype=np.float64)
    edge = min(math.ceil(3 * rate / cutoff) if padding is None else padding, len(signal) - 1)
    response = _impulse_response(butterworth(order, cutoff, rate))
    forwards = _filter(response, _reflected(signal, edge))
    return _filter(response, forwards[::-1])[::-1][edge : edge + len(signal)]


def _reflected(signal: np.ndarray, edge: int) -> np.ndarray:
    """Point reflection keeps both the value and the slope at the ends."""
    if edge == 0:
        return signal
    return np.concatenate([2 * signal[:1] - signal[edge:0:-1], signal, 2 * signal[-1:] - signal[-2 : -edge - 2 : -1]])


def _filter(response: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Filter `signal`, as if it had always had its first value before.

    This uses a Fourier transform: a Python loop over a million samples would take minutes.
    """
    size = 1 << (len(signal) + len(response) - 2).bit_length()
    shape = (-1,) + (1,) * (signal.ndim - 1)
    spectrum = np.fft.rfft(signal - signal[0], size, axis=0) * np.fft.rfft(response, size).reshape(shape)
    return signal[0] + np.fft.irfft(spectrum, size, axis=0)[: len(signal)]


def _impulse_response(sections: np.ndarray) -> np.ndarray:
    """The response of the filter to 1, 0, 0, ..., until it is below the resolution of float64."""
    slowest = max(float(abs(np.roots(section[3:])).max()) for section in sections)
    response = [1.0] + [0.0] * math.ceil(math.log(1e-17) / math.log(slowest))
    for b0, b1, b2, _, a1, a2 in sections.tolist():
        first = second = 0.0  # transposed direct form II
        for t, x in enumerate(response):
            y = b0 * x + first
            first, second = b1 * x - a1 * y + second, b2 * x - a2 * y
            response[t] = y
    return np.array(response)
