"""Sound files, filterbank features and Speech Commands."""

import cmath
import io
import math
import shutil
import tarfile
import wave
from collections import Counter

import numpy as np
import pytest
import scipy.fft

from autapse.data.filterbank import frame_count, log_mel, mel_filters
from autapse.data.formats import speech_commands
from autapse.data.formats.speech_commands import COMMANDS, hashed_split, read_speech_commands
from autapse.data.formats.wav import read_wav
from damage import AGAIN, message
from upstream_text import SPEAKERS, SPEECH_WORDS, put, tone, wav_bytes, write_speech_commands

# Sound files


def stdlib_wav(samples: np.ndarray, rate: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def test_wav_is_what_the_standard_library_wrote():
    written = np.array([0, 1, -1, 32_767, -32_768, 1_234])
    samples, rate = read_wav(stdlib_wav(written, 8_000), "x.wav")
    assert (samples.dtype, rate) == (np.float32, 8_000)
    np.testing.assert_array_equal(samples * 32_768, written)
    assert samples.min() == -1
    assert samples.max() < 1


def test_wav_other_chunks_are_skipped_with_their_padding():
    plain = wav_bytes(np.array([0.5, -0.25]))
    odd = b"LIST" + (3).to_bytes(4, "little") + b"abc\0"
    samples, _ = read_wav(plain[:12] + odd + plain[12:36] + odd + plain[36:], "x.wav")
    np.testing.assert_array_equal(samples, [0.5, -0.25])


WHOLE = wav_bytes(np.zeros(10))  # 12 bytes RIFF and WAVE, 24 fmt, 8 data, 20 samples


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"RIFF", "byte 4: it ends within its RIFF header"),
        (b"OggS" + WHOLE[4:], "byte 0: it does not begin with RIFF and WAVE"),
        (WHOLE[:16], "byte 16: it ends within the chunk header at byte 12"),
        (WHOLE[:30], "byte 20: its fmt chunk has fewer than 16 bytes"),
        (WHOLE[:36], "byte 36: it ends without a data chunk"),
        (WHOLE[:40], "byte 40: it ends within the chunk header at byte 36"),
        (WHOLE[:-7], "byte 57: its data chunk has 13 of 20 bytes"),
        (WHOLE[:40] + b"\3\0\0\0abc", "byte 47: its data chunk ends within a sample"),
        (WHOLE[:12] + WHOLE[36:], "byte 12: its data chunk comes before its fmt chunk"),
        (wav_bytes(np.zeros(2), rate=0), "byte 24: its rate is 0 Hz"),
    ],
)
def test_wav_damage_says_where(content, problem):
    assert message(read_wav, content, "x.wav") == f"x.wav is damaged at {problem}. {AGAIN}"


@pytest.mark.parametrize(
    ("header", "got"),
    [
        ({"channels": 2}, "coding 1, 2 channels and 16 bits"),
        ({"bits": 24}, "coding 1, 1 channel and 24 bits"),
        ({"bits": 8}, "coding 1, 1 channel and 8 bits"),
        ({"bits": 32, "coding": 3}, "coding 3, 1 channel and 32 bits"),
    ],
)
def test_wav_of_another_kind_says_which(header, got):
    expected = f"x.wav must be 16-bit mono PCM (coding 1, 1 channel, 16 bits); got {got} at byte 20."
    assert message(read_wav, wav_bytes(np.zeros(4), **header), "x.wav") == expected


# Filterbank


def plain_log_mel(signal: list[float], rate: int = 16_000, filters: int = 32) -> np.ndarray:
    """The definition step by step: one sample, one bin and one filter at a time, with the Fourier sum written out."""
    mel = [n * 2595 * math.log10(1 + rate / 2 / 700) / (filters + 1) for n in range(filters + 2)]
    edges = [math.floor(513 * 700 * (10 ** (m / 2595) - 1) / rate) for m in mel]
    sharp = [signal[0]] + [signal[n] - 0.97 * signal[n - 1] for n in range(1, len(signal))]
    window, hop, rows, start = rate * 25 // 1000, rate // 100, [], 0
    while True:
        frame = (sharp[start : start + window] + [0.0] * window)[:window]
        power = []
        for k in range(257):
            total = sum(y * cmath.exp(-2j * math.pi * k * n / 512) for n, y in enumerate(frame))
            power.append(abs(total) ** 2 / 512)
        row = []
        for j in range(filters):
            left, peak, right, energy = edges[j], edges[j + 1], edges[j + 2], 0.0
            for k in range(left, right):
                weight = (k - left) / (peak - left) if k < peak else (right - k) / (right - peak)
                energy += weight * power[k]
            row.append(math.log(energy or 2.0**-52))
        rows.append(row)
        start += hop
        if start - hop + window >= len(signal):
            return np.array(rows)


