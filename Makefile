# `make demo` and `make test` do all the set-up themselves: they need Python >= 3.11, Java >= 17 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Per cent of lines and branches, without what only the workers of Spark run: that is not counted.
COVERED := 94
# Tests wait for brokers, databases and one another: on two cores three processes are quicker than two.
WORKERS := 3
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python keeps what it has compiled, whatever the environment says: every process of the tests reads the same modules.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: wheel demo example-kafka test test-long test-spark-4.0 bench bench-check bench-keep bench-peers classes lint types unit docs setup format clean help

help:
	@echo "make demo           the Diwali scenario: what latecomer does, in two minutes"
	@echo "make example-kafka  payments from Kafka into Postgres; needs Postgres on the machine"
	@echo "make test           every check and test"
	@echo "make test-long      the tests that take longer, and the core on Spark 4.0"
	@echo "make docs           the documents as a site, in build/site/"
	@echo "make wheel          the package, in dist/"
	@echo "make bench          latecomer beside Spark's own streaming aggregation"
	@echo "make bench-check    fails if a ratio has fallen against the one that is kept"
	@echo "make bench-peers    the same events through Flink, PyFlink, Bytewax, Pathway and Quix Streams"

demo: $(VENV)/.run
	$(BIN)/latecomer demo

example-kafka: $(VENV)/.dev
	$(BIN)/python examples/kafka-to-postgres/run.py

test: classes lint types docs unit

setup: $(VENV)/.dev

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/mypy examples/flights/generate.py examples/kafka-to-postgres/produce.py examples/kafka-to-postgres/run.py \
	  tools/site.py tools/reference.py

# The site of the documents; a link to nowhere is an error. The theme's notice about its own future is left out.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m tools.site

# The archive of Spark's classes, which the tests' processes start from: it is written while the checks run.
classes: $(VENV)/.dev
	$(BIN)/python tests/class_archive.py

# The floor is checked in a second step: where it is checked in the first, what the workers covered is not shown.
unit: $(VENV)/.dev
	@mkdir -p build
	$(BIN)/python -m slipcover --json --out build/coverage.json -m pytest -n $(WORKERS) --dist worksteal -m "not long" --durations=25
	$(BIN)/python -m slipcover --merge build/coverage.json --out build/coverage.json --skip-covered --fail-under $(COVERED)

test-long: $(VENV)/.dev test-spark-4.0
	LATECOMER_TEST_EXAMPLES=20 $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "long or drawn" -v --durations=25 -o faulthandler_timeout=3600

# The core on the other Spark that is supported, in an environment of its own: transcripts, runs, DataFrames, workers.
OTHER := .venv-spark-4.0
CORE := tests/transcripts tests/frames tests/spark tests/engine/test_continuous_run.py tests/engine/test_formats_alike.py
test-spark-4.0: $(OTHER)/.dev
	$(OTHER)/bin/pytest -n $(WORKERS) --dist worksteal -m "not long" --durations=10 $(CORE)

$(OTHER)/.dev: requirements/dev.txt requirements/spark-4.0.txt pyproject.toml
	$(PYTHON) -m venv $(OTHER)
	sed '/^pyspark==/,/--hash/d' requirements/dev.txt > $(OTHER)/dev.txt
	$(OTHER)/bin/pip install --quiet --require-hashes -r $(OTHER)/dev.txt -r requirements/spark-4.0.txt
	$(OTHER)/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The package, to be installed elsewhere: dist/latecomer-*.whl.
wheel: $(VENV)/.run
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

bench: $(VENV)/.dev
	$(BIN)/python -m bench

bench-check: $(VENV)/.dev
	$(BIN)/python -m bench --check

# What `bench-check` is held against from now on.
bench-keep: $(VENV)/.dev
	$(BIN)/python -m bench --keep

bench-peers: $(VENV)/.dev
	$(BIN)/python -m bench.peers

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, and $(PYTHON) is $$($(PYTHON) -V 2>&1); install it or call make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing; install it (Debian: apt install python3-venv)"; exit 1; }

$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

clean:
	rm -rf $(VENV) $(OTHER) .mypy_cache .pytest_cache .ruff_cache .hypothesis
