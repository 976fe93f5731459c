"""Traces of a memory against the states of the layer, and the drawing of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import autapse
from autapse.checks import InputError
from autapse.diagnostics.memory import MemoryTrace, memory_trace
from autapse.diagnostics.plots import draw_memory
from autapse.models import Tagger

N, W = 5, 3
OPTIONS: dict[str, Any] = {"slots": N, "width": W, "read_heads": 2}


@pytest.mark.parametrize("batch_first", [False, True])
def test_it_is_what_the_states_say(batch_first: bool) -> None:
    layer = autapse.Memory(2, 4, num_layers=2, batch_first=batch_first, **OPTIONS)
    x = torch.randn(7, 3, 2)
    given = x.transpose(0, 1) if batch_first else x
    _, _, states = layer(given, lengths=[7, 2, 5], return_states=True)
    for number in (0, 1):
        trace = memory_trace(layer, given, [7, 2, 5], layer=number)
        output, _, memory, addresses = (s.transpose(0, 1) if batch_first else s for s in states[number])
        np.testing.assert_allclose(trace.memory.reshape(7, 3, 1, -1), memory.detach())
        both = np.concatenate([trace.read, trace.write], axis=2)
        np.testing.assert_allclose(both.reshape(7, 3, 1, -1), addresses.detach())
        np.testing.assert_allclose(trace.reads.reshape(7, 3, 1, -1), output[..., 4:].detach())
        assert trace.lengths.tolist() == [7, 2, 5]
    one = trace.one(1)
    assert one.memory.shape == (2, 1, N, W)
    np.testing.assert_array_equal(one.read, trace.read[:2, 1:2])


def test_of_a_model_and_of_a_single_sequence() -> None:
    model = Tagger("memory:slots=5:width=3:hard=sample", 2, 4, hidden_size=6, mean=[1.0, 2.0], scale=[2.0, 3.0])
    x = torch.randn(3, 6, 2)
    trace = memory_trace(model.train(), x)
    assert model.training
    scaled = (x - torch.tensor([1.0, 2.0])) / torch.tensor([2.0, 3.0])
    direct = memory_trace(model.layer, scaled)
    np.testing.assert_allclose(trace.memory, direct.memory, rtol=1e-5)
    assert set(np.unique(trace.read)) == {0.0, 1.0}, "in evaluation mode, one slot each"
    alone = memory_trace(model.layer, scaled[1])
    assert alone.memory.shape == (6, 1, 5, 3)
    np.testing.assert_allclose(alone.memory[:, 0], trace.memory[:, 1], rtol=1e-5)
    assert alone.lengths.tolist() == [6]


def test_other_networks_have_no_memory() -> None:
    for network in (autapse.GRU(2, 3), Tagger("gru", 2, 3, hidden_size=4)):
        with pytest.raises(InputError, match="network must be a layer of Memory cells, or a model with one; got 'GRU'"):
            memory_trace(network, torch.zeros(4, 1, 2))
    with pytest.raises(InputError, match="layer must be an integer of at least 0 and at most 0; got 1"):
        memory_trace(autapse.Memory(2, 3), torch.zeros(4, 1, 2), layer=1)


def trace_of(**sizes: int) -> MemoryTrace:
    layer = autapse.Memory(2, 4, slots=N, width=W, **sizes)
    return memory_trace(layer, torch.randn(6, 2, 2), [6, 4])


def test_the_drawing_shows_the_numbers() -> None:
    pytest.importorskip("matplotlib")
    trace = trace_of(read_heads=2)
    figure = draw_memory(trace, sequence=1)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["write head 1", "read head 1", "read head 2", "length of each vector", "vectors at the end"]
    shown = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    np.testing.assert_allclose(shown[0], trace.write[:4, 1, 0].T)
    np.testing.assert_allclose(shown[2], trace.read[:4, 1, 1].T)
    np.testing.assert_allclose(shown[3], np.linalg.norm(trace.memory[:4, 1], axis=-1).T, rtol=1e-6)
    np.testing.assert_allclose(shown[4], trace.memory[3, 1])


def test_the_drawing_on_given_axes() -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")
    axes = matplotlib.Figure().subplots(4, 1)
    assert draw_memory(trace_of(), axes=axes) is axes[0].figure
    with pytest.raises(InputError, match=r"axes must have one entry per panel, 4 in all; got 3"):
        draw_memory(trace_of(), axes=axes[:3])
