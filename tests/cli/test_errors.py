"""Every mistake: one clear line, exit code 2, no traceback, nothing written."""

import os
import re
import resource

import numpy as np
import pytest

from autapse import checks
from autapse.data import paths
from command_line import mistake
from small import autapse

SMALL = (
    "--length 8 --train-size 64 --validation-size 16 --test-size 16 --hidden-size 4 --steps 6 --eval-every 3".split()
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run; tests that damage it copy it first."""
    place = tmp_path_factory.mktemp("cli")
    assert autapse("run", "adding", *SMALL, "--out", "done", cwd=place).returncode == 0
    return place / "done"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rnu", "There is no command 'rnu'. Did you mean 'run'?"),
        ("run", "needs a task first, as in: autapse run adding"),
        ("run addign", "task must be one of adding, .*; got 'addign'. Did you mean 'adding'?"),
        ("run adding --cell grru", "got 'grru'. Did you mean 'gru'?"),
        ("run adding --cell ernn:iner_steps=2", "Did you mean 'inner_steps'?"),
        ("run adding --cell ernn:inner_steps=0", "inner_steps must be an integer of at least 1; got 0"),
        ("run adding --cell ernn:eta=per_step", "max_length must be given with eta"),
        ("run adding --lenght 5", "--lenght.* Did you mean --length?"),
        ("run adding --length 1", "length must be an integer of at least 2; got 1"),
        ("run adding --length ten", "--length.*'ten'"),
        ("run adding --optimizer adm", "invalid choice 'adm' for argument '--optimizer'"),
        ("run adding --learning-rate -1", "learning_rate must be a finite number above 0; got -1.0"),
        ("run adding --learning-rate nan", "learning_rate must be a finite number above 0; got nan"),
        ("run adding --dropout 2", "dropout must be a finite number at least 0 and at most 1; got 2.0"),
        ("run adding --device nowhere", "device must be one that torch finds here"),
        ("run adding --num-layers 3 --hidden-size 4 5", "num_layers must agree with the 2 sizes in hidden_size; got 3"),
        (
            "run digits --train-size 99999",
            "autapse: train_size \\+ validation_size \\+ test_size must be at most 1797, .*; got 100599",
        ),
        (
            "run adding --seed 18446744073709551616",
            "seed must be below 2\\*\\*64; got 18446744073709551616",
        ),
        (
            "run adding --num-layers 10000000",
            "num_layers must be .* at most 1000; got 10000000",
        ),
        (
            "run adding --hidden-size 100000000",
            "too little memory .*The largest size given is --hidden-size 100000000\\.",
        ),
        ("run adding --hidden-size 4 9999999999999", "too little memory.*size given is --hidden-size 9999999999999\\."),
        (
            "run adding --hidden-size 99999999999999999999999",
            "hidden_size must be an integer below 2\\*\\*53; got 9{23}",
        ),
        (
            "run adding --train-size=999999999999999 --steps 10",
            "too little memory .*size given is --train-size 9{15}\\.",
        ),
        ("run adding --length 99999999999999999999999", "length must be an integer below 2\\*\\*53; got 9{23}"),
        (
            "run walk --max-length 9223372036854775808",
            "max_length must be an integer below 2\\*\\*53; got 9223372036854775808",
        ),
        (
            "run walk-variance --train-size 18446744073709551615",
            "train_size must be an integer below 2\\*\\*53; got 184467440737",
        ),
        ("compare adding --device nowhere", "device must be one that torch finds here"),
        ("compare adding --cells rin,grru", "Did you mean 'gru'?"),
        ("compare adding --cells rin,rin", "cells must name each network once; got 'rin'"),
        ("compare adding --cells ,", "cells must name at least one network"),
        ("eval", "required|needs"),
        ("eval runs/nothing", "There is no run at runs/nothing"),
        ("resume runs/nothing", "There is no run at runs/nothing"),
        ("predict runs/nothing nothing.npy", "nothing.npy is missing"),
        ("cells --all", "--all"),
    ],
)
def test_mistakes(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    text = mistake(capsys, *words.split())
    assert re.search(said, text), text
    assert not list(tmp_path.iterdir()), "a mistake must leave nothing behind"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run pipe.csv", "/pipe.csv is a pipe, not a regular file."),
        ("run own.csv --test pipe.csv", "/pipe.csv is a pipe, not a regular file."),
        ("run zero.csv", "is a device, not a regular file."),
        ("run folder.csv", "/folder.csv is a folder, not a regular file."),
        ("run loop.csv", "Too many levels of symbolic links: .*/loop.csv."),
        ("run own.csv --test loop.csv", "Too many levels of symbolic links: .*/loop.csv."),
        ("run adding --out loop.csv", "loop.csv exists already and is not overwritten"),
        ("run adding --out loop.csv/out", "File exists: loop.csv|Too many levels of symbolic links"),
        ("eval loop.csv", "There is no run at loop.csv"),
        ("predict run pipe.csv", "pipe.csv is missing"),
    ],
)
@pytest.mark.usefixtures("no_waiting")
def test_files_that_are_none(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/null")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "own.csv").write_text("sequence,x,target\n" + "".join(f"{n},{n},{n % 2}\n" for n in range(6)))
    before = sorted(tmp_path.iterdir())
    text = mistake(capsys, *words.split())
    assert re.search(said, text), text
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("variable", ["AUTAPSE_DATA", "AUTAPSE_CACHE"])
def test_a_home_that_is_not_known(capsys, monkeypatch, variable):
    monkeypatch.setenv(variable, "~nobody-of-that-name/data")
    call = paths.data_root if variable == "AUTAPSE_DATA" else paths.parsed_root
    with pytest.raises(checks.InputError, match=f"^{variable} must lead to a known home folder; got '~nobody"):
        call()


def test_an_existing_run_is_not_overwritten(capsys, run):
    before = {p.name: p.read_bytes() for p in run.iterdir()}
    said = mistake(capsys, "run", "adding", *SMALL, "--out", str(run))
    assert "exists already and is not overwritten" in said
    assert {p.name: p.read_bytes() for p in run.iterdir()} == before


def test_a_damaged_checkpoint(capsys, run, tmp_path):
    for source in run.iterdir():
        content = source.read_bytes()
        (tmp_path / source.name).write_bytes(content[:-9] if source.suffix == ".safetensors" else content)
    (tmp_path / "summary.json").unlink()
    for verb in ("eval", "resume"):
        assert "is damaged" in mistake(capsys, verb, str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.txt", b"1,2\n", "must end in .ts, .tsv or .csv"),
        ("x.npy", b"nonsense", "is not a complete .npy file"),
        ("x.npz", b"nonsense", "is not a complete .npz file"),
        ("x.npz", b"PK\x03\x04 cut short", "is not a complete .npz file"),
        ("x.csv", b"", "x.csv is empty"),
        ("x.csv", b"1,nan\n", "'nan' is not a finite number"),
        ("x.csv", b"1,2\n3\n", "line 2: it has 1 cells"),
        ("x.csv", b"1,a\n", "'a' is not a finite number"),
        ("x.csv", b"1,2,3\n4,5,6\n", "must have 2 channels per step, as the run's task has; got 3"),
    ],
)
def test_predict_from_bad_files(capsys, run, tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    assert said in mistake(capsys, "predict", str(run), str(tmp_path / name))


def test_predict_from_files_with_the_wrong_ending(capsys, run, tmp_path):
    np.save(tmp_path / "array.npy", np.zeros((2, 8, 2)))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    assert "is not a complete .npz file" in mistake(capsys, "predict", str(run), str(tmp_path / "array.npz"))
    np.savez(tmp_path / "archive.npz", inputs=np.zeros((2, 8, 2)))
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    assert "has several arrays. Its name must end in .npz." in mistake(
        capsys, "predict", str(run), str(tmp_path / "archive.npy")
    )


def test_predict_into_a_missing_folder(capsys, run, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 8, 2)))
    said = mistake(capsys, "predict", str(run), str(tmp_path / "x.npy"), "--out", str(tmp_path / "no" / "y.csv"))
    assert "There is no folder" in said


def test_runs_that_leads_nowhere(capsys, tmp_path, monkeypatch):
    """A dangling link, as an unmounted disk leaves: one line, no endless search for a free name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(tmp_path / "gone")
    assert "File exists: runs" in mistake(capsys, "run", "adding", *SMALL)


def test_predict_never_overwrites_nor_loads_pickles(capsys, run, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 8, 2), dtype=np.float32))
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "out.csv").write_text("precious")
    said = mistake(capsys, "predict", str(run), str(tmp_path / "x.npy"), "--out", str(tmp_path / "out.csv"))
    assert "not overwritten" in said
    assert (tmp_path / "out.csv").read_text() == "precious"
    said = mistake(capsys, "predict", str(run), str(tmp_path / "objects.npy"))
    assert "is not a complete .npy file of a plain array" in said
    said = mistake(capsys, "predict", str(run), str(tmp_path / "x.npy"), "--out", str(tmp_path / "out.xlsx"))
    assert "out must end in one of .npy, .csv, .json" in said


