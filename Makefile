# `make test` on a machine with only Python and make: the rest is installed into .venv, pinned by constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

SEEDS ?= 20000
START ?= 0

.PHONY: up test storm lint test-kube bench format clean

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

up: $(STAMP)
	$(BIN)/grove up examples/quickstart.yaml

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses auto -m 'not kubectl'

# Random interleavings, many more than `make test` runs; stops at the first that fails.
storm: $(STAMP)
	$(BIN)/python -m tests.simulation.storms --seeds $(SEEDS) --start $(START)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-kube: $(STAMP)
	@command -v kubectl >/dev/null || { echo "test-kube: needs kubectl on the PATH"; exit 1; }
	$(BIN)/python -m pytest -m kubectl

bench: $(STAMP)
	$(BIN)/python -m bench

format: $(STAMP)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
