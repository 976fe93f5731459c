"""Facts about the machine and the software that numbers depend on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any


def hardware() -> dict[str, Any]:
    """What can be told without torch."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],  # over the last minute: what else was going on
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def software() -> dict[str, Any]:
    """What the measuring process ran with."""
    import torch

    from autapse.native import info

    native = {name: value for name, value in info().items() if name != "path"}  # a path tells nothing elsewhere
    return {
        "torch": torch.__version__,
        "torch_instruction_set": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "native": native,
        "torchrecurrent": _version("torchrecurrent"),
    }


def commit() -> str | None:
    """The commit of the sources, with a mark where they were changed since; None where there is no repository."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12", "--match="]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or None
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
