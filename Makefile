PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRODUCT := $(VENV)/.product
STAMP := $(VENV)/.installed
BENCHMARKS := $(filter-out benchmarks/identification_cost.py benchmarks/excitation_cost.py benchmarks/compile_cost.py benchmarks/gpu% benchmarks/fuzz% benchmarks/fleet% benchmarks/payload_coverage.py benchmarks/whole_chain.py benchmarks/sections.py benchmarks/timing.py benchmarks/native_peer.py benchmarks/study.py, $(wildcard benchmarks/*.py))
ifndef MINDYN_REAL_DATA
BENCHMARKS := $(filter-out benchmarks/real_methods.py benchmarks/automatic_choice.py, $(BENCHMARKS))
endif
# Tests run one process for each core: BLAS threads on top of that only wait for each other.
ONE_BLAS_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: study strangers feedback repeated-runs chain payloads coverage spoiled attacks fleet fuzz-files fuzz-logs dist soak cross help setup demo test quick check format docs bench benchmarks mutants fuzz fuzz-readers clean

# Two minutes on two cores. PYTHONOPTIMIZE (python -O) removes the asserts of src; those of the tests are rewritten by
# pytest and hold (tests/contracts/test_asserts.py).
QUICK_OPTIMISED := tests/contracts/test_asserts.py tests/kernels/test_arrays.py tests/kernels/test_products.py tests/identification/test_column_sums.py tests/logs/test_every_format.py
QUICK := $(QUICK_OPTIMISED) tests/contracts/test_layers.py tests/contracts/test_command_line.py tests/contracts/test_typed_identification.py tests/laws/test_gears.py tests/oracles/test_mujoco.py tests/regression/test_information.py tests/estimators/test_estimate.py tests/logs/test_formats.py tests/logs/test_forked_readers.py tests/cli/test_formats_and_commands.py

help:
	@echo "make demo    install mindyn into .venv, run the demonstration"
	@echo "make test    install the tools of developers too, run all tests (20 minutes on two cores)"
	@echo "make quick   set up, run a selection of the tests, then a part of it under python -O (two minutes)"
	@echo "make check   formatting, lint, types, layers"
	@echo "make docs    the documentation, in build/site"
	@echo "make fuzz-readers   20 000 mutated robot files of each format"
	@echo "make bench   speed beside Pinocchio, one table"
	@echo "make mutants   which single faults of fits and judgements the tests do not notice (half an hour)"
	@echo "make fuzz    20 000 robots near special geometry beside Pinocchio, counted over runs (SECONDS=600: for so long), then fuzz-readers"
	@echo "make dist    sdist and wheel, built twice and compared, installed into an empty environment (DEMO=1: and the demonstration)"
	@echo "make cross   kernels for other machines: compiled for all, those of aarch64 run by qemu-user"
	@echo "make fleet   200 logs of 20 robots on a Dask cluster over an object store, memory and throughput of a worker, and ten simulated fleets"
	@echo "make soak    load, compile, evaluate, identify for an hour: memory and descriptors stay flat (SECONDS=60: for so long)"
	@echo "make fuzz-files   robots, logs, sidecars, estimates and commands mutated (SECONDS=600: for so long), counted over runs"
	@echo "make fuzz-logs    20 000 logs of every format, changed by operators that know formats, counted over runs (SECONDS=600: for so long)"
	@echo "make coverage     how often intervals hold the truth: 30 random arms, kept over runs (SECONDS=600: for so long)"
	@echo "make feedback     the same of instruments under feedback of encoder noise, with the filter that is chosen for them"
	@echo "make spoiled      what is said of 300 sound and 300 spoiled logs, kept over runs (SECONDS=600: for so long)"
	@echo "make strangers    60 logs as strangers record them: identify beside a plain cross-validated pipeline (SECONDS=600: for so long)"
	@echo "make repeated-runs   two recordings of one measured robot: do they agree within their intervals? (MINDYN_REAL_DATA)"
	@echo "make study NAME=...   one long study by name, continued over runs (SECONDS=600: for so long); without NAME: list the names"
	@echo "make attacks hostile files replayed, each with limits of time and memory"
	@echo "make benchmarks   all of docs/benchmarks.md, measured again (half an hour)"

setup: $(STAMP)

# The product alone, which the demonstration needs.
$(PRODUCT): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mindyn needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing mindyn into $(VENV): 0.3 GB to download, 0.9 GB on disk, one to two minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --editable .
	@touch $(PRODUCT)

# What developers need besides: tests, oracles, benchmarks, documentation.
$(STAMP): $(PRODUCT)
	@echo "Installing the tools for tests and documentation into $(VENV): 1.4 GB more on disk, one to three minutes."
	$(BIN)/python -m pip install --editable ".[mjcf,hdf5,ros]" --group dev
	@touch $(STAMP)

demo: $(PRODUCT)
	@$(BIN)/mindyn demo

test: setup
	@echo "Running all tests takes about 20 minutes on two cores; make quick runs a selection in two."
	$(ONE_BLAS_THREAD) $(BIN)/python -m pytest -n auto --dist loadfile

quick: setup
	$(ONE_BLAS_THREAD) $(BIN)/python -m pytest -n auto -m "not slow" $(QUICK)
	$(ONE_BLAS_THREAD) PYTHONOPTIMIZE=1 $(BIN)/python -m pytest -n auto -m "not slow" -W "ignore:assertions not in test modules" $(QUICK_OPTIMISED)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/contracts/test_layers.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup
	$(BIN)/mkdocs build --strict

bench: setup
	@$(BIN)/python benchmarks/kernels.py

fuzz-readers: setup
	for form in urdf toml mjcf; do $(BIN)/python benchmarks/fuzz_readers.py $$form || exit 1; done

chain: setup
	$(ONE_BLAS_THREAD) $(BIN)/python benchmarks/whole_chain.py panda $(wildcard $(MINDYN_ROBOT_FILES)/ros-industrial/xacro_generated/universal_robots/ur_description/urdf/ur5.urdf)

payloads: setup
	$(ONE_BLAS_THREAD) $(BIN)/python benchmarks/payload_coverage.py

study: setup
	$(ONE_BLAS_THREAD) $(BIN)/python benchmarks/study.py $(NAME) $(if $(NAME),--seconds $(or $(SECONDS),0)) $(OPTIONS)

benchmarks: setup
	for one in $(BENCHMARKS); do $(ONE_BLAS_THREAD) $(BIN)/python $$one --record || exit 1; done

mutants: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tools/mutants.py map tests/logs tests/regression tests/estimators tests/feasibility tests/identification tests/validation tests/cli tests/real
	$(ONE_BLAS_THREAD) $(BIN)/python tools/mutants.py run
	$(BIN)/python tools/mutants.py list
# Goes on after the last seed of earlier runs (build/fuzz.json), until 20 000 cases are counted.
fuzz: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/fuzz/run.py --thorough --seconds $(or $(SECONDS),0)
	$(MAKE) fuzz-readers

fleet: setup
	MINDYN_WHOLE_FLEET=1 $(ONE_BLAS_THREAD) $(BIN)/python -m pytest tests/fleet
	$(ONE_BLAS_THREAD) $(BIN)/python benchmarks/fleet_cost.py
	$(ONE_BLAS_THREAD) $(BIN)/python benchmarks/fleet.py

dist: setup
	$(BIN)/python -m pip install --quiet --group dist
	$(BIN)/python tools/dist.py $(if $(DEMO),--demo)

cross: setup
	$(BIN)/python tools/cross.py

soak: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/attacks/soak.py --seconds $(or $(SECONDS),3600)

fuzz-files: setup
	$(ONE_BLAS_THREAD) POLARS_MAX_THREADS=1 $(BIN)/python tests/fuzz/files.py --seconds $(or $(SECONDS),600)
	$(ONE_BLAS_THREAD) POLARS_MAX_THREADS=1 $(BIN)/python tests/fuzz/sidecars.py --seconds $(or $(SECONDS),600)

# Goes on after the last seed of earlier runs (build/fuzz-logs.json), until 20 000 logs are counted.
fuzz-logs: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/fuzz/logs.py --seconds $(or $(SECONDS),0)

coverage: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/honesty/coverage.py --seconds $(or $(SECONDS),0)

feedback: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/honesty/feedback.py

spoiled: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/honesty/spoiled.py --seconds $(or $(SECONDS),0) --faults

strangers: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/honesty/strangers.py --seconds $(or $(SECONDS),0)

repeated-runs: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/honesty/repeated_runs.py

attacks: setup
	$(ONE_BLAS_THREAD) $(BIN)/python tests/attacks/replay.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache mindyn-demo
