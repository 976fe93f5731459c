# Two commands, each with all of its own set-up: `make run` (the main job) and `make test` (what CI runs).
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: run test lint docs sanitize fuzz clean

run: $(READY)
	$(BIN)/autapse compare adding --cells rin,antisymmetric,ernn,gru,lstm

test: lint $(READY)
	$(BIN)/pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

sanitize: $(READY)
	.ci/sanitize $(BIN)/python

CASES ?= 100000
fuzz: $(READY)
	.ci/sanitize $(BIN)/python fuzz --cases $(CASES)

# The stamp is written last, so an interrupted set-up is done again.
$(READY): pyproject.toml constraints.txt CMakeLists.txt $(shell find src/autapse/native/src -type f)
	@echo "Setting up .venv: a minute or two, the first time."
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "autapse needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build docs/_build .mypy_cache .ruff_cache .pytest_cache
