"""The rhythm of the Phased LSTM, and its times."""

from __future__ import annotations

import math
from typing import Any

import pytest
import scipy.stats
import torch

import autapse
from autapse.checks import InputError
from tolerance import close

D, H = 3, 4


def with_rhythm(period: float, shift: float, ratio: float, **options: Any) -> Any:
    layer = autapse.PhasedLSTM(D, H, dtype=torch.float64, **options)
    with torch.no_grad():
        for cell in layer.cells.values():
            cell.log_period.fill_(math.log(period))
            cell.shift.fill_(shift)
            cell.logit_ratio.fill_(math.log(ratio / (1 - ratio)))
    return layer


def test_units_open_and_close_once_in_a_period() -> None:
    form = with_rhythm(10.0, 2.0, 0.4, leak=0.1).cells["l0"].prepare()
    times = torch.tensor([[2.5], [3.0], [4.0], [5.0], [7.0], [11.0], [12.5], [1.0], [-7.0]], dtype=torch.float64)
    expected = [0.25, 0.5, 1.0, 0.5, 0.05, 0.09, 0.25, 0.09, 0.5]
    close(form.openness(times)[:, 0].detach(), torch.tensor(expected, dtype=torch.float64))


def test_closed_units_keep_their_states() -> None:
    layer = with_rhythm(8.0, 0.5, 0.5, leak=0.0)
    _, _, states = layer(torch.randn(16, 2, D, dtype=torch.float64), return_states=True)
    for part in states[0]:
        assert not torch.equal(part[3], part[4])
        assert all(torch.equal(part[4], part[t]) for t in range(5, 9))  # closed where φ > 1/2
        assert not torch.equal(part[8], part[9])


def test_always_open_units_are_an_lstm() -> None:
    """At the middle of its open time a unit takes the whole step of the LSTM."""
    layer = with_rhythm(1.0, -0.25, 0.5)  # φ = 1/4 at every position
    lstm = autapse.LSTM(D, H, peepholes=True, dtype=torch.float64)
    lstm.load_state_dict({f"{name}_l0": value for name, value in layer.cells["l0"].inner.named_parameters()})
    x = torch.randn(7, 2, D, dtype=torch.float64)
    close(layer(x)[0], lstm(x)[0])


@pytest.mark.parametrize("layers", [1, 3])
def test_time_stamps_that_count_steps_are_positions(layers: int) -> None:
    torch.manual_seed(0)
    by_position = autapse.PhasedLSTM(D, H, num_layers=layers, periods=(1.0, 9.0), dtype=torch.float64)
    stamped = autapse.PhasedLSTM(D + 1, H, num_layers=layers, periods=(1.0, 9.0), time="input", dtype=torch.float64)
    stamped.load_state_dict(by_position.state_dict())
    x = torch.randn(12, 2, D, dtype=torch.float64)
    times = torch.arange(12, dtype=torch.float64)[:, None, None].expand(12, 2, 1)
    output, (h_n, c_n, t_n) = stamped(torch.cat([x, times], dim=-1))
    expected, (h, c) = by_position(x)
    close((output, h_n, c_n), (expected, h, c))
    assert t_n.flatten().tolist() == [11.0] * 2 * layers


def test_both_directions_of_a_stack_read_the_same_times() -> None:
    layer = autapse.PhasedLSTM(D + 1, H, num_layers=2, bidirectional=True, time="input", dtype=torch.float64)
    x = torch.cat([torch.randn(6, 2, D), torch.rand(6, 2, 1).cumsum(0)], dim=-1).double()
    output, (_, _, t_n) = layer(x, lengths=[6, 4])
    assert output.shape == (6, 2, 2 * H)
    assert layer.cells["l1"].inner.input_size == 2 * H  # the LSTM does not read the time
    close(t_n[:, 1, 0], torch.stack([x[3, 1, -1], x[0, 1, -1]] * 2))
    close(output[:4, 1:], layer(x[:4, 1:])[0])


def test_dropout_between_layers_keeps_the_time() -> None:
    layer = autapse.PhasedLSTM(D + 1, H, num_layers=3, time="input", dropout=0.5).train()
    times = torch.arange(1.0, 7.0)[:, None, None].expand(6, 2, 1)
    _, (_, _, t_n) = layer(torch.cat([torch.randn(6, 2, D), times], dim=-1))
    assert t_n.flatten().tolist() == [6.0] * 6


@pytest.mark.parametrize("around", ["SkipRNN", "Dilated", "Deep"])
def test_a_cell_around_it_does_not_pass_the_time_to_the_next_layer(around: str) -> None:
    with pytest.raises(InputError, match=r"cell must be the same in each of the 2 layers; got 'PhasedLSTM'"):
        getattr(autapse, around)(D + 1, H, num_layers=2, cell="phasedlstm:time=input")
    getattr(autapse, around)(D + 1, H, cell="phasedlstm:time=input")(torch.randn(4, 2, D + 1))
    getattr(autapse, around)(D, H, num_layers=2, cell="phasedlstm")(torch.randn(4, 2, D))


def test_it_starts_as_the_paper() -> None:
    cell = autapse.cells.PhasedLSTM(3, 2000, periods=(2.0, 200.0), dtype=torch.float64)
    period, shift = cell.log_period.detach().exp(), cell.shift.detach()
    logs = scipy.stats.uniform(math.log(2), math.log(100))
    assert scipy.stats.kstest(cell.log_period.detach().numpy(), logs.cdf).pvalue > 1e-4
    assert scipy.stats.kstest((shift / period).numpy(), scipy.stats.uniform(0, 1).cdf).pvalue > 1e-4
    close(torch.sigmoid(cell.logit_ratio).detach(), torch.full((2000,), 0.05, dtype=torch.float64))
    assert cell.inner.weight_peephole is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"periods": 5}, "periods must be two numbers"),
        ({"periods": (0.0, 5.0)}, "periods must be a finite number above 0; got 0.0."),
        ({"periods": (5.0, 1.0)}, r"periods must have the shortest one first; got \(5.0, 1.0\)."),
        ({"open_ratio": 1.0}, "open_ratio must be below 1; got 1.0."),
        ({"leak": -0.1}, "leak must be a finite number at least 0 and at most 1; got -0.1."),
        ({"time": "stamp"}, "time must be one of position, input; got 'stamp'."),
        ({"time": "input", "input_size": 1}, "input_size must be at least 2 if the last feature is the time; got 1."),
        ({"peepholes": 3}, "peepholes must be True, False or 'old'; got 3."),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        autapse.PhasedLSTM(**{"input_size": D, "hidden_size": H} | options)