def sample_signal() -> np.ndarray:
    """A tone, a sweep and a sawtooth of integers: the same on every machine."""
    n = np.arange(16_000)
    t = n / 16_000
    saw = (n * 7919 % 1000 - 499.5) / 10_000
    return 0.6 * np.sin(2 * np.pi * 440 * t) + 0.3 * np.sin(2 * np.pi * (500 * t + 3000 * t * t)) + saw


def test_filterbank_is_its_definition_step_by_step():
    signal = sample_signal()[:800]
    np.testing.assert_allclose(log_mel(signal[None])[0], plain_log_mel(signal.tolist()), rtol=0, atol=1e-9)


def test_filterbank_is_that_of_python_speech_features():
    # python_speech_features' formulas (logfbank, nfilt=32, commits 09fb325b and 1442780d) evaluated on this signal.
    expected = {
        (0, 0): -8.673885,
        (0, 7): -0.982334,
        (0, 31): -4.552955,
        (10, 3): -6.156446,
        (25, 15): -3.863972,
        (33, 20): 0.482709,
        (49, 12): -5.179422,
        (50, 31): -4.592181,
        (77, 26): 0.724874,
        (97, 5): -0.791721,
        (98, 0): -7.739002,
        (98, 31): -2.636545,
    }
    found = log_mel(sample_signal()[None])[0]
    assert found.shape == (99, 32)
    for place, value in expected.items():
        assert found[place] == pytest.approx(value, abs=1e-6)


# Bins are 31.25 Hz apart. The edges are bins 0 1 3 5 8 10 13 15 18 22 25 29 33 38 42 48 53 59 66 ... 117 128 140 ...
@pytest.mark.parametrize(
    ("hertz", "peak"),
    [
        (250, 3),  # bin 8, the peak of filter 3
        (1000, 11),  # bin 32: 3/4 in filter 11, which rises from 29 to 33, and 1/4 in filter 10
        (2000, 17),  # bin 64: 5/7 in filter 17, which rises from 59 to 66
        (4000, 24),  # bin 128, the peak of filter 24
    ],
)
def test_a_tone_is_loudest_in_the_filter_around_it(hertz, peak):
    assert (log_mel(tone(hertz, 1.0)[None])[0, :98].argmax(axis=1) == peak).all()


def test_energy_of_a_tone_is_that_of_its_samples():
    # 25 periods fill a frame of 400 samples, so Σy² = 200·(A·|1 − 0.97·e^{−iω}|)²; the spectrum has it twice, at ±ω.
    gain = abs(1 - 0.97 * cmath.exp(-2j * math.pi * 1000 / 16_000))
    energy = np.exp(log_mel(tone(1000, 1.0)[None])[0, 1:98]).sum(axis=1)
    np.testing.assert_allclose(2 * energy, 200 * (0.5 * gain) ** 2, rtol=0.01)


def test_energies_are_the_spectrum_of_scipy_weighted_by_the_filters():
    signal = np.random.default_rng(0).normal(size=2_000)
    sharp = np.append(signal[0], signal[1:] - 0.97 * signal[:-1])[160:560]
    power = np.abs(scipy.fft.fft(sharp, 512)) ** 2 / 512
    assert power.sum() == pytest.approx((sharp**2).sum())  # Parseval: what |X|²/N is for
    # Neighbouring triangles add up to 1 from the first peak to the last one, and the last falls to 0 at bin 256.
    weight = np.concatenate([[0], np.ones(235), (256 - np.arange(236, 257)) / 21])
    np.testing.assert_allclose(mel_filters().sum(axis=0), weight, atol=1e-12)
    assert np.exp(log_mel(signal[None])[0, 1]).sum() == pytest.approx(weight @ power[:257])


def test_a_batch_is_its_signals_one_by_one_and_silence_has_the_floor():
    signals = np.stack([sample_signal(), np.zeros(16_000)]).astype(np.float32)
    together = log_mel(signals)
    np.testing.assert_allclose(together[:1], log_mel(signals[:1]), rtol=1e-12)
    np.testing.assert_array_equal(together[1], np.full((99, 32), math.log(2.0**-52)))


@pytest.mark.parametrize(("samples", "frames"), [(1, 1), (400, 1), (401, 2), (560, 2), (16_000, 99), (16_080, 99)])
def test_frames_cover_the_signal(samples, frames):
    assert frame_count(samples) == frames
    assert log_mel(np.ones((1, samples))).shape == (1, frames, 32)


