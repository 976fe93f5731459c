"""Results as JSON, as tables and as the page on speed."""

import importlib.util
import json
from pathlib import Path

import pytest

from autapse import files
from autapse.benchmark import report
from autapse.benchmark.settings import FULL, QUICK, Settings
from autapse.benchmark.targets import RATIO_SHAPES, RATIOS, verdicts

ROOT = Path(__file__).parents[2]


def pair(shape, network, peer, ratio, share=0.4, infer=1.5):
    times = {"ours": 0.01, "peer": 0.01 * ratio, "ratio": ratio, "ours_calls": 5, "peer_calls": 5}
    row = {"shape": shape, "network": network, "peer": peer, "against": peer, "checked": "outputs and gradients"}
    return row | {"error": 1e-6, "operations": 10, "share": share, "train": times, "infer": times | {"ratio": infer}}


@pytest.fixture
def results():
    """Made up, with numbers that are easy to find again."""
    rows = [
        pair("har", "gru", "torch.nn", 3.25),
        pair("large", "gru", "torch.nn", 1.5, infer=0.9),
        pair("large", "antisymmetric", "loop", 1.4, share=0.625),
        {"shape": "har", "network": "antisymmetric", "peer": "compiled", "reason": "not compiled: no compiler"},
    ]
    lengths = {"shape": "har", "network": "gru", "valid": 0.5, "error": 1e-6}
    lengths |= {
        "ours": {"ragged": 6.0, "full": 10.0, "part": 0.6},
        "torch": {"ragged": 12.0, "full": 10.0, "part": 1.2},
    }
    step = {"shape": "streaming", "network": "gru", "peer": "torch.nn", "against": "torch.nn.GRUCell", "error": 0.0}
    step |= {"infer": {"ours": 1e-5, "peer": 4e-5, "ratio": 4.0, "ours_calls": 5, "peer_calls": 5}}
    native = {"available": True, "reason": "", "instruction_set": "avx2", "threads": 2}
    software = {"torch": "0", "torch_instruction_set": "AVX2", "threads": 2, "native": native, "torchrecurrent": None}
    mode = {"pairs": rows, "ragged": [lengths], "streaming": [step], "gemm": {"seconds": 1.0, "rate": 2e11}}
    mode |= {"software": software, "denormals_kept": {"products": False, "mm": False}}
    default = json.loads(json.dumps(mode))
    default["pairs"][0]["train"]["ratio"] = 6.5
    return {
        "autapse": "0",
        "commit": "c0ffee",
        "date": "2000-01-01T00:00:00+00:00",
        "command": "autapse bench",
        "settings": QUICK.to_json(),
        "hardware": {"cpu": "a cpu", "cores": 2, "load": 0.25, "system": "a system", "python": "3"},
        "modes": {"flushed": mode, "default": default},
    }


def test_json_round_trip(results, tmp_path):
    files.write_json(tmp_path / "speed.json", results)
    again = files.read_json(tmp_path / "speed.json")
    assert again["modes"] == results["modes"]
    assert report.markdown(again) == report.markdown(results)
    assert all(Settings.from_json(json.loads(json.dumps(s.to_json()))) == s for s in (QUICK, FULL))


def test_markdown_has_every_number(results):
    text = report.markdown(results)
    for line in (
        "| gru | torch.nn | 3.25× (6.50×) | 1.50× (1.50×) |",
        "| antisymmetric | compiled | not compiled |  |",
        "| antisymmetric |  | 10 ms, 62% |",
        "| gru | autapse, `lengths` | 0.60 (0.60) |",
        "| gru | torch.nn, packed | 1.20 (1.20) |",
        "| gru | torch.nn.GRUCell | 10.0 µs | 40.0 µs | 4.00× (4.00×) |",
        "- compiled, not compiled: no compiler: antisymmetric at har",
        "a cpu, 2 cores, load 0.2 at the start",
    ):
        assert line in text, f"{line!r} is not in\n{text}"


def test_targets_are_met_or_not(results):
    found = {(v.target, v.shape): (v.measured, v.met) for v in verdicts(results)}
    assert found == {
        ("training, gru against torch.nn", "har"): ("3.25× (gru)", True),
        ("training, gru against torch.nn", "large"): ("1.50× (gru)", False),
        ("training, antisymmetric against loop", "large"): ("1.40× (antisymmetric)", True),
        ("share of torch.mm's rate, antisymmetric", "large"): ("62% (antisymmetric)", True),
        ("inference against torch.nn", "har"): ("1.50× (gru)", True),
        ("inference against torch.nn", "large"): ("0.90× (gru)", False),
        ("inference against torch.nn", "streaming"): ("4.00× (gru)", True),
        ("ragged against full length", "har"): ("0.60 (gru)", True),
    }
    assert all(len(floors) == len(RATIO_SHAPES) for floors in RATIOS.values())


def test_the_worst_cell_counts(results):
    rows = results["modes"]["flushed"]["pairs"]
    rows += [pair("tagging", "ugrnn", "torchrecurrent", 9.0), pair("tagging", "fastrnn", "torchrecurrent", 3.0)]
    (verdict,) = (v for v in verdicts(results) if v.shape == "tagging")
    assert (verdict.measured, verdict.wanted, verdict.met) == ("3.00× (fastrnn)", "≥ 4×", False)


def test_a_page_is_filled_between_its_markers(results):
    page = f"before\n{report.START}\nold\n{report.END}\nafter\n"
    filled = report.fill(page, results)
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert "3.25×" in filled
    assert "old" not in filled
    assert report.fill(filled, results) == filled
    assert report.NOTHING in report.fill(filled, None)
    with pytest.raises(ValueError, match="must have the lines"):
        report.fill("no markers", results)


def test_the_page_is_what_the_stored_results_make_it():
    """After a new measurement: python benchmarks/speed.py --render"""
    spec = importlib.util.spec_from_file_location("speed", ROOT / "benchmarks" / "speed.py")
    speed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(speed)
    assert speed.PAGE.read_text(encoding="utf-8") == speed.render()
