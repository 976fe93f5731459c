"""What a reader says of a file that it cannot read."""

from __future__ import annotations

import pytest

from autapse.checks import InputError

AGAIN = "Correct it there, or download the file again."  # how it ends where the file is damaged


def message(read, *arguments) -> str:
    """The one line that a mistaken call ends with."""
    with pytest.raises(InputError) as error:
        read(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)
