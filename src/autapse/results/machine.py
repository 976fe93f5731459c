"""Where a number comes from: the machine, the software and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple


class Origin(NamedTuple):
    """The commit and the machine of a result. Take it before a long measurement, and store it after."""

    commit: str | None
    hardware: dict[str, Any]

    @classmethod
    def here(cls) -> Origin:
        return cls(commit(), hardware())


def hardware() -> dict[str, Any]:
    """Facts about this machine that need no torch."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],  # over the last minute: work of other programs
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def software() -> dict[str, Any]:
    """Facts about torch and the kernels of this process."""
    import torch

    from autapse.native import info

    native = {name: value for name, value in info().items() if name != "path"}  # a path is of no use elsewhere
    return {
        "torch": torch.__version__,
        "torch_instruction_set": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "native": native,
        "torchrecurrent": _version("torchrecurrent"),
    }


def commit() -> str | None:
    """The commit of the sources, with `-dirty` if they were changed since; None without a repository."""
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
