"""Sphinx: `make docs` builds these pages."""

import tomllib
from pathlib import Path

project = "autapse"
author = "The autapse authors"
project_copyright = author
with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
    release = tomllib.load(file)["project"]["version"]

extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # links such as layers.md#streaming

exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"autapse {release}"