def test_filters_narrower_than_a_bin_stay_finite():
    assert np.isfinite(log_mel(np.ones((1, 500)), filters=200)).all()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((np.zeros(5),), "signals must have shape (B, samples) with at least one sample; got (5,)."),
        ((np.zeros((2, 0)),), "signals must have shape (B, samples) with at least one sample; got (2, 0)."),
        (
            (np.zeros((1, 5)), 44_100),
            "rate must give windows of at most 512 samples; got 44100. Resample to 16000 Hz.",
        ),
        ((np.zeros((1, 5)), 16_000, 0), "filters must be an integer of at least 1; got 0."),
    ],
)
def test_filterbank_refuses_what_it_cannot_do(arguments, expected):
    assert message(log_mel, *arguments) == expected


# Speech Commands


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    return write_speech_commands(tmp_path_factory.mktemp("data"))


@pytest.fixture
def own_commands(commands, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(commands, tmp_path / "speech_commands_v0.01")


def second(path) -> np.ndarray:
    """One second of a file in 16-bit units, read by the standard library."""
    with wave.open(str(path)) as sound:
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2").astype(float)
    return np.append(samples, np.zeros(16_000))[:16_000]


def test_thirty_words_are_all_clips(commands):
    clips = read_speech_commands(commands, 30)
    assert clips.names == SPEECH_WORDS
    assert (clips.features.shape, clips.features.dtype) == ((150, 99, 32), np.float32)
    assert clips.labels.dtype == np.int64
    assert Counter(clips.splits) == {"train": 90, "validation": 30, "test": 30}
    assert Counter(clips.labels.tolist()) == dict.fromkeys(range(30), 5)
    for n, (label, speaker, split) in enumerate(zip(clips.labels, clips.speakers, clips.splits, strict=True)):
        assert split == {SPEAKERS[-2]: "validation", SPEAKERS[-1]: "test"}.get(speaker, "train")
        expected = log_mel(second(commands / clips.names[label] / f"{speaker}_nohash_0.wav")[None])[0]
        np.testing.assert_allclose(clips.features[n], expected, rtol=1e-5)


def test_twelve_classes_are_balanced_in_each_split(commands):
    clips = read_speech_commands(commands, 12)
    assert clips.names == (*COMMANDS, "unknown", "silence")
    for split, count in (("train", 3), ("validation", 1), ("test", 1)):
        labels = [label for label, at in zip(clips.labels.tolist(), clips.splits, strict=True) if at == split]
        assert Counter(labels) == dict.fromkeys(range(12), count)
    known = {"white_noise", "doing_the_dishes"}
    assert {s for s, label in zip(clips.speakers, clips.labels, strict=True) if label == 11} <= known


def test_unknown_words_are_not_commands_and_silence_is_cut_from_noise(own_commands):
    # With one second of noise there is one cut only, so its features are known.
    (own_commands / "_background_noise_" / "doing_the_dishes.wav").unlink()
    noise = own_commands / "_background_noise_" / "white_noise.wav"
    put(noise, wav_bytes(np.random.default_rng(1).normal(0, 0.1, 16_000)))
    clips = read_speech_commands(own_commands, 12)
    silence = log_mel(second(noise)[None])[0]
    for features in clips.features[clips.labels == 11]:
        np.testing.assert_allclose(features, silence, rtol=1e-5)
    others = [own_commands / word for word in SPEECH_WORDS if word not in COMMANDS]
    files = [file for folder in others for file in folder.iterdir()]
    possible = log_mel(np.stack([second(file) for file in files]))
    for features in clips.features[clips.labels == 10]:
        assert np.isclose(features, possible, rtol=1e-5).all(axis=(1, 2)).sum() == 1


def test_seed_draws_unknown_and_silence_and_nothing_else(commands):
    first, again, other = (read_speech_commands(commands, 12, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.features, again.features)
    drawn = first.labels >= 10
    np.testing.assert_array_equal(first.features[~drawn], other.features[~drawn])
    assert (first.features[first.labels == 11] != other.features[other.labels == 11]).any()
    assert (first.features[first.labels == 10] != other.features[other.labels == 10]).any()


@pytest.mark.parametrize("prefix", [".", "speech_commands_v0.01"])
def test_archive_reads_as_the_folder(commands, tmp_path, prefix):
    path = tmp_path / "speech_commands_v0.01.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(commands, prefix)
    folder, packed = read_speech_commands(commands, 12), read_speech_commands(path, 12)
    np.testing.assert_array_equal(folder.features, packed.features)
    assert (folder.speakers, folder.splits) == (packed.speakers, packed.splits)


def test_batches_do_not_show(commands, monkeypatch):
    expected = read_speech_commands(commands, 30).features
    monkeypatch.setattr(speech_commands, "BATCH", 7)
    np.testing.assert_allclose(read_speech_commands(commands, 30).features, expected, rtol=1e-6)


def test_without_lists_the_speaker_decides(own_commands):
    for name in ("validation_list.txt", "testing_list.txt"):
        (own_commands / name).unlink()
    clips = read_speech_commands(own_commands, 30)
    assert clips.splits == tuple(hashed_split(speaker) for speaker in clips.speakers)


def test_hashed_split_agrees_with_the_official_lists():
    # Speakers of the first lines of upstream's validation_list.txt and testing_list.txt.
    assert [hashed_split(s) for s in ("026290a7", "060cd039", "099d52ad")] == ["validation"] * 3
    assert [hashed_split(s) for s in ("0c40e715", "0ea0e2f4")] == ["test"] * 2
    shares = Counter(hashed_split(f"{n:08x}") for n in range(5_000))
    assert shares["validation"] / 5_000 == pytest.approx(0.1, abs=0.015)
    assert shares["test"] / 5_000 == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("yes/nobody_nohash_0.wav\n", "line 1: there is no clip yes/nobody_nohash_0.wav"),
        ("yes\n", "line 1: 'yes' is not <word>/<speaker>_nohash_<n>.wav"),
        (
            f"no/{SPEAKERS[0]}_nohash_0.wav\nyes/{SPEAKERS[-1]}_nohash_0.wav\nyes/{SPEAKERS[-1]}_nohash_0.wav\n",
            f"line 3: yes/{SPEAKERS[-1]}_nohash_0.wav is already listed for test",
        ),
        (f"yes/{SPEAKERS[-1]}_noha", "line 1: the file ends within a line"),
    ],
)
def test_damaged_list_says_where(own_commands, text, problem):
    path = own_commands / "testing_list.txt"
    put(path, text)
    assert message(read_speech_commands, own_commands, 30) == f"{path} is damaged at {problem}. {AGAIN}"


