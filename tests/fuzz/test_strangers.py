"""A fixed number of cases of data_files.py and arguments.py; their options run many more."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("script", "cases"), [("data_files.py", "2500"), ("arguments.py", "80")])
def test_no_case_fails(tmp_path, script, cases):
    # A process of its own: it limits its memory.
    command = [sys.executable, str(Path(__file__).with_name(script)), "--cases", cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert done.stdout == f"{cases} cases, 0 failed\n"
