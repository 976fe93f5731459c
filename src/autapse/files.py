"""Files that are whole or absent: written under a temporary name, flushed to disk, then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from autapse import checks


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` so that a crash or a full disk leaves the old file, or none, but never half of the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the caller knows this name, not the temporary one
        raise


def write_json(path: Path, content: Any) -> None:
    """`write_bytes` of indented JSON; NaN and infinity are errors, since JSON has neither."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The JSON in a file, or one clear line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise checks.InputError(f"{path} is missing.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise checks.InputError(f"{path} is damaged: {error}.") from None


def new_folder(path: Path) -> Path:
    """Make a folder that must not exist yet; nothing is ever overwritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        remedy = "Choose another name, or remove it first."
        raise checks.InputError(f"{path} exists already and is not overwritten. {remedy}") from None
    return path


def numbered_folder(path: Path) -> Path:
    """Make `path`, or the first of path-2, path-3, … that does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir()
        except FileExistsError:
            number += 1
        else:
            return candidate
