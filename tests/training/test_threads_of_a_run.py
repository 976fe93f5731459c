"""The setting `threads` holds during the training only, and a resumed run has it again."""

import pytest
import torch

from autapse import checks
from autapse.training import Loop, Trainer, TrainingConfig, fit
from autapse.training.log import Quiet
from small import metadata_of, small_config, stopped_at


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)


def test_torch_has_its_own_number_again_afterwards(two_threads, monkeypatch):
    seen = []
    monkeypatch.setattr(Loop, "_between_steps", lambda loop: seen.append(torch.get_num_threads()))
    fit(small_config(steps=2, threads=1))
    assert (set(seen), torch.get_num_threads()) == ({1}, 2)


def test_a_resumed_run_says_nothing_about_threads(two_threads, tmp_path):
    class Notes(Quiet):
        texts: list[str] = []  # noqa: RUF012 (one test)

        def note(self, text: str) -> None:
            self.texts.append(text)

    stopped_at(7, tmp_path / "run", small_config(threads=1))
    assert metadata_of(tmp_path / "run")["environment"]["threads"] == 1
    notes = Notes()
    Trainer.resume(tmp_path / "run", notes).train()
    assert not any("thread" in text for text in notes.texts)


def test_no_thread_is_an_error():
    with pytest.raises(checks.InputError, match="threads must be an integer of at least 1"):
        TrainingConfig(threads=0)
