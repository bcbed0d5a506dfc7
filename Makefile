# `make up` and `make test` need Python and make only: the rest is installed into .venv, pinned by constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What running needs, and what tests and lint add to it.
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-input --constraint constraints.txt --editable

SEEDS ?= 20000
START ?= 0
REQUESTS ?= 200000
PYTEST := $(BIN)/python -m pytest
# One worker more than cores, since some tests wait; a worker that is idle takes tests from the others.
WORKERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')
PARALLEL = --numprocesses $(WORKERS) --dist worksteal

export KUBE_VERSION
# Without compiled files every process would compile the sources again: seconds for each command and each test worker.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help up test test-all crashes storm fuzz mutants lint kube test-kube bench bench-kube release format clean

help:
	@echo "make up         start a cluster on this machine with examples/quickstart.yaml"
	@echo "make test       quick tests: every package and capability; Python only"
	@echo "make test-all   all tests that need Python only; ARGS=--durations=50 shows the slowest"
	@echo "make lint       ruff, mypy, import-linter"
	@echo "make test-kube  the suites that need a real control plane (Go 1.26 builds it once)"
	@echo "make crashes    crash the operator at every write of every story"
	@echo "make storm      random interleavings: SEEDS=20000 START=0"
	@echo "make fuzz       hostile requests to the embedded API: REQUESTS=200000 START=0"
	@echo "make mutants    inject known faults, and check that the quick tests catch each"
	@echo "make release    sdist, wheel, manifests, chart, kubectl plugin, SBOM and checksums into dist/"
	@echo "make bench      figures on the embedded cluster; make bench-kube: on a real control plane"

$(BIN)/python:
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Grove and what it needs to run into $(VENV) ..."
	@$(INSTALL) '.[local]'
	@$(BIN)/python -m compileall -q src
	@touch $@

$(DEV): $(RUN)
	@echo "Installing what tests and lint need into $(VENV) ..."
	@$(INSTALL) '.[dev]'
	@touch $@

up: $(RUN)
	@$(BIN)/grove up examples/quickstart.yaml

# The default of pytest (pyproject.toml) leaves out tests marked `deep`, `kube` or `kubectl`.
test: $(DEV)
	$(PYTEST) $(PARALLEL) $(ARGS)

# `make test-all ARGS=--durations=50` shows where the time goes.
test-all: $(DEV)
	$(PYTEST) $(PARALLEL) -m 'not kubectl and not kube' $(ARGS)

# `make test-all` crashes at every write of the core stories, and at every eighth of the others: this leaves out none.
crashes: $(DEV)
	GROVE_EVERY_CRASH_POINT=1 $(PYTEST) $(PARALLEL) -m '' -k test_a_crash_at_any_write tests/simulation tests/backends $(ARGS)

# Random interleavings, many more than `make test` runs; stops at the first that fails.
storm: $(DEV)
	$(BIN)/python -m tests.simulation.storms --seeds $(SEEDS) --start $(START)

# Hostile requests to the embedded API, many more than `make test` sends; tells every kind of failure with its seed.
fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --start $(START)

# Deliberate faults in a copy of the source: the quick tests must catch each. MUTANT=word: only those with the word.
mutants: $(DEV)
	$(BIN)/python -m tests.mutants '$(MUTANT)'

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The real control plane, a client in Go, helm and promtool, built once into a cache outside the tree.
# KUBE_VERSION=1.35.8: the oldest that we support.
kube: $(DEV)
	$(BIN)/python -m tests.kube.controlplane.build
	$(BIN)/python -m tests.kube.tools.build

# A file stays on one worker: its tests share a control plane. In the order of `tests/conftest.py`, the longest first;
# pytest-xdist by itself would keep files of few tests for the end, and some of those take minutes.
# Its tests wait more than they compute, so that more of them run at a time.
test-kube: kube
	$(PYTEST) --numprocesses $(shell expr $(WORKERS) + 1) --dist loadfile --no-loadscope-reorder -m 'kubectl or kube' $(ARGS)

bench: $(DEV)
	$(BIN)/python -m bench

# The operator on the real control plane, next to what that can take.
bench-kube: kube
	$(BIN)/python -m bench.kube
	$(BIN)/python -m bench.rollout
	$(BIN)/python -m bench.gangs

# ADDRESS: where the files will be downloaded from. LOCK=--no-lock: without an index of packages.
release: $(DEV)
	$(BIN)/python -m release --address '$(or $(ADDRESS),ADDRESS)' $(LOCK)

format: $(DEV)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
