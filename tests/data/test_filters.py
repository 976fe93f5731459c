import numpy as np
import pytest
from scipy import ndimage, signal

from autapse.checks import InputError
from autapse.data.filters import butterworth, lowpass, median3

DESIGNS = [(1, 5.0, 50.0), (2, 10.0, 50.0), (3, 20.0, 50.0), (3, 0.3, 50.0), (4, 100.0, 1000.0), (7, 3.0, 10.0)]
TOLERANCE = 1e-9


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


@pytest.mark.parametrize("design", DESIGNS)
def test_sections_have_scipy_s_frequency_response(design):
    order, cutoff, rate = design
    _, ours = signal.freqz_sos(butterworth(*design), worN=200, fs=rate)
    _, theirs = signal.freqz_sos(signal.butter(order, cutoff, fs=rate, output="sos"), worN=200, fs=rate)
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("padding", [0, 12, 99])
def test_lowpass_is_scipy_s_forward_backward_filter(design, padding):
    order, cutoff, rate = design
    values = noise(700, 3) + np.linspace(5, -2, 700)[:, None]
    sections = signal.butter(order, cutoff, fs=rate, output="sos")
    truth = signal.sosfiltfilt(sections, values, axis=0, padtype="odd" if padding else None, padlen=padding)
    np.testing.assert_allclose(lowpass(values, cutoff, rate, order, padding), truth, atol=TOLERANCE)


def test_default_padding_is_three_periods_or_the_whole_signal():
    values = noise(2_000)
    np.testing.assert_array_equal(lowpass(values, 0.3, 50), lowpass(values, 0.3, 50, padding=500))
    np.testing.assert_array_equal(lowpass(values[:100], 0.3, 50), lowpass(values[:100], 0.3, 50, padding=99))


def test_lowpass_keeps_constants_and_slow_waves_in_place_and_removes_fast_ones():
    t = np.arange(1_500) / 50
    np.testing.assert_allclose(lowpass(np.full(300, 7.0), 0.3, 50), 7.0, atol=TOLERANCE)
    slow, fast = np.sin(2 * np.pi * 0.05 * t), np.sin(2 * np.pi * 5 * t)
    np.testing.assert_allclose(lowpass(slow + fast, 0.3, 50)[500:-500], slow[500:-500], atol=1e-3)


def test_one_sample_is_itself():
    np.testing.assert_array_equal(lowpass(np.array([[3.0, 4.0]]), 20, 50), [[3.0, 4.0]])
    np.testing.assert_array_equal(median3(np.array([[3.0, 4.0]])), [[3.0, 4.0]])


def test_median_is_scipy_s():
    values = noise(200, 4)
    ours = median3(values)
    np.testing.assert_array_equal(ours, ndimage.median_filter(values, size=(3, 1), mode="nearest"))
    np.testing.assert_array_equal(ours[1:-1, 0], signal.medfilt(values[:, 0], 3)[1:-1])


@pytest.mark.parametrize("cutoff", [0, 25, -1, float("nan")])
def test_a_cutoff_beyond_half_the_rate_is_an_error(cutoff):
    with pytest.raises(InputError, match="cutoff must be between 0 and half the rate, 25"):
        butterworth(3, cutoff, 50)
