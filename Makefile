# `make test` on a machine with only Python and make: the rest is installed into .venv, pinned by constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

SEEDS ?= 20000
START ?= 0
REQUESTS ?= 200000

export KUBE_VERSION

.PHONY: up test storm fuzz lint kube test-kube bench bench-kube format clean

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

up: $(STAMP)
	$(BIN)/grove up examples/quickstart.yaml

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m 'not kubectl and not kube'

# Random interleavings, many more than `make test` runs; stops at the first that fails.
storm: $(STAMP)
	$(BIN)/python -m tests.simulation.storms --seeds $(SEEDS) --start $(START)

# Hostile requests to the embedded API, many more than `make test` sends; tells every kind of failure with its seed.
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --start $(START)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The real control plane and a client in Go, built once into a cache outside the tree.
# KUBE_VERSION=1.35.8: the oldest that we support.
kube: $(STAMP)
	$(BIN)/python -m tests.kube.controlplane.build

test-kube: kube
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m 'kubectl or kube'

bench: $(STAMP)
	$(BIN)/python -m bench

# The operator on the real control plane, next to what that can take.
bench-kube: kube
	$(BIN)/python -m bench.kube
	$(BIN)/python -m bench.rollout
	$(BIN)/python -m bench.gangs

format: $(STAMP)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
