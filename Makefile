# The first two targets are the README's two commands.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Real trial data, where it lies beside the checkout; tests that need it are skipped elsewhere.
ifneq ($(wildcard ../shared/data),)
export BCCB_DATA ?= ../shared/data
endif
# The tests start hundreds of processes; without bytecode each would compile every source again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check compiled plain bench load growth crash chaos rolling fuzz trust clean

run: $(VENV)/lab  ## compare every policy on simulated users
	$(BIN)/bccb compare

# Where kernels are called directly: there plain Python can differ from compiled code. That whole
# policies decide alike in both forms is tested with the compiled ones.
PLAIN := $(foreach part,kernels estimators explorers pacers,tests/$(part) src/bccb/$(part)) \
	$(foreach part,ageing drivers estimated fitting in_money correction,tests/test_$(part).py) \
	$(foreach part,late proposals,tests/evaluate/test_$(part).py)

test: $(VENV)/dev  ## everything: lint, types, layers, tests, doctests, the README's examples
	$(MAKE) --jobs 3 check plain compiled

# Threads of OpenMP that wait in a loop would take the cores from the tests beside them.
test compiled plain: export OMP_WAIT_POLICY := PASSIVE

# Two processes more than there are cores, since some tests wait for servers most of the time.
compiled: $(VENV)/dev  ## all tests, with compiled kernels, in several processes
	$(BIN)/pytest --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 2)) --dist worksteal

plain: $(VENV)/dev  ## the tests of kernels, with the kernels as plain Python
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q $(PLAIN)

check: $(VENV)/dev  ## lint and types alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv-bench/peers  ## speed and memory against peers, in one run
	.venv-bench/bin/python -m bench --out bench.json

load: $(VENV)/dev  ## the service under load: one process on a file, and replicas on PostgreSQL
	$(BIN)/python -m bench.load --out load.json
	$(BIN)/python -m bench.scale --out scale.json

growth: $(VENV)/dev  ## many campaigns and a journal of 10,000,000 decisions on PostgreSQL
	$(BIN)/python -m bench.growth --out growth.json

crash: $(VENV)/dev  ## kill the service a hundred times, and count what is lost
	$(BIN)/python -m bench.crash

chaos: $(VENV)/dev  ## break replicas and their PostgreSQL for ten minutes, and count what is lost
	$(BIN)/python -m bench.chaos

rolling: $(VENV)/dev  ## restart one replica after the other under load, and count what fails
	$(BIN)/python -m bench.rolling

fuzz: $(VENV)/dev  ## attack the service at random, and count what gives way
	$(BIN)/python -m bench.fuzz

trust: $(VENV)/lab  ## measure again what docs/trust.md shows
	$(BIN)/bccb trust --out trust
	cp trust/trust.md trust/trust.json docs/

clean:
	rm -rf $(VENV) .venv-bench bench.json load.json scale.json growth.json trust dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# One stamp for each set of dependencies: made again when what it depends on changes.
$(VENV)/pip: constraints.txt
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/lab: $(VENV)/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab]'
	touch $@

# Bytecode of all that is installed takes longer than of what is imported, which comes by itself.
$(VENV)/dev: $(VENV)/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/lab

# A peer that cannot be installed here is left out; the table then says so.
.venv-bench/peers: bench/requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e '.[lab]'
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt || \
	for peer in $$(cat bench/requirements.txt); do \
		.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check $$peer || true; \
	done
	touch $@
