PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRODUCT := $(VENV)/.product
STAMP := $(VENV)/.installed
# Dependency groups of pyproject.toml that the tests get, and a file with versions to stay at (make minimum, make pythons).
GROUPS := dev
CONSTRAINTS :=
PIP_INSTALL := $(BIN)/python -m pip install $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
# Tests run one process for each core: BLAS threads on top of that only wait for each other.
ONE_BLAS_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Tests of object stores start a server and the event loop of its client in their process. A process that had run them
# crashed later in Python's garbage collection in two of four runs, and pytest-xdist then waits for ever: they have
# processes of their own.
STORES := tests/fleet
RUN_TESTS := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

TODAY := $(shell date +%Y%m%d)

# Two minutes on two cores. PYTHONOPTIMIZE (python -O) removes the asserts of src; those of the tests are rewritten by
# pytest and hold (tests/contracts/test_asserts.py).
QUICK_OPTIMISED := tests/contracts/test_asserts.py tests/kernels/test_arrays.py tests/identification/test_column_sums.py tests/logs/test_every_format.py
QUICK := $(QUICK_OPTIMISED) tests/quick tests/contracts/test_layers.py tests/contracts/test_command_line.py tests/contracts/test_typed_identification.py tests/contracts/test_findings.py tests/laws tests/oracles tests/regression/test_information.py tests/regression/test_experiment.py tests/estimators/test_estimate.py tests/excitation/test_whole_turns.py tests/excitation/test_unchecked_designs.py tests/feasibility/test_plausibility.py tests/logs/test_formats.py tests/logs/test_forked_readers.py tests/cli/test_formats_and_commands.py

.PHONY: help setup demo test full quick lint check format docs pictures paper bench study leaderboard dist pythons minimum clean

help:
	@echo "make demo     install mindyn into .venv, run the demonstration (two minutes)"
	@echo "make test     install the tools of developers too, run the tests with five seeds of each law (15 minutes; make full, for a release: all seeds, and new ones of the date)"
	@echo "make quick    a selection of the tests, part of it under python -O too (two minutes)"
	@echo "make check    formatting, lint, types, layers, words, docstrings"
	@echo "make format   format, and apply the fixes of the linter"
	@echo "make docs     the documentation, in build/site (after make pictures, which runs the demo: with its report and pictures)"
	@echo "make bench    speed compared with Pinocchio, one table (make leaderboard: errors of methods on recorded logs, METHODS=ours, peers or all)"
	@echo "make study    a long study: NAME=spoiled (without NAME: list them), SECONDS=600: for so long, then continue next time"
	@echo "make dist     sdist and wheel, built twice, compared, checked and installed into an empty environment (DEMO=1: and the demo)"
	@echo "make pythons  make quick under Python 3.12 to 3.14 as far as they are here (make minimum: with the lowest versions of all dependencies)"

setup: $(STAMP)

# The product alone, which the demonstration needs.
$(PRODUCT): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mindyn needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing mindyn into $(VENV): 0.3 GB to download, 0.9 GB on disk, about one minute."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(PIP_INSTALL) --editable .
	@touch $(PRODUCT)

# What developers need besides: tests, oracles, benchmarks, documentation.
$(STAMP): $(PRODUCT)
	@echo "Installing the tools for tests and documentation into $(VENV): 1.8 GB more on disk, about two minutes."
	$(PIP_INSTALL) --editable ".[mjcf,hdf5,ros]" $(GROUPS:%=--group %)
	@touch $(STAMP)

demo: $(PRODUCT)
	@$(BIN)/mindyn demo

test: setup
	@echo "The tests take about 15 minutes on two cores; make quick runs a selection in two minutes."
	$(ONE_BLAS_THREAD) $(RUN_TESTS) $(STORES)
	$(ONE_BLAS_THREAD) $(RUN_TESTS) --ignore=$(STORES)

