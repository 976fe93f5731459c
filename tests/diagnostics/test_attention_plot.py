"""The picture of attention weights: symbols on both axes, and one line for what does not fit."""

import numpy as np
import pytest
import torch

from autapse.checks import InputError
from autapse.diagnostics.plots import AttentionPanel, draw_attention, plot_attention

pytest.importorskip("matplotlib")
WEIGHTS = [[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]


def test_rows_are_what_was_written_and_columns_what_was_read():
    axes = draw_attention(torch.tensor(WEIGHTS), source=["a", " ", "c"], target=["x", "y"])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "␣", "c"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]
    (image,) = axes.images
    np.testing.assert_allclose(image.get_array(), WEIGHTS, rtol=1e-6)


def test_it_is_drawn_on_given_axes_and_written_to_a_file(tmp_path):
    axes = draw_attention(WEIGHTS)
    assert draw_attention(WEIGHTS, axes=axes) is axes
    plot_attention(tmp_path / "a.png", [AttentionPanel(WEIGHTS, "abc", "xy"), AttentionPanel(WEIGHTS, "abc", "xy")])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_symbols_must_fit_the_weights():
    with pytest.raises(InputError, match="source must have one symbol per column, 3; got 2"):
        draw_attention(WEIGHTS, source="ab")
    with pytest.raises(InputError, match="target must have one symbol per row, 2; got 3"):
        draw_attention(WEIGHTS, target="xyz")
