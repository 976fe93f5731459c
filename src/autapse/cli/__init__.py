"""The command line: one verb per file. Nothing here imports torch before the arguments are parsed."""

from autapse.cli.main import main

__all__ = ["main"]