def test_words_of_later_versions_and_hidden_files_are_left_out(own_commands):
    put(own_commands / "yes" / "._0a7c2a8d_nohash_0.wav", b"what macOS leaves behind")
    put(own_commands / "backward" / "0a7c2a8d_nohash_0.wav", wav_bytes(tone(100, 1.0)))
    with (own_commands / "testing_list.txt").open("a") as file:
        file.write("backward/0a7c2a8d_nohash_0.wav\n")
    assert len(read_speech_commands(own_commands, 30).labels) == 150


def test_missing_parts_are_named(own_commands):
    assert message(read_speech_commands, own_commands, 35) == "classes must be 12 or 30; got 35."
    (own_commands / "testing_list.txt").unlink()
    assert message(read_speech_commands, own_commands, 30) == f"{own_commands}/testing_list.txt is missing."
    (own_commands / "validation_list.txt").unlink()
    shutil.rmtree(own_commands / "_background_noise_")
    assert message(read_speech_commands, own_commands, 12) == f"{own_commands}/_background_noise_ has no .wav file."
    shutil.rmtree(own_commands / "wow")
    expected = f"{own_commands}/wow has no clip <speaker>_nohash_<n>.wav."
    assert message(read_speech_commands, own_commands, 30) == expected
    assert message(read_speech_commands, own_commands / "none", 30) == f"{own_commands}/none is missing."


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (wav_bytes(np.zeros(100))[:-10], f" is damaged at byte 234: its data chunk has 190 of 200 bytes. {AGAIN}"),
        (wav_bytes(np.zeros(100), rate=8_000), " must have a rate of 16000 Hz; got 8000 Hz."),
        (wav_bytes(np.zeros(0)), " must have at least one sample; got none."),
    ],
)
def test_damaged_clip_is_named(own_commands, content, end):
    path = own_commands / "yes" / f"{SPEAKERS[0]}_nohash_0.wav"
    put(path, content)
    assert message(read_speech_commands, own_commands, 30) == f"{path}{end}"


def test_short_noise_is_named(own_commands):
    path = own_commands / "_background_noise_" / "white_noise.wav"
    put(path, wav_bytes(np.zeros(15_999)))
    expected = f"{path} must last one second (16000 samples); got 15999."
    assert message(read_speech_commands, own_commands, 12) == expected


def test_cut_archive_names_the_file_it_ends_in(commands, tmp_path):
    whole, path = tmp_path / "whole.tar.gz", tmp_path / "cut.tar.gz"
    with tarfile.open(whole, "w:gz", compresslevel=1) as archive:
        archive.add(commands, ".")
    put(path, whole.read_bytes()[: whole.stat().st_size // 2])
    found = message(read_speech_commands, path, 30)
    assert found.startswith(f"{path} is damaged at ")
    assert found.endswith(AGAIN)
    assert "_nohash_0.wav: " in found or "_list.txt: " in found or "_noise" in found
