"""`autapse bench` on shapes that take no time."""

import re
from pathlib import Path

import pytest

from autapse import files
from autapse.benchmark import run
from autapse.benchmark.candidate import Unequal
from autapse.benchmark.settings import FULL, QUICK, TIMES, Settings
from autapse.cli.bench import Bench, make_settings
from autapse.cli.main import main
from autapse.native import library

TINY = [
    *("bench", "--shapes", "6x32x2x5,streaming", "--cells", "gru,ugrnn", "--peers", "torch.nn,reference"),
    *("--full", "--repeats", "1", "--threads", "1"),
]


def test_help_and_docs_say_how_long_it_takes(capsys):
    assert main(["bench", "--help"]) == 0
    page = " ".join((Path(__file__).parents[2] / "docs" / "speed.md").read_text().split())
    for text in (" ".join(capsys.readouterr().out.replace("│", " ").split()), page):
        assert TIMES[FULL] in text
        assert TIMES[QUICK] in text


def test_bench_prints_tables_and_writes_results(capsys, tmp_path):
    out = tmp_path / "speed.json"
    assert main([*TINY, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for words in (
        "kernels: ",
        "Training step",
        "Inference",
        "Ragged batches",
        "Streaming",
        "torch.nn",
        "reference",
        "6x32x2x5",
    ):
        assert words in said
    results = files.read_json(out)
    assert list(results["modes"]) == ["flushed", "default"]
    assert results["settings"]["shapes"] == ["6x32x2x5", "streaming"]
    assert "bench --shapes 6x32x2x5,streaming" in results["command"]
    assert results["modes"]["flushed"]["denormals_kept"] == {"products": False, "mm": False}
    assert results["modes"]["default"]["denormals_kept"] == {"products": True, "mm": True}
    measured = {"flushed": [("gru", "torch.nn"), ("ugrnn", "reference")], "default": [("gru", "torch.nn")]}
    for name, mode in results["modes"].items():
        assert mode["software"]["threads"] == 1
        assert [(row["network"], row["peer"]) for row in mode["pairs"]] == measured[name]
        for row in mode["pairs"]:
            assert row["train"]["ratio"] == row["train"]["peer"] / row["train"]["ours"]
            assert row["share"] == row["operations"] / row["train"]["ours"] / mode["gemm"]["rate"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--shapes hra", "shape must be TxBxDxH, as in 50x8x3x64, or one of pixel-mnist, har, .*Did you mean 'har'?"),
        ("--shapes 0x1x1x1", "shape must be TxBxDxH"),
        ("--shapes har,har", "shapes must name each one once; got 'har'"),
        ("--shapes ,", "shapes must name at least one of pixel-mnist"),
        ("--cells grru", "cell must be one of rnn, gru, .*Did you mean 'gru'?"),
        ("--peers torch", "peer must be one of torch.nn, loop"),
        ("--repeats 0", "repeats must be an integer of at least 1; got 0"),
        ("--threads 0", "threads must be an integer of at least 1; got 0"),
        ("--out no/such/speed.json", "There is no folder no/such"),
    ],
)
def test_mistakes(capsys, words, said):
    assert main(["bench", *words.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(said, error), error


def test_results_that_differ_end_the_measurement(capsys, monkeypatch):
    def differ(*_):
        raise Unequal("gru at T1 B1 D1 H1: output differs.")

    monkeypatch.setattr(run, "measure", differ)
    assert main(TINY) == 1
    assert capsys.readouterr().err == "autapse: gru at T1 B1 D1 H1: output differs.\n"


@pytest.mark.skipif(not library.available(), reason="the failure is the native library's, which is not there")
def test_a_measuring_process_that_fails_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTAPSE_ISA", "z80")
    tiny = Settings(shapes=("2x2x2x2",), cells=("gru",), threads=1)
    with pytest.raises(RuntimeError, match=r"(?s)ended with code 1.*AUTAPSE_ISA must be one of this machine's"):
        run._in_worker("flushed", tiny, tmp_path / "out", lambda _: None)


def test_a_layer_without_options_selects_its_networks():
    chosen = make_settings(Bench(cells="rnn,gru,lstm,ernn,ernn:inner_steps=3"))
    assert chosen.cells == ("rnn", "gru", "lstm", "ernn:inner_steps=3")


def test_full_measures_more_and_options_win():
    assert make_settings(Bench()) == QUICK
    full = make_settings(Bench(full=True, peers="loop", repeats=2))
    assert (full.peers, full.repeats) == (("loop",), 2)
    assert set(full.cells) > set(QUICK.cells)