# A seed that fails becomes a fixed one: a parameter of a test. Studies run one case each, to see that they run at all.
full: setup
	@echo "Seeds of today begin at $(TODAY)."
	$(ONE_BLAS_THREAD) MINDYN_TEST_SEEDS=all $(RUN_TESTS) $(STORES)
	$(ONE_BLAS_THREAD) MINDYN_TEST_SEEDS=all $(RUN_TESTS) --ignore=$(STORES)
	$(ONE_BLAS_THREAD) $(BIN)/python tests/fuzz/named_files.py --start $(TODAY) --count 2000
	for format in urdf toml mjcf; do $(ONE_BLAS_THREAD) $(BIN)/python tests/fuzz/readers.py $$format --start $(TODAY) --count 1000 || exit 1; done
	$(ONE_BLAS_THREAD) $(BIN)/python tests/plants/study.py --first $(TODAY) --logs 3 --file build/plants-$(TODAY).json
	$(ONE_BLAS_THREAD) $(BIN)/python benchmarks/study.py --short

quick: setup
	$(ONE_BLAS_THREAD) MINDYN_TEST_SEEDS=3 $(BIN)/python -m pytest -n auto -m "not slow" $(QUICK)
	$(ONE_BLAS_THREAD) MINDYN_TEST_SEEDS=3 PYTHONOPTIMIZE=1 $(BIN)/python -m pytest -n auto -m "not slow" -W "ignore:assertions not in test modules" $(QUICK_OPTIMISED)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint
	$(BIN)/python -m pytest tests/contracts/test_layers.py tests/contracts/test_words.py tests/contracts/test_docstrings.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup
	$(BIN)/mkdocs build --strict

# The demo's own run, so that README, gallery and live report show the numbers that it prints.
pictures: setup
	$(BIN)/mindyn demo --out build/demo
	$(BIN)/python tools/pictures.py build/demo/report.html

paper: setup
	$(BIN)/python paper/build.py

bench: setup
	@$(BIN)/python -m benchmarks.kernels.speed

study: setup
	@$(ONE_BLAS_THREAD) $(BIN)/python benchmarks/study.py $(NAME) $(if $(SECONDS),--seconds $(SECONDS)) $(OPTIONS)

# METHODS=all (or ours, peers): those methods, their records and the page.
leaderboard: setup
	$(ONE_BLAS_THREAD) $(BIN)/python -m leaderboard.run $(if $(METHODS),--methods $(METHODS) --record)

dist: setup
	$(BIN)/python -m pip install --quiet --group dist
	$(BIN)/python tools/dist.py $(if $(DEMO),--demo)

# Each environment is kept in build/, so that the next run is quick. uv finds pyenv's versions only if they are on PATH.
PYENV := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions
pythons: setup
	$(BIN)/python -m pip install --quiet uv
	@count=0; for version in 3.12 3.13 3.14; do \
	  python=$$($(BIN)/uv python find $$version 2>/dev/null || ls $(PYENV)/$$version.*/bin/python 2>/dev/null | tail -1 | grep . || { $(BIN)/uv python install --quiet $$version 2>/dev/null && $(BIN)/uv python find $$version; }) || \
	    { echo "Python $$version is neither installed nor can be fetched: not run"; continue; }; \
	  $(MAKE) quick PYTHON=$$python VENV=build/python-$$version GROUPS="test oracles" || exit 1; \
	  echo "Python $$version: make quick passed"; count=$$((count + 1)); \
	done; echo "$$count of 3 versions of Python ran"; test $$count -gt 0

# Without Pinocchio, which needs a newer NumPy than mindyn does.
minimum: setup
	$(BIN)/python -m pip install --quiet uv
	@mkdir -p build
	$(BIN)/uv pip compile --quiet --no-header --no-deps --resolution lowest-direct --python $(BIN)/python --extra mjcf --extra hdf5 --extra ros --output-file build/minimum.txt pyproject.toml
	$(MAKE) quick VENV=build/minimum GROUPS=test CONSTRAINTS=build/minimum.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache mindyn-demo
