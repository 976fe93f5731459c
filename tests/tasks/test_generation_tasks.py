"""The tasks with sequences to generate, against what is known about them from elsewhere."""

import math
from collections import Counter

import numpy as np
import pytest

from autapse.checks import InputError
from autapse.tasks import Brackets, MackeyGlass, Pendulum, Strokes
from autapse.tasks.pendulum import INTERVAL, _swing
from autapse.tasks.strokes import pen_lines


def balanced(word):
    stack = []
    for symbol in word:
        if symbol in "([{<":
            stack.append(symbol)
        elif not stack or stack.pop() + symbol not in ("()", "[]", "{}", "<>"):
            return False
    return not stack


@pytest.mark.parametrize("kinds", [1, 3])
def test_brackets_are_balanced_and_have_their_lengths(kinds):
    task = Brackets(kinds=kinds, train_size=3000)
    words = task.words(task.split("train", 0))
    assert all(balanced(word) for word in words)
    found = np.bincount([len(word) for word in words], minlength=23)[1:] / 3000
    chances = task.length_chances()
    assert chances.sum() == pytest.approx(1)
    assert (np.abs(found - chances) < 5 * np.sqrt(chances * (1 - chances) / 3000) + 1e-12).all()


def test_all_words_of_a_length_are_equally_likely():
    task = Brackets(pairs=(4,), train_size=7000)
    counts = Counter(task.words(task.split("train", 0)))
    assert len(counts) == 14  # the fourth Catalan number
    assert max(abs(count - 500) for count in counts.values()) < 5 * math.sqrt(500)
    assert task.floor(task.split("test", 0)) == pytest.approx(math.log(14) / 8)


def test_the_delay_equation_holds():
    """Central differences of the series, against the right side of the equation."""
    task = MackeyGlass(interval=0.5, length=400, delay=17.0, primed=1, train_size=2)
    z = task.split("train", 0).targets[0][:, 0].astype(np.float64)
    slope, delayed = (z[2:] - z[:-2])[34:], z[1:-1][:-34]
    right = 0.2 * delayed / (1 + delayed**10) - 0.1 * z[1:-1][34:]
    np.testing.assert_allclose(slope, right, atol=3e-3)
    assert z.std() > 0.1


def test_the_pendulum_keeps_its_energy_without_friction_and_pushes(monkeypatch):
    monkeypatch.setattr("autapse.tasks.pendulum.FRICTION", 0.0)
    angles, speeds = _swing(np.zeros((3, 400)), np.array([0.5, 1.0, 0.1]), np.array([0.0, 0.5, 0.0]))
    energy = 0.5 * speeds**2 - np.cos(angles)
    assert np.abs(energy - energy[:, :1]).max() < 0.05
    np.testing.assert_allclose(speeds[:, 1:-1], (angles[:, 2:] - angles[:, :-2]) / (2 * INTERVAL), atol=0.05)
    small = angles[2]
    crossings = np.flatnonzero((small[:-1] < 0) & (small[1:] >= 0))
    assert np.diff(crossings).mean() * INTERVAL == pytest.approx(2 * math.pi, rel=0.02)
    data = Pendulum(train_size=20, noise=0.0).split("train", 0)
    np.testing.assert_allclose(np.square(data.targets.values[:, :2]).sum(1), 1, atol=1e-5)


def test_every_font_can_be_drawn(no_waiting):
    for font in (17, 22, 32):  # in these, a pen comes into a corner and cannot turn
        assert len(Strokes(font=font, train_size=20).split("train", 0)) == 20


def test_a_drawing_of_a_letter_looks_like_the_others():
    """Drawings of one letter end nearer to each other than those of two letters, and have as many strokes."""
    task = Strokes(train_size=400)
    data = task.split("train", 0)
    letters, drawings = data.inputs[:, 0, 0], [data.targets[n] for n in range(400)]
    ends = np.array([drawing[:, :2].sum(axis=0) for drawing in drawings])
    strokes = np.array([len(pen_lines(drawing)) for drawing in drawings])
    within = np.mean([ends[letters == n].var(axis=0).sum() for n in range(10)])
    assert within < 0.3 * ends.var(axis=0).sum()
    assert all(len(set(strokes[letters == n])) == 1 for n in range(10))
    assert all(drawing[-1, 2] == 1 for drawing in drawings)
    alone = Strokes(given="nothing", train_size=3).split("train", 0)
    assert alone.inputs.shape == (3, 1, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Brackets(pairs=()), "pairs must be different numbers, at least one; got ()."),
        (lambda: Brackets(kinds=5), "kinds must be an integer of at least 1 and at most 4; got 5."),
        (lambda: Brackets(missing=0.95), "missing must be a finite number at least 0 and at most 0.9; got 0.95."),
        (lambda: MackeyGlass(primed=100), "primed must be an integer of at least 0 and at most 99; got 100."),
        (lambda: Strokes(letters=27), "letters must be an integer of at least 1 and at most 26; got 27."),
        (lambda: Strokes(given="word"), "given must be one of letter, nothing; got 'word'."),
        (lambda: Pendulum(length=1), "length must be an integer of at least 2; got 1."),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message