def test_a_disk_that_is_full_from_the_start_leaves_nothing(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))  # config.json fits, the first checkpoint does not

    done = autapse("run", "adding", *SMALL, "--hidden-size", "30", "--out", "full", cwd=tmp_path, preexec_fn=limit)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "checkpoint-0.safetensors. The run did not start, and full was removed." in done.stderr
    assert "resume" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_finished_run_may_be_damaged(capsys, run, tmp_path):
    for source in run.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    (path,) = tmp_path.glob("checkpoint-*")
    path.write_bytes(path.read_bytes()[:-1])
    assert "is damaged" in mistake(capsys, "resume", str(tmp_path))
    (tmp_path / "state.json").write_text("[]")
    assert "state.json is damaged: it has no checksum" in mistake(capsys, "resume", str(tmp_path))
    (tmp_path / "state.json").unlink()
    assert "has no checkpoint. Remove it and run again" in mistake(capsys, "resume", str(tmp_path))


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path):
    """Files may grow to 5 kB, so the first checkpoint fits and later ones, with an optimizer's state, do not."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

    words = ["run", "adding", *SMALL, "--hidden-size", "3", "--checkpoint-seconds", "0", "--out", "full"]
    done = autapse(*words, cwd=tmp_path, preexec_fn=limit)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "too large" in done.stderr
    assert "autapse resume" in done.stderr
    left = sorted(p.name for p in (tmp_path / "full").iterdir())
    assert left == ["checkpoint-0.safetensors", "config.json", "metrics.jsonl", "state.json"]
    assert autapse("resume", "full", cwd=tmp_path).returncode == 0
