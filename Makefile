# Needs Python 3.11, make and the package index; everything else is built here.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo test lint bench clean

install: $(STAMP)

$(STAMP): setup.py constraints.txt
	@echo "Building .venv; this takes a minute or two, once."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/python -m pipeline.demo

test: $(STAMP)
	$(BIN)/python -m pytest tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf .venv out build dist *.egg-info
