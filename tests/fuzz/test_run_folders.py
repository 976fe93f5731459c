"""A fixed number of cases of run_folders.py; its options run many more."""

import subprocess
import sys
from pathlib import Path


def test_damaged_and_killed_runs(tmp_path):
    # A process of its own: it forks, and limits its memory.
    words = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("run_folders.py"))]
    done = subprocess.run(
        [*words, "--cases", "150", "--kills", "20"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no fault found" in done.stdout
