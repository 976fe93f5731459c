"""What a command prints: foreign names are shown as they are, on any stream, to any reader."""

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from autapse.cli.main import main
from autapse.cli.summary import trivial_warning
from command_line import mistake, said
from small import autapse

SMALL = (
    "--length 8 --train-size 64 --validation-size 16 --test-size 16 --hidden-size 4 --steps 4 --eval-every 2".split()
)
ESCAPE = "\x1b[31m"
NO_WARNINGS = os.environ | {
    "PYTHONWARNINGS": "ignore"
}  # one says that there are no kernels, where there is no compiler
SERIES = "--hidden-size 3 --steps 2 --eval-every 1".split()


def series(path, label=str):
    """A .csv of nine sequences in three classes."""
    rows = [f"{s},{t},{s % 3 + t / 10},{label(s % 3)}" for s in range(9) for t in range(4)]
    path.write_text("\n".join(["sequence,time,speed,target", *rows]) + "\n")
    return path


@pytest.mark.parametrize("name", ["a[/b]", "a[bold]c", "a\\[b]"])
def test_brackets_in_a_folder_are_part_of_its_name(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert f"run: {name}\n" in said(capsys, "run", "adding", *SMALL, "--out", name)
    assert f"{name} is finished" in said(capsys, "resume", name)
    assert name in mistake(capsys, "run", "adding", *SMALL, "--out", name)


def test_brackets_in_a_cell(capsys, tmp_path, monkeypatch):
    """A comparison prints it in a table, and a mistake in a line."""
    monkeypatch.chdir(tmp_path)
    assert "'gru[/b]'" in mistake(capsys, "compare", "adding", *SMALL, "--cells", "gru[/b],rin")
    text = said(capsys, "compare", "adding", *SMALL, "--cells", "rin,gru", "--out", "x[/y]")
    assert "runs and comparison.json: x[/y]" in text


def test_escapes_in_class_names_are_visible(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = series(tmp_path / "my.csv", label=lambda n: f"{ESCAPE}{n}")
    out = f"out{ESCAPE}"
    assert "run: out\\x1b[31m\n" in said(capsys, "run", str(data), *SERIES, "--out", out)
    assert main(["predict", out, str(data)]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("\\x1b[31m") == 9
    assert "\x1b" not in printed.out + printed.err


def test_predictions_keep_their_lines(capsys, tmp_path, monkeypatch):
    """A line break or a tab in a class's name is visible too: one line for each sequence, one tab on each."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = np.array([f"a\n\t{n % 2}" for n in range(8)])
    np.savez(tmp_path / "my.npz", inputs=rng.normal(size=(8, 5, 1)), targets=names)
    said(capsys, "run", "my.npz", *SERIES, "--out", "out")
    lines = said(capsys, "predict", "out", "my.npz").splitlines()
    assert len(lines) == 8
    assert set(lines) <= {"a\\n\\t0", "a\\n\\t1"}


@pytest.mark.parametrize("where", ["header", "file", "folder", "option", "command", "recipe"])
def test_escapes_in_mistakes_are_visible(capsys, tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    data = tmp_path / f"x{ESCAPE if where == 'file' else ''}.csv"
    data.write_text(f"{ESCAPE if where == 'header' else 'speed'},target\n1,2\n")  # no column `sequence`
    words = {
        "header": ["run", str(data)],
        "file": ["run", str(data)],
        "folder": ["eval", f"no{ESCAPE}"],
        "option": ["run", "adding", f"--{ESCAPE}", "1"],
        "command": [f"{ESCAPE}run"],
        "recipe": ["reproduce", f"rin/{ESCAPE}"],
    }[where]
    text = mistake(capsys, *words)
    assert "\x1b" not in text
    assert "x1b[31m" in text or where == "option"  # the option loses its colours together with tyro's panel


def test_help_of_a_recipe_with_escapes(capsys):
    main(["reproduce", f"rin{ESCAPE}", "--help"])
    assert ESCAPE not in capsys.readouterr().out


def test_a_long_mistake_is_shortened(capsys, tmp_path):
    """Its beginning says what is wrong, its end what to do."""
    (tmp_path / "x.csv").write_text("seqence,target," + ",".join(f"column{n}" for n in range(100_000)) + "\n1,2\n")
    text = mistake(capsys, "run", str(tmp_path / "x.csv"))
    assert len(text) < 2100
    assert "has no column 'sequence'" in text
    assert text.endswith("Did you mean 'seqence'?\n")


def piped(*words, cwd=None):
    """A command whose reader takes one line and goes away."""
    command = [sys.executable, "-m", "autapse", *words]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=NO_WARNINGS
    )
    first = running.stdout.readline()
    running.stdout.close()
    complaint = running.stderr.read()
    running.stderr.close()
    return first, complaint, running.wait(timeout=120)


@pytest.mark.parametrize("words", ["cells", "data list --long", "run adding --help"])
def test_a_reader_may_leave(words):
    first, complaint, code = piped(*words.split())
    assert first
    assert (complaint, code) == ("", 0)


def test_a_run_whose_reader_leaves_trains_to_the_end(tmp_path):
    first, complaint, code = piped("run", "adding", *SMALL, "--out", "out", cwd=tmp_path)
    assert "step 2/4" in first
    assert (complaint, code) == ("", 0)
    assert (tmp_path / "out" / "summary.json").is_file()


@pytest.mark.parametrize("words", ["cells", "--help"])
def test_output_to_a_full_disk(words):
    with open("/dev/full", "w") as full:  # noqa: PTH123 (a device)
        command = [sys.executable, "-m", "autapse", words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"autapse: {os.strerror(errno.ENOSPC)}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["cells", "run adding --help", "compare adding --cells rin"])
def test_streams_that_are_not_utf8(tmp_path, words):
    small = SMALL if words.startswith("compare") else []
    environment = NO_WARNINGS | {"PYTHONIOENCODING": "ascii"}
    done = autapse(*words.split(), *small, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert words != "cells" or "h' = act(W\\xb7x + b_ih" in done.stdout


def test_a_name_that_is_not_utf8(tmp_path):
    """Bytes that no decoding gives, as other systems leave them on a disk."""
    data = series(tmp_path / os.fsdecode(b"x\xff.csv"))
    done = autapse("run", data.name, *SERIES, "--out", os.fsdecode(b"o\xff"), cwd=tmp_path, env=NO_WARNINGS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "run: o\\udcff" in done.stdout
    assert autapse("eval", os.fsdecode(b"o\xff"), cwd=tmp_path).returncode == 0


def test_a_run_that_is_no_better_than_trivial_says_so_loudly(tmp_path):
    """Series of zeros tell nothing about their class."""
    rows = ["sequence,x,target", *(f"{n},0,{'ab'[n % 2]}" for n in range(20))]
    (tmp_path / "own.csv").write_text("\n".join(rows) + "\n")
    words = ("run", "own.csv", "--cell", "gru", "--hidden-size", "4", "--steps", "2")
    warning = "WARNING: the test error rate 0.5 is not better than the 0.5 of the trivial predictor"
    assert warning in autapse(*words, cwd=tmp_path).stdout


@pytest.mark.parametrize(("balanced", "end"), [(0.5, "This model is of no use."), (0.88, "count as much there.")])
def test_a_model_that_finds_rare_classes_is_of_use(balanced, end):
    summary = SimpleNamespace(
        metric="error rate", test=0.12, baseline=0.1, balanced_accuracy=balanced, trivial_balanced_accuracy=0.5
    )
    assert trivial_warning(summary, "always the most frequent class").endswith(end)
