"""Log mel filterbank features: the energy of a sound in each frequency band, frame by frame.

The definition is that of python_speech_features' logfbank, which FastGRNN's preprocessing follows:
pre-emphasis y[n] = x[n] − 0.97·x[n−1]; frames of 25 ms every 10 ms without a window function, the last one padded with
zeros; power |FFT|²/N with N = 512; triangular filters at equal distances in mel(f) = 2595·log₁₀(1 + f/700); and the
logarithm, where an energy of exactly 0 is replaced by 2⁻⁵².
"""

from __future__ import annotations

from functools import cache

import numpy as np

from autapse import checks

EMPHASIS = 0.97
WINDOW, HOP = 0.025, 0.010  # seconds
POINTS = 512  # of the FFT
FLOOR = np.finfo(np.float64).eps


def log_mel(
    signals: np.ndarray, rate: int = 16_000, filters: int = 32
) -> np.ndarray:  # [B, samples] → [B, frames, filters]
    """Log filterbank energies of B signals of equal length, float64. One second at 16 kHz has 99 frames."""
    checks.integer("rate", rate, minimum=1)
    checks.integer("filters", filters, minimum=1)
    if signals.ndim != 2 or signals.shape[1] == 0:
        checks.fail(
            "signals", "have shape (B, samples) with at least one sample", signals.shape, kind=checks.ShapeError
        )
    if _samples(WINDOW, rate) > POINTS:
        checks.fail("rate", f"give windows of at most {POINTS} samples", rate, "Resample to 16000 Hz.")
    spectra = np.fft.rfft(_frames(_emphasised(signals), rate), POINTS)
    power = (spectra.real**2 + spectra.imag**2) / POINTS
    # One matrix product for all signals is ten times faster than one per signal.
    energy = power.reshape(-1, power.shape[-1]) @ mel_filters(rate, filters).T
    return np.log(np.where(energy == 0, FLOOR, energy)).reshape(*power.shape[:2], filters)


def frame_count(samples: int, rate: int = 16_000) -> int:
    """The number of frames that cover a signal; the last one may extend past its end."""
    window, hop = _samples(WINDOW, rate), _samples(HOP, rate)
    return 1 + max(0, -(-(samples - window) // hop))


@cache
def mel_filters(rate: int = 16_000, filters: int = 32) -> np.ndarray:  # [filters, POINTS // 2 + 1]
    """Triangles over the FFT's bins: filter j rises from edge j to edge j + 1 and falls to edge j + 2."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    hertz = 700 * (10 ** (np.linspace(0, top, filters + 2) / 2595) - 1)
    edges = np.floor((POINTS + 1) * hertz / rate)
    left, peak, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    bins = np.arange(POINTS // 2 + 1)
    # Filters that are narrower than a bin have equal edges: that side of the triangle is then empty. Avoid 0/0.
    rise = np.where((left <= bins) & (bins < peak), (bins - left) / np.maximum(peak - left, 1), 0)
    fall = np.where((peak <= bins) & (bins < right), (right - bins) / np.maximum(right - peak, 1), 0)
    triangles = np.asarray(rise + fall)
    triangles.setflags(write=False)  # all callers share it
    return triangles


def _samples(seconds: float, rate: int) -> int:
    return max(1, int(seconds * rate + 0.5))


def _emphasised(signals: np.ndarray) -> np.ndarray:
    emphasised = signals.astype(np.float64)
    emphasised[:, 1:] -= EMPHASIS * signals[:, :-1].astype(np.float64)
    return emphasised


def _frames(signals: np.ndarray, rate: int) -> np.ndarray:  # [B, samples] → [B, frames, window]
    window, hop, samples = _samples(WINDOW, rate), _samples(HOP, rate), signals.shape[1]
    beyond = (frame_count(samples, rate) - 1) * hop + window - samples
    padded = np.pad(signals, [(0, 0), (0, beyond)])
    return np.lib.stride_tricks.sliding_window_view(padded, window, axis=1)[:, ::hop]
