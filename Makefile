# Needs Python 3.11, make and the package index; everything else is built here.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed

# How many processes run tests. Unit tests compute, so there is one a core. Many others wait for a server, so there are
# more.
CHECK_WORKERS ?= 2
TEST_WORKERS ?= 4

# Tests are rewritten for their asserts and then compiled, half of the time it takes to collect them. Python keeps
# what it compiled for the next time, unless the shell forbids it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo check test lint bench template reference clean

# For `make template`.
PROJECT ?= PROJECT
REGION ?= REGION
BUCKET ?= BUCKET

install: $(STAMP)

$(STAMP): setup.py constraints.txt
	@echo "Building .venv; this takes a minute or two, once."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/python -m groundrows.pipeline.demo

# What to run before each commit: lint, types and the tests that need no process.
check: lint
	$(BIN)/python -m pytest -n $(CHECK_WORKERS) --dist worksteal tests/unit tests/contract tests/test_floors.py

# Every test, with the services they need.
test: $(STAMP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal --durations=10 tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

template: $(STAMP)
	@$(BIN)/python -m groundrows.pipeline.deploy.flex_template --project=$(PROJECT) --region=$(REGION) --bucket=$(BUCKET)

# What is derived from the flags and the schemas, and committed; tests say when it is out of date.
reference: $(STAMP)
	$(BIN)/python -m groundrows.pipeline.deploy.reference
	$(BIN)/python -m groundrows.pipeline.deploy.flex_template --write

clean:
	rm -rf .venv out build dist *.egg-info
