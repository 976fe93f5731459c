"""What changes the bits of a run is said when it is resumed."""

import os
from dataclasses import asdict, replace

import pytest
import torch

from autapse import native
from autapse.training import Trainer
from autapse.training.environment import Environment
from autapse.training.log import Quiet
from small import autapse, metadata_of, rewrite

NOW = "1 thread" if torch.get_num_threads() == 1 else f"{torch.get_num_threads()} threads"


class Notes(Quiet):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def notes_on_resume(stopped_run):
    notes = Notes()
    Trainer.resume(stopped_run, notes)._close()
    return notes.notes


def test_a_checkpoint_has_its_environment(stopped_run):
    recorded = metadata_of(stopped_run)["environment"]
    assert recorded["torch"] == torch.__version__
    assert recorded["threads"] == torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])  # tests/conftest.py
    assert recorded["kernels"] == native.info()["instruction_set"]
    assert recorded["torch_instructions"] == torch.backends.cpu.get_cpu_capability()
    assert notes_on_resume(stopped_run) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"torch": "1.0.0"},
            f"trained with torch 1.0.0, continues with torch {torch.__version__}: the",
        ),
        (
            {"threads": 8},
            f"trained with 8 threads, continues with {NOW}: the results may differ by",
        ),
        ({"kernels": "neon"}, "trained with autapse's neon kernels, continues with "),
        ({"autapse": "0.0.1"}, "trained with autapse 0.0.1, continues with autapse "),
        ({"torch_instructions": "VSX"}, "trained with torch on VSX, continues with torch on "),
    ],
    ids=lambda value: str(value)[:20],
)
def test_each_difference_is_one_line(stopped_run, change, sentence):
    rewrite(stopped_run, lambda about, _: about["environment"].update(change))
    (line,) = notes_on_resume(stopped_run)
    assert line.startswith(f"{stopped_run} was {sentence}")
    assert "\n" not in line


def test_several_differences_are_several_lines():
    now = Environment.present()
    other = Environment(autapse="0", torch="0", torch_instructions="0", kernels="0", threads=0)
    assert len(other.changes(now)) == len(asdict(now))
    assert "plain PyTorch" in replace(now, kernels=None).changes(replace(now, kernels="avx2"))[0]


@pytest.mark.skipif(not native.info()["available"], reason="the native library is not there")
def test_switching_the_kernels_off_is_said(stopped_run):
    done = autapse("resume", "run", cwd=stopped_run.parent, env={**os.environ, "AUTAPSE_NATIVE": "0"})
    assert done.returncode == 0, done.stderr
    assert "kernels, continues with plain PyTorch: the results may differ by rounding.\n" in done.stdout
    assert metadata_of(stopped_run)["environment"]["kernels"] is None
